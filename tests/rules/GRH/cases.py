"""Proofs of the rules about the global route header: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.sa_paths import MCMemberRecord
from tests.craft import build, erf_pcap, ethernet_pcap, gmp, native, rc, ud
from tests.rules.cases import case
from tests.rules.made.gids import gid
from tests.rules.made.subnets import data, member, packet, sent, sweep, works
from tests.standard import SECOND_NS
from tests.subnet.made import answer, node_info, port_info


def routed(lrh: dict[str, Any] | None = None, **grh: Any) -> bytes:
    """An RC packet with a GRH."""
    return native(payload=b"12345678", grh={"sgid": gid("fe80::1"), "dgid": gid("fe80::2"), **grh}, lrh=lrh)


def group(mgid: str, **kw: Any) -> bytes:
    """A datagram to a multicast group."""
    return ud(b"12345678", dest_qp=0xFFFFFF, src_qp=9, q_key=0xB1B, dlid=0xC001, grh={"sgid": gid("fe80::1"), "dgid": gid(mgid)}, **kw)


def join(mgid: str, method: int = 2, mask: int = 0x130C7, status: int = 0) -> bytes:
    """A request for membership of a group with all components that creating it takes, or the answer."""
    body = mask.to_bytes(8, "big") + build(MCMemberRecord, mgid=gid(mgid), port_gid=gid("fe80::1"), mlid=0xC001, scope=2, join_state=1)
    way = {"slid": 5, "dlid": 1} if method & 0x80 == 0 else {"slid": 1, "dlid": 5}
    return gmp(3, method, 0x38, body, at=48, header={"status": status}, **way)


case("GRH001", routed(ipver=4), routed())
case("GRH002", routed(nxt_hdr=17), routed())


def roce1(**grh: Any) -> bytes:
    """A RoCE v1 frame, without a right ICRC."""
    packet = native(payload=bytes(8), grh={"sgid": gid("fe80::1"), "dgid": gid("fe80::2"), **grh})
    return bytes(12) + b"\x89\x15" + packet[8:-6] + bytes(4)


case("GRH002", roce1(nxt_hdr=17), roce1(), file=ethernet_pcap, twin_also=["ROC005", "ROC015"])
case("GRH003", routed(pay_len=28), routed(pay_len=24))
LONGER = (len(routed()) - 2) // 4 + 1
case("GRH003", routed(pay_len=28), routed(lrh={"pktlen": LONGER}), twin_also=["LNK003"])  # PktLen is wrong, not PayLen
AWAY = {"sgid": gid("2001::1"), "dgid": gid("2001:1::1")}
case("GRH004", routed(**AWAY), routed(**AWAY, hop_lmt=2))
case("GRH004", routed(**AWAY, hop_lmt=1), routed(**AWAY, hop_lmt=255))
# it stays in the subnet: the same prefix, or a link-local one at either end; it goes to a group
for stays in ({"dgid": gid("2001::2")}, {"dgid": gid("fe80::2")}, {"sgid": gid("fe80::1")}):
    case("GRH004", routed(**AWAY, hop_lmt=1), routed(**{**AWAY, **stays}, hop_lmt=1))
TO_ALL = {**AWAY, "dgid": gid("ff1e:401b::5"), "hop_lmt": 1}
case("GRH004", routed(**AWAY, hop_lmt=1), ud(b"12345678", dest_qp=0xFFFFFF, src_qp=9, q_key=0xB1B, dlid=0xC001, grh=TO_ALL))
case("GRH005", routed(sgid=gid("ff12::1")), routed(sgid=gid("fe12::1")))
case("GRH006", routed(sgid=bytes(16)), routed())
case("GRH007", routed(dgid=bytes(16)), routed())
case("GRH008", ud(b"1234", dest_qp=0xFFFFFF, src_qp=9, q_key=0xB1B, dlid=0xC001), group("ff12:401b:ffff::1"))
# a manufacturer's packet
case("GRH008", native(0xBF, b"1234", dlid=0xC001), native(0xC0, b"1234", dlid=0xC001), also=["BTH001", "BTH012", "BTH013"])
case("GRH010", group("ff92::1"), group("ff92:401b:ffff::1"))
case("GRH011", group("ff16::1"), group("ff15::1"))
case("GRH011", group("ff16::1"), group("ff13::1"))  # RFC 7346: realm-local
case("GRH011", group("ff16:401b:ffff::ffff:ffff"), group("ff14:401b:ffff::ffff:ffff"))  # RFC 4391: scopes are those of RFC 3513
# a group that the SA has made is one; Ethernet is not routed by GIDs, and IPv6 has other scopes there
for code, mgid in (("GRH010", "ff92::1"), ("GRH011", "ff16::1")):
    case(code, group(mgid), [join(mgid), join(mgid, 0x81), group(mgid)])
    on_ethernet = ethernet_pcap([roce1(dgid=gid(mgid))])
    case(code, erf_pcap([group(mgid)]), on_ethernet, file=None, twin_also=["ROC005", "ROC015"])
ROUTER_6 = node_info(6, node_type=3)
case("GRH004", [ROUTER_6, routed(**AWAY, hop_lmt=1, lrh={"slid": 5})], [ROUTER_6, routed(**AWAY, hop_lmt=1, lrh={"slid": 6})], frames=[2])
case("GRH004", erf_pcap([routed(**AWAY, hop_lmt=1)]), ethernet_pcap([roce1(**AWAY, hop_lmt=1)]), file=None, twin_also=["ROC005", "ROC015"])
# a LID that sends for two ports is a router's; a port with the destination's prefix is in its subnet. No packet leaves a router with 0
LAST = routed(**AWAY, hop_lmt=1)
OF_TWO = routed(**{**AWAY, "sgid": gid("2001::3")}, hop_lmt=1)
case("GRH004", [LAST, LAST], [LAST, OF_TWO], frames=[1])
THERE, HERE = (answer(2, 0x15, port_info(2, gid_prefix=prefix)) for prefix in (0x2001000100000000, 0x2001000000000000))
case("GRH004", [HERE, LAST], [THERE, LAST], frames=[2])
case("GRH004", [THERE, routed(**AWAY, hop_lmt=0), routed(**{**AWAY, "sgid": gid("2001::3")}, hop_lmt=0)], [THERE, LAST], frames=[2, 3])
MADE, INVALID = "ff12:a01b::1", 0x0200
NOT_MADE = [join(MADE), join(MADE, 0x81, status=INVALID)]
case("GRH012", NOT_MADE, [join(MADE), join(MADE, 0x81)], frames=[1], also=["SA003"])  # Linux joins groups that exist
case("GRH012", NOT_MADE, [join(MADE, mask=0x10003), NOT_MADE[1]], frames=[1], also=["SA003"], twin_also=["SA003"])  # makes no group
OTHERS = [join("ff12:601b::1"), join("ff12:601b::1", 0x81, status=INVALID)]
case("GRH012", NOT_MADE, OTHERS, frames=[1], also=["SA003"], twin_also=["SA003"])
case("GRH012", NOT_MADE, [join(MADE, 0x81), *NOT_MADE], frames=[1], also=["SA003"], twin_also=["SA003"])  # the group exists
GIDS: dict[str, Any] = {"dgid": b"\xfe\x80" + bytes(13) + b"\x05"}
OWN = bytes(13) + b"\x01"
packet("GRH013", data(grh={**GIDS, "sgid": b"\xfe\x90" + OWN}), data(grh={**GIDS, "sgid": b"\xfe\x80" + OWN}))
packet("GRH009", sent(dlid=0xC002), sent(), [member()], severity="error")
packet("GRH009", sent(dlid=0xC002), sent(), [*sweep(), member(), *works(1, 9)], severity="info", also=["LNK020"], twin_also=["LNK020"])
case("GRH009", [member(), sent(dlid=0xC002)], [sent(dlid=0xC002), member()], frames=[2])
case("GRH009", [member(), sent(dlid=0xC002)], [member(mlid=5), sent()], frames=[2], twin_also=["SA011"])
# what fitted until the group got another LID may be under way for a second, if its flow was seen before
CHANGED = member(mlid=0xC005)
case("GRH009", [member(), CHANGED, sent()], [member(), sent(), CHANGED, sent()], frames=[3])
LATE, SOON = (erf_pcap([member(), sent(), CHANGED, sent()], step_ns=step) for step in (1_200_000_000, 1_000_000_000))
case("GRH009", LATE, SOON, frames=[4], file=None)
# the same where the record from before is not captured; not of a flow that begins behind it
LATE, SOON = (erf_pcap([sent(), CHANGED, sent()], step_ns=step) for step in (1_200_000_000, 1_000_000_000))
case("GRH009", LATE, SOON, frames=[3], file=None)
case("GRH009", [CHANGED, sent()], [sent(), CHANGED, sent()], frames=[2])
# a sender that is right within a minute joined again; another one, and one that is wrong again, did not
OUTDATED, BEGIN = sent(dlid=0xC002), 1_700_000_000 * SECOND_NS


def at_seconds(*frames: tuple[int, bytes]) -> bytes:
    return erf_pcap([frame for _, frame in frames], times=[BEGIN + second * SECOND_NS for second, _ in frames])


for second, then, how in ((31, sent(), "info"), (62, sent(), "error"), (2, sent(src_qp=0x35), "error")):
    case("GRH009", at_seconds((0, member()), (1, OUTDATED), (second, then)), erf_pcap([member(), sent()]), severity=how, file=None)
case("GRH009", [member(), OUTDATED, sent(), OUTDATED], [member(), sent()], severity="error")
case("GRH009", [member(), OUTDATED, sent(dlid=0xC003), sent(), OUTDATED], [member(), sent()], severity="error")
# nobody knows it where the capture ends before, unless a record shows that the sender joined the group as it was then
OTHERS_MEMBER, ELSEWHERE = member(port=5), ud(b"", dest_qp=0x77, src_qp=9, q_key=5, slid=6, dlid=7)
for second, told, how in (
    (60, [], "info"), (63, [], "error"), (60, [(2, member()), (2, OUTDATED)], "info"), (60, [(2, member()), (5, OUTDATED)], "error"),
):  # fmt: skip
    shown = at_seconds((0, OTHERS_MEMBER), (1, OUTDATED), *told, (second, ELSEWHERE))
    case("GRH009", shown, erf_pcap([OTHERS_MEMBER, sent()]), severity=how, file=None)
case("GRH009", [member(mlid=0xC002), OTHERS_MEMBER, OUTDATED], [member(mlid=0xC002), OTHERS_MEMBER, sent()], severity="info")
# it knew the group, whatever it joins or leaves afterwards
for after in (member(join_state=0), member(join_state=5), member(mlid=0xC005)):
    shown = at_seconds((0, member()), (1, OUTDATED), (5, after), (7, ELSEWHERE))
    case("GRH009", shown, erf_pcap([member(), sent()]), severity="error", file=None)
# a second restart of the manager, hours later, is as the first one
AGAIN = [(0, member(port=5, mlid=0xC005)), (2, sent()), (4, member(mlid=0xC005)), (5, sent(dlid=0xC005))]
LATER = at_seconds((0, OTHERS_MEMBER), (1, OUTDATED), (2, member()), (3, sent()), *((7200 + second, frame) for second, frame in AGAIN))
case("GRH009", LATER, erf_pcap([member(), sent()]), frames=[2, 6], severity="info", file=None)
# it was told before the others that the group is another one
for second, mlid, how in ((31, 0xC005, "info"), (62, 0xC005, "error"), (2, 0xC002, "error")):
    shown = at_seconds((0, member()), (1, sent(dlid=mlid)), (second, CHANGED), (70, ELSEWHERE))
    case("GRH009", shown, erf_pcap([member(), sent()]), frames=[2], severity=how, file=None)
# two managers tell different things of one group: of two subnets, perhaps
TOLD_TWICE = [member(), member(mlid=0xC005, by=9)]
case("GRH009", [*TOLD_TWICE, sent()], [*TOLD_TWICE, sent(dlid=0xC005)], frames=[3], severity="info")
case("GRH009", [*TOLD_TWICE, sent(dlid=0xC002)], [*TOLD_TWICE, sent(dlid=0xC005)], frames=[3], severity="error")
case("GRH009", [member(), CHANGED, sent()], [member(), member(by=9), sent()], frames=[3], severity="error")
case("GRH015", group("fe80::2"), group("ff12::2"))
# its sender's port is known to be in the other subnet; else a router may have sent it; the receiver answers, if only by a NAK
SENDER = answer(1, 0x15, port_info(1, gid_prefix=0x2001000000000000))
BACK_THERE = {"sgid": AWAY["dgid"], "dgid": AWAY["sgid"], "hop_lmt": 64}
NAKED = rc(0x11, ext={"AETH": {"syndrome": 0x60, "msn": 1}}, slid=2, dlid=1, grh=BACK_THERE)
case("GRH004", [SENDER, LAST], [SENDER, LAST, NAKED], frames=[2], severity="warning", twin_also=["RC004"])
case("GRH004", [LAST], [LAST, NAKED], frames=[1], severity="info", twin_also=["RC004"])
case("GRH004", [routed(**AWAY, hop_lmt=0)], [routed(**AWAY, hop_lmt=2)], frames=[1], severity="warning")
