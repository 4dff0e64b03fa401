"""Subnet management packets: both SMP formats, and the attributes of nodes and subnet managers."""

from .convert import lifetime_text
from .names import NODE_TYPE, SM_STATE
from .places import MadFormat, smp
from .spec import Struct, array, bit, enum, flag, guid, hole, lid, pad, part, raw, secret, text, uint

DR_MAX_HOPS = 63
FIRST_HOP = 1
"""Byte of a path with its first output port."""
"""Longest directed route: 64 bytes of path, of which byte 0 is not used (IBA 14.2.1.2)."""


class SMP(Struct):
    """LID-routed subnet management packet."""

    key, section, size = "smplid", "IBA 14.2.1.1; python-rdma SMPFormat", 256
    carried_by = (MadFormat(0x01),)
    header = hole(24, "MAD header", at="0")
    m_key = secret(64, "M_Key", at="24", ws="mkey")
    data = hole(64, "SMP Data", at="..64", ws="smpdata")
    reserved2 = pad(1024, at="128")


class SMPDirected(Struct):
    """Directed-route subnet management packet: the paths follow the attribute."""

    key, section, size = "smpdirected", "IBA 14.2.1.2; python-rdma SMPFormatDirected", 256
    carried_by = (MadFormat(0x81),)
    header = hole(4, "MAD header", at="0")
    smp_status = uint(16, "SMPStatus", at="4", base="hex")
    d = bit(smp_status, 15, "D")
    status = part(smp_status, 14, 0, "Status", base="hex")
    hop_pointer = uint(8, "Hop Pointer", at="6")
    hop_count = uint(8, "Hop Count", at="7")
    header_rest = hole(16, "MAD header", at="8")
    m_key = secret(64, "M_Key", at="24", ws="infiniband.smplid.mkey")
    dr_slid = lid("DrSLID", at="32")
    dr_dlid = lid("DrDLID", at="34")
    data = hole(64, "SMP Data", at="..64", ws="infiniband.smplid.smpdata")
    initial_path = raw(64, "Initial Path", at="128", holds="ports")
    return_path = raw(64, "Return Path", at="192", holds="ports")


class NodeDescription(Struct):
    """Human-readable name of the node."""

    key, section, size = "nodedescription", "IBA 14.2.5.2; python-rdma SMPNodeDescription", 64
    carried_by = smp(0x0010)
    node_string = text(64, "NodeString", at="0")


class NodeInfo(Struct):
    """Identity of the node, and of the port that the SMP came in by."""

    key, section, size = "nodeinfo", "IBA 14.2.5.3; python-rdma SMPNodeInfo; opensm ib_types", 40
    carried_by = smp(0x0011)
    base_version = uint(8, "BaseVersion", at="0")
    class_version = uint(8, "ClassVersion", at="1")
    node_type = enum(8, NODE_TYPE, "NodeType", at="2")
    num_ports = uint(8, "NumPorts", at="3")
    system_image_guid = guid("SystemImageGUID", at="4")
    node_guid = guid("NodeGUID", at="12")
    port_guid = guid("PortGUID", at="20")
    partition_cap = uint(16, "PartitionCap", at="28")
    device_id = uint(16, "DeviceID", at="30", base="hex")
    revision = uint(32, "Revision", at="32", base="hex")
    local_port_num = uint(8, "LocalPortNum", at="36")
    vendor_id = uint(24, "VendorID", at="37", base="hex")


