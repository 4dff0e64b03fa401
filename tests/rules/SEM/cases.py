"""Proofs of the rules about what subnet management attributes say: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

from ibdissect.wire.mad import RMPP
from ibdissect.wire.sa import SAFormat
from ibdissect.wire.sa_records import NodeRecord
from ibdissect.wire.sm import LedInfo, NodeDescription, NodeInfo, SMInfo, SwitchInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import GUIDInfo, VLArbitrationTable
from tests.craft import build, erf_pcap, gmp, put, smp, ud
from tests.craft import mad as datagram
from tests.rules.cases import case
from tests.rules.made.attributes import PORT, sm, written
from tests.rules.made.ports import CA, INFO, answer_case, set_port, write_case
from tests.rules.made.ports import SWITCH as PORT_SWITCH
from tests.subnet.made import GUID, SWITCH_GUID, answer, ask, port_info, switch_info
from tests.subnet.made import node as port_node
from tests.subnet.made import switch as port_switch

GET, SET, GET_RESP, GET_TABLE_RESP, DESCRIPTION, NODE_INFO = 1, 2, 0x81, 0x92, 0x10, 0x11
SWITCH_INFO, GUID_INFO, PORT_INFO, SL_TO_VL, VL_ARB, LINEAR = 0x12, 0x14, 0x15, 0x17, 0x18, 0x19
MULTICAST, SM_INFO, VENDOR_DIAG, LED = 0x1B, 0x20, 0x30, 0x31
NODE: dict[str, Any] = {
    "base_version": 1, "class_version": 1, "node_type": 1, "num_ports": 1, "system_image_guid": 0x0002C90300001003,
    "node_guid": 0x0002C90300001000, "port_guid": 0x0002C90300001001, "partition_cap": 32, "local_port_num": 1, "vendor_id": 0x0002C9,
}  # fmt: skip
SWITCH: dict[str, Any] = {"linear_fdb_cap": 0xC000, "multicast_fdb_cap": 0x4000, "life_time_value": 18, "partition_enforcement_cap": 32}


def port_answer(port: int = 1, **values: Any) -> bytes:
    """SubnGetResp(PortInfo)."""
    return smp(GET_RESP, 0x15, build(PortInfo, **{**PORT, **values}), modifier=port)


def node(**values: Any) -> bytes:
    """SubnGetResp(NodeInfo)."""
    return smp(GET_RESP, 0x11, build(NodeInfo, **{**NODE, **values}))


def node_record(segment: int, **values: Any) -> bytes:
    """SubnAdmGetTableResp(NodeRecord), one segment of it; the second begins with 24 bytes of the second record."""
    record = bytearray(build(NodeRecord, lid=5))
    record[4 : 4 + NodeInfo.size] = build(NodeInfo, **{**NODE, **values})
    data = bytearray(datagram(0x03, GET_TABLE_RESP, 0x11, b"\x09" * 24 * (segment - 1) + bytes(record), at=56))
    data[24:36] = build(RMPP, rmpp_version=1, rmpp_type=1, active=1, first=segment == 1, segment_number=segment, payload_length=440)
    put(data, SAFormat.attribute_offset, 14)
    return ud(bytes(data))


def switch(method: int, **values: Any) -> bytes:
    """SwitchInfo in an SMP."""
    return smp(method, 0x12, build(SwitchInfo, **{**SWITCH, **values}))


def arbitration(vl: int, weight: int, method: int = SET) -> bytes:
    """A low-priority table with one entry of its own."""
    return smp(method, 0x18, bytes([0, 4, 1, 4, vl, weight]) + bytes(VLArbitrationTable.size - 6), modifier=0x00010001)


def described(name: bytes, method: int = GET_RESP) -> bytes:
    """SubnGetResp(NodeDescription)."""
    return smp(method, 0x10, build(NodeDescription, node_string=name))


case("SEM003", written(neighbor_mtu=9, mtu_cap=9), written(neighbor_mtu=5))
case("SEM003", port_answer(neighbor_mtu=0), port_answer(0, neighbor_mtu=0))
case("SEM003", port_answer(mtu_cap=0), port_answer(mtu_cap=0, port_state=2))
case("SEM004", written(neighbor_mtu=5, mtu_cap=3), written(neighbor_mtu=3, mtu_cap=3))
case("SEM005", port_answer(vl_cap=9), port_answer(vl_cap=5))
case("SEM005", port_answer(vl_cap=0), port_answer(0, vl_cap=0))
case("SEM005", port_answer(vl_cap=0, port_state=2), port_answer(vl_cap=0, port_state=1))
case("SEM006", written(operational_vls=4, vl_cap=1), written(operational_vls=0, vl_cap=1))
case("SEM006", port_answer(operational_vls=0, port_state=4), port_answer(operational_vls=0, port_state=2))
case("SEM006", port_answer(operational_vls=0, port_state=4), port_answer(0, operational_vls=0, port_state=4))
case("SEM007", written(link_width_enabled=0x20), written(link_width_enabled=0xFF))
case("SEM007", port_answer(link_width_enabled=0x20), port_answer(0, link_width_enabled=0x20))
case("SEM009", written(link_speed_enabled=9), written(link_speed_enabled=15))
case("SEM009", port_answer(link_speed_enabled=9), port_answer(0, link_speed_enabled=9))
case("SEM010", written(link_speed_ext_enabled=16), written(link_speed_ext_enabled=30))
OFFERS = answer(5, PORT_INFO, port_info(5, link_speed_ext_supported=3))
write_case("SEM010", [CA, OFFERS], PORT_INFO, set_port(link_speed_ext_enabled=4), set_port(link_speed_ext_enabled=2))
# what the Set itself says of the supported speeds is nothing
write_case("SEM010", [CA, OFFERS], PORT_INFO, set_port(link_speed_ext_enabled=4), set_port(link_speed_ext_enabled=31))
EXT_4 = ask(5, PORT_INFO, method=SET, body=set_port(link_speed_ext_enabled=4))
NO_EXTENDED = answer(5, PORT_INFO, port_info(5, link_speed_ext_supported=0, link_speed_ext_enabled=0))
STALE = answer(5, PORT_INFO, port_info(5, link_speed_ext_supported=0, link_speed_ext_enabled=4))
write_case("SEM010", [CA, NO_EXTENDED], PORT_INFO, set_port(link_speed_ext_enabled=4), set_port(link_speed_ext_enabled=0))
case("SEM010", [CA, NO_EXTENDED, EXT_4], [CA, STALE, EXT_4], frames=[3])  # it repeats what the port itself says
case("SEM010", written(link_speed_ext_enabled=16), written(link_speed_ext_enabled=4))
XDR = answer(5, PORT_INFO, port_info(5, link_speed_ext_supported2=1))
write_case("SEM064", [CA, XDR], PORT_INFO, set_port(link_speed_ext_enabled2=2), set_port(link_speed_ext_enabled2=1))
write_case("SEM064", [CA, NO_EXTENDED], PORT_INFO, set_port(link_speed_ext_enabled2=1), set_port(link_speed_ext_enabled2=7))
NO_XDR, XDR_ON = (answer(5, PORT_INFO, port_info(5, link_speed_ext_enabled2=on)) for on in (0, 1))
SET_XDR = ask(5, PORT_INFO, method=SET, body=set_port(link_speed_ext_enabled2=1))
case("SEM064", [CA, NO_XDR, SET_XDR], [CA, XDR_ON, SET_XDR], frames=[3])  # it repeats what the port itself says
case("SEM011", written(port_state=2), written(port_state=4))
case("SEM011", written(port_state=4, port_physical_state=2), written(port_state=1, port_physical_state=2))
case("SEM013", written(link_down_default_state=5), written(link_down_default_state=1))
case("SEM013", port_answer(link_down_default_state=5), port_answer(0, link_down_default_state=5))
case("SEM015", port_answer(p_key_violations=0xFFFF), port_answer(p_key_violations=0xFFFE))
SHORT, LONG = answer(5, PORT_INFO, port_info(5)), answer(5, PORT_INFO, port_info(5, subnet_time_out=31))
RAISED = ask(5, PORT_INFO, method=SET, body=set_port(subnet_time_out=31))
case("SEM017", [CA, SHORT, RAISED], [CA, LONG, RAISED], frames=[3])  # it repeats what the port has
case("SEM017", [CA, SHORT, RAISED], [CA, RAISED, LONG], frames=[3])  # nobody knows what the port has
case("SEM018", written(hoq_life=20), written(hoq_life=19))
case("SEM019", switch(SET, life_time_value=31), switch(SET, life_time_value=19))
case("SEM020", written(reserved1=1), port_answer(reserved1=1), twin_also=["SEM068"])
case("SEM021", port_answer(master_sm_lid=0), port_answer(master_sm_lid=0, lid=0))
case("SEM023", arbitration(15, 32), arbitration(15, 0))
case("SEM032", node(node_type=9), node(node_type=3))
# not SEM034 or SEM035, too
WHOLE = answer(5, NODE_INFO, port_node(5))
for code, bad in (("SEM032", {"node_type": 9}), ("SEM033", {"class_version": 2}), ("SEM040", {"partition_cap": 0})):
    case(code, [WHOLE, answer(5, NODE_INFO, port_node(5, **bad))], [WHOLE], frames=[2])
case("SEM032", node_record(1, node_type=9), node_record(1))
case("SEM032", node_record(2, node_type=9), node_record(2))  # a later segment begins anywhere in a record, here in a description
case("SEM033", node(base_version=3), node())
case("SEM036", node(port_guid=0), node())
case("SEM039", node(num_ports=255), node(num_ports=254))
case("SEM040", node(partition_cap=0), node(partition_cap=1))
case("SEM042", sm(GET_RESP, sm_state=7), sm(GET, sm_state=7))
case("SEM045", sm(SET, 2, sm_state=3), sm(SET, 2, sm_state=2))
case("SEM045", sm(SET, 1, sm_state=2), sm(SET, 1, sm_state=3))
case("SEM051", switch(GET_RESP, random_fdb_cap=1024), switch(GET_RESP))
case("SEM051", switch(GET_RESP, linear_fdb_cap=0), switch(GET_RESP, linear_fdb_cap=0, random_fdb_cap=1024))
case("SEM054", smp(SET, 0x31, build(LedInfo, reserved1=1)), smp(SET, 0x31, build(LedInfo, led_mask=1)))
case("SEM057", port_answer(link_width_active=3), port_answer(link_width_active=16))
case("SEM057", port_answer(link_width_active=0), port_answer(link_width_active=0, port_state=1, port_physical_state=2))
case("SEM061", described(b"\xff\xfenode"), described("Knoten \u00e4".encode()))
case("SEM061", described(b"x" * 63 + b"\xc3"), described(b"x" * 64))
case("SEM062", port_answer(capability_mask=0x02510869), port_answer())
case("SEM063", port_answer(capability_mask=0x02510868 | 1 << 14),
     port_answer(capability_mask=0x02510868 | 1 << 14, link_speed_ext_supported=1))  # fmt: skip
PORT_PORT = answer(5, PORT_INFO, port_info(5))
answer_case("SEM056", PORT_INFO, port_info(5), port_info(5, capability_mask=0x02010068), port_info(5, capability_mask=0x0201004A))
answer_case("SEM060", DESCRIPTION, build(NodeDescription, node_string="one"), build(NodeDescription, node_string="two"),
     build(NodeDescription, node_string="one"))  # fmt: skip
write_case("SEM001", [PORT_SWITCH, INFO], PORT_INFO, set_port(lmc=1, lid=6), set_port(lid=6))
case("SEM001", [PORT_SWITCH, INFO, ask(5, PORT_INFO, method=SET, body=set_port(lmc=1, lid=6))],
     [PORT_SWITCH, answer(5, SWITCH_INFO, switch_info(enhanced_port_zero=1)), ask(5, PORT_INFO, method=SET, body=set_port(lmc=1, lid=6))],
     frames=[3])  # fmt: skip
write_case("SEM008", [CA, PORT_PORT], PORT_INFO, set_port(link_width_enabled=8), set_port(link_width_enabled=2))
write_case("SEM008", [CA, PORT_PORT], PORT_INFO, set_port(link_width_enabled=8), set_port(link_width_enabled=255))
# port 0 of a switch has no link
WIDER = ask(5, PORT_INFO, method=SET, body=set_port(link_width_enabled=8))
case("SEM008", [CA, PORT_PORT, WIDER], [PORT_SWITCH, PORT_PORT, WIDER], frames=[3])
COUNTED = answer(5, PORT_INFO, port_info(5, p_key_violations=3))
write_case("SEM014", [CA, COUNTED], PORT_INFO, set_port(p_key_violations=7), set_port(p_key_violations=3), severity="warning")
# asked again, perhaps it answered that it counts 7
AGAIN = ask(5, PORT_INFO, header={"transaction_id": 9})
write_case("SEM014", [CA, COUNTED, AGAIN], PORT_INFO, set_port(p_key_violations=7), set_port(p_key_violations=3), severity="info")
# the manager copies what it read before somebody cleared the counter
CLEARED = [ask(5, PORT_INFO, method=SET, body=set_port(p_key_violations=0)), answer(5, PORT_INFO, port_info(5))]
write_case("SEM014", [CA, COUNTED, *CLEARED], PORT_INFO, set_port(p_key_violations=7), set_port(p_key_violations=3), severity="warning")
# external ports of switches count no violations
EXTERNAL = [PORT_SWITCH, answer(5, PORT_INFO, port_info(0), modifier=3)]
FALSIFIED = (ask(5, PORT_INFO, method=SET, body=set_port(lid, p_key_violations=7), modifier=number) for lid, number in ((5, 0), (0, 3)))
case("SEM014", [PORT_SWITCH, answer(5, PORT_INFO, port_info(5)), next(FALSIFIED)], [*EXTERNAL, next(FALSIFIED)], frames=[3])
for code, counter in (("MKY012", "m_key_violations"), ("PKY015", "p_key_violations"), ("QKY005", "q_key_violations")):
    own, external = ([PORT_SWITCH, *(answer(5, PORT_INFO, port_info(lid, **{counter: count}), modifier=number) for count in (2, 5))]
                     for lid, number in ((5, 0), (0, 3)))  # fmt: skip
    case(code, own, external, frames=[3])
case(
    "SEM016",
    [CA, answer(5, PORT_INFO, port_info(5, guid_cap=0))],
    [PORT_SWITCH, answer(5, PORT_INFO, port_info(5, guid_cap=0))],
    frames=[2],
)
case(
    "SEM038",
    [PORT_SWITCH, answer(5, PORT_INFO, port_info(5, local_port_num=40))],
    [PORT_SWITCH, answer(5, PORT_INFO, port_info(5))],
    frames=[2],
)
# an adapter has no port 4: a switch answers at its place by now
SWITCH_BY_NOW = [CA, answer(5, PORT_INFO, port_info(5, guid_cap=0, local_port_num=17), modifier=4)]
case("SEM016", [CA, answer(5, PORT_INFO, port_info(5, guid_cap=0), modifier=1)], SWITCH_BY_NOW, frames=[2])
case("SEM038", [CA, answer(5, PORT_INFO, port_info(5, local_port_num=17))], SWITCH_BY_NOW, frames=[2])
case("SEM038", node(local_port_num=2), node(local_port_num=1))
case("SEM038", node_record(1, local_port_num=2), node_record(1, local_port_num=1))
BLINK = ask(5, LED, method=SET, body=b"\x80")
case("SEM055", [CA, PORT_PORT, BLINK], [CA, answer(5, PORT_INFO, port_info(5, capability_mask=0x02010248)), BLINK], frames=[3])
case("SEM058", answer(5, PORT_INFO, port_info(5, diag_code=4)), answer(5, PORT_INFO, port_info(5, diag_code=2)))
FAILED_READ = answer(5, PORT_INFO, port_info(5, diag_code=4), header={"status": 0x1C})  # what an error answer carries is undefined
case("SEM058", answer(5, PORT_INFO, port_info(5, diag_code=4)), FAILED_READ)
# nodes
answer_case("SEM034", NODE_INFO, port_node(5), port_node(5, device_id=0x1004), port_node(5, local_port_num=1))


def recorded(name: str, method: int = GET_RESP) -> bytes:
    """What the SA says of the node with LID 5, or somebody asks it for."""
    record = bytearray(build(NodeRecord, lid=5))
    record[4:108] = port_node(5)[: NodeInfo.size] + build(NodeDescription, node_string=name)
    return gmp(3, method, NODE_INFO, (0xFFFF).to_bytes(8, "big") + record, at=48, slid=1, dlid=6)


# what the subnet manager has read before counts, but not what it has not read again since
for code, said in (("SEM034", answer(5, NODE_INFO, port_node(5, device_id=0x1004))),
                   ("SEM060", answer(5, DESCRIPTION, build(NodeDescription, node_string="two")))):  # fmt: skip
    case(code, [recorded("one"), said], [said, recorded("one"), said], frames=[2], severity="info")
    case(code, [recorded("one"), said], [recorded("one", GET), said], frames=[2], severity="info")
case("SEM060", [recorded("one"), recorded("two"), answer(5, DESCRIPTION, build(NodeDescription, node_string="one"))],
     [recorded("one"), recorded(""), answer(5, DESCRIPTION, build(NodeDescription, node_string="one"))], frames=[3])  # fmt: skip
# that the port does not exist follows from the wrong NodeInfo
case("SEM034", [CA, answer(5, NODE_INFO, port_node(5, vendor_id=0x2D0, local_port_num=2, port_guid=9))],
     [CA, answer(5, NODE_INFO, port_node(5, local_port_num=2, port_guid=9))], frames=[2], twin_also=["SEM038"])  # fmt: skip
case("SEM035", [CA, answer(6, NODE_INFO, port_node(6, port_guid=GUID + 0x51))], [CA, answer(6, NODE_INFO, port_node(6))], frames=[2])
# the ports of one adapter may be the planes of one port
ONE_PORT, OTHER_PLANE, OTHER_PORT = (
    answer(lid, NODE_INFO, port_node(5, num_ports=2, local_port_num=number, port_guid=GUID + guid))
    for lid, number, guid in ((5, 1, 0x51), (6, 2, 0x51), (6, 2, 0x52))
)  # fmt: skip
case("SEM035", [ONE_PORT, OTHER_PLANE], [ONE_PORT, OTHER_PORT], frames=[2], severity="info")
case("SEM035", [ONE_PORT, answer(6, NODE_INFO, port_node(6, num_ports=2, local_port_num=2, port_guid=GUID + 0x51))], [ONE_PORT, OTHER_PORT],
     frames=[2], severity="error")  # fmt: skip
# one port behind two ports of a switch; a cable that was moved takes longer, and another switch may be another way to it
BEHIND_2, BEHIND_3, OTHER_WAY = (answer(5, NODE_INFO, port_node(5), path=path) for path in ([1, 2], [1, 3], [2, 3]))
case("SEM035", [BEHIND_2, BEHIND_3], [BEHIND_2, OTHER_WAY], frames=[2])
case("SEM035", [BEHIND_2, BEHIND_3, BEHIND_2], [BEHIND_2, BEHIND_2, BEHIND_2], frames=[2])
FAST, SLOW = (erf_pcap([BEHIND_2, BEHIND_3], step_ns=step) for step in (100_000_000, 100_001_000))
case("SEM035", FAST, SLOW, frames=[2], file=None)
TWIN = port_switch(6, port_guid=SWITCH_GUID + 0x50)
case("SEM035", [PORT_SWITCH, answer(5, NODE_INFO, port_switch(5, port_guid=SWITCH_GUID + 1, local_port_num=4))],
     [PORT_SWITCH, answer(5, NODE_INFO, port_switch(5, local_port_num=4))], frames=[2])  # fmt: skip
case("SEM035", [PORT_SWITCH, answer(6, NODE_INFO, TWIN)], [PORT_SWITCH, answer(5, NODE_INFO, port_switch(5, local_port_num=4))], frames=[2])


def manager(guid: int, state: int, *, priority: int = 1, count: int = 5) -> bytes:
    return build(SMInfo, 64, guid=guid, sm_state=state, priority=priority, act_count=count)


def managers(code: str, bad: list[tuple[Any, ...]], good: list[tuple[Any, ...]], frames: list[int]) -> None:
    def seen(answers: list[tuple[Any, ...]]) -> list[bytes]:
        return [CA, *(answer(5, SM_INFO, manager(*one[:2], **(one[2] if len(one) > 2 else {}))) for one in answers)]

    case(code, seen(bad), seen(good), frames=frames, also=["SEM069"], twin_also=["SEM069"])  # GUIDs that no port has


managers("SEM041", [(7, 2), (7, 2, {"priority": 9})], [(7, 2), (8, 2, {"priority": 9})], [3])
managers("SEM046", [(7, 3, {"count": 9}), (7, 3, {"count": 2})], [(7, 3, {"count": 2}), (7, 3, {"count": 9})], [3])
managers("SEM044", [(7, 3), (8, 3), (7, 3, {"count": 6})], [(7, 3), (8, 3), (7, 2, {"count": 6})], [4])
# the first was restarted in between; then both go on
RESTARTED = [(7, 3, 9), (8, 3, 0), (7, 3, 6), (8, 3, 1)]
SHOWN = [CA, *(answer(5, SM_INFO, manager(guid, state, count=count)) for guid, state, count in RESTARTED)]
case("SEM044", SHOWN, SHOWN[:-1], frames=[5], also=["SEM046", "SEM069"], twin_also=["SEM046", "SEM069"])
case("SEM030", [CA, answer(5, VENDOR_DIAG, b"\0\7", modifier=7)], [CA, answer(5, VENDOR_DIAG, b"\0\7", modifier=3)], frames=[2])
case("SEM030", [CA, answer(5, VENDOR_DIAG, b"\0\7", modifier=3), answer(5, VENDOR_DIAG, b"\0\3", modifier=7)],
     [CA, answer(5, VENDOR_DIAG, b"\0\7", modifier=3), answer(5, VENDOR_DIAG, b"\0\0", modifier=7)], frames=[3])  # fmt: skip
# a page whose NextIndex became 0 ends the chain
RING = [answer(5, VENDOR_DIAG, b"\0\7", modifier=3), answer(5, VENDOR_DIAG, b"\0\3", modifier=7)]
case("SEM030", [CA, *RING], [CA, RING[0], answer(5, VENDOR_DIAG, b"\0\0", modifier=3), RING[1]], frames=[3])
# new firmware has other pages
NEXT = ((1, 2), (2, 3), (3, 0), (1, 3), (3, 2), (2, 0))
PAGES = [answer(5, VENDOR_DIAG, bytes([0, following]), modifier=page) for page, following in NEXT]
case("SEM030", [CA, *PAGES[:2], answer(5, VENDOR_DIAG, b"\0\1", modifier=3)], [CA, *PAGES], frames=[4])
# port 0 of a switch has no link, an external port no capabilities
PORT_0 = [PORT_SWITCH, answer(5, PORT_INFO, port_info(5, neighbor_mtu=9, vl_cap=9, link_width_active=9))]
PORT_3 = [PORT_SWITCH, answer(5, PORT_INFO, port_info(0, neighbor_mtu=9, vl_cap=9, link_width_active=9), modifier=3)]
for code in ("SEM003", "SEM005", "SEM057"):
    case(code, PORT_3, PORT_0, frames=[2], also={"SEM003", "SEM005", "SEM057"} - {code})
CAPABLE_0, CAPABLE_3 = ([PORT_SWITCH, answer(5, PORT_INFO, port_info(lid, capability_mask=1), modifier=n)] for n, lid in ((0, 5), (3, 0)))
case("SEM062", CAPABLE_0, CAPABLE_3, frames=[2])
# what the port itself answered counts, not the copy in a Set
LARGE, SMALL = (answer(5, PORT_INFO, port_info(5, mtu_cap=cap, neighbor_mtu=1)) for cap in (5, 3))
SET_MTU = ask(5, PORT_INFO, method=SET, body=set_port(neighbor_mtu=5, mtu_cap=4))
case("SEM004", [CA, SMALL, SET_MTU], [CA, LARGE, SET_MTU], frames=[3])
# unless the Set is right by its copy: it is of an answer that the capture lacks
FITS = ask(5, PORT_INFO, method=SET, body=set_port(neighbor_mtu=5, mtu_cap=5))
case("SEM004", [CA, SMALL, SET_MTU], [CA, SMALL, FITS], frames=[3])
ONE_LANE = answer(5, PORT_INFO, port_info(5, vl_cap=1, operational_vls=1))
TOO_MANY, ENOUGH = (ask(5, PORT_INFO, method=SET, body=set_port(operational_vls=4, vl_cap=cap)) for cap in (2, 4))
case("SEM006", [CA, ONE_LANE, TOO_MANY], [CA, ONE_LANE, ENOUGH], frames=[3])
# tables
write_case("SEM027", [PORT_SWITCH, INFO], LINEAR, bytes([255, 3, 99]).ljust(64, b"\xff"), bytes([255, 3, 8]).ljust(64, b"\xff"))
write_case("SEM029", [PORT_SWITCH, INFO], MULTICAST, b"\x80\0", b"\x01\0")
write_case("SEM029", [PORT_SWITCH, INFO], MULTICAST, b"\x02\0", b"\0\1")
# entries above the top, or behind the end of the table, lead nowhere
TOPPED = answer(5, SWITCH_INFO, switch_info(linear_fdb_top=100, multicast_fdb_cap=32, multicast_fdb_top=0xC000))
LINEAR_99, MASKS_99 = bytes([3, 99]).ljust(64, b"\xff"), b"\0\0\x80\0"
case("SEM027", [PORT_SWITCH, TOPPED, answer(5, LINEAR, LINEAR_99, modifier=1)],
     [PORT_SWITCH, TOPPED, answer(5, LINEAR, bytes([3] * 37 + [99]).ljust(64, b"\xff"), modifier=1)], frames=[3])  # fmt: skip
case("SEM029", [PORT_SWITCH, INFO, answer(5, MULTICAST, MASKS_99)], [PORT_SWITCH, TOPPED, answer(5, MULTICAST, MASKS_99)], frames=[3])
# whose top is not known
for code, table in (("SEM027", answer(5, LINEAR, LINEAR_99)), ("SEM029", answer(5, MULTICAST, MASKS_99))):
    case(code, [PORT_SWITCH, table], [PORT_SWITCH, TOPPED], frames=[2], severity="info")
# what lies beyond the 8 entries of the port means nothing, and of a port that has not shown their number all but the first
for known, size in (([CA, PORT_PORT], 8), ([CA], 1)):
    inside, behind = (answer(5, VL_ARB, (bytes(2 * (at - 1)) + b"\x0f\4").ljust(64, b"\0"), modifier=1 << 16) for at in (size, size + 1))
    case("SEM023", [*known, inside], [*known, behind], frames=[len(known) + 1])


def switched(code: str, bad: dict[str, int], good: dict[str, int]) -> None:
    write_case(code, [PORT_SWITCH, INFO], SWITCH_INFO, switch_info(**bad), switch_info(**good))


switched("SEM049", {"multicast_fdb_top": 0xD000}, {"multicast_fdb_top": 0xC3FF})
# a manager writes back what it read
SHOWN_TOP = answer(5, SWITCH_INFO, switch_info(multicast_fdb_top=0xFFFF))
write_case("SEM049", [PORT_SWITCH, SHOWN_TOP], SWITCH_INFO, switch_info(multicast_fdb_top=0xFFFE), switch_info(multicast_fdb_top=0xFFFF))
switched("SEM050", {"linear_fdb_top": 1024}, {"linear_fdb_top": 1023})
SHOWN_LINEAR = answer(5, SWITCH_INFO, switch_info(linear_fdb_top=0xBFFF))
write_case("SEM050", [PORT_SWITCH, SHOWN_LINEAR], SWITCH_INFO, switch_info(linear_fdb_top=0xBFFE), switch_info(linear_fdb_top=0xBFFF))
# DefaultPort belongs to the random table
RANDOM_TABLE = answer(5, SWITCH_INFO, switch_info(linear_fdb_cap=0, random_fdb_cap=64))
SET_99 = ask(5, SWITCH_INFO, method=SET, body=switch_info(default_port=99))
case("SEM053", [PORT_SWITCH, RANDOM_TABLE, SET_99], [PORT_SWITCH, INFO, SET_99], frames=[3])
switched("SEM053", {"default_multicast_primary_port": 99}, {"default_multicast_primary_port": 255})
switched("SEM053", {"default_multicast_not_primary_port": 9}, {"default_multicast_not_primary_port": 8})
FEW = answer(5, PORT_INFO, port_info(5, operational_vls=2))
write_case("SEM026", [CA, FEW], SL_TO_VL, b"\x01\x19", b"\x01\x1f")
WRITTEN = ask(5, SL_TO_VL, method=SET, body=b"\x01\x13")
case("SEM026", [CA, FEW, WRITTEN, PORT_PORT], [CA, PORT_PORT, WRITTEN, FEW], frames=[3])  # the VLs in use at that time count
INITIAL = answer(5, PORT_INFO, port_info(5, operational_vls=2, port_state=2))
case("SEM026", [CA, FEW, WRITTEN], [CA, INITIAL, WRITTEN], frames=[3])  # before the port carries data, tables may come first
# bits 15-8 of the modifier name the input port, 7-0 the output port; bits 17 and 16 all of them
TWO_PORTS = [PORT_SWITCH, *[answer(5, PORT_INFO, port_info(0, operational_vls=vls), modifier=n) for n, vls in enumerate((4, 1, 4)) if n]]
OUT_1, OUT_2 = (ask(5, SL_TO_VL, method=SET, body=b"\x01\x13", modifier=modifier) for modifier in (0x0201, 0x0102))
case("SEM026", [*TWO_PORTS, OUT_1], [*TWO_PORTS, OUT_2], frames=[4])
ALL_ONE = [PORT_SWITCH, *[answer(5, PORT_INFO, port_info(0, operational_vls=1), modifier=n) for n in range(1, 9)]]
EVERY = ask(5, SL_TO_VL, method=SET, body=b"\x01\x13", modifier=0x30000)
case("SEM026", [*ALL_ONE, EVERY], [*ALL_ONE[:-1], answer(5, PORT_INFO, port_info(0, operational_vls=4), modifier=8), EVERY], frames=[10])
write_case("SEM024", [CA, PORT_PORT], VL_ARB, bytes(40) + b"\0\1", bytes(14) + b"\0\1", modifier=0x10000)
SHORT = answer(5, PORT_INFO, port_info(5, vl_arbitration_low_cap=4))
WRITTEN = ask(5, VL_ARB, method=SET, modifier=0x10000, body=bytes(14) + b"\0\1")
case("SEM024", [CA, SHORT, WRITTEN, PORT_PORT], [CA, PORT_PORT, WRITTEN, SHORT], frames=[3])
write_case("SEM025", [CA, PORT_PORT], VL_ARB, bytes(64), b"\0\1", modifier=0x10000)
# all lanes have weight in the high-priority table
NO_WEIGHT, ALL_HIGH = (ask(5, VL_ARB, method=SET, modifier=0x10000), answer(5, VL_ARB, bytes(x for vl in range(8) for x in (vl, 4)),
                       modifier=0x30000))  # fmt: skip
SOME_HIGH = answer(5, VL_ARB, b"\0\4", modifier=0x30000)
case("SEM025", [CA, PORT_PORT, SOME_HIGH, NO_WEIGHT], [CA, PORT_PORT, ALL_HIGH, NO_WEIGHT], frames=[4])
case("SEM047", [CA, ask(5, GUID_INFO, method=SET, body=build(GUIDInfo, guid_block=[7]))],
     [CA, ask(5, GUID_INFO, method=SET, body=build(GUIDInfo, guid_block=[0, 7]))], frames=[2])  # fmt: skip
write_case("SEM047", [CA], GUID_INFO, build(GUIDInfo, guid_block=[7]), build(GUIDInfo, guid_block=[GUID + 0x51]))
# port states: Active without Armed
INIT = [answer(5, NODE_INFO, port_node(5)), answer(5, PORT_INFO, port_info(5, port_state=2))]


def sets(state: int, lid: int = 5, **kw: Any) -> bytes:
    """The manager asks for a port state."""
    return ask(lid, PORT_INFO, method=SET, body=port_info(5, port_state=state, port_physical_state=0), **kw)


REFUSED = answer(5, PORT_INFO, port_info(5, port_state=2), header={"status": 0x1C})
case("SEM012", [*INIT, sets(4), REFUSED], [*INIT, sets(3), sets(4), REFUSED], frames=[3])
# which port was armed is not known: the answers that tell it are recorded late
case("SEM012", [*INIT, sets(4), REFUSED], [sets(3, lid=7), *INIT, sets(4), REFUSED], frames=[3])
case("SEM012", [*INIT, sets(4), REFUSED], [*INIT, answer(5, PORT_INFO, port_info(5, port_state=3)), sets(4), REFUSED], frames=[3])
# armed once, and down since
STATES: Any = {state: answer(5, PORT_INFO, port_info(5, port_state=state)) for state in (1, 2, 3, 4)}
ARMED_ONCE = [*INIT, sets(3), STATES[3], sets(4), STATES[4]]
FALLEN = [*ARMED_ONCE, STATES[1], STATES[2]]
case("SEM012", [*FALLEN, sets(4), REFUSED], [*FALLEN, sets(3), sets(4), REFUSED], frames=[9])
case("SEM012", [*ARMED_ONCE, STATES[2], sets(4), REFUSED], [*INIT, sets(3), STATES[2], STATES[2], sets(4), REFUSED], frames=[8])
# it went down, and somebody else was told
OTHERS = [smp(GET_RESP, PORT_INFO, port_info(5, port_state=state), slid=5, dlid=9) for state in (1, 2)]
case("SEM012", [*ARMED_ONCE, *OTHERS[:1], STATES[2], sets(4), REFUSED], [*ARMED_ONCE, *OTHERS, sets(4), REFUSED], frames=[9])
# the port took it: ibdump missed what made it Armed, or there is no telling
case("SEM012", [*INIT, sets(4), REFUSED], [*INIT, sets(4), answer(5, PORT_INFO, port_info(5))], frames=[3])
case("SEM012", [*INIT, sets(4), REFUSED], [*INIT, sets(4)], frames=[3])


def complete(frames: list[bytes], goes_on: int = 1) -> bytes:
    """A pcap of link type 247, which misses nothing; the last frame comes so many seconds after the others."""
    times = [(1_700_000_000 + (goes_on if i == len(frames) - 1 else 0), i) for i in range(len(frames))]
    records = (struct.pack("<IIII", *time, len(frame), len(frame)) + frame for time, frame in zip(times, frames, strict=True))
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 247) + b"".join(records)


# an answer in front of its request: the capture changes the order, and the port was armed before
SWAPPED = [ask(7, NODE_INFO), answer(7, NODE_INFO, port_node(7)), answer(6, NODE_INFO, port_node(6)), ask(6, NODE_INFO)]
BEHIND = sets(3, header={"transaction_id": 77})
AFTER = ask(7, NODE_INFO)
case("SEM012", complete([*INIT, sets(4), BEHIND, AFTER]), complete([*INIT, *SWAPPED, sets(4), BEHIND, AFTER]), file=None, frames=[3],
     also=["CAP009", "TXN001"], twin_also=["CAP009", "TXN001"])  # fmt: skip
case("SEM012", complete([*INIT, sets(4), AFTER]), complete([*INIT, sets(4), answer(5, PORT_INFO, port_info(5)), AFTER]), file=None,
     frames=[3], also=["CAP009"], twin_also=["CAP009"])  # fmt: skip
# the answer may come when the capture has ended
case("SEM012", complete([*INIT, sets(4), AFTER]), complete([*INIT, sets(4), AFTER], 0), file=None, frames=[3], also=["CAP009"],
     twin_also=["CAP009"])  # fmt: skip
# values that do not exist
case("SEM066", port_answer(port_state=7), port_answer(port_state=4))
case("SEM066", port_answer(port_physical_state=8), port_answer(port_physical_state=7, port_state=1))
case("SEM066", port_answer(link_speed_active=8), port_answer(link_speed_active=4))
case("SEM066", port_answer(link_width_supported=0), port_answer(link_width_supported=2))
case("SEM066", port_answer(link_width_supported=34), port_answer(link_width_supported=31))
case("SEM066", port_answer(vl_arbitration_high_cap=65), port_answer(vl_arbitration_high_cap=64))
case("SEM066", port_answer(vl_arbitration_low_cap=0), port_answer(vl_arbitration_low_cap=1))
ONE_LANE = {"vl_cap": 1, "operational_vls": 1}
case("SEM066", port_answer(vl_arbitration_high_cap=1, vl_arbitration_low_cap=0, **ONE_LANE),
     port_answer(vl_arbitration_high_cap=0, vl_arbitration_low_cap=0, **ONE_LANE), severity="info")  # fmt: skip
# qib keeps its tables with one VL; a table that is too large is wrong there, too
for cap, how in ((16, "info"), (65, "warning")):
    case("SEM066", port_answer(vl_arbitration_high_cap=cap, vl_arbitration_low_cap=16, **ONE_LANE),
         port_answer(vl_arbitration_high_cap=0, vl_arbitration_low_cap=0, **ONE_LANE), severity=how)  # fmt: skip
case("SEM066", written(master_sm_lid=0xC001), written(master_sm_lid=0xBFFF))
case("SEM066", port_answer(port_state=7), port_answer(0, port_state=7))  # perhaps port 0 of a switch
case("SEM057", port_answer(link_width_active=8), port_answer(link_width_active=1))
# without a port number: of an adapter, or of port 0 of a switch
ABSENT: dict[str, dict[str, Any]] = {
    "SEM003": {"neighbor_mtu": 0}, "SEM006": {"operational_vls": 0}, "SEM007": {"link_width_enabled": 0x20},
    "SEM009": {"link_speed_enabled": 9}, "SEM013": {"link_down_default_state": 3}, "SEM057": {"link_width_active": 0},
}  # fmt: skip
for code, value in ABSENT.items():
    shown = answer(5, PORT_INFO, port_info(5, **value))
    case(code, [answer(5, NODE_INFO, port_node(5)), shown], [PORT_SWITCH, shown], frames=[2])
case("SEM011", written(port_state=0, port_physical_state=4), written(port_state=0, port_physical_state=3))
case("SEM067", switch(GET_RESP, linear_fdb_cap=0xC001), switch(GET_RESP, linear_fdb_cap=0xC000))
case("SEM067", switch(GET_RESP, multicast_fdb_cap=0x4001), switch(GET_RESP, multicast_fdb_cap=0x4000))
case("SEM068", port_answer(reserved2=1), written(reserved2=1), twin_also=["SEM020"])
OWN_GUID = GUID + 0x51
SM_ANSWERS = [answer(5, SM_INFO, build(SMInfo, guid=guid, act_count=1, sm_state=2)) for guid in (OWN_GUID + 5, OWN_GUID)]
case("SEM069", [CA, SM_ANSWERS[0]], [CA, SM_ANSWERS[1]], frames=[2])
# the prefix of the subnet
OTHERS = [frame for lid in (5, 6, 7) for frame in (answer(lid, NODE_INFO, port_node(lid)), answer(lid, PORT_INFO, port_info(lid)))]
NEW_PREFIX, SAME_PREFIX = (
    ask(5, PORT_INFO, method=SET, body=set_port(gid_prefix=prefix << 48), header={"transaction_id": 77}) for prefix in (0xFEC0, 0xFE80)
)
case("SEM070", [*OTHERS, NEW_PREFIX], [*OTHERS, SAME_PREFIX], frames=[7], severity="info")  # the capture ends there
for step_ms, severity in ((10_000, "warning"), (9_999, "info")):
    case("SEM070", [*OTHERS, NEW_PREFIX, ask(1, NODE_INFO)], [*OTHERS, SAME_PREFIX, ask(1, NODE_INFO)], frames=[7],
         severity=severity, file=partial(erf_pcap, step_ns=step_ms * 1_000_000))  # fmt: skip
WRITES_USUAL = ask(6, PORT_INFO, method=SET, body=set_port(6, gid_prefix=0xFE80 << 48), header={"transaction_id": 78})
TAKES_USUAL = answer(6, PORT_INFO, port_info(6), header={"transaction_id": 78})
case("SEM070", [*OTHERS, WRITES_USUAL, TAKES_USUAL, NEW_PREFIX], [*OTHERS, WRITES_USUAL, TAKES_USUAL, SAME_PREFIX], frames=[9],
     severity="warning")  # fmt: skip


# on a host's link, one does not see what the manager writes to others
def managed(*lids: int) -> list[bytes]:
    """What the manager asks of hosts along directed routes; then it writes to the last one, first what it had."""
    said: list[bytes] = []
    for number, lid in enumerate(lids):
        header = {"transaction_id": MANAGER + number}
        said += [smp(1, NODE_INFO, path=[1, lid], header=header), smp(GET_RESP, NODE_INFO, port_node(lid), path=[1, lid], header=header)]
        said.append(smp(1, PORT_INFO, path=[1, lid], modifier=1, header={"transaction_id": MANAGER + 10 + number}))
    for number, prefix in enumerate((0xFE80, 0xFEC0), 50):
        body = set_port(lids[-1], gid_prefix=prefix << 48)
        said.append(smp(SET, PORT_INFO, body, path=[1, lids[-1]], modifier=1, header={"transaction_id": MANAGER + number}))
    return said


MANAGER = 55 << 32
for lids, severity in (((6, 7, 5), "warning"), ((5,), "info")):
    case("SEM070", [*OTHERS, *managed(*lids)], [*OTHERS, *managed(*lids)[:-1]], severity=severity)
# a manager that changes it writes it to all, to its own port first
OF_ITSELF = ask(5, PORT_INFO, method=SET, body=set_port(gid_prefix=0xFEC0 << 48, master_sm_lid=5), header={"transaction_id": 77})
case("SEM070", [*OTHERS, OF_ITSELF], [*OTHERS, SAME_PREFIX], frames=[7], severity="info")
MOVED = [answer(lid, PORT_INFO, port_info(lid, gid_prefix=0xFEC0 << 48)) for lid in (5, 6)]
case("SEM070", [*OTHERS, NEW_PREFIX], [*OTHERS, NEW_PREFIX, *MOVED])
# also if it changes it back, whoever does so; another port with the new prefix proves it
MOVED_BACK = [answer(lid, PORT_INFO, port_info(lid)) for lid in (5, 6)]
case("SEM070", [*OTHERS, NEW_PREFIX, MOVED[0], *MOVED_BACK], [*OTHERS, NEW_PREFIX, *MOVED, *MOVED_BACK], frames=[7])
# the port itself had it before: a second port with it makes it usual
MINE, ANOTHER = (answer(lid, PORT_INFO, port_info(lid, gid_prefix=0xFEC0 << 48)) for lid in (5, 6))
case("SEM070", [*OTHERS[:6], MINE, NEW_PREFIX], [*OTHERS[:6], ANOTHER, NEW_PREFIX], frames=[8])
write_case("SEM071", [PORT_SWITCH, INFO], PORT_INFO, set_port(0, filter_raw_inbound=1), set_port(0), modifier=3)
# a manager writes back what it read
SHOWN_FILTERS, SHOWN_OPEN = (answer(5, PORT_INFO, port_info(0, filter_raw_inbound=on), modifier=3) for on in (1, 0))
CAN_FILTER = answer(5, SWITCH_INFO, switch_info(filter_raw_inbound_cap=1))
FILTERS = ask(5, PORT_INFO, method=SET, body=set_port(0, filter_raw_inbound=1), modifier=3)
case("SEM071", [PORT_SWITCH, INFO, FILTERS], [PORT_SWITCH, CAN_FILTER, FILTERS], frames=[3])
case("SEM071", [PORT_SWITCH, INFO, SHOWN_OPEN, FILTERS], [PORT_SWITCH, INFO, SHOWN_FILTERS, FILTERS], frames=[4])
RFT_99, RFT_8 = (struct.pack(">HBB", 7, 0x80, port) for port in (99, 8))
write_case("SEM072", [PORT_SWITCH, RANDOM_TABLE], 0x1A, RFT_99, RFT_8)
write_case("SEM072", [PORT_SWITCH, RANDOM_TABLE], 0x1A, RFT_99, struct.pack(">HBB", 7, 0, 99))
DESCRIBED = ask(5, DESCRIPTION, method=SET, body=b"name")
NAMEABLE = answer(5, PORT_INFO, port_info(5, capability_mask=0x02018048, capability_mask2=1))
case("SEM065", [CA, PORT_PORT, DESCRIBED], [CA, NAMEABLE, DESCRIBED], frames=[3])
LMC_0 = answer(5, PORT_INFO, port_info(0), modifier=3)
write_case("SEM001", [PORT_SWITCH, LMC_0], PORT_INFO, set_port(0, lmc=2), set_port(0), modifier=3)
# Omni-Path adapters answer InfiniBand's NodeInfo with these versions
case("SEM033", node(base_version=0x80), node(base_version=0x80, class_version=0x80))
# a Set that repeats what the port or switch itself showed
WIDE = answer(5, PORT_INFO, port_info(5, link_width_enabled=0x1F))
write_case("SEM008", [CA, WIDE], PORT_INFO, set_port(link_width_enabled=0x1B), set_port(link_width_enabled=0x1F))
FAR_PORT = answer(5, SWITCH_INFO, switch_info(default_multicast_primary_port=64))
write_case("SEM053", [PORT_SWITCH, FAR_PORT], SWITCH_INFO, switch_info(default_multicast_primary_port=65),
           switch_info(default_multicast_primary_port=64))  # fmt: skip
# a node may change its SystemImageGUID
case("SEM034", [CA, answer(5, NODE_INFO, port_node(5, system_image_guid=7))], [CA, CA], frames=[2], severity="info")
NEWER = [CA, answer(5, NODE_INFO, port_node(5, partition_cap=128))]
case("SEM034", NEWER, [CA, CA], frames=[2], severity="error")
# an adapter sends in VL0 alone; the high-priority table is written after the other one
ALL_VL0, ONLY_VL0 = answer(5, SL_TO_VL, bytes(8)), answer(5, VL_ARB, b"\0\4", modifier=0x30000)
case("SEM025", [CA, PORT_PORT, ONLY_VL0, NO_WEIGHT], [CA, PORT_PORT, ALL_VL0, ONLY_VL0, NO_WEIGHT], frames=[4])
case("SEM025", [CA, PORT_PORT, NO_WEIGHT, SOME_HIGH], [CA, PORT_PORT, ALL_HIGH, NO_WEIGHT], frames=[3], severity="warning")
case("SEM025", [CA, PORT_PORT, NO_WEIGHT, ALL_HIGH], [CA, PORT_PORT, ALL_HIGH, NO_WEIGHT], frames=[3], severity="info")
# who writes a count that it read before the capture
COPIED = [CA, COUNTED, ask(5, PORT_INFO, method=SET, body=set_port(p_key_violations=7), slid=9)]
case("SEM014", COPIED, [CA, COUNTED, ask(5, PORT_INFO, method=SET, body=set_port(p_key_violations=3), slid=9)], severity="info")
