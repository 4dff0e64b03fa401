"""SA records that contain an attribute of subnet management, and the node, port or table block that they identify."""

from __future__ import annotations

from typing import ClassVar

from . import sm_tables
from .places import Mad
from .sm import NodeDescription, NodeInfo, SMInfo, SwitchInfo
from .sm_port import PortInfo, PortInfoExtended
from .spec import Struct, bit, lid, nested, pad, uint

LID_WS = "infiniband.sa.lid"
BLOCK8_WS, BLOCK16_WS = "infiniband.sa.blocknum_eightbit", "infiniband.sa.blocknum_sixteenbit"
"""Wireshark uses the same names for the record identifiers of all records."""


class NodeRecord(Struct):
    """NodeInfo and NodeDescription of a node, by the LID of one of its ports."""

    key, section, size = "noderecord", "IBA 15.2.5.2; python-rdma SANodeRecord", 108
    carried_by = (Mad(0x03, 0x0011),)
    components: ClassVar[tuple[str, ...]] = (
        "lid", "", "node_info.base_version", "node_info.class_version", "node_info.node_type", "node_info.num_ports",
        "node_info.system_image_guid", "node_info.node_guid", "node_info.port_guid", "node_info.partition_cap", "node_info.device_id",
        "node_info.revision", "node_info.local_port_num", "node_info.vendor_id", "node_description.node_string",
    )  # fmt: skip
    lid = lid("LID", at="0", ws=LID_WS)
    reserved_16 = pad(16, at="2")
    node_info = nested(NodeInfo, "NodeInfo", at="4")
    node_description = nested(NodeDescription, "NodeDescription", at="44")


class PortInfoRecord(Struct):
    """PortInfo of a port, by its LID and number. Options asks for extended speeds, in a byte that older requesters reserve."""

    key, section, size = "portinforecord", "IBA 15.2.5.3; python-rdma SAPortInfoRecord; Options: opensm", 68
    carried_by = (Mad(0x03, 0x0012),)
    components: ClassVar[tuple[str, ...]] = (
        "end_port_lid", "port_num", "options", "port_info.m_key", "port_info.gid_prefix", "port_info.lid", "port_info.master_sm_lid",
        "port_info.capability_mask", "port_info.diag_code", "port_info.m_key_lease_period", "port_info.local_port_num",
        "port_info.link_width_enabled", "port_info.link_width_supported", "port_info.link_width_active",
        "port_info.link_speed_supported", "port_info.port_state", "port_info.port_physical_state", "port_info.link_down_default_state",
        "port_info.m_key_protect_bits", "", "port_info.lmc", "port_info.link_speed_active", "port_info.link_speed_enabled",
        "port_info.neighbor_mtu", "port_info.master_smsl", "port_info.vl_cap", "port_info.init_type", "port_info.vl_high_limit",
        "port_info.vl_arbitration_high_cap", "port_info.vl_arbitration_low_cap", "port_info.init_type_reply", "port_info.mtu_cap",
        "port_info.vl_stall_count", "port_info.hoq_life", "port_info.operational_vls", "port_info.partition_enforcement_inbound",
        "port_info.partition_enforcement_outbound", "port_info.filter_raw_inbound", "port_info.filter_raw_outbound",
        "port_info.m_key_violations", "port_info.p_key_violations", "port_info.q_key_violations", "port_info.guid_cap",
        "port_info.client_reregister", "port_info.multicast_p_key_trap_suppression_enabled", "port_info.subnet_time_out", "",
        "port_info.resp_time_value", "port_info.local_phy_errors", "port_info.overrun_errors", "port_info.max_credit_hint", "",
        "port_info.link_round_trip_latency", "port_info.capability_mask2", "port_info.link_speed_ext_active",
        "port_info.link_speed_ext_supported", "", "port_info.link_speed_ext_enabled",
    )  # fmt: skip
    end_port_lid = lid("EndportLID", at="0", ws="infiniband.sa.endportlid")
    port_num = uint(8, "PortNum", at="2", ws="infiniband.sa.portnum")
    options = uint(8, "Options", at="3", base="hex")
    extended_speeds = bit(options, 7, "Extended Speeds")
    port_info = nested(PortInfo, "PortInfo", at="4")


