"""Proofs of the rules about the values of subnet management attributes."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.mad import RMPP
from ibdissect.wire.sa import SAFormat
from ibdissect.wire.sa_records import NodeRecord
from ibdissect.wire.sm import LedInfo, NodeDescription, NodeInfo, SMInfo, SwitchInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import VLArbitrationTable
from tests.craft import build, put, smp, ud
from tests.craft import mad as datagram
from tests.rules.cases import case

GET, SET, GET_RESP, GET_TABLE_RESP = 1, 2, 0x81, 0x92
PORT: dict[str, Any] = {
    "lid": 5, "master_sm_lid": 1, "link_width_enabled": 3, "link_width_supported": 3, "link_width_active": 2, "link_speed_supported": 7,
    "port_state": 4, "port_physical_state": 5, "link_down_default_state": 2, "link_speed_active": 4, "link_speed_enabled": 7,
    "neighbor_mtu": 4, "vl_cap": 4, "mtu_cap": 5, "operational_vls": 4, "guid_cap": 8, "subnet_time_out": 18, "hoq_life": 18,
    "local_port_num": 1, "vl_arbitration_high_cap": 8, "vl_arbitration_low_cap": 8, "resp_time_value": 16, "capability_mask": 0x02510868,
}  # fmt: skip
NODE: dict[str, Any] = {
    "base_version": 1, "class_version": 1, "node_type": 1, "num_ports": 1, "system_image_guid": 0x0002C90300001003,
    "node_guid": 0x0002C90300001000, "port_guid": 0x0002C90300001001, "partition_cap": 32, "local_port_num": 1, "vendor_id": 0x0002C9,
}  # fmt: skip
SWITCH: dict[str, Any] = {"linear_fdb_cap": 0xC000, "multicast_fdb_cap": 0x4000, "life_time_value": 18, "partition_enforcement_cap": 32}


def told(port: int = 1, **values: Any) -> bytes:
    """SubnGetResp(PortInfo)."""
    return smp(GET_RESP, 0x15, build(PortInfo, **{**PORT, **values}), modifier=port)


def written(**values: Any) -> bytes:
    """SubnSet(PortInfo) that changes no state."""
    return smp(SET, 0x15, build(PortInfo, **{**PORT, "port_state": 0, "port_physical_state": 0, **values}), modifier=1)


def node(**values: Any) -> bytes:
    """SubnGetResp(NodeInfo)."""
    return smp(GET_RESP, 0x11, build(NodeInfo, **{**NODE, **values}))


def node_record(segment: int, **values: Any) -> bytes:
    """SubnAdmGetTableResp(NodeRecord), one segment of it."""
    record = bytearray(build(NodeRecord, lid=5))
    record[4 : 4 + NodeInfo.size] = build(NodeInfo, **{**NODE, **values})
    data = bytearray(datagram(0x03, GET_TABLE_RESP, 0x11, bytes(record), at=56))
    data[24:36] = build(RMPP, rmpp_version=1, rmpp_type=1, active=1, first=segment == 1, segment_number=segment, payload_length=440)
    put(data, SAFormat.attribute_offset, 14)
    return ud(bytes(data))


def switch(method: int, **values: Any) -> bytes:
    """SwitchInfo in an SMP."""
    return smp(method, 0x12, build(SwitchInfo, **{**SWITCH, **values}))


def sm(method: int, modifier: int = 0, **values: Any) -> bytes:
    """SMInfo in an SMP."""
    return smp(method, 0x20, build(SMInfo, **{"guid": 0x0002C90300001001, "act_count": 7, "sm_state": 3, **values}), modifier=modifier)


def arbitration(vl: int, weight: int, method: int = SET) -> bytes:
    """A low-priority table with one entry of its own."""
    return smp(method, 0x18, bytes([0, 4, 1, 4, vl, weight]) + bytes(VLArbitrationTable.size - 6), modifier=0x00010001)


def described(name: bytes, method: int = GET_RESP) -> bytes:
    """SubnGetResp(NodeDescription)."""
    return smp(method, 0x10, build(NodeDescription, node_string=name))


case("SEM003", written(neighbor_mtu=9, mtu_cap=9), written(neighbor_mtu=5))
case("SEM003", told(neighbor_mtu=0), told(0, neighbor_mtu=0))
case("SEM004", written(neighbor_mtu=5, mtu_cap=3), written(neighbor_mtu=3, mtu_cap=3))
case("SEM005", told(vl_cap=9), told(vl_cap=5))
case("SEM005", told(vl_cap=0), told(0, vl_cap=0))
case("SEM006", written(operational_vls=4, vl_cap=1), written(operational_vls=0, vl_cap=1))
case("SEM007", written(link_width_enabled=0x20), written(link_width_enabled=0xFF))
case("SEM009", written(link_speed_enabled=9), written(link_speed_enabled=15))
case("SEM010", written(link_speed_ext_enabled=16), written(link_speed_ext_enabled=30))
case("SEM011", written(port_state=2), written(port_state=4))
case("SEM011", written(port_state=4, port_physical_state=2), written(port_state=1, port_physical_state=2))
case("SEM013", written(link_down_default_state=5), written(link_down_default_state=1))
case("SEM015", told(p_key_violations=0xFFFF), told(p_key_violations=0xFFFE))
case("SEM017", written(subnet_time_out=31), written(subnet_time_out=31, port_state=4))
case("SEM018", written(hoq_life=20), written(hoq_life=19))
case("SEM019", switch(SET, life_time_value=31), switch(SET, life_time_value=19))
case("SEM020", written(reserved1=1), told(reserved1=1))
case("SEM021", told(master_sm_lid=0), told(master_sm_lid=0, lid=0))
case("SEM023", arbitration(15, 32), arbitration(15, 0))
case("SEM032", node(node_type=9), node(node_type=3))
case("SEM032", node_record(1, node_type=9), node_record(2, node_type=9))  # a later segment begins anywhere in a record
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
case("SEM057", told(link_width_active=3), told(link_width_active=16))
case("SEM057", told(link_width_active=0), told(link_width_active=0, port_state=1, port_physical_state=2))
case("SEM061", described(b"\xff\xfenode"), described("Knoten \u00e4".encode()))
case("SEM061", described(b"x" * 63 + b"\xc3"), described(b"x" * 64))
case("SEM062", told(capability_mask=0x02510869), told())
case("SEM063", told(capability_mask=0x02510868 | 1 << 14), told(capability_mask=0x02510868 | 1 << 14, link_speed_ext_supported=1))

case("MKY005", written(m_key=0x1122334455667788), written())
case("MKY006", written(m_key=7, m_key_protect_bits=3), written(m_key=7, m_key_protect_bits=2), also=["MKY005"], twin_also=["MKY005"])
case("MKY007", written(m_key_protect_bits=2), written())
case("MKY014", sm(GET_RESP, sm_key=1), sm(GET_RESP))
