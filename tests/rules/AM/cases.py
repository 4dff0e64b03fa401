"""Proofs of the rules about attribute modifiers of management datagrams: captures that trigger them, and near-miss twins that must
not."""

from __future__ import annotations

from typing import Any

from tests.craft import gmp, smp
from tests.rules.cases import case
from tests.subnet.made import SET, answer, ask, node, port_info, switch, switch_info

NODE_INFO, SWITCH_INFO, GUID_INFO, PORT_INFO, P_KEY_TABLE = 0x11, 0x12, 0x14, 0x15, 0x16
SL_TO_VL, VL_ARB, LINEAR, RANDOM, MULTICAST, VENDOR_DIAG = 0x17, 0x18, 0x19, 0x1A, 0x1B, 0x30
CA = answer(5, NODE_INFO, node(5, num_ports=2))
SWITCH = answer(5, NODE_INFO, switch(5, local_port_num=3))
INFO = answer(5, SWITCH_INFO, switch_info())
PORT = answer(5, PORT_INFO, port_info(5))


def pair(code: str, known: list[bytes], attribute: int, bad: int, good: int, **kw: Any) -> None:
    """The same request with a modifier that is wrong there, and with one that is not."""
    case(code, [*known, ask(5, attribute, modifier=bad)], [*known, ask(5, attribute, modifier=good)], frames=[len(known) + 1], **kw)


def nodes(code: str, attribute: int, modifier: int, bad: list[bytes], good: list[bytes], **kw: Any) -> None:
    """The same request to two kinds of node."""
    request = ask(5, attribute, modifier=modifier)
    case(code, [*bad, request], [*good, request], frames=[len(bad) + 1], **kw)


nodes("AM004", SWITCH_INFO, 0, [CA], [SWITCH])
pair("AM005", [], GUID_INFO, 40, 31)
pair("AM005", [CA, PORT], GUID_INFO, 1, 0)
pair("AM007", [SWITCH], PORT_INFO, 9, 8)
pair("AM007", [CA], PORT_INFO, 3, 2)
SET_PORT: dict[str, Any] = {"method": SET, "body": port_info(5, port_state=0, port_physical_state=0)}
FALSE_PORT = answer(5, NODE_INFO, node(5, local_port_num=200))
case("AM008", [CA, ask(5, PORT_INFO, modifier=2, **SET_PORT)], [FALSE_PORT, ask(5, PORT_INFO, modifier=1, **SET_PORT)], frames=[2],
     twin_also=["SEM038"])  # fmt: skip
case("AM008", [CA, ask(5, PORT_INFO, modifier=2, **SET_PORT)], [CA, ask(5, PORT_INFO, modifier=1, **SET_PORT)], frames=[2])
nodes("AM011", P_KEY_TABLE, 0x10000, [CA], [SWITCH])
pair("AM012", [SWITCH, INFO], SL_TO_VL, 0x10000, 0x0101)
nodes("AM012", SL_TO_VL, 0x10000, [SWITCH, INFO],
      [SWITCH, answer(5, SWITCH_INFO, switch_info(optimized_sl_to_vl_mapping_programming=1))])  # fmt: skip