class SwitchInfo(Struct):
    """What a switch can forward and how far its tables reach."""

    key, section, size = "switchinfo", "IBA 14.2.5.4; python-rdma SMPSwitchInfo; MulticastFDBTop: opensm, libibmad", 20
    carried_by = smp(0x0012)
    linear_fdb_cap = uint(16, "LinearFDBCap", at="0")
    random_fdb_cap = uint(16, "RandomFDBCap", at="2")
    multicast_fdb_cap = uint(16, "MulticastFDBCap", at="4")
    linear_fdb_top = uint(16, "LinearFDBTop", at="6")
    default_port = uint(8, "DefaultPort", at="8")
    default_multicast_primary_port = uint(8, "DefaultMulticastPrimaryPort", at="9")
    default_multicast_not_primary_port = uint(8, "DefaultMulticastNotPrimaryPort", at="10")
    life_time_value = uint(5, "LifeTimeValue", at="11", show=lifetime_text)
    port_state_change = flag("PortStateChange", at="11[5]")
    optimized_sl_to_vl_mapping_programming = uint(2, "OptimizedSLtoVLMappingProgramming", at="11[6]")
    lids_per_port = uint(16, "LIDsPerPort", at="12")
    partition_enforcement_cap = uint(16, "PartitionEnforcementCap", at="14")
    inbound_enforcement_cap = flag("InboundEnforcementCap", at="16")
    outbound_enforcement_cap = flag("OutboundEnforcementCap", at="16[1]")
    filter_raw_inbound_cap = flag("FilterRawInboundCap", at="16[2]")
    filter_raw_outbound_cap = flag("FilterRawOutboundCap", at="16[3]")
    enhanced_port_zero = flag("EnhancedPortZero", at="16[4]")
    reserved1 = pad(3, at="16[5]")
    reserved2 = pad(8, at="17")
    multicast_fdb_top = uint(16, "MulticastFDBTop", at="18", base="hex")


class SMInfo(Struct):
    """State of a subnet manager, which others poll."""

    key, section, size = "sminfo", "IBA 14.2.5.13; python-rdma SMPSMInfo", 24
    carried_by = smp(0x0020)
    guid = guid("GUID", at="0")
    sm_key = secret(64, "SM_Key", at="8")
    act_count = uint(32, "ActCount", at="16")
    priority = uint(4, "Priority", at="20")
    sm_state = enum(4, SM_STATE, "SMState", at="20[4]")
    reserved1 = pad(24, at="21")


class VendorDiag(Struct):
    """A page of a port's vendor diagnostics.

    Undecided: the data begins after NextIndex in Wireshark, after two more reserved bytes in python-rdma.
    """

    key, section, size = "vendordiag", "IBA 14.2.5.14; Wireshark 4.0; python-rdma", 64
    carried_by = smp(0x0030)
    next_index = uint(16, "NextIndex", at="0")
    diag_data = raw(62, "DiagData", at="2")
    diag_data_60 = raw(60, "DiagData60 (python-rdma's reading)", part_of=(diag_data, 0), ws="diagdata60")


class LedInfo(Struct):
    """The locator LED of a port."""

    key, section, size = "ledinfo", "IBA 14.2.5.15; python-rdma SMPLedInfo", 4
    carried_by = smp(0x0031)
    led_mask = flag("LedMask", at="0")
    reserved1 = pad(31, at="0[1]")


class VendorSpecificMadsTable(Struct):
    """Which vendor MADs a node answers; no public source has its layout."""

    key, section, size = "vendorspecificmadstable", "attribute id: libibmad", 64
    carried_by = smp(0x001D)
    data = raw(64, "Data", at="0")


class HierarchyInfo(Struct):
    """The position of a port in its chassis: numbers of levels, whose names the template lists."""

    key, section, size = "hierarchyinfo", "trex-core ib_types.h ib_hierarchy_info_t; attribute id: libibumad umad_sm.h", 64
    carried_by = smp(0x001E)
    template_guid = guid("TemplateGUID", at="0")
    max_supported_index = uint(8, "MaxSupportedIndex", at="8")
    max_active_index = uint(8, "MaxActiveIndex", at="9")
    active_levels = uint(4, "ActiveLevels", at="10")
    level = array(13, uint(32, "Level", at="..12"))


class CableInfo(Struct):
    """Bytes of the cable's memory map; no public source has its layout."""

    key, section, size = "cableinfo", "attribute id: attributes.csv; capability: opensm IB_PORT_CAP_HAS_CABLE_INFO", 64
    carried_by = smp(0x0032)
    data = raw(64, "Data", at="0")
