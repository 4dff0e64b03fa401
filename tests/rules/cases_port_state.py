"""Proofs of the rules about ports, nodes and tables that contradict what was told before."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.sm import NodeDescription, SMInfo
from ibdissect.wire.sm_tables import GUIDInfo
from tests.craft import build, smp
from tests.fabric.made import ANSWER, GUID, SET, answer, ask, node, p_keys, port_info, switch, switch_info
from tests.rules.cases import case

DESCRIPTION, NODE_INFO, SWITCH_INFO, GUID_INFO, PORT_INFO, P_KEY_TABLE = 0x10, 0x11, 0x12, 0x14, 0x15, 0x16
SL_TO_VL, VL_ARB, LINEAR, MULTICAST, SM_INFO, VENDOR_DIAG, LED = 0x17, 0x18, 0x19, 0x1B, 0x20, 0x30, 0x31
CA, SWITCH = answer(5, NODE_INFO, node(5)), answer(5, NODE_INFO, switch(5, local_port_num=3))
INFO = answer(5, SWITCH_INFO, switch_info())
PORT = answer(5, PORT_INFO, port_info(5))
SWITCH_PORT = answer(5, PORT_INFO, port_info(5), modifier=1)


def told(code: str, attribute: int, before: bytes, bad: bytes, good: bytes, **kw: Any) -> None:
    """Two answers of a port; the second is at fault, or not."""
    first = answer(5, attribute, before)
    case(code, [CA, first, answer(5, attribute, bad)], [CA, first, answer(5, attribute, good)], frames=[3], **kw)


def written(code: str, known: list[bytes], attribute: int, bad: bytes, good: bytes, *, modifier: int = 0, **kw: Any) -> None:
    """A Set that does not fit what is known, and one that does."""
    case(code, [*known, ask(5, attribute, method=SET, modifier=modifier, body=bad)],
         [*known, ask(5, attribute, method=SET, modifier=modifier, body=good)], frames=[len(known) + 1], **kw)  # fmt: skip


def set_port(lid: int = 5, **values: Any) -> bytes:
    return port_info(lid, port_state=0, port_physical_state=0, **values)


for code, name in (("PKY015", "p_key_violations"), ("QKY005", "q_key_violations"), ("MKY012", "m_key_violations")):
    told(code, PORT_INFO, port_info(5, **{name: 2}), port_info(5, **{name: 5}), port_info(5, **{name: 0}))
told("SEM056", PORT_INFO, port_info(5), port_info(5, capability_mask=0x02010068), port_info(5, capability_mask=0x0201004A))
told("SEM060", DESCRIPTION, build(NodeDescription, node_string="one"), build(NodeDescription, node_string="two"),
     build(NodeDescription, node_string="one"))  # fmt: skip
written("SEM001", [SWITCH, INFO], PORT_INFO, set_port(lmc=1, lid=6), set_port(lid=6))
case("SEM001", [SWITCH, INFO, ask(5, PORT_INFO, method=SET, body=set_port(lmc=1, lid=6))],
     [SWITCH, answer(5, SWITCH_INFO, switch_info(enhanced_port_zero=1)), ask(5, PORT_INFO, method=SET, body=set_port(lmc=1, lid=6))],
     frames=[3])  # fmt: skip
written("SEM008", [CA, PORT], PORT_INFO, set_port(link_width_enabled=8), set_port(link_width_enabled=2))
written("SEM008", [CA, PORT], PORT_INFO, set_port(link_width_enabled=8), set_port(link_width_enabled=255))
COUNTED = answer(5, PORT_INFO, port_info(5, p_key_violations=3))
written("SEM014", [CA, COUNTED], PORT_INFO, set_port(p_key_violations=7), set_port(p_key_violations=3))
case("SEM016", [CA, answer(5, PORT_INFO, port_info(5, guid_cap=0))], [SWITCH, answer(5, PORT_INFO, port_info(5, guid_cap=0))], frames=[2])
case("SEM038", [SWITCH, answer(5, PORT_INFO, port_info(5, local_port_num=40))], [SWITCH, answer(5, PORT_INFO, port_info(5))], frames=[2])
NO_ENFORCEMENT = answer(5, SWITCH_INFO, switch_info(partition_enforcement_cap=0))
ENFORCE = ask(5, PORT_INFO, method=SET, modifier=1, body=set_port(partition_enforcement_inbound=1))
case("PKY016", [SWITCH, NO_ENFORCEMENT, ENFORCE], [SWITCH, INFO, ENFORCE], frames=[3])
BLINK = ask(5, LED, method=SET, body=b"\x80")
case("SEM055", [CA, PORT, BLINK], [CA, answer(5, PORT_INFO, port_info(5, capability_mask=0x02010248)), BLINK], frames=[3])
case("LNK025", answer(5, PORT_INFO, port_info(5, lmc=1)), answer(6, PORT_INFO, port_info(6, lmc=1)))
case("LNK025", answer(6, PORT_INFO, port_info(6, lmc=2)), answer(4, PORT_INFO, port_info(4, lmc=2)))
case("SEM058", answer(5, PORT_INFO, port_info(5, diag_code=4)), answer(5, PORT_INFO, port_info(5, diag_code=2)))


def sweep(lid: int) -> list[bytes]:
    """Two adapters at a switch, both active; the second has a LID of choice."""

    def back(attribute: int, body: bytes, path: list[int], **kw: Any) -> bytes:
        return smp(ANSWER, attribute, body, path=path, **kw)

    return [
        back(NODE_INFO, node(1), []), back(PORT_INFO, port_info(1), []), back(NODE_INFO, switch(2, local_port_num=3), [1]),
        back(NODE_INFO, node(5), [1, 4]), back(PORT_INFO, port_info(5), [1, 4]),
        back(NODE_INFO, node(6), [1, 5]), back(PORT_INFO, port_info(lid), [1, 5]),
    ]  # fmt: skip


case("LNK024", sweep(5), sweep(6), frames=[7])

# nodes
told("SEM034", NODE_INFO, node(5), node(5, device_id=0x1004), node(5, local_port_num=1))
case("SEM034", [CA, answer(5, NODE_INFO, node(5, vendor_id=0x2D0, local_port_num=2, port_guid=9))],
     [CA, answer(5, NODE_INFO, node(5, local_port_num=2, port_guid=9))], frames=[2])  # fmt: skip
case("SEM035", [CA, answer(6, NODE_INFO, node(6, port_guid=GUID + 0x51))], [CA, answer(6, NODE_INFO, node(6))], frames=[2])


def manager(guid: int, state: int, *, priority: int = 1, count: int = 5) -> bytes:
    return build(SMInfo, 64, guid=guid, sm_state=state, priority=priority, act_count=count)


def managers(code: str, bad: list[tuple[Any, ...]], good: list[tuple[Any, ...]], frames: list[int]) -> None:
    def seen(answers: list[tuple[Any, ...]]) -> list[bytes]:
        return [CA, *(answer(5, SM_INFO, manager(*one[:2], **(one[2] if len(one) > 2 else {}))) for one in answers)]

    case(code, seen(bad), seen(good), frames=frames)


managers("SEM041", [(7, 2), (7, 2, {"priority": 9})], [(7, 2), (8, 2, {"priority": 9})], [3])
managers("SEM046", [(7, 3, {"count": 9}), (7, 3, {"count": 2})], [(7, 3, {"count": 2}), (7, 3, {"count": 9})], [3])
managers("SEM044", [(7, 3), (8, 3), (7, 3, {"count": 6})], [(7, 3), (8, 3), (7, 2, {"count": 6})], [4])
case("SEM030", [CA, answer(5, VENDOR_DIAG, b"\0\7", modifier=7)], [CA, answer(5, VENDOR_DIAG, b"\0\7", modifier=3)], frames=[2])
case("SEM030", [CA, answer(5, VENDOR_DIAG, b"\0\7", modifier=3), answer(5, VENDOR_DIAG, b"\0\3", modifier=7)],
     [CA, answer(5, VENDOR_DIAG, b"\0\7", modifier=3), answer(5, VENDOR_DIAG, b"\0\0", modifier=7)], frames=[3])  # fmt: skip

# tables
written("SEM027", [SWITCH, INFO], LINEAR, bytes([255, 3, 99]).ljust(64, b"\xff"), bytes([255, 3, 8]).ljust(64, b"\xff"))
written("SEM029", [SWITCH, INFO], MULTICAST, b"\x80\0", b"\x01\0")
written("SEM029", [SWITCH, INFO], MULTICAST, b"\x02\0", b"\0\1")


def switched(code: str, bad: dict[str, int], good: dict[str, int]) -> None:
    written(code, [SWITCH, INFO], SWITCH_INFO, switch_info(**bad), switch_info(**good))


switched("SEM049", {"multicast_fdb_top": 0xD000}, {"multicast_fdb_top": 0xC3FF})
switched("SEM050", {"linear_fdb_top": 1024}, {"linear_fdb_top": 1023})
switched("SEM053", {"default_port": 99}, {"default_port": 255})
FEW = answer(5, PORT_INFO, port_info(5, operational_vls=2))
written("SEM026", [CA, FEW], SL_TO_VL, b"\x01\x19", b"\x01\x1f")
written("SEM024", [CA, PORT], VL_ARB, bytes(40) + b"\0\1", bytes(14) + b"\0\1", modifier=0x10000)
written("SEM025", [CA, PORT], VL_ARB, bytes(64), b"\0\1", modifier=0x10000)
written("SEM047", [CA], GUID_INFO, build(GUIDInfo, guid_block=[7]), build(GUIDInfo, guid_block=[GUID + 0x51]))
case("PKY011", [CA, ask(5, P_KEY_TABLE, modifier=1)], [CA, ask(5, P_KEY_TABLE)], frames=[2])
KEYS = answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x1234))
written("PKY012", [CA, KEYS], P_KEY_TABLE, p_keys(0xFFFF, 0x9234), p_keys(0xFFFF, 0x1234, 0x9235))
