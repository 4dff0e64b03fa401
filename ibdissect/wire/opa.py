"""Omni-Path's subnet management packets: both formats, and the attributes of nodes, switches and managers.

Omni-Path MADs have base version 0x80, up to 2048 bytes, and their own layouts. Many attributes repeat for each port or block
requested by the attribute modifier; only the first is declared.
"""

from __future__ import annotations

from .convert import lifetime_text
from .mad import BASE_VERSION_OPA
from .names import NODE_TYPE, SM_STATE
from .places import Mad, MadFormat
from .spec import Struct, bit, enum, flag, gid, guid, hole, ip4, lid, pad, part, raw, rest, secret, text, uint

_SOURCE = "opa-ff stl_sm_types.h"


def opa_smp(attr_id: int) -> tuple[Mad, Mad]:
    """A subnet management attribute of Omni-Path in LID-routed and in directed-route SMPs."""
    return Mad(0x01, attr_id, base_version=BASE_VERSION_OPA), Mad(0x81, attr_id, base_version=BASE_VERSION_OPA)


class STLSMP(Struct):
    """LID-routed subnet management packet of Omni-Path."""

    prefix, key, section, size = "opa", "sm.lid", f"{_SOURCE} STL_SMP", 32
    carried_by = (MadFormat(0x01, base_version=BASE_VERSION_OPA),)
    header = hole(24, "MAD header", at="0")
    m_key = secret(64, "M_Key", at="24", ws="+mkey")
    data = rest("Data", at="32", ws="+data")


class STLSMPDirected(Struct):
    """Directed-route subnet management packet of Omni-Path: the paths precede the attribute."""

    prefix, key, section, size = "opa", "sm.dr", f"{_SOURCE} STL_SMP", 176
    carried_by = (MadFormat(0x81, base_version=BASE_VERSION_OPA),)
    header = hole(4, "MAD header", at="0")
    smp_status = uint(16, "SMPStatus", at="4", base="hex", ws="opa.mad.dr.status")
    d = bit(smp_status, 15, "D", ws="opa.mad.dr.direction")
    status = part(smp_status, 14, 0, "Status", base="hex")
    hop_pointer = uint(8, "Hop Pointer", at="6", ws="opa.mad.dr.hoppointer")
    hop_count = uint(8, "Hop Count", at="7", ws="opa.mad.dr.hopcounter")
    header_rest = hole(16, "MAD header", at="8")
    m_key = secret(64, "M_Key", at="24", ws="+mkey")
    dr_slid = lid("DrSLID", at="32", ws="+slid", bits=32)
    dr_dlid = lid("DrDLID", at="36", ws="+dlid", bits=32)
    initial_path = raw(64, "Initial Path", at="40", holds="ports")
    return_path = raw(64, "Return Path", at="104", holds="ports")
    data = rest("Data", at="..176", ws="+data")


class STLNodeDescription(Struct):
    """Human-readable name of the node."""

    prefix, key, section, size = "opa", "nodedescription", f"{_SOURCE} STL_NODE_DESCRIPTION", 64
    carried_by = opa_smp(0x0010)
    node_string = text(64, "NodeString", at="0")


class STLNodeInfo(Struct):
    """Identity of the node, and of the port that the SMP came in by."""

    prefix, key, section, size = "opa", "nodeinfo", f"{_SOURCE} STL_NODE_INFO; Wireshark packet-opa-mad", 44
    carried_by = opa_smp(0x0011)
    base_version = uint(8, "BaseVersion", at="0", base="hex")
    class_version = uint(8, "ClassVersion", at="1", base="hex")
    node_type = enum(8, {1: "HFI", 2: NODE_TYPE[2]}, "NodeType", at="2")
    num_ports = uint(8, "NumPorts", at="3")
    system_image_guid = guid("SystemImageGUID", at="..8")
    node_guid = guid("NodeGUID", at="16")
    port_guid = guid("PortGUID", at="24")
    partition_cap = uint(16, "PartitionCap", at="32")
    device_id = uint(16, "DeviceID", at="34", base="hex")
    revision = uint(32, "Revision", at="36", base="hex")
    local_port_num = uint(8, "LocalPortNum", at="40")
    vendor_id = uint(24, "VendorID", at="41", base="hex")


