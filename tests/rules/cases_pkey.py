"""Proofs of the P_Key rules that compare packets with learnt tables and with each other."""

from __future__ import annotations

from typing import Any

from tests.craft import gmp, native, rc, smp, ud
from tests.fabric.made import ANSWER, SET, answer, ask, node, p_keys, port_info, switch, switch_info
from tests.rules.cases import case

P_KEY_TABLE, NODE_INFO = 0x16, 0x11
LIMITED = {"p_key": 0x7FFF}
TABLE = [answer(5, NODE_INFO, node(5)), answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x1234))]
BOTH = [answer(5, NODE_INFO, node(5)), answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x1234, 0x9234))]
TO_5: dict[str, Any] = {"slid": 3, "dlid": 5}


def send(p_key: int, *, qp: int = 0x12, slid: int = 3, dlid: int = 5, psn: int = 1, **kw: Any) -> bytes:
    """An RC SEND Only."""
    return native(0x04, bytes(8), slid=slid, dlid=dlid, bth={"p_key": p_key, "destqp": qp, "psn": psn}, **kw)


case("PKY001", [*TABLE, send(0x1234), send(0x1234, psn=2)], [*TABLE, send(0x9234)], frames=[3])
case("PKY001", [*TABLE, send(0x1234)], [*BOTH, send(0x1234)], frames=[3])
# GMPs meet any entry of the table; an answer repeats the P_Key of its request
DEFAULT = [answer(5, NODE_INFO, node(5)), answer(5, P_KEY_TABLE, p_keys(0x7FFF))]
case(
    "PKY001",
    [*DEFAULT, gmp(4, 1, 0x12, bth=LIMITED, **TO_5)],
    [*DEFAULT, gmp(4, 0x81, 0x12, bth=LIMITED, **TO_5)],
    frames=[3],
    also=["PM001"],
)
case("PKY003", [*TABLE, send(0x9999)], [*TABLE, send(0x9234)], frames=[3])
# a second block, not seen, may hold the partition
case("PKY003", [*TABLE, send(0x9999)], [answer(5, NODE_INFO, node(5, partition_cap=64)), TABLE[1], send(0x9999)], frames=[3])
# judged by what held when it was sent: in front of the first lesson nothing is known, and a Set under way makes the table uncertain
SETS = ask(5, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF, 0x9999))
case("PKY003", [*TABLE, send(0x9999), SETS, answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x9999)), send(0x9999, psn=2)],
     [send(0x9999), *TABLE, SETS, send(0x9999, psn=2), answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x9999)), send(0x9999, psn=3)],
     frames=[3])  # fmt: skip

TALK = {"p_key": 0x0123, "destqp": 0x40}
BACK = {"p_key": 0x0123, "destqp": 0x50}
ACK = rc(0x11, slid=5, dlid=3, bth=BACK)
FULL_ACK = rc(0x11, slid=5, dlid=3, bth={**BACK, "p_key": 0x8123})
case("PKY021", [native(0x04, bytes(8), bth=TALK, **TO_5), ACK], [native(0x04, bytes(8), bth=TALK, **TO_5), FULL_ACK], frames=[2])
# with a second QP between the two ports, which directions belong together is not known
case("PKY021", [native(0x04, bytes(8), bth=TALK, **TO_5), ACK],
     [native(0x04, bytes(8), bth=TALK, **TO_5), ACK, native(0x04, bytes(8), bth={"destqp": 0x41}, **TO_5)], frames=[2])  # fmt: skip
# datagrams carry both QPs
case("PKY021",
     [ud(bytes(8), dest_qp=0x40, src_qp=0x50, q_key=7, bth={"p_key": 0x123}, **TO_5),
      ud(bytes(8), dest_qp=0x50, src_qp=0x40, q_key=7, bth={"p_key": 0x123}, slid=5, dlid=3)],
     [ud(bytes(8), dest_qp=0x40, src_qp=0x50, q_key=7, bth={"p_key": 0x123}, **TO_5),
      ud(bytes(8), dest_qp=0x51, src_qp=0x40, q_key=7, bth={"p_key": 0x123}, slid=5, dlid=3)], frames=[2])  # fmt: skip


# a switch port that checks P_Keys of what goes out to a host; the host's own table was never shown
def behind_a_switch(outbound: int, *keys: int, inbound: int = 0) -> list[bytes]:
    """LID 3 at port 1 and LID 5 at port 2 of a switch, seen from LID 3; `keys` are the table of port 2."""
    checks = port_info(0, local_port_num=1, partition_enforcement_outbound=outbound, partition_enforcement_inbound=inbound)
    shown = [
        ([], NODE_INFO, node(3), 0), ([1], NODE_INFO, switch(9), 0), ([1], 0x12, switch_info(inbound_enforcement_cap=1,
         outbound_enforcement_cap=1), 0), ([1, 2], NODE_INFO, node(5), 0), ([1, 2], 0x15, port_info(5), 1), ([1], 0x15, checks, 2),
        ([1], P_KEY_TABLE, p_keys(*keys), 2 << 16),
    ]  # fmt: skip
    return [smp(ANSWER, attribute, body, path=path, modifier=modifier) for path, attribute, body, modifier in shown]


case("PKY003", [*behind_a_switch(1, 0xFFFF), send(0x9999)], [*behind_a_switch(0, 0xFFFF), send(0x9999)], frames=[8])
case("PKY003", [*behind_a_switch(1, 0xFFFF), send(0x9999)], [*behind_a_switch(1, 0x1999), send(0x9999)], frames=[8])
OUT = send(0x9999, slid=5, dlid=3)
case("PKY004", [*behind_a_switch(0, 0xFFFF, inbound=1), OUT], [*behind_a_switch(1, 0xFFFF), OUT], frames=[8])
# virtual ports share the LID and not the table
VIRTUAL = [*TABLE, answer(5, 0x15, port_info(5, capability_mask2=4))]
GLOBAL = send(0x9999, slid=5, dlid=3, grh={"sgid": bytes([0xFE, 0x80, *bytes(13), 7]), "dgid": bytes([0xFE, 0x80, *bytes(13), 8])})
case("PKY004", [*TABLE, answer(5, 0x15, port_info(5)), GLOBAL], [*VIRTUAL, GLOBAL], frames=[4])