class PortInfoExtendedRecord(Struct):
    """Forward error correction of a port, by its LID and number."""

    key, section, size = "portinfoextendedrecord", "attribute id: libibumad umad_sa.h; layout: libibmad iba_types.h", 68
    carried_by = (Mad(0x03, 0x003E),)
    components: ClassVar[tuple[str, ...]] = ("end_port_lid", "port_num", "options")
    end_port_lid = lid("EndportLID", at="0", ws="infiniband.sa.endportlid")
    port_num = uint(8, "PortNum", at="2", ws="infiniband.sa.portnum")
    options = uint(8, "Options", at="3", base="hex")
    port_info_extended = nested(PortInfoExtended, "PortInfoExtended", at="4")


class SwitchInfoRecord(Struct):
    """SwitchInfo of a switch, by its LID."""

    key, section, size = "switchinforecord", "IBA 15.2.5.5; python-rdma SASwitchInfoRecord", 24
    carried_by = (Mad(0x03, 0x0014),)
    components: ClassVar[tuple[str, ...]] = (
        "lid", "", "switch_info.linear_fdb_cap", "switch_info.random_fdb_cap", "switch_info.multicast_fdb_cap",
        "switch_info.linear_fdb_top", "switch_info.default_port", "switch_info.default_multicast_primary_port",
        "switch_info.default_multicast_not_primary_port", "switch_info.life_time_value", "switch_info.port_state_change",
        "switch_info.optimized_sl_to_vl_mapping_programming", "switch_info.lids_per_port", "switch_info.partition_enforcement_cap",
        "switch_info.inbound_enforcement_cap", "switch_info.outbound_enforcement_cap", "switch_info.filter_raw_inbound_cap",
        "switch_info.filter_raw_outbound_cap", "switch_info.enhanced_port_zero", "", "", "switch_info.multicast_fdb_top",
    )  # fmt: skip
    lid = lid("LID", at="0", ws=LID_WS)
    reserved_16 = pad(16, at="2")
    switch_info = nested(SwitchInfo, "SwitchInfo", at="4")


class SMInfoRecord(Struct):
    """SMInfo of a subnet manager, by the LID of its port."""

    key, section, size = "sminforecord", "IBA 15.2.5.10; python-rdma SASMInfoRecord", 28
    carried_by = (Mad(0x03, 0x0018),)
    components: ClassVar[tuple[str, ...]] = (
        "lid", "", "sm_info.guid", "sm_info.sm_key", "sm_info.act_count", "sm_info.priority", "sm_info.sm_state",
    )  # fmt: skip
    lid = lid("LID", at="0", ws=LID_WS)
    reserved_16 = pad(16, at="2")
    sm_info = nested(SMInfo, "SMInfo", at="4")


class SLtoVLMappingTableRecord(Struct):
    """The SL to VL mapping between two ports of a switch, or of a channel adapter port."""

    key, section, size = "sltovlmappingtablerecord", "IBA 15.2.5.4; python-rdma SASLToVLMappingTableRecord", 16
    carried_by = (Mad(0x03, 0x0013),)
    components: ClassVar[tuple[str, ...]] = ("lid", "input_port_num", "output_port_num", "", "sl_to_vl_mapping_table")
    lid = lid("LID", at="0", ws=LID_WS)
    input_port_num = uint(8, "InputPortNum", at="2", ws="infiniband.sa.inputportnum")
    output_port_num = uint(8, "OutputPortNum", at="3", ws="infiniband.sa.outputportnum")
    reserved_32 = pad(32, at="4")
    sl_to_vl_mapping_table = nested(sm_tables.SLtoVLMappingTable, "SLtoVLMappingTable", at="8")


class LinearForwardingTableRecord(Struct):
    """A block of 64 LIDs of a switch's linear forwarding table."""

    key, section, size = "linearforwardingtablerecord", "IBA 15.2.5.6; python-rdma SALinearForwardingTableRecord", 72
    carried_by = (Mad(0x03, 0x0015),)
    components: ClassVar[tuple[str, ...]] = ("lid", "block_num", "", "linear_forwarding_table")
    lid = lid("LID", at="0", ws=LID_WS)
    block_num = uint(16, "BlockNum", at="2", ws=BLOCK16_WS)
    reserved_32 = pad(32, at="4")
    linear_forwarding_table = nested(sm_tables.LinearForwardingTable, "LinearForwardingTable", at="8")