pair("AM012", [], SL_TO_VL, 0x40000, 0x30000)
nodes("AM013", SL_TO_VL, 0x0101, [CA], [SWITCH])
pair("AM015", [CA, PORT], VL_ARB, 0x00020000, 0x00010000)
nodes("AM015", VL_ARB, 0x00030000, [CA, answer(5, PORT_INFO, port_info(5, vl_arbitration_high_cap=0))], [CA, PORT])
pair("AM016", [SWITCH], VL_ARB, 0x00010100, 0x00010001)
pair("AM017", [SWITCH, INFO], LINEAR, 16, 15)
nodes("AM017", LINEAR, 768, [SWITCH], [CA])  # no switch has LIDs from 0xc000 on; at an adapter it is AM018
pair("AM017", [SWITCH], LINEAR, 768, 767)
LARGER = answer(5, SWITCH_INFO, switch_info(linear_fdb_cap=2048, multicast_fdb_cap=2048))
BEYOND = ask(5, LINEAR, modifier=16)
case("AM017", [SWITCH, INFO, BEYOND, LARGER], [SWITCH, LARGER, BEYOND, INFO], frames=[3])  # the size at that time counts
nodes("AM018", LINEAR, 0, [CA], [SWITCH])
nodes("AM018", MULTICAST, 0, [CA], [SWITCH])
RANDOM_ONLY = answer(5, SWITCH_INFO, switch_info(linear_fdb_cap=0, linear_fdb_top=0, random_fdb_cap=512))
nodes("AM019", RANDOM, 0, [SWITCH, INFO], [SWITCH, RANDOM_ONLY])
nodes("AM019", LINEAR, 0, [SWITCH, RANDOM_ONLY], [SWITCH, INFO])
pair("AM021", [SWITCH, INFO], MULTICAST, 32, 31)
BEYOND = ask(5, MULTICAST, modifier=32)
case("AM021", [SWITCH, INFO, BEYOND, LARGER], [SWITCH, LARGER, BEYOND, INFO], frames=[3])
pair("AM022", [SWITCH], MULTICAST, 0x10000000, 0)
pair("AM022", [answer(5, NODE_INFO, switch(5, 16, local_port_num=3))], MULTICAST, 0x20000000, 0x10000000)
pair("AM025", [], VENDOR_DIAG, 0x10000, 0)
PAGE = answer(5, VENDOR_DIAG, bytes([0, 7]) + bytes(62))
pair("AM025", [CA, PORT, PAGE], VENDOR_DIAG, 8, 7)
case("AM031", gmp(4, 1, 0x12, header={"attribute_modifier": 1}), gmp(4, 1, 0x12))
case("AM001", smp(1, 0x10, modifier=1), smp(1, 0x10, modifier=0))
# An agent that refuses the modifier is right; an Omni-Path modifier has other rules.
case("AM001", smp(0x81, 0x10, modifier=1), smp(0x81, 0x10, modifier=1, header={"status": 0x1C}))
case("AM002", smp(1, 0x11, modifier=3), smp(1, 0x11))
case("AM003", smp(1, 0x12, modifier=2), smp(1, 0x12))
case("AM006", smp(1, 0x15, modifier=0x100), smp(1, 0x15, modifier=0xFF))
case("AM009", [smp(1, 0x15, modifier=0x80000001), smp(1, 0x15, modifier=0x80000002)], smp(1, 0x15, modifier=1), frames=[1])
case("AM010", smp(1, 0x16, modifier=2000), smp(1, 0x16, modifier=1023))
case("AM010", smp(1, 0x16, modifier=2047), smp(1, 0x16, modifier=1023), severity="info")
case("AM010", smp(1, 0x16, modifier=2048), smp(1, 0x16, modifier=1023), severity="error")
HUGE = answer(5, NODE_INFO, node(5, partition_cap=65535))
case("AM010", [HUGE, smp(1, 0x16, modifier=2048)], [HUGE, smp(1, 0x16, modifier=2047)], frames=[2])
case("AM014", smp(1, 0x18, modifier=0x00050001), smp(1, 0x18, modifier=0x00040001))
case("AM014", smp(1, 0x18, modifier=1), smp(1, 0x18, modifier=0x00010001))
case("AM020", smp(1, 0x1B, modifier=0x200), smp(1, 0x1B, modifier=0xF00001FF))
case("AM023", smp(2, 0x20, modifier=7), smp(2, 0x20, bytes(20) + b"\x03", modifier=5))
case("AM023", smp(2, 0x20, modifier=0), smp(1, 0x20, modifier=0))
case("AM024", smp(1, 0x20, modifier=2), smp(2, 0x20, bytes(20) + b"\x02", modifier=2))
case("AM026", smp(2, 0x31, modifier=1), smp(2, 0x31))
case("AM027", smp(5, 0x02, modifier=5), smp(7, 0x02, modifier=5))
case("AM028", smp(1, 0xFF10, modifier=0x10000), smp(1, 0xFF10, modifier=0xFFFF))
case("AM030", gmp(6, 1, 0x11, header={"attribute_modifier": 0}), gmp(6, 1, 0x11, header={"attribute_modifier": 255}))
case("AM032", gmp(0x21, 2, 0x15, header={"attribute_modifier": 99}), gmp(0x21, 2, 0x15, header={"attribute_modifier": 7}))
case("AM033", smp(1, 0x33, modifier=0x200), smp(1, 0x33, modifier=0xFF))
# attributes of other classes without a modifier
case("AM034", gmp(6, 1, 0x10, header={"attribute_modifier": 1}), gmp(6, 1, 0x11, header={"attribute_modifier": 1}))
case("AM034", gmp(4, 1, 1, header={"attribute_modifier": 1}), gmp(4, 1, 1))
case("AM034", gmp(7, 3, 0x10, header={"attribute_modifier": 1}), gmp(7, 3, 0x10))
case("AM034", gmp(3, 1, 0x11, header={"attribute_modifier": 1}), gmp(3, 1, 0x12, header={"attribute_modifier": 1 << 31}))
# ports that the switch does not have
pair("AM012", [SWITCH], SL_TO_VL, 0x0901, 0x0801)
pair("AM012", [SWITCH], SL_TO_VL, 0x0109, 0x0108)
# smpquery asks for port 0 where nobody names a port; who writes its table means another one
pair("AM012", [SWITCH, INFO], SL_TO_VL, 0x0100, 0x0101, severity="info")
case("AM012", [SWITCH, INFO, ask(5, SL_TO_VL, method=SET, modifier=0x0100)], [SWITCH, INFO, ask(5, SL_TO_VL, method=SET, modifier=0x0101)],
     frames=[3], severity="error")  # fmt: skip
