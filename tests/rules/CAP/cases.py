"""Proofs of the rules about the capture itself: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ibdissect.capture.chunk import Damage
from ibdissect.wire.encapsulation import UDP, IPv6
from tests import tunnels
from tests.craft import build, erf_pcap, ethernet_pcap, gmp, native, roce2, smp, ud
from tests.rules.cases import case
from tests.rules.made.gids import gid
from tests.subnet.made import ANSWER, node, port_info, switch

PCAP, RECORD, ERF = 24, 16, 16
GOOD = native(payload=b"12345678")
OTHER = native(payload=b"abcdefgh", bth={"psn": 2})


def erf_with(frames: Sequence[bytes], number: int, at: int, value: bytes) -> bytes:
    """An ERF pcap with `value` at byte `at` of the ERF header of one record (from 0)."""
    data = bytearray(erf_pcap(frames))
    start = PCAP + sum(RECORD + ERF + len(frame) for frame in frames[:number]) + RECORD + at
    data[start : start + len(value)] = value
    return bytes(data)


def snapped(frame: bytes, captured: int) -> bytes:
    """A capture of one frame of which only the first bytes were kept."""
    data = bytearray(ethernet_pcap([frame[:captured]]))
    data[PCAP + 12 : PCAP + 16] = struct.pack("<I", len(frame))
    return bytes(data)


def timed(*nanoseconds: int, frames: Sequence[bytes] = ()) -> bytes:
    """An Ethernet pcap of frames at given times."""
    frames = frames or [roce2(payload=b"%08d" % i, bth={"psn": i}) for i in range(len(nanoseconds))]
    data = bytearray(ethernet_pcap(frames))
    at = PCAP
    for ns, one in zip(nanoseconds, frames, strict=True):
        data[at : at + 8] = struct.pack("<II", *divmod(1_700_000_000_000_000_000 + ns, 1_000_000_000))
        at += RECORD + len(one)
    return bytes(data)


def repeated(later_ns: int) -> bytes:
    """64 frames, and the last of them once more."""
    frames = [roce2(payload=b"%08d" % i, bth={"psn": i}) for i in range(64)]
    times = [i * 1_000_000 for i in range(64)]
    return timed(*times, times[-1] + later_ns, frames=[*frames, frames[-1]])


def link247(frame: bytes) -> bytes:
    """A pcap of link type 247."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 247)
    return head + struct.pack("<IIII", 1_700_000_000, 0, len(frame), len(frame)) + frame


def burst(packets: int) -> bytes:
    """ERF packets all at one time, all different."""
    return erf_pcap([native(payload=struct.pack(">Q", i), bth={"psn": i}) for i in range(packets)], step_ns=0)


def asking(requests: int) -> bytes:
    """PortInfo requests that nobody answers, each of another transaction."""
    frame = smp(1, 0x15, modifier=1, crc=False)
    at = frame.index(struct.pack(">Q", 0x1234), 28)
    keyed = smp(0x81, 0x15, (7).to_bytes(8, "big").ljust(64, b"\0"), crc=False)  # requests matter where somebody has an M_Key
    requests_of = (frame[:at] + struct.pack(">Q", 0x10000 + i) + frame[at + 8 :] for i in range(requests))
    return erf_pcap([keyed, *requests_of], step_ns=10_000)