class STLSwitchInfo(Struct):
    """What a switch can forward, how far its tables reach, and its adaptive routing."""

    prefix, key, section, size = "opa", "switchinfo", f"Omni-Path manual; {_SOURCE} STL_SWITCH_INFO; Wireshark packet-opa-mad", 84
    carried_by = opa_smp(0x0012)
    linear_fdb_cap = uint(32, "LinearFDBCap", at="0")
    port_group_fdb_cap = uint(32, "PortGroupFDBCap", at="4")
    multicast_fdb_cap = uint(32, "MulticastFDBCap", at="8")
    linear_fdb_top = uint(32, "LinearFDBTop", at="12", base="hex")
    multicast_fdb_top = uint(32, "MulticastFDBTop", at="16", base="hex")
    collective_cap = uint(32, "CollectiveCap", at="20")
    collective_top = uint(32, "CollectiveTop", at="24", base="hex")
    ip_addr_ipv6 = gid("IPAddrIPv6", at="..32")
    ip_addr_ipv4 = ip4("IPAddrIPv4", at="48")
    life_time_value = uint(5, "LifeTimeValue", at="..67", show=lifetime_text)
    port_state_change = flag("PortStateChange", at="67[5]")
    reserved3 = pad(2, at="67[6]")
    reserved4 = pad(16, at="68")
    partition_enforcement_cap = uint(16, "PartitionEnforcementCap", at="70")
    port_group_cap = uint(8, "PortGroupCap", at="72")
    port_group_top = uint(8, "PortGroupTop", at="73")
    routing_mode_supported = uint(8, "RoutingModeSupported", at="74", base="hex", ws="+supportedroutingmode")
    routing_mode_enabled = uint(8, "RoutingModeEnabled", at="75", base="hex", ws="+enabledroutingmode")
    enhanced_port_0 = flag("EnhancedPort0", at="..76[4]", ws="+enhancedportzero")
    reserved6 = pad(3, at="76[5]")
    reserved7 = pad(2, at="77")
    collective_mask = uint(3, "CollectiveMask", at="77[2]")
    multicast_mask = uint(3, "MulticastMask", at="77[5]")
    adaptive_routing_enable = flag("AdaptiveRoutingEnable", at="78")
    adaptive_routing_pause = flag("AdaptiveRoutingPause", at="78[1]")
    adaptive_routing_algorithm = enum(3, {0: "Random", 1: "Greedy", 2: "Random greedy"}, "AdaptiveRoutingAlgorithm", at="78[2]")
    adaptive_routing_frequency = uint(3, "AdaptiveRoutingFrequency", at="78[5]", show=lambda code: f"{code} ({64 << code} ms)")
    adaptive_routing_lost_routes_only = flag("AdaptiveRoutingLostRoutesOnly", at="79")
    adaptive_routing_threshold = uint(3, "AdaptiveRoutingThreshold", at="79[1]")
    capability_mask = uint(16, "CapabilityMask", at="..80", base="hex", ws="+switchcapabilitymask")
    is_extended_scsc_supported = bit(capability_mask, 3, "IsExtendedSCSCSupported", ws="+switchcapabilitymask.isextendedscscsupported")
    is_addr_range_config_supported = bit(
        capability_mask, 2, "IsAddrRangeConfigSupported", ws="+switchcapabilitymask.isaddrrangeconfigsupported"
    )
    is_adaptive_routing_supported = bit(
        capability_mask, 0, "IsAdaptiveRoutingSupported", ws="+switchcapabilitymask.isadaptiveroutingsupported"
    )
    capability_mask_collectives = uint(16, "CapabilityMaskCollectives", at="82", base="hex")


class STLSMInfo(Struct):
    """State of a fabric manager, which others poll."""

    prefix, key, section, size = "opa", "sminfo", f"{_SOURCE} STL_SM_INFO", 26
    carried_by = opa_smp(0x0020)
    port_guid = guid("PortGUID", at="0", ws="+guid")
    sm_key = secret(64, "SM_Key", at="8")
    act_count = uint(32, "ActCount", at="16")
    elapsed_time = uint(32, "ElapsedTime", at="20", unit="s")
    priority = uint(4, "Priority", at="24")
    elevated_priority = uint(4, "ElevatedPriority", at="24[4]")
    initial_priority = uint(4, "InitialPriority", at="25")
    sm_state = enum(4, SM_STATE, "SMState", at="25[4]")


class STLLedInfo(Struct):
    """The locator LED of a port."""

    prefix, key, section, size = "opa", "ledinfo", f"{_SOURCE} STL_LED_INFO", 8
    carried_by = opa_smp(0x0031)
    led_mask = flag("LedMask", at="0")
    reserved1 = pad(31, at="0[1]")
    reserved2 = pad(32, at="4")


class STLCableInfo(Struct):
    """Up to 64 bytes of a cable's memory map; the attribute modifier says from where."""

    prefix, key, section, size = "opa", "cableinfo", f"{_SOURCE} STL_CABLE_INFO", 64
    carried_by = opa_smp(0x0032)
    data = raw(64, "Data", at="0")


class STLAggregate(Struct):
    """First segment of several attributes in one SMP; its RequestLength counts 8-byte units."""

    prefix, key, section, size = "opa", "aggregate", f"{_SOURCE} STL_AGGREGATE", 8
    carried_by = opa_smp(0x0080)
    attribute_id = uint(16, "AttributeID", at="0", base="hex", ws="+attrid")
    error = flag("Error", at="2")
    request_length = uint(7, "RequestLength", at="..3[1]", unit="x 8 bytes")
    attribute_modifier = uint(32, "AttributeModifier", at="4", base="hex")
    data = rest("Data", at="8", ws="+data")