pair("AM016", [SWITCH], VL_ARB, 0x00010009, 0x00010008)
pair("AM016", [SWITCH, INFO], VL_ARB, 0x00010000, 0x00010001)
NO_MULTICAST, SOME_MULTICAST = (answer(5, SWITCH_INFO, switch_info(multicast_fdb_cap=cap)) for cap in (0, 1))
nodes("AM021", MULTICAST, 0, [SWITCH, NO_MULTICAST], [SWITCH, SOME_MULTICAST])
RANDOM_64 = answer(5, SWITCH_INFO, switch_info(linear_fdb_cap=0, linear_fdb_top=0, random_fdb_cap=64))
pair("AM035", [SWITCH, RANDOM_64], RANDOM, 4, 3)
case("AM036", gmp(6, 1, 0x12, header={"attribute_modifier": 0x10203}), gmp(6, 1, 0x12, header={"attribute_modifier": 0x10303}))
# its sender may know better by now: it asked again, and the capture does not show what it was told
AGAIN = {"header": {"transaction_id": 77}}
for code, known, attribute, modifier, asked in (
    ("AM004", [CA], SWITCH_INFO, 0, NODE_INFO), ("AM005", [CA, PORT], GUID_INFO, 1, PORT_INFO),
    ("AM007", [SWITCH], PORT_INFO, 9, NODE_INFO), ("AM015", [CA, PORT], VL_ARB, 0x00020000, PORT_INFO),
    ("AM017", [SWITCH, INFO], LINEAR, 16, SWITCH_INFO), ("AM025", [CA, PORT, PAGE], VENDOR_DIAG, 8, VENDOR_DIAG),
):  # fmt: skip
    doubtful = [*known, ask(5, asked, **AGAIN), ask(5, attribute, modifier=modifier)]
    case(code, doubtful, [*known, ask(5, asked, **AGAIN)], frames=[len(known) + 2], severity="info")
case("AM008", [CA, ask(5, NODE_INFO, **AGAIN), ask(5, PORT_INFO, modifier=2, **SET_PORT)], [CA, ask(5, NODE_INFO, **AGAIN)], frames=[3],
     severity="info")  # fmt: skip
