"""A capture of SMC-R for tests: the handshake over TCP, then messages of every kind on the queue pairs."""

from __future__ import annotations

import random
import struct

from ibdissect.wire.encapsulation import IPv4
from ibdissect.wire.ulp import smc, smc_llc
from ibdissect.wire.ulp import smc_v2 as v2
from tests.craft import build, roce2

CLIENT, SERVER = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
CLIENT_QP, SERVER_QP = 0x321, 0x123
KINDS = (1, 2, 3, 4, 6, 7, 8, 9, 0xFE)


def gid_of(address: bytes) -> bytes:
    """The GID of a RoCE v2 port with an IPv4 address."""
    return bytes(10) + b"\xff\xff" + address


def segment(payload: bytes, *, answer: bool = False, options: bytes = b"", at: int = 1000) -> bytes:
    """A TCP segment from the client, or from the server."""
    ends, ports = ((SERVER, CLIENT), (47000, 45000)) if answer else ((CLIENT, SERVER), (45000, 47000))
    words = 5 + len(options) // 4
    tcp = struct.pack(">HHIIBBHHH", *ports, at, 1, words << 4, 0x18, 1000, 0, 0) + options + payload
    ip = build(IPv4, version=4, header_length=5, total_length=20 + len(tcp), ttl=64, protocol=6, source=ends[0], destination=ends[1])
    return bytes(range(2, 14)) + b"\x08\0" + ip + tcp


def clc(kind: int, body: bytes, *, word: bytes = smc.SMC_R, end: bytes = smc.SMC_R, flags: int = 0x18) -> bytes:
    """A handshake message; `flags`: version, first contact, types."""
    return word + bytes([kind]) + (12 + len(body)).to_bytes(2, "big") + bytes([flags]) + body + end


PROPOSAL = clc(1, build(smc.SMCProposal, peer_id=5, gid=gid_of(CLIENT)) + build(smc.SMCSubnet, mask=b"\xff\xff\0\0", mask_bits=16))
ACCEPT = clc(2, build(smc.SMCAccept, gid=gid_of(SERVER), qpn=SERVER_QP, r_key=0xDEAD, buffer_size=3, mtu=4, psn=77))
CONFIRM = clc(3, build(smc.SMCConfirm, gid=gid_of(CLIENT), qpn=CLIENT_QP, r_key=0xBEEF, buffer_size=2, mtu=5, psn=78))
DECLINE = clc(4, build(smc.SMCDecline, peer_id=5, diagnosis=0x03030000))


def message(kind: int, body: bytes, *, answer: bool = False, psn: int = 80) -> bytes:
    """A message on the queue pairs, from the client or from the server."""
    ends = {"source": SERVER, "destination": CLIENT} if answer else {"source": CLIENT, "destination": SERVER}
    data = bytes([kind, smc_llc.SIZE]) + body.ljust(smc_llc.SIZE - 2, b"\0")
    return roce2(0x04, data, bth={"destqp": CLIENT_QP if answer else SERVER_QP, "psn": psn}, ip=ends)


def prefix(last: int) -> bytes:
    return build(smc.SMCPrefix, value=bytes(15) + bytes([last]), length=64)


PROPOSAL_V2 = clc(
    1,
    build(smc.SMCProposal, peer_id=5, gid=gid_of(CLIENT), area_offset=40) + build(v2.SMCProposalSMCD, ism_gid=9, chid=7, extension=70)
    + build(smc.SMCSubnet, mask_bits=16, prefix_count=2) + prefix(1) + prefix(2)
    + build(v2.SMCProposalV2, eid_count=2, device_count=1, flags=0x11, smcd_offset=96, gid=gid_of(CLIENT), connections=16, links=2)
    + build(v2.SMCEid, eid="GROUP1") + build(v2.SMCEid, eid="GROUP2")
    + build(v2.SMCProposalSMCDV2, system_eid="SYSTEM") + build(v2.SMCDevice, gid=0x1234, chid=0x56),
    flags=0x2F,
)  # fmt: skip
V2 = build(v2.SMCAcceptV2, eid="GROUP1") + build(v2.SMCContact, flags=0x80, system=2, release=1, host="host1")
FEATURES = build(v2.SMCFeatures, connections=16, links=2, features=1)
ACCEPT_V2 = clc(2, ACCEPT[8:-4] + V2 + FEATURES, flags=0x28)
CONFIRM_V2 = clc(3, CONFIRM[8:-4] + V2 + FEATURES + build(v2.SMCGidList, count=2) + 2 * gid_of(CLIENT), flags=0x28)
MEMORY = build(v2.SMCDAccept, gid=0x1234, token=0xDEADBEEF, index=1, buffer_size=3, link=5)
ACCEPT_D = clc(2, MEMORY + bytes(12), word=smc.SMC_D, end=smc.SMC_D, flags=0x11)
CONFIRM_D = clc(
    3, MEMORY + build(v2.SMCDAcceptV2, chid=0x56, eid="SYSTEM") + V2[40:] + FEATURES, word=smc.SMC_D, end=smc.SMC_D, flags=0x29
)  # fmt: skip


def frames() -> list[bytes]:
    """Handshake (1 to 3), one random message of each kind (4 to 12), Decline (13)."""
    chance, out = random.Random(3), [segment(PROPOSAL), segment(ACCEPT, answer=True, options=b"\1" * 12), segment(CONFIRM, at=1052)]
    for i, kind in enumerate(KINDS):
        body = bytearray(chance.randbytes(smc_llc.SIZE - 2))
        body[2] = {6: 2, 8: 3, 9: 8}.get(kind, body[2])  # how many keys follow
        out.append(message(kind, bytes(body), answer=i % 2 > 0, psn=77 + i // 2))
    return [*out, segment(DECLINE, at=1120)]