WHOLE = erf_pcap([GOOD, OTHER])
TWO_OR_MORE = [native(payload=b"%08d" % i, bth={"psn": i}) for i in range(6)]
HOLE = bytearray(erf_pcap(TWO_OR_MORE))
HOLE[PCAP + 2 * (RECORD + ERF + len(GOOD)) : PCAP + 2 * (RECORD + ERF + len(GOOD)) + RECORD] = b"\xee" * RECORD
case("CAP001", snapped(roce2(payload=bytes(200)), 96), ethernet_pcap([roce2(payload=bytes(200))]), file=None, frames=[1])
# A mirror or a packet broker that sends the beginning of each packet: the record has all that arrived. The twin ends with its packet.
case("CAP001", ethernet_pcap([roce2(payload=bytes(200))[:96]]), ethernet_pcap([roce2(payload=bytes(42))]), file=None, frames=[1])
# Some programs write another length into the record than the frame had: where all bytes of the packet are there, none was cut.
LENGTHLESS = snapped(roce2(payload=bytes(200)), 1000)
case("CAP001", snapped(roce2(payload=bytes(200)), 96), LENGTHLESS[: PCAP + 12] + bytes(4) + LENGTHLESS[PCAP + 16 :], file=None, frames=[1])
# The same on InfiniBand, where all but the ICRC cannot be a mirror's doing; nor what PayLen contradicts.
MIRRORED = native(payload=bytes(200))
case("CAP001", MIRRORED[:-7], MIRRORED[:-6], frames=[1], twin_also=["LNK003"])
case("CAP001", MIRRORED[:96], MIRRORED[:-3], frames=[1], twin_also=["LNK003"])
ENDS = {"sgid": gid("fe80::1"), "dgid": gid("fe80::2")}
ROUTED = [native(grh={**ENDS, **grh}, payload=bytes(200))[:96] for grh in ({}, {"pay_len": 48})]
case("CAP001", *ROUTED, frames=[1], twin_also=["LNK003"])
PADDED = struct.pack(">H", (23 + len(GOOD)) // 8 * 8)
case("CAP002", erf_with([GOOD], 0, 10, b"\0\5"), erf_with([GOOD], 0, 10, PADDED), file=None)
case("CAP002", erf_with([GOOD], 0, 10, struct.pack(">H", len(GOOD) + 24)), erf_pcap([GOOD]), file=None)
case("CAP003", burst(4097), burst(4096), file=None, frames=[4097])
case("CAP004", erf_with([GOOD, OTHER], 1, 12, b"\0\3"), WHOLE, file=None, frames=[2])
case("CAP005", timed(0, 5000, 4000, 9000), timed(0, 5000, 5000, 9000), file=None, frames=[3])
case("CAP006", erf_with([GOOD, OTHER], 1, 9, b"\5"), WHOLE, file=None, frames=[2])
case("CAP009", link247(GOOD), erf_pcap([GOOD]), file=None, frames=[1])
case("CAP010", erf_with([GOOD, OTHER], 0, 8, bytes([99])), erf_with([GOOD, OTHER], 0, 8, bytes([27])), file=None, frames=[1])
for beside in (1, 10, 19, 22, 23, 24, 32, 47):
    case("CAP010", erf_with([GOOD, OTHER], 0, 8, bytes([49])), erf_with([GOOD, OTHER], 0, 8, bytes([beside])), file=None, frames=[1],
         severity="error")  # fmt: skip
# reserved for types to come
case("CAP010", erf_with([GOOD, OTHER], 0, 8, bytes([26])), erf_with([GOOD, OTHER], 0, 8, bytes([28])), file=None, frames=[1],
     severity="info")  # fmt: skip
case("CAP012", timed(0, 2900, frames=[roce2()] * 2), timed(0, 3100, frames=[roce2()] * 2), file=None, frames=[2], twin_also=["RC002"])
# One request of 65 frames is repeated: within 3 us, it is a copy; later it may be a retransmission.
case("CAP012", repeated(2900), repeated(3100), file=None, frames=[65], twin_also=["RC002"])
BEHIND = [roce2(ip={"ttl": 64}), roce2(ip={"ttl": 63})]  # a router, or the sender once more
case("CAP012", timed(0, 30_000, frames=BEHIND), timed(0, 30_000, frames=BEHIND[:1] * 2), file=None, frames=[2], twin_also=["RC002"])
case("CAP013", WHOLE[:-10], WHOLE, file=None, frames=[1])
GAP = Damage(kind="missing", offset=0, frame=1, reason="file 2 is missing between cap_00001 and cap_00003", file="cap_00003")
case("CAP019", WHOLE, WHOLE, file=None, frames=[1], damage=[GAP])  # which names have a gap: tests/capture/test_file_names.py
case("CAP014", bytes(HOLE), erf_pcap(TWO_OR_MORE), file=None, frames=[2])
case("CAP015", ud(gmp(4, 1, 0x12)[28:128]), gmp(4, 1, 0x12))
# a wrong PktLen is LNK003's, with all that follows from it
SHORTER = (len(gmp(4, 1, 0x12)) - 2) // 4 - 1
case("CAP015", ud(gmp(4, 1, 0x12)[28:128]), gmp(4, 1, 0x12, lrh={"pktlen": SHORTER}), twin_also=["LNK003"])
# UDP's length says that the frame holds all of its packet, so IP's is wrong; where both are larger, a mirror may have cut it.
LONGER = [roce2(payload=bytes(20), ip={"total_length": 80}, udp={"length": size}) for size in (44, 60)]
case("CAP015", *map(ethernet_pcap, ([LONGER[0]], [LONGER[1]])), file=None, twin_also=["CAP001"])
# A mirror that cuts packets cuts all above a size: a single one among longer ones was damaged.
CUT = [roce2(payload=bytes(size))[:96] for size in (60, 80, 100)]
case("CAP015", *(ethernet_pcap([*some, roce2(payload=bytes(90))]) for some in (CUT[:1], CUT)), file=None, frames=[1],
     also=["CAP001"], twin_also=["CAP001"])  # fmt: skip
case("CAP015", *map(ethernet_pcap, ([CUT[0], roce2(payload=bytes(90))], [CUT[0], roce2(payload=bytes(36))])), file=None,
     frames=[1], also=["CAP001"], twin_also=["CAP001"])  # fmt: skip
# More open PortInfo requests than are remembered (4096); the frames differ in their transaction only and hold no CRCs.
case("CAP016", asking(4097), asking(4096), file=None, also=["MKY005", "ROC005", "TXN018"], twin_also=["MKY005", "ROC005", "TXN018"])


def subnet(maker: int, asker: int | None = None) -> list[bytes]:
    """A switch between two adapters, as a sweep shows them; two makers' subnets have the same routes and LIDs."""
    found = []
    for lid, path in ((1, []), (2, [1]), (5, [1, 2])):
        guid = (maker if path or asker is None else asker) << 40 | lid << 8
        info = (switch if lid == 2 else node)(lid, node_guid=guid, port_guid=guid + (lid != 2), system_image_guid=guid)
        found += [smp(ANSWER, 0x11, info, path=path), smp(ANSWER, 0x15, port_info(lid), path=path)]
    return found


# In the twin, the adapter that asks was moved to another subnet.
case("CAP017", subnet(0x2C9) + subnet(0x255), subnet(0x2C9) + subnet(0x255, asker=0x2C9), frames=[10])

ARP = b"\xff" * 6 + bytes(6) + b"\x08\x06" + bytes(46)
case("CAP018", ethernet_pcap([ARP]), snapped(roce2(), 40), file=None, frames=[1], twin_also=["CAP001"])
# a mirror cut it in front of the BTH, behind IPv6 or in a tunnel; what is there of the other frames shows that they are not RoCE
TCP_6, UDP_6 = (build(IPv6, version=6, payload_length=60, next_header=protocol) for protocol in (6, 17))
CUT_TCP, CUT_ROCE = TCP_6 + bytes(40), UDP_6 + build(UDP, destination_port=4791, length=60)
case("CAP018", *(ethernet_pcap([tunnels.ethernet(0x86DD, packet)]) for packet in (CUT_TCP, CUT_ROCE)), file=None, frames=[1],
     twin_also=["CAP001"])  # fmt: skip
WHOLE, CUT_OFF = (tunnels.FRAMES["VXLAN"](len(frame), 1) + frame[:46] for frame in (ARP[:46], roce2()))
case("CAP018", ethernet_pcap([WHOLE]), ethernet_pcap([CUT_OFF]), file=None, frames=[1])
PFC = bytes.fromhex("0180c2000001 020000000009 8808 0101 0008") + bytes(6) + b"\xff\xff" + bytes(36)
"""A pause of priority 3; in the twin, the packets that it holds up are captured, too."""
case("CAP018", ethernet_pcap([PFC]), ethernet_pcap([PFC, roce2()]), file=None, frames=[1])
case("CAP018", ethernet_pcap([ARP, ARP[:-1] + b"\1"]), ethernet_pcap([ARP, roce2()]), file=None, frames=[1])
