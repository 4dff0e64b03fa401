"""Packets with a key: one of each kind of key field, and of each upper layer with the connection that says what its messages are."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ibdissect.wire import dm
from ibdissect.wire.cm_names import IP_CM_PREFIX
from ibdissect.wire.crc import icrc_roce2
from ibdissect.wire.encapsulation import UDP, IPv4, IPv6
from ibdissect.wire.ulp import iser, nvme, nvme_rdma, rds, rpcrdma, rping, smc_llc, smc_v2, srp
from ibdissect.wire.ulp.smc import SMC_D
from tests import smc
from tests.acme import PASSIVE_QP, connection, message
from tests.craft import build, gmp, rc
from tests.test_secrets import FRAMES, PLANTED, UPPER

MACS = bytes.fromhex("020000000b01020000000b02")
HEADER = b"\x00\x40\x12\x34" + bytes(32)
"""What RDMA IP CM puts in front of private data."""
OTHER, RSOCKETS = IP_CM_PREFIX | 0x06 << 16 | 7471, IP_CM_PREFIX | 0x06 << 16 | 7472
SRP = 0x0002_C903_0000_1234


@dataclass(frozen=True, slots=True)
class Keyed:
    """A packet with a key, and those before it that say what it is; InfiniBand packets, or Ethernet frames."""

    name: str
    key: bytes
    packet: bytes
    before: list[bytes] = field(default_factory=list)
    native: bool = True


def roce(native: bytes, version: int = 4, network: int = 0) -> bytes:
    """An InfiniBand packet as an Ethernet frame of RoCE v2 with a correct ICRC, or of RoCE v1; addresses follow from its LIDs."""
    transport = native[8 + 40 * (native[1] & 3 == 3) : -6]
    source, destination = (bytes([10, network, native[at], native[at + 1]]) for at in (6, 2))
    six = {"source": b"\xfd" + bytes(11) + source, "destination": b"\xfd" + bytes(11) + destination}
    if version == 1:
        grh = build(IPv6, version=6, payload_length=4 + len(transport), next_header=0x1B, hop_limit=64, **six)
        return MACS + b"\x89\x15" + grh + transport + bytes(4)
    datagram = build(UDP, source_port=49152, destination_port=4791, length=8 + len(transport) + 4) + transport
    if version == 4:
        head = build(IPv4, version=4, header_length=5, total_length=24 + len(datagram), ttl=64, protocol=17, source=source,
                     destination=destination)  # fmt: skip
    else:
        head = build(IPv6, version=6, payload_length=4 + len(datagram), next_header=17, hop_limit=64, **six)
    packet = head + datagram
    return MACS + (b"\x08\0" if version == 4 else b"\x86\xdd") + packet + icrc_roce2(packet).to_bytes(4, "little")


def _messages(key: bytes) -> Iterator[tuple[str, list[bytes], bytes]]:
    """Messages of upper layers: name, packets before, packet."""
    number = int.from_bytes(key, "big")
    command = build(nvme.NVMeCommandCapsule, opcode=2, command_id=0x3412) + bytes(60)
    yield "NVMe", connection(nvme_rdma.SERVICE, bytes(36) + b"\0\0\1\0\x1f\0\x1e\0", accepted=b"\0\0\x20\0"), message(
        command[:35] + key + command[39:])  # fmt: skip
    yield "NFS", connection(rpcrdma.SERVICE), message(
        struct.pack(">7I", 7, 1, 32, 0, 0, 1, 1) + key + bytes(12) + struct.pack(">IIII", 0, 0, 7, 0) + bytes(40))  # fmt: skip
    yield "iSER", connection(iser.SERVICE, bytes(40)), message(b"\x18" + build(iser.ISERControl, write_stag=number)[1:] + bytes(48))
    named = gmp(0x06, 0x81, 0x0012, build(dm.ServiceEntry, service_name="SRP.T10:0002C90300001234", service_id=SRP), at=64)
    request = build(srp.SRPCommand, type=2, buffer_formats=0x10) + build(srp.SRPDescriptor, memory_handle=number, length=9)
    yield "SRP", [named, *connection(SRP)], message(request)
    header = bytearray(build(rds.RDSHeader, sequence=5))
    header[32:44] = bytes([5, 0, 1, 3]) + key + bytes(4)
    yield "RDS", connection(rds.SERVICE), message(bytes(header))
    yield "rping", connection(rping.SERVICE, HEADER), message(build(rping.RpingBuffer, address=0x1000, r_key=number, length=64))
    yield "private data", [], connection(OTHER, HEADER + b"here" + key)[0]
    yield "accepted", [connection(OTHER)[0]], connection(OTHER, accepted=b"there" + key)[1]
    memory = [(0x7F00_0000_1000).to_bytes(8, "big") + key, struct.pack(">I", 2), bytes(12), struct.pack(">I", 1 << 19)]
    rsockets = connection(RSOCKETS, HEADER + bytes([1, 2, 1, 128, 0, 0, 0, 0]) + b"".join(memory))
    yield "rsockets", [], rsockets[0]
    ext = {"RETH": {"va": 0x7F00_0000_1000, "r_key": 0x1234, "dmalen": 16}, "ImmDt": {"immdt": 4 << 29 | 0x180}}
    data = (0x7F00_0000_2000).to_bytes(8, "little") + key + struct.pack("<I", 4096)
    yield "rsockets memory", rsockets, rc(0x0B, data, ext=ext, bth={"destqp": PASSIVE_QP}, slid=1, dlid=2)


def _handshakes(key: bytes) -> Iterator[tuple[str, list[bytes], bytes]]:
    start = [smc.segment(smc.PROPOSAL), smc.segment(smc.ACCEPT, answer=True), smc.segment(smc.CONFIRM, at=1052)]
    yield "SMC-R accept", start[:1], smc.segment(smc.ACCEPT.replace(struct.pack(">I", 0xDEAD), key), answer=True)
    yield "SMC-R confirm", start[:2], smc.segment(smc.CONFIRM.replace(struct.pack(">I", 0xBEEF), key), at=1052)
    yield "SMC-R message", start, smc.message(6, build(smc_llc.SMCConfirmRkey, r_key=int.from_bytes(key, "big"))[2:])
    token = build(smc_v2.SMCDAccept, token=int.from_bytes(key[::-1] + key, "big"))
    yield "SMC-D", [], smc.segment(smc.clc(2, token + bytes(12), word=SMC_D, end=SMC_D, flags=0x11))


def _keyed(seed: int = 9) -> list[Keyed]:
    """All of them, each with another key without zeros."""
    rnd = random.Random(seed)

    def key() -> bytes:
        return bytes(rnd.randrange(1, 256) for _ in range(4))

    fields = {one.field: one for one in PLANTED if not one.field.startswith(UPPER)}
    found = [Keyed(name, one.value, FRAMES[one.frame]) for name, one in fields.items()]
    makers: tuple[tuple[Callable[[bytes], Iterator[tuple[str, list[bytes], bytes]]], bool], ...] = (_messages, True), (_handshakes, False)
    for maker, native in makers:
        for number in range(len(list(maker(bytes(4))))):
            secret = key()
            name, before, packet = list(maker(secret))[number]
            found.append(Keyed(name, secret, packet, before, native))
    return found


def frames(one: Keyed, version: int, network: int) -> list[bytes]:
    """The packets of one as Ethernet frames, that with the key last."""
    return [roce(packet, version, network) if one.native else packet for packet in (*one.before, one.packet)]


KEYED = _keyed()