class RandomForwardingTableRecord(Struct):
    """A block of 16 entries of a switch's random forwarding table."""

    key, section, size = "randomforwardingtablerecord", "IBA 15.2.5.7; python-rdma SARandomForwardingTableRecord", 72
    carried_by = (Mad(0x03, 0x0016),)
    components: ClassVar[tuple[str, ...]] = ("lid", "block_num", "", "random_forwarding_table")
    lid = lid("LID", at="0", ws=LID_WS)
    block_num = uint(16, "BlockNum", at="2", ws=BLOCK16_WS)
    reserved_32 = pad(32, at="4")
    random_forwarding_table = nested(sm_tables.RandomForwardingTable, "RandomForwardingTable", at="8")


class MulticastForwardingTableRecord(Struct):
    """16 ports of 32 multicast LIDs of a switch.

    Position in the upper 4 bits, block in the lower 9 as OpenSM and Wireshark have it; python-rdma prints position at bits 2-5.
    """

    key, section, size = "multicastforwardingtablerecord", "IBA 15.2.5.8; opensm ib_mft_record_t", 72
    carried_by = (Mad(0x03, 0x0017),)
    components: ClassVar[tuple[str, ...]] = ("lid", "position", "", "block_num", "", "multicast_forwarding_table")
    lid = lid("LID", at="0", ws=LID_WS)
    position = uint(4, "Position", at="2", ws="infiniband.sa.position")
    reserved_20 = pad(3, at="2[4]")
    block_num = uint(9, "BlockNum", at="2[7]", ws="infiniband.sa.blocknum_ninebit")
    reserved_32 = pad(32, at="4")
    multicast_forwarding_table = nested(sm_tables.MulticastForwardingTable, "MulticastForwardingTable", at="8")


class VLArbitrationTableRecord(Struct):
    """A block of a port's VL arbitration table."""

    key, section, size = "vlarbitrationtablerecord", "IBA 15.2.5.9; python-rdma SAVLArbitrationTableRecord", 72
    carried_by = (Mad(0x03, 0x0036),)
    components: ClassVar[tuple[str, ...]] = ("lid", "output_port_num", "block_num", "", "vl_arbitration_table")
    lid = lid("LID", at="0", ws=LID_WS)
    output_port_num = uint(8, "OutputPortNum", at="2", ws="infiniband.sa.outputportnum")
    block_num = uint(8, "BlockNum", at="3", ws=BLOCK8_WS)
    reserved_32 = pad(32, at="4")
    vl_arbitration_table = nested(sm_tables.VLArbitrationTable, "VLArbitrationTable", at="8")


class PKeyTableRecord(Struct):
    """A block of a port's partition keys."""

    key, section, size, title = "p_keytablerecord", "IBA 15.2.5.11; python-rdma SAPKeyTableRecord", 72, "P_KeyTableRecord"
    carried_by = (Mad(0x03, 0x0033),)
    components: ClassVar[tuple[str, ...]] = ("lid", "block_num", "port_num", "", "p_key_table")
    lid = lid("LID", at="0", ws=LID_WS)
    block_num = uint(16, "BlockNum", at="2", ws=BLOCK16_WS)
    port_num = uint(8, "PortNum", at="4", ws="infiniband.sa.portnum")
    reserved_40 = pad(24, at="5")
    p_key_table = nested(sm_tables.PKeyTable, "P_KeyTable", at="8")


class GuidInfoRecord(Struct):
    """A block of 8 of a port's GUIDs; the components after the reserved ones are the single GUIDs."""

    key, section, size = "guidinforecord", "IBA 15.2.5.18; python-rdma SAGUIDInfoRecord; single GUIDs: opensm", 72
    carried_by = (Mad(0x03, 0x0030),)
    components: ClassVar[tuple[str, ...]] = ("lid", "block_num", "", "", *(f"guid_info.guid_block[{i}]" for i in range(8)))
    lid = lid("LID", at="0", ws=LID_WS)
    block_num = uint(8, "BlockNum", at="2", ws=BLOCK8_WS)
    reserved_24 = pad(8, at="3")
    reserved_32 = pad(32, at="4")
    guid_info = nested(sm_tables.GUIDInfo, "GUIDInfo", at="8")


class LinkSpeedWidthPairsTableRecord(Struct):
    """Which widths the ports of a node offer at which speed.

    Wireshark, the only public layout, starts with the table; the LID that the other records begin with is in no source.
    """

    key, section, size = "linkspeedwidthpairstablerecord", "attribute id: libibumad umad_sa.h; layout: Wireshark 4.0", 36
    carried_by = (Mad(0x03, 0x0019),)
    link_speed_width_pairs_table = nested(sm_tables.LinkSpeedWidthPairsTable, "LinkSpeedWidthPairsTable", at="0")
