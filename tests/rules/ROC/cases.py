"""Proofs of the rules about RoCE, and the CRCs of all packets: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

import struct
import zlib
from functools import partial
from typing import Any

from ibdissect.wire.headers import BTH
from tests.craft import build, ethernet_pcap, flipped, native, roce2, sealed
from tests.rules.cases import case
from tests.rules.made.gids import gid

THERE, BACK = bytes([192, 168, 0, 1]), bytes([192, 168, 0, 2])


def sent(queue_pair: int = 0x12, port: int = 0xC000, ecn: int = 2, psn: int = 1) -> bytes:
    return roce2(bth={"destqp": queue_pair, "psn": psn}, udp={"source_port": port}, ip={"ecn": ecn})


def notified() -> bytes:
    return roce2(0x81, bytes(16), headers=b"", bth={"destqp": 0x34, "psn": 0, "becn": 1}, ip={"source": BACK, "destination": THERE})


OTHER = roce2(0x11, ext={"AETH": {"syndrome": 0x1F, "msn": 1}}, bth={"destqp": 0x34}, ip={"source": BACK, "destination": THERE})
FLOWS = [sent(0x20 + i) for i in range(8)]
case("ROC002", FLOWS, [*FLOWS[:7], sent(0x27, 0xC001)], frames=[1], file=ethernet_pcap)
case("ROC002", FLOWS, FLOWS[:7], file=ethernet_pcap)
# datagrams
TO_MANY = [roce2(0x64, b"data", ext={"DETH": {"q_key": 5, "srcqp": 7}}, bth={"destqp": 0x20 + i}) for i in range(8)]
case("ROC002", FLOWS, TO_MANY, frames=[1], file=ethernet_pcap)
MARKED: Any = partial(ethernet_pcap, step_ns=600_000_000)
case("ROC008", [sent(ecn=3), OTHER, OTHER], [sent(ecn=3), notified(), OTHER], frames=[1], file=MARKED)
case("ROC008", [sent(ecn=3), OTHER, OTHER, OTHER], [sent(ecn=3), OTHER, OTHER, notified()], frames=[1], file=MARKED)  # it does notify
case("ROC008", [sent(ecn=3), OTHER, OTHER], [sent(ecn=2), OTHER, OTHER], frames=[1], file=MARKED)
# an acknowledgement
ACKNOWLEDGED = roce2(0x11, ext={"AETH": {"syndrome": 0x1F, "msn": 1}}, ip={"ecn": 3})
case("ROC008", [sent(ecn=3), OTHER, OTHER], [ACKNOWLEDGED, OTHER, OTHER], frames=[1], file=MARKED)
# one direction only, and the end of the capture
case(
    "ROC008",
    ethernet_pcap([sent(ecn=3), OTHER, OTHER], step_ns=600_000_000),
    ethernet_pcap([sent(ecn=3), sent(psn=2), sent(psn=3)], step_ns=600_000_000),
    file=None,
)  # type: ignore[arg-type]
FAR = {"source": bytes([10, 0, 0, 1])}
CNP = bytes(16)


def roce1() -> bytes:
    """A RoCE v1 frame."""
    packet = native(payload=b"12345678", grh={"sgid": gid("fe80::1"), "dgid": gid("fe80::2")})
    return bytes(range(12)) + b"\x89\x15" + packet[8:-2]


def general(q_key: int) -> bytes:
    """A management datagram over RoCE v2."""
    from ibdissect.wire.headers import DETH
    from tests.craft import mad

    body = mad(7, 3, 0x14)
    return roce2(0x64, body, headers=build(DETH, q_key=q_key, srcqp=1), bth={"destqp": 1})


def roce(code: str, bad: bytes, twin: bytes) -> None:
    """Register a proof on Ethernet."""
    case(code, bad, twin, file=ethernet_pcap)


roce("ROC003", roce2(udp={"source_port": 1234}), roce2(udp={"source_port": 0xC000}))
roce("ROC009", roce2(0x81, CNP, headers=b"", bth={"psn": 5, "becn": 1}), roce2(0x81, CNP, headers=b"", bth={"psn": 0, "becn": 1}))
roce("ROC009", roce2(0x81, CNP, headers=b"", bth={"psn": 0}), roce2(0x81, CNP, headers=b"", bth={"psn": 0, "becn": 1}))
roce("ROC010", roce2(ip={"ttl": 1, **FAR}), roce2(ip={"ttl": 2, **FAR}))
roce("ROC010", roce2(ip={"ttl": 0, **FAR}), roce2(ip={"ttl": 1}))
roce("ROC011", general(0), general(0x80010000))
roce("ROC012", roce2(bth={"p_key": 0x8001}), roce2(bth={"p_key": 0xFFFF}))
# an acknowledgement, in that partition or in another
PARTITION, ELSEWHERE = ({"destqp": 0x34, "p_key": p_key} for p_key in (0x8001, 0x8002))
ANSWER: dict[str, Any] = {"ext": {"AETH": {"syndrome": 0x1F, "msn": 1}}, "ip": {"source": BACK, "destination": THERE}}
ASKED: dict[str, Any] = {"ip": {"source": THERE, "destination": BACK}}
case(
    "ROC012", [roce2(bth={"p_key": 0x8001}, **ASKED), roce2(0x11, bth=ELSEWHERE, **ANSWER)],
    [roce2(bth={"p_key": 0x8001}, **ASKED), roce2(0x11, bth=PARTITION, **ANSWER)], file=ethernet_pcap, frames=[1, 2],
)  # fmt: skip
roce("ROC013", roce2(ip={"more_fragments": 1, "dont_fragment": 0}), roce2(ip={"dont_fragment": 0}))
PART = roce2(ip={"more_fragments": 1, "dont_fragment": 0, **ASKED["ip"]})
TAKEN = roce2(0x11, bth={"destqp": 0x34}, **ANSWER)
case("ROC013", [PART, roce2()], [PART, TAKEN], file=ethernet_pcap, frames=[1])
roce("ROC015", roce1(), roce2())


PLAIN = native(payload=b"twelve bytes")
GID = bytes.fromhex("fe80" + "00" * 13 + "01")
GLOBAL = native(payload=b"twelve bytes", grh={"sgid": GID, "dgid": GID})
ROCE = roce2(payload=b"twelve bytes")
case("ROC004", flipped(ROCE, -6), flipped(ROCE, 14 + 8), file=ethernet_pcap, frames=[1])  # the twin: another TTL
# addresses were replaced in the file, as no ICRC is right, and nothing is sent again
REPLACED = [flipped(roce2(payload=b"twelve bytes", bth={"psn": psn, "a": 1}), 14 + 12) for psn in (1, 2)]
for more, severity in (([], "info"), ([ROCE], "error"), ([REPLACED[0]], "error")):
    case("ROC004", [*REPLACED, *more], ROCE, severity=severity, file=partial(ethernet_pcap, step_ns=100_000_000),
         also=["RC002"] if more == REPLACED[:1] else ())  # fmt: skip
case("ROC005", sealed(PLAIN[:-6] + bytes(6)), PLAIN)
case("ROC006", sealed(flipped(PLAIN, 21)), sealed(flipped(PLAIN, 0, 0x30)))  # the twin: another lane
case("ROC006", sealed(flipped(GLOBAL, -8)), sealed(flipped(GLOBAL, 15, 0x20)))  # the twin: another hop limit
case("ROC007", flipped(PLAIN, -1, 0xFF), PLAIN)


def roce6(hops: int, source: bytes, destination: bytes) -> bytes:
    """A RoCE v2 frame over IPv6 (RFC 8200 header) with right lengths, UDP checksum 0 and ICRC."""
    transport = build(BTH, opcode=4, m=1, p_key=0xFFFF, destqp=0x12, psn=1) + bytes(4)
    size = 8 + len(transport) + 4
    ip = struct.pack(">IHBB16s16s", 6 << 28, size, 17, hops, source, destination)
    udp = struct.pack(">HHHH", 49152, 4791, size, 0)
    masked = bytearray(b"\xff" * 8 + ip + udp + transport)
    masked[8:12], masked[15] = b"\x6f\xff\xff\xff", 0xFF  # traffic class, flow label, hop limit
    masked[54:56] = b"\xff\xff"
    masked[60] = 0xFF
    return bytes(range(2, 14)) + b"\x86\xdd" + ip + udp + transport + struct.pack("<I", zlib.crc32(masked))


def address(prefix: str, last: int) -> bytes:
    return bytes.fromhex(prefix).ljust(15, b"\0") + bytes([last])


QUIET_FAR, NEAR = address("20010db8000000aa", 1), address("20010db8000000bb", 2)
LINK, OTHER_LINK = address("fe80", 1), address("fe80000000000001", 2)
for quiet in (
    roce6(2, QUIET_FAR, NEAR),
    roce6(1, QUIET_FAR, address("20010db8000000aa", 2)),
    roce6(1, LINK, OTHER_LINK),
    roce6(1, LINK, NEAR),
    roce6(1, QUIET_FAR, address("ff02", 1)),
):
    case("ROC010", roce6(1, QUIET_FAR, NEAR), quiet, file=ethernet_pcap, frames=[1])
roce("ROC016", roce2(ip={"source": bytes(4)}), roce2(ip={"source": THERE}))
roce("ROC016", roce2(ip={"source": bytes([224, 0, 0, 1])}), roce2(ip={"source": bytes([223, 0, 0, 1])}))
roce("ROC016", roce2(ip={"source": bytes([239, 0, 0, 1])}), roce2(ip={"source": bytes([240, 0, 0, 1])}))  # Linux uses it
roce("ROC016", roce2(ip={"source": b"\xff" * 4}), roce2(ip={"source": bytes([255, 255, 255, 1])}))
FRAME = roce2()
roce("ROC017", FRAME[:6] + bytes(6) + FRAME[12:], bytes(12) + FRAME[12:])  # the twin is of the loopback interface
roce("ROC017", FRAME[:6] + bytes(6) + FRAME[12:], FRAME[:6] + b"\x02" + bytes(5) + FRAME[12:])
roce("ROC017", FRAME[:6] + b"\x03" + FRAME[7:], FRAME[:6] + b"\x02" + FRAME[7:])
roce("ROC010", roce2(ip={"ttl": 0}), roce2(ip={"ttl": 1}))
# a MAC address that sends for two hosts is that of a router; with 0 nobody sends
ANOTHER = roce2(ip={"ttl": 63, "source": bytes([10, 0, 0, 2])})
LAST_HOP = roce2(ip={"ttl": 1, **FAR})
case("ROC010", [LAST_HOP, roce2(ip={"ttl": 63, **FAR})], [LAST_HOP, ANOTHER], frames=[1], file=ethernet_pcap)
case("ROC010", [roce2(ip={"ttl": 0, **FAR}), ANOTHER], [LAST_HOP, ANOTHER], frames=[1], file=ethernet_pcap)
# the default partition's limited members; full members accept them
roce("ROC012", roce2(bth={"p_key": 0x7FFE}), roce2(bth={"p_key": 0x7FFF}))
# a NAK shows that packets arrive; so do packets with a time to live of 1 in both directions
AWAY = {"source": bytes([10, 0, 0, 1]), "destination": BACK}
HOME = {"source": BACK, "destination": bytes([10, 0, 0, 1])}
NAK_BACK = bytes(range(20, 32)) + roce2(0x11, ext={"AETH": {"syndrome": 0x60, "msn": 1}}, bth={"destqp": 0x34}, ip=HOME)[12:]
ONE_HOP = roce2(ip={"ttl": 1, **AWAY})
case("ROC010", [NAK_BACK, ONE_HOP], [ONE_HOP, NAK_BACK], frames=[2], file=ethernet_pcap, severity="warning")
# one direction only: behind the last router, or between two prefixes of one link; a time to live of 0 is wrong anywhere
ELSE: dict[str, Any] = {"ip": {**HOME, "source": bytes([192, 168, 0, 9])}}
OTHERS_BACK = bytes(range(20, 32)) + roce2(0x11, ext={"AETH": {"syndrome": 0, "msn": 1}}, **ELSE)[12:]
case("ROC010", [ONE_HOP], [roce2(ip={"ttl": 2, **AWAY})], frames=[1], file=ethernet_pcap, severity="info")
case("ROC010", [ONE_HOP, OTHERS_BACK], [ONE_HOP, NAK_BACK], frames=[1], file=ethernet_pcap, severity="warning")
case("ROC010", [roce2(ip={"ttl": 0, **AWAY})], [roce2(ip={"ttl": 2, **AWAY})], frames=[1], file=ethernet_pcap, severity="warning")


def datagram(ttl: int, ends: dict[str, bytes], mac: int) -> bytes:
    """A UD datagram of a host with a MAC address of its own."""
    frame = roce2(0x64, b"data", ext={"DETH": {"q_key": 5, "srcqp": 7}}, ip={"ttl": ttl, **ends})
    return frame[:11] + bytes([mac]) + frame[12:]


case("ROC010", [datagram(1, AWAY, 1), datagram(64, HOME, 2)], [datagram(1, AWAY, 1), datagram(1, HOME, 2)], frames=[1], file=ethernet_pcap)
# a NAK that asks for a lost packet says nothing of the fragment; what follows does
ASKS_AGAIN = roce2(0x11, ext={"AETH": {"syndrome": 0x60, "msn": 1}}, bth={"destqp": 0x34}, **{"ip": ANSWER["ip"]})
case("ROC013", [PART, ASKS_AGAIN], [PART, ASKS_AGAIN, TAKEN], file=ethernet_pcap, frames=[1])
case("ROC013", [PART, ASKS_AGAIN], [PART, TAKEN, ASKS_AGAIN], file=ethernet_pcap, frames=[1])
# a tap that writes the time of a frame into its source MAC address
STAMPED = [FRAME[:6] + bytes([3, 1, 2, 3, 4, stamp]) + FRAME[12:] for stamp in range(4)]
case("ROC017", STAMPED[:3], STAMPED, file=ethernet_pcap, frames=[1])
# nobody acknowledges a datagram: software may take its fragments, and it may be behind the last router
PART_OF_DATAGRAM = roce2(0x64, b"data", ext={"DETH": {"q_key": 5, "srcqp": 7}}, ip={"more_fragments": 1, "dont_fragment": 0})
case("ROC013", [PART_OF_DATAGRAM], [roce2()], file=ethernet_pcap, severity="info")
# answers may take another way, and ports may hold further partitions
case("ROC013", [PART], [roce2()], file=ethernet_pcap, severity="info")
for wait, how in ((1_000_000_000, "warning"), (1_000_000, "info")):  # the capture may end before the answer
    case("ROC013", [PART, ASKS_AGAIN], [roce2()], file=partial(ethernet_pcap, step_ns=wait), severity=how)
case("ROC012", [roce2(bth={"p_key": 0x8001}, **ASKED)], [roce2()], file=ethernet_pcap, severity="info")
IN_PARTITION = roce2(0x64, b"data", ext={"DETH": {"q_key": 5, "srcqp": 7}}, bth={"p_key": 0x8001}, **ASKED)
# nobody acknowledges UC
case("ROC012", [roce2(0x24, bth={"p_key": 0x8001}, **ASKED), roce2(0x11, bth=ELSEWHERE, **ANSWER)], [roce2()], file=ethernet_pcap,
     severity="info")  # fmt: skip
# the sender repeats what nobody answers; if it goes on with new PSNs, or the capture ends, the answers may take another link of a bond
OTHERS_ACK, SLOWLY = roce2(0x11, **ANSWER), partial(ethernet_pcap, step_ns=100_000_000)
TRIES = [roce2(bth={"p_key": 0x8001, "psn": psn}, **ASKED) for psn in (1, 2, 1, 3)]
case("ROC012", [TRIES[0], OTHERS_ACK, TRIES[1], TRIES[2]], [roce2()], file=SLOWLY, severity="warning", frames=[1])
for later in (TRIES[3], TRIES[1]):  # the latter is lost on the way
    case("ROC012", [TRIES[0], OTHERS_ACK, TRIES[1], later], [roce2()], file=SLOWLY, severity="info", frames=[1])
case("ROC012", [TRIES[0], OTHERS_ACK], [roce2()], file=ethernet_pcap, severity="info", frames=[1])
case("ROC012", [IN_PARTITION, roce2(0x11, bth=ELSEWHERE, **ANSWER)], [roce2()], file=ethernet_pcap, severity="info", frames=[1, 2])
LIMITED = roce2(0x11, bth={"destqp": 0x34, "p_key": 1}, **ANSWER)
case("ROC012", [roce2(bth={"p_key": 0x8001}, **ASKED), roce2(0x11, bth=ELSEWHERE, **ANSWER)],
     [roce2(bth={"p_key": 0x8001}, **ASKED), LIMITED], file=ethernet_pcap)  # fmt: skip
case("ROC010", [datagram(1, AWAY, 1), datagram(64, HOME, 2)], [datagram(2, AWAY, 1), datagram(64, HOME, 2)], file=ethernet_pcap,
     severity="info")  # fmt: skip
