"""Proofs of the rules about multicast groups: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

from functools import partial
from typing import Any

from ibdissect.wire.notice import TrapGID
from tests.craft import erf_pcap, ud
from tests.rules.cases import case
from tests.rules.made.conversations import MGID as GSI_MGID
from tests.rules.made.conversations import WAIT, gid_of, sa
from tests.rules.made.conversations import member as gsi_member
from tests.rules.made.subnets import MGID, member, packet, sweep
from tests.rules.made.traps import details, notice
from tests.subnet.made import answer, switch, switch_info

GET, SET, DELETE, GET_RESP, DELETE_RESP, NODE_INFO, SWITCH_INFO = 0x01, 0x02, 0x15, 0x81, 0x95, 0x11, 0x12
SECONDS: Any = partial(erf_pcap, step_ns=1_000_000_000)


def broadcast(lid: int = 5, gid_of_lid: int = 0, mlid: int = 0xC001) -> bytes:
    grh = {"sgid": gid_of(gid_of_lid or lid), "dgid": GSI_MGID}
    return ud(b"ARP?", dest_qp=0xFFFFFF, src_qp=0x48, q_key=0xB1B, slid=lid, dlid=mlid, grh=grh)


JOIN, LEAVE = [gsi_member(SET), gsi_member(GET_RESP)], [gsi_member(DELETE, transaction=8), gsi_member(DELETE_RESP, transaction=8)]
AGAIN = [gsi_member(SET, transaction=9), gsi_member(GET_RESP, transaction=9)]
case("MCG005", [*JOIN, *LEAVE, *WAIT[:2], broadcast()], [*JOIN, *LEAVE, *AGAIN, broadcast()], frames=[7], file=SECONDS)
case("MCG005", [*JOIN, *LEAVE, *WAIT[:2], broadcast()], [*LEAVE, *WAIT[:2], broadcast()], frames=[7], file=SECONDS)
# a virtual machine takes its GID along to another host, and joins there
case("MCG005", [*JOIN, *LEAVE, *WAIT[:2], broadcast()], [*JOIN, *LEAVE, *WAIT[:2], broadcast(9, 5)], frames=[7], file=SECONDS,
     severity="warning")  # fmt: skip
# the group was made anew with another LID, which it knows from a join that the capture lacks
case("MCG005", [*JOIN, *LEAVE, *WAIT[:2], broadcast()], [*JOIN, *LEAVE, *WAIT[:2], broadcast(mlid=0xC005)], frames=[7], file=SECONDS)
REFUSED = [gsi_member(SET), gsi_member(GET_RESP, status=0x0200)]
case("MCG005", [*REFUSED, *WAIT[:2], broadcast()], [*REFUSED, *AGAIN, broadcast()], frames=[5], also=["SA003"], twin_also=["SA003"],
     file=SECONDS, severity="info")  # fmt: skip
# it asked again, and the answer is missing; the SA was only busy
case("MCG005", [*JOIN, *LEAVE, *WAIT[:2], broadcast()], [*JOIN, *LEAVE, AGAIN[0], *WAIT[:2], broadcast()], frames=[7],
     twin_also=["TXN001"], file=SECONDS)  # fmt: skip
case("MCG005", [*REFUSED, *WAIT[:2], broadcast()], [REFUSED[0], gsi_member(GET_RESP, status=1), *WAIT[:2], broadcast()], frames=[5],
     also=["SA003"], file=SECONDS)  # fmt: skip
# it was a send-only member before, which the answer to its join shows, and stays one
BOTH = [JOIN[0], gsi_member(GET_RESP, join_state=5)]
case("MCG005", [*JOIN, *LEAVE, *WAIT[:2], broadcast()], [*BOTH, *LEAVE, *WAIT[:2], broadcast()], frames=[7], file=SECONDS)
# the SA calls it a member later
QUERY = [gsi_member(GET, transaction=9), gsi_member(GET_RESP, transaction=9)]
OF_6 = [gsi_member(GET, transaction=9, lid=6), gsi_member(GET_RESP, transaction=9, lid=6)]
for before in ([*JOIN, *LEAVE], REFUSED):
    also: list[str] = ["SA003"] if before is REFUSED else []
    case("MCG005", [*before, *OF_6, *WAIT[:2], broadcast()], [*before, *QUERY, *WAIT[:2], broadcast()], frames=[len(before) + 5],
         also=also, twin_also=also, file=SECONDS)  # fmt: skip
# it asked whether it is a member, and the answer is missing
case("MCG005", [*JOIN, *LEAVE, *WAIT[:2], broadcast()], [*JOIN, *LEAVE, QUERY[0], *WAIT[:2], broadcast()], frames=[7],
     twin_also=["TXN001"], file=SECONDS)  # fmt: skip
# another port asked for it
BY_ANOTHER = [sa(method, 0x38, REFUSED[0][-206:-6], mask=0x10003, status=status, transaction=7, **ends)
              for method, status, ends in ((SET, 0, {"slid": 9}), (GET_RESP, 0x0200, {"dlid": 9}))]  # fmt: skip
case("MCG005", [*REFUSED, *WAIT[:2], broadcast()], [*BY_ANOTHER, *WAIT[:2], broadcast()], frames=[5], also=["SA003"], twin_also=["SA003"],
     file=SECONDS)  # fmt: skip
# it joined again just before, or just after: the capture may have changed the order; or that is cut off
PAUSE = [ud(b"idle", dest_qp=0x40, src_qp=0x41, q_key=0x1111, bth={"psn": i}) for i in range(1200)]
BOTH_AT_ONCE = [AGAIN[0], LEAVE[0], AGAIN[1], LEAVE[1]]
case("MCG005", [*JOIN, *AGAIN, *PAUSE[:20], *LEAVE, *PAUSE, broadcast()], [*JOIN, *BOTH_AT_ONCE, *PAUSE, broadcast()], frames=[1227])
SMALL = [answer(2, NODE_INFO, switch(2)), answer(2, SWITCH_INFO, switch_info(multicast_fdb_cap=1))]
SWEPT = [*sweep(), SMALL[1]]
SECOND: dict[str, Any] = {"mgid": MGID[:-1] + b"\x02", "mlid": 0xC002}
packet("MCG006", member(**SECOND), member(mgid=MGID[:-1] + b"\x02"), [*SWEPT, member()], severity="warning")
# the subnet may have other switches; a group without members, or with senders alone, needs no entry; each of two subnets has one group
packet("MCG006", member(**SECOND), member(mgid=MGID[:-1] + b"\x02"), [*SMALL, member()], severity="info")
for odd in ({"join_state": 0, "port_gid": bytes(16)}, {"join_state": 4}, {"by": 9}):
    packet("MCG006", member(**{**SECOND, **odd}), member(mgid=MGID[:-1] + b"\x02"), [*SWEPT, member()], severity="info")
# a group is deleted at the same time
DELETED = sa(0x06, 2, notice(67, details(TrapGID, gidaddr=MGID), type=3, producer_type=4), slid=1, dlid=5)
case("MCG006", [*SWEPT, member(), member(**SECOND), DELETED], [*SWEPT, member()], severity="info", frames=[12])
# another switch: this one may be on the tree of few groups, unless both have a member at its ports, or an entry in its table
TWO = [member(join_state=1), member(mgid=MGID[:-1] + b"\x02", mlid=0xC002, join_state=1)]
ONE = [TWO[0], member(mgid=MGID[:-1] + b"\x02", join_state=1)]
ELSEWHERE = answer(3, NODE_INFO, switch(3))
case("MCG006", [*SMALL, ELSEWHERE, *TWO], [*SMALL, ELSEWHERE, *ONE], frames=[5], severity="info")
CABLED = [*sweep(), answer(2, SWITCH_INFO, switch_info(multicast_fdb_cap=1)), ELSEWHERE]
NEAR = [member(port_gid=gid_of(5), mgid=MGID[:-1] + bytes([i]), mlid=0xC000 + i, join_state=1) for i in (1, 2)]
case("MCG006", [*CABLED, *NEAR], [*CABLED, NEAR[0]], frames=[len(CABLED) + 2], severity="warning")
FAR = [member(port_gid=gid_of(7), mgid=MGID[:-1] + bytes([i]), mlid=0xC000 + i, join_state=1) for i in (1, 2)]
case("MCG006", [*CABLED, *FAR], [*CABLED, FAR[0]], frames=[len(CABLED) + 2], severity="info")
FORWARDS = answer(2, 0x1B, b"\0\0\0\2\0\2" + bytes(58))
case("MCG006", [*SMALL, ELSEWHERE, FORWARDS, *FAR], [*SMALL, ELSEWHERE, FORWARDS, FAR[0]], frames=[6], severity="warning")
