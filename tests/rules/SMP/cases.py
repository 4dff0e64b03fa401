"""Proofs of the rules about subnet management packets: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

from typing import Any

from ibdissect.lint.site_policy import SitePolicy
from ibdissect.wire.notice import TrapLocalChange
from ibdissect.wire.sm import SMInfo
from ibdissect.wire.sm_port import PortInfo
from tests.craft import build, erf_pcap, mad, native, smp, ud
from tests.craft import headers_of as headers
from tests.rules.cases import case
from tests.rules.made.lanes import HELD, read
from tests.rules.made.ports import set_port
from tests.rules.made.subnets import packet
from tests.rules.made.traps import CA, PORT, details, notice, repress, trap
from tests.subnet.made import ANSWER, SET, answer, ask, node, node_info, p_keys, port_info, switch

NODE_INFO, PORT_INFO, NOTICE, QUIET_GET, RESPONSE = 0x11, 0x15, 0x02, 0x01, 0x81


def at_qp(qp: int, data: bytes, **kw: object) -> bytes:
    """A UD packet on VL15 to a queue pair."""
    return native(0x64, data, headers=headers(0x64), lrh={"vl": 15}, bth={"destqp": qp, "m": 0}, **kw)  # type: ignore[arg-type]


def leftovers() -> bytes:
    """A LID-routed Get with a path behind the attribute."""
    data = bytearray(mad(0x01, 1, NODE_INFO))
    data[129:131] = b"\x01\x02"
    return ud(bytes(data), dest_qp=0, src_qp=0, q_key=0, lrh={"vl": 15})


def short(size: int) -> bytes:
    """A Get(NodeInfo) of `size` bytes."""
    return ud(mad(0x01, 1, NODE_INFO, size=size), dest_qp=0, src_qp=0, q_key=0, lrh={"vl": 15})


case("SMP001", short(252), short(256))
case("SMP002", smp(6, NODE_INFO), smp(1, NODE_INFO))
case("SMP003", smp(1, NODE_INFO, path=[1], dr={"initial_path": b"\x01\x01"}), smp(1, NODE_INFO, path=[1], dr={"initial_path": b"\x00\x01"}))
case("SMP004", smp(1, NODE_INFO, path=[1, 2], dr={"hop_pointer": 4}), smp(1, NODE_INFO, path=[1, 2], dr={"hop_pointer": 3}))
case("SMP007", smp(1, NODE_INFO, path=[1], dr={"hop_count": 64}), smp(1, NODE_INFO, path=[1], dr={"hop_count": 63}), twin_also=["SMP026"])
case("SMP008", smp(0x81, PORT_INFO, build(PortInfo, vl_cap=4), path=[1], dr={"d": 0}),
     smp(0x81, PORT_INFO, build(PortInfo, vl_cap=4), path=[1], dr={"d": 1}))  # fmt: skip
case("SMP008", smp(1, NODE_INFO, path=[1], dr={"d": 1, "hop_pointer": 0}), smp(1, NODE_INFO, path=[1], dr={"d": 0}))
case("SMP009", leftovers(), short(256))
case("SMP011", smp(1, NODE_INFO, path=[1], dr={"dr_slid": 1}, slid=1, dlid=2), smp(1, NODE_INFO, path=[1]))
case("SMP012", smp(1, NODE_INFO, path=[1], slid=5, dlid=7), smp(1, NODE_INFO, path=[1]))
case("SMP012", smp(1, NODE_INFO, path=[1], slid=5, dlid=7), smp(1, NODE_INFO, path=[1], slid=5))  # an adapter that writes its own LID
case("SMP017", at_qp(5, mad(0x01, 0x81, PORT_INFO, build(PortInfo, vl_cap=4), at=64)),
     at_qp(0, mad(0x01, 0x81, PORT_INFO, build(PortInfo, vl_cap=4), at=64)))  # fmt: skip
case("SMP024", ud(mad(0x01, 1, NODE_INFO)), smp(1, NODE_INFO))
LOCAL = details(TrapLocalChange, lidaddr=5, change_flags=1)
case("SMP014", [CA, PORT, trap(144, LOCAL, dlid=9)], [CA, PORT, trap(144, LOCAL)], frames=[3])
TOLD = answer(6, PORT_INFO, port_info(6, master_sm_lid=9))
case("SMP014", [CA, PORT, trap(144, LOCAL, dlid=9)], [CA, PORT, TOLD, trap(144, LOCAL, dlid=9)], frames=[3])  # it may know better
LOST = [CA, PORT, trap(144, LOCAL, dlid=9)]
case("SMP014", LOST, [*LOST, repress(144, LOCAL, slid=9)], frames=[3])  # LID 9 is the manager
case("SMP014", [CA, PORT, trap(144, LOCAL, sl=3)], [CA, PORT, trap(144, LOCAL, sl=0)], frames=[3], also=["LNK012"])
ON_3 = answer(6, PORT_INFO, port_info(6, master_smsl=3))
case("SMP014", [CA, PORT, trap(144, LOCAL, sl=3)], [CA, PORT, ON_3, trap(144, LOCAL, sl=3)], frames=[3], also=["LNK012"],
     twin_also=["LNK012"])  # fmt: skip
AGAIN = [trap(144, LOCAL), trap(144, LOCAL)]
case("SMP020", [CA, PORT, *AGAIN], [CA, PORT, AGAIN[0], repress(144, LOCAL), AGAIN[1]], frames=[4])
WRONG = [CA, PORT, trap(144, LOCAL), repress(144, LOCAL, tid=8)]
case("SMP019", [*WRONG, trap(144, LOCAL)], [CA, PORT, trap(144, LOCAL), repress(144, LOCAL), trap(144, LOCAL)], frames=[4])
case("SMP019", [*WRONG, trap(144, LOCAL)], [*WRONG, trap(144, LOCAL), repress(144, LOCAL)], frames=[4])
case("SMP019", [*WRONG, trap(144, LOCAL)], WRONG, frames=[4])  # the trap that it answers may have been missed
ANSWERED = answer(5, NOTICE, notice(144, LOCAL), header={"transaction_id": 7})
GET = ask(5, NOTICE, header={"transaction_id": 7})
ENDED = [CA, PORT, trap(144, LOCAL), repress(144, LOCAL)]
case("SMP018", [*ENDED, ANSWERED], [*ENDED, GET, ANSWERED], frames=[5])
# who may write: by LID, by GUID of the port that has the LID, by GUID at the start of a directed route
BY_LID = SitePolicy(manager_lids=frozenset({1}))
WRITES = set_port()
case("SMP025", ask(5, PORT_INFO, method=SET, body=WRITES, slid=7), ask(5, PORT_INFO, method=SET, body=WRITES), frames=[1], policy=BY_LID)
case("SMP025", ask(5, PORT_INFO, method=SET, body=WRITES, slid=7), ask(5, PORT_INFO, body=WRITES, slid=7), frames=[1], policy=BY_LID)
GUID_OF_3 = 0x0002C90300001000 + (3 << 4) + 1
BY_GUID = SitePolicy(manager_guids=frozenset({GUID_OF_3}))
KNOWN = [node_info(3), node_info(4)]
case("SMP025", [*KNOWN, ask(5, PORT_INFO, method=SET, body=WRITES, slid=4)], [*KNOWN, ask(5, PORT_INFO, method=SET, body=WRITES, slid=3)],
     frames=[3], policy=BY_GUID)  # fmt: skip
# the sender is known from here on
LATE = [ask(5, PORT_INFO, method=SET, body=WRITES, slid=4), *KNOWN, ask(5, PORT_INFO, method=SET, body=WRITES, slid=4)]
case("SMP025", LATE, [LATE[0], KNOWN[0], LATE[3]], frames=[4], policy=BY_GUID)
ORIGIN = {"transaction_id": 7 << 32}
ROUTED, HOME = smp(SET, PORT_INFO, WRITES, path=[1], header=ORIGIN), smp(ANSWER, NODE_INFO, node(4), path=[], header=ORIGIN)
case("SMP025", [ROUTED, HOME, ROUTED], [ROUTED, ROUTED], frames=[3], policy=BY_GUID)
# without a policy: who is not the manager that the port named and that the Set itself names
MANAGED = [node_info(5), answer(5, PORT_INFO, port_info(5, master_sm_lid=1), header={"transaction_id": 9})]


def write(slid: int, manager: int) -> bytes:
    """Set(PortInfo) of node 5 with a MasterSMLID."""
    return ask(5, PORT_INFO, method=SET, body=set_port(master_sm_lid=manager), slid=slid)


case("SMP025", [*MANAGED, write(7, 1)], [*MANAGED, write(1, 1)], frames=[3], severity="info")
case("SMP025", [*MANAGED, write(7, 1)], [*MANAGED, write(7, 7)], frames=[3], severity="info")  # a new manager takes over
case("SMP025", [*MANAGED, write(7, 0)], [*MANAGED, write(1, 0)], frames=[3], severity="info", also=["SEM021"],
     twin_also=["SEM021"])  # fmt: skip
# other attributes; a switch names its manager at port 0
KEYS_BY = [ask(5, 0x16, method=SET, body=p_keys(0xFFFF), slid=lid) for lid in (7, 1)]
case("SMP025", [*MANAGED, KEYS_BY[0]], [*MANAGED, KEYS_BY[1]], frames=[3], severity="info")
case("SMP025", [*MANAGED, KEYS_BY[0]], [KEYS_BY[0]], frames=[3], severity="info")
AT_SWITCH = [answer(5, NODE_INFO, switch(5)), answer(5, PORT_INFO, port_info(5, master_sm_lid=1), header={"transaction_id": 9})]
TABLE_BY = [ask(5, 0x19, method=SET, body=bytes([1] * 64), slid=lid) for lid in (7, 1)]
case("SMP025", [*AT_SWITCH, TABLE_BY[0]], [*AT_SWITCH, TABLE_BY[1]], frames=[3], severity="info")
# what another port of a switch calls its manager means nothing
EXTERNAL = answer(5, PORT_INFO, port_info(5, master_sm_lid=9), modifier=1, header={"transaction_id": 8})
PORT_BY = [ask(5, PORT_INFO, method=SET, body=set_port(master_sm_lid=9), modifier=1, slid=lid) for lid in (7, 1)]
case("SMP025", [*AT_SWITCH, EXTERNAL, PORT_BY[0]], [*AT_SWITCH, EXTERNAL, PORT_BY[1]], frames=[4], severity="info")
# managers hand over with SMInfo, whoever the ports name
case("SMP025", [*MANAGED, KEYS_BY[0]], [*MANAGED, ask(5, 0x20, method=SET, modifier=1, slid=7)], frames=[3], severity="info",
     twin_also=["SEM045"])  # fmt: skip
case("SMP025", [*MANAGED, write(7, 1)], [write(7, 1)], frames=[3], severity="info")  # nobody knows who manages the port
ASKED = smp(QUIET_GET, NODE_INFO, slid=1, dlid=2)


def node_info_from(lid: int) -> bytes:
    """NodeInfo of the node that was asked, from a LID."""
    return smp(RESPONSE, NODE_INFO, node(2), slid=lid, dlid=1)


# LMC 7 gives a port 128 LIDs: an answer from another one of them is no other port's.
case("SMP016", [ASKED, node_info_from(900)], [ASKED, node_info_from(3)], frames=[2])
# the answer repeats the addresses of its request; the twin: the answer follows, so the other answered somebody else
ALIKE = smp(RESPONSE, NODE_INFO, node(2), slid=1, dlid=2)
case("SMP016", [ASKED, ALIKE], [ASKED, ALIKE, smp(RESPONSE, NODE_INFO, node(2), slid=2, dlid=1)], frames=[2])
# the answer goes to another port than the requester's, and nothing else answers; other transactions show that answers are seen
SEEN_ANSWER = [smp(method, NODE_INFO, node(2) if method == RESPONSE else b"", slid=a, dlid=b, header={"transaction_id": 50})
               for method, a, b in ((QUIET_GET, 1, 2), (RESPONSE, 2, 1))]  # fmt: skip
ASTRAY = [*SEEN_ANSWER, ASKED, smp(RESPONSE, NODE_INFO, node(2), slid=2, dlid=900)]
case("SMP016", ASTRAY, [*ASTRAY, node_info_from(2)], frames=[4], severity="info")
case("SMP016", ASTRAY, [*SEEN_ANSWER, ASKED, smp(RESPONSE, NODE_INFO, node(2), slid=2, dlid=3)], frames=[4], severity="info")
case("SMP016", ASTRAY, [*SEEN_ANSWER, ASKED, smp(RESPONSE, NODE_INFO, node(3), slid=3, dlid=900)], frames=[4], severity="info")
OF_1 = [answer(1, at, body, header={"transaction_id": 9}) for at, body in ((NODE_INFO, node(1)), (PORT_INFO, port_info(1)))]
case("SMP016", [*OF_1, *ASTRAY[:3], smp(RESPONSE, NODE_INFO, node(2), slid=2, dlid=3)], [*OF_1, *ASTRAY[:3], node_info_from(2)],
     frames=[6], severity="info")  # fmt: skip


def port_of_2(lmc: int = 0) -> list[bytes]:
    """The port that is asked tells its LIDs."""
    other = {"transaction_id": 9}
    return [answer(2, at, body, header=other) for at, body in ((NODE_INFO, node(2)), (PORT_INFO, port_info(2, lmc=lmc)))]


# its LMC is known, and it tells the same again
LED_ASKED, LED_TOLD = smp(QUIET_GET, 0x31, slid=1, dlid=2), smp(RESPONSE, 0x31, slid=3, dlid=1)
case("SMP016", [*port_of_2(), LED_ASKED, LED_TOLD, *port_of_2()], [*port_of_2(1), LED_ASKED, LED_TOLD, *port_of_2(1)], frames=[4])
case("SMP016", [*port_of_2(), LED_ASKED, LED_TOLD, *port_of_2()], [*port_of_2(), LED_ASKED, LED_TOLD], frames=[4])
# The high half of a transaction id is the agent's own business.
QUIET_AGAIN = trap(144, LOCAL)
case(
    "SMP019",
    [CA, PORT, QUIET_AGAIN, repress(144, LOCAL, tid=8), QUIET_AGAIN],
    [CA, PORT, QUIET_AGAIN, repress(144, LOCAL, tid=7 << 32 | 7), QUIET_AGAIN],
    frames=[4],
)
# requests
packet(
    "SMP005",
    smp(QUIET_GET, NODE_INFO, path=[1, 2], dr={"hop_pointer": 2, "dr_dlid": 5}, dlid=0xFFFF),
    smp(QUIET_GET, NODE_INFO, path=[1], dr={"hop_pointer": 1, "dr_dlid": 5}, dlid=0xFFFF),
    also=["SMP011"],
    twin_also=["SMP011"],
)
RETURN: dict[str, Any] = {"hop_pointer": 2}
case("SMP010", smp(ANSWER, NODE_INFO, node(5), path=[1, 2], dr={**RETURN, "return_path": bytes([0, 1])}),
     smp(ANSWER, NODE_INFO, node(5), path=[1, 2], dr={**RETURN, "return_path": bytes([0, 1, 3])}))  # fmt: skip
LID_ASKED = smp(QUIET_GET, 0x11, slid=1, dlid=2)
case(
    "SMP016",
    [LID_ASKED, smp(RESPONSE, 0x11, node(2), slid=900, dlid=1)],
    [LID_ASKED, smp(RESPONSE, 0x11, node(2), slid=2, dlid=1)],
    frames=[2],
)
SEEN = ["MKY005"]
case("SMP023", [*HELD, read(0x8877665544332211, SET)], [*HELD, read(0x8877665544332212, SET)], frames=[3],
     also=["MKY002", *SEEN], twin_also=["MKY002", *SEEN])  # fmt: skip
ROUTE_0 = smp(1, NODE_INFO, path=[1, 0, 2])
case("SMP026", ROUTE_0, smp(1, NODE_INFO, path=[1, 3, 2]))
case("SMP026", ROUTE_0, smp(0x81, NODE_INFO, node(5), path=[1, 0, 2]))  # it counts on the way out
ON_ROUTE = smp(ANSWER, NODE_INFO, switch(9), path=[1])
case("SMP027", [ON_ROUTE, smp(1, NODE_INFO, path=[1, 9])], [ON_ROUTE, smp(1, NODE_INFO, path=[1, 8])], frames=[2])
GOOD_ROUTES = [smp(1, NODE_INFO, path=[1, 8]), smp(1, NODE_INFO, path=[1, 8, 3])]
BAD_ROUTES = [smp(1, NODE_INFO, path=path) for path in ([1, 9], [1, 9, 3])]  # both end at the same port
case("SMP027", [ON_ROUTE, *GOOD_ROUTES, *BAD_ROUTES], [ON_ROUTE, *GOOD_ROUTES], frames=[4, 5])
case("SMP028", smp(ANSWER, NODE_INFO, node(5), header={"status": 0x0100}), smp(ANSWER, NODE_INFO, node(5), header={"status": 0x001C}))
case("SMP002", smp(0x86, NODE_INFO), smp(0x86, NODE_INFO, header={"status": 0x0008}))
# the switch was asked again, and the capture does not show what it answered
case("SMP027", [ON_ROUTE, smp(1, NODE_INFO, path=[1], header={"transaction_id": 77}), smp(1, NODE_INFO, path=[1, 9])], [ON_ROUTE],
     frames=[3], severity="info")  # fmt: skip
# the manager calls itself master, or has several LIDs
MASTER = smp(RESPONSE, 0x20, build(SMInfo, guid=9, sm_state=3), slid=9, dlid=3)
STANDBY = smp(RESPONSE, 0x20, build(SMInfo, guid=9, sm_state=2), slid=9, dlid=3)
case("SMP014", [CA, PORT, STANDBY, trap(144, LOCAL, dlid=9)], [CA, PORT, MASTER, trap(144, LOCAL, dlid=9)], frames=[4])
ABOUT_4 = [answer(5, NODE_INFO, node(5)), answer(5, PORT_INFO, port_info(5, master_sm_lid=4))]
for lmc, lid, more in ((1, 6, 5), (0, 5, 4)):
    OF_4 = [node_info(4), smp(RESPONSE, PORT_INFO, port_info(4, lmc=lmc, master_sm_lid=4), slid=4, dlid=1)]
    case("SMP014", [*OF_4, *ABOUT_4, trap(144, LOCAL, dlid=lid)], [*OF_4, *ABOUT_4, trap(144, LOCAL, dlid=more)], frames=[5])
# the trap that it answers was recorded behind it
case("SMP019", [*WRONG, trap(144, LOCAL)], [*WRONG, trap(144, LOCAL, tid=8), trap(144, LOCAL)], frames=[4])
# the request gives the port its new LID; ten seconds later the transaction id may be another request's
MOVED = smp(SET, PORT_INFO, set_port(900), slid=1, dlid=2, modifier=1)
TOLD_900 = smp(RESPONSE, PORT_INFO, port_info(900), slid=900, dlid=1, modifier=1)
case("SMP016", [MOVED, TOLD_900], [MOVED], frames=[2], severity="info")
case("SMP016", [MOVED, smp(RESPONSE, PORT_INFO, port_info(901), slid=900, dlid=1, modifier=1)], [MOVED], frames=[2], severity="error")
for step_ns, how in ((10_000_000_000, "error"), (10_001_000_000, "info")):
    case("SMP016", erf_pcap([LID_ASKED, node_info_from(900)], step_ns=step_ns), erf_pcap([LID_ASKED], step_ns=step_ns), frames=[2],
         severity=how, file=None)  # fmt: skip
