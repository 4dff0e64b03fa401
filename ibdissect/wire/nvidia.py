"""NVIDIA's (Mellanox's) vendor attributes of subnet management: ports, nodes, virtual ports, sensors.

Adaptive routing and private forwarding tables: `nvidia_routing`; routers: `nvidia_routers`; health, lanes and planes of links:
`nvidia_links`; bandwidth of SLs and VLs: `qos`. Layouts as in the ib_types.h that trex-core carries (NVIDIA, 2021-2025, GPL-2.0 or BSD);
what it calls reserved is shown as bytes where devices fill it.
"""

from .convert import mlnx_speed_mask_text
from .names import PORT_STATE
from .places import smp
from .sm_tables import PKeyEntry
from .spec import Struct, array, bit, enum, flag, guid, lid, nested, pad, raw, text, uint

_SOURCE = "trex-core ib_types.h"
SPECIAL_PORT_TYPE = {1: "SHARP aggregation node", 2: "Router", 3: "Ethernet gateway"}
EXTENDED_NODE_TYPE = {1: "GPU", 2: "Multi-plane HCA"}


class MlnxExtPortInfo(Struct):
    """FDR10, bandwidth, health and role of a port. PortInfoExtended has its FEC modes."""

    key, section, size = "mlnxextportinfo", f"{_SOURCE} ib_mlnx_ext_port_info_t; opensm; libibmad", 64
    carried_by = smp(0xFF90)
    ame = flag("AME", at="0")
    sharp_an_enable = flag("SHARPANEnable", at="0[1]")
    router_lid_enable = flag("RouterLIDEnable", at="0[2]")
    port_recovered = flag("PortRecovered", at="0[3]")
    state_change_enable = uint(8, "StateChangeEnable", at="..3", base="hex")
    bw_utilization_enable = flag("BWUtilizationEnable", at="..4[5]")
    bw_utilization = uint(10, "BWUtilization", at="4[6]")
    unhealthy_reason = uint(8, "UnhealthyReason", at="6")
    link_speed_supported = uint(8, "LinkSpeedSupported", at="7", show=mlnx_speed_mask_text)
    min_bw_utilization = uint(7, "MinBWUtilization", at="..10[1]")
    link_speed_enabled = uint(8, "LinkSpeedEnabled", at="11", show=mlnx_speed_mask_text)
    undocumented1 = raw(3, "Undocumented1", at="12")
    link_speed_active = uint(8, "LinkSpeedActive", at="15", show=mlnx_speed_mask_text)
    undocumented2 = uint(12, "Undocumented2", at="16", base="hex", holds="data")
    nmx_admin_state = uint(3, "NMXAdminState", at="17[4]")
    capability_mask = uint(16, "CapabilityMask", at="..18", base="hex")
    is_dual_m_key_supported = bit(capability_mask, 9, "IsDualM_KeySupported")
    undocumented3 = raw(24, "Undocumented3", at="20")
    is_fnm_port = uint(8, "IsFNMPort", at="44", base="hex")
    fnm_port = bit(is_fnm_port, 7, "FNMPort")
    mission_as_fnm_port = bit(is_fnm_port, 6, "MissionAsFNMPort")
    qos_config_vl_enable = bit(is_fnm_port, 5, "QosConfigVLEnable")
    access_trunk = bit(is_fnm_port, 4, "AccessTrunk")
    undocumented4 = raw(2, "Undocumented4", at="45")
    is_special_port = flag("IsSpecialPort", at="47")
    special_port_type = enum(4, SPECIAL_PORT_TYPE, "SpecialPortType", at="..47[4]")
    undocumented5 = raw(4, "Undocumented5", at="48")
    adaptive_timeout_sl_mask = uint(16, "AdaptiveTimeoutSLMask", at="52", base="hex")
    ooo_sl_mask = uint(16, "OOOSLMask", at="54", base="hex")
    reserved6 = pad(64, at="56")


CAPABILITIES = {
    0: "PrivateLFT", 1: "AdaptiveRouting", 2: "AdaptiveRoutingRev", 3: "RemotePortMirroring", 4: "TemperatureSensing",
    5: "ConfigSpaceAccess", 6: "CableInfo", 7: "EyeOpen", 8: "LossyVLConfig", 9: "ExtendedPortInfo", 10: "AccessRegister",
    11: "InterProcessCommunication", 12: "PortSLToPrivateLFT", 13: "ExtendedNodeInfo", 14: "SlaveVirtualSwitch", 15: "Virtualization",
    16: "RetransmissionAndFECModes", 18: "SHARPAggregationNode", 24: "QosConfigSLRateLimit", 25: "QosConfigSLVPortRateLimit",
    30: "GlobalOutOfOrder", 44: "DCQCN", 45: "AdaptiveTimeout", 48: "RouterLID", 49: "LFTSplit", 51: "QosConfigVL", 52: "FastRecovery",
    53: "CreditWatchdog", 55: "NVLinkReductionManagement", 56: "RailFilter", 57: "NVLHBFConfig", 59: "ContainAndDrain", 61: "BERConfig",
    63: "VLBufferWeight", 64: "EndPortPlaneFilterConfig", 66: "BandwidthUtilization", 67: "ExtendedSwitchInfo", 68: "FabricManagerInfo",
    72: "ChassisInfo", 74: "Upgrade", 76: "PortRecoveryPolicyConfig", 77: "NMXAdminState", 81: "LinkAutoRetrain",
}  # fmt: skip
"""Bits of GeneralInfo, counted from the least significant one of the first word (IB_GENERAL_INFO_..._BIT)."""


class GeneralInfoCapability(Struct):
    """Which vendor attributes a device supports."""

    key, section, size = "mlnxgeneralinfo", f"{_SOURCE} ib_general_info_smp_t, IB_GENERAL_INFO", 16
    carried_by = smp(0xFF17)
    capability0 = uint(32, "Capability0", at="0", base="hex")
    capability1 = uint(32, "Capability1", at="4", base="hex")
    capability2 = uint(32, "Capability2", at="8", base="hex")
    capability3 = uint(32, "Capability3", at="12", base="hex")
    _words = capability0, capability1, capability2, capability3
    for _bit, _name in CAPABILITIES.items():
        vars()[_name.lower()] = bit(_words[_bit // 32], _bit % 32, _name)
    del _words


class TempSensing(Struct):
    """Temperature of a switch; no open source has the layout."""

    key, section, size = "mlnxtempsensing", f"{_SOURCE} IB_GENERAL_INFO_TEMPERATURE_SENSING_SUPPORTED_BIT; no open layout", 64
    carried_by = smp(0xFF40)
    data = raw(64, "Data", at="0")


class ExtendedNodeInfo(Struct):
    """Ways of SL to VL mapping, planes and kind of a node."""

    key, section, size = "mlnxextendednodeinfo", f"{_SOURCE} ib_mlnx_ext_node_info_t; SL2VLCap: the project's owner", 64
    carried_by = smp(0xFF91)
    num_oob = uint(8, "NumOOB", at="0")
    num_pcie = uint(8, "NumPCIe", at="1")
    sl2vl_act = uint(8, "SL2VLAct", at="2")
    sl2vl_cap = uint(3, "SL2VLCap", at="..3[5]", base="hex")
    anycast_lid_table_top = uint(8, "AnycastLIDTableTop", at="..13")
    anycast_lid_table_cap = uint(8, "AnycastLIDTableCap", at="14")
    node_type_extended = enum(8, EXTENDED_NODE_TYPE, "NodeTypeExtended", at="15")
    multiplane_asymmetry_enable = flag("MultiplaneAsymmetryEnable", at="16")
    link_auto_retrain_enable = flag("LinkAutoRetrainEnable", at="16[1]")
    asic_max_planes = uint(8, "ASICMaxPlanes", at="..19")
    reserved4 = pad(44 * 8, at="20")


class ExtendedSwitchInfo(Struct):
    """Turbo path and in-service upgrade of a switch."""

    key, section, size = "mlnxextendedswitchinfo", f"{_SOURCE} ib_extended_switch_info_t", 16
    carried_by = smp(0xFF92)
    issu_approve = flag("ISSUApprove", at="..3[2]")
    issu_request = flag("ISSURequest", at="3[3]")
    turbo_path_cap = flag("TurboPathCap", at="3[4]")
    turbo_path_enable = uint(3, "TurboPathEnable", at="3[5]")
    req_delay_cap = flag("ReqDelayCap", at="..4[4]")
    set_trigger_threshold_cap = flag("SetTriggerThresholdCap", at="4[5]")
    reset_trigger_threshold_cap = flag("ResetTriggerThresholdCap", at="4[6]")
    req_trigger_window_cap = flag("ReqTriggerWindowCap", at="4[7]")
    req_delay = uint(10, "ReqDelay", at="..6[6]")
    set_trigger_threshold = uint(10, "SetTriggerThreshold", at="..8[6]")
    reset_trigger_threshold = uint(10, "ResetTriggerThreshold", at="..10[6]")
    req_trigger_window = uint(10, "ReqTriggerWindow", at="..14[6]")


class VirtualizationInfo(Struct):
    """How many virtual ports a port has."""

    key, section, size = "virtualizationinfo", f"{_SOURCE} ib_virtualization_info_t", 8
    carried_by = smp(0xFFB0)
    vport_cap = uint(16, "VPortCap", at="0")
    vport_index_top = uint(16, "VPortIndexTop", at="2")
    virtualization_enable = flag("VirtualizationEnable", at="4")
    client_reregister = flag("ClientReregister", at="4[1]")
    vport_state_change = flag("VPortStateChange", at="4[2]")
    virtualization_revision = uint(8, "VirtualizationRevision", at="..6")
    capability_mask = uint(8, "CapabilityMask", at="7", base="hex")


class VPortInfo(Struct):
    """State, LID and GUID of a virtual port."""

    key, section, size = "vportinfo", f"{_SOURCE} ib_vport_info_t", 28
    carried_by = smp(0xFFB1)
    vport_state = enum(4, PORT_STATE, "VPortState", at="0")
    client_reregister = flag("ClientReregister", at="0[4]")
    lid_required = flag("LIDRequired", at="0[5]")
    guid_cap = uint(8, "GUIDCap", at="..1")
    capability_mask = uint(16, "CapabilityMask", at="2", base="hex")
    p_key_violations = uint(16, "P_KeyViolations", at="4")
    q_key_violations = uint(16, "Q_KeyViolations", at="6")
    vport_lid = lid("VPortLID", at="8")
    lid_by_vport_index = uint(16, "LIDByVPortIndex", at="10")
    vport_guid = guid("VPortGUID", at="12")
    vport_profile = uint(64, "VPortProfile", at="20", base="hex")


class VNodeInfo(Struct):
    """Identity of a virtual node."""

    key, section, size = "vnodeinfo", f"{_SOURCE} ib_vnode_info_t", 12
    carried_by = smp(0xFFB2)
    partition_cap = uint(16, "PartitionCap", at="0")
    local_port_num = uint(8, "LocalPortNum", at="2")
    num_ports = uint(8, "NumPorts", at="3")
    vnode_guid = guid("VNodeGUID", at="4")


class VPortState(Struct):
    """States of 128 virtual ports."""

    key, section, size = "vportstate", f"{_SOURCE} ib_vport_state_t", 64
    carried_by = smp(0xFFB3)
    vport_state = array(128, enum(4, PORT_STATE, "VPortState", at="0"))


class VNodeDescription(Struct):
    """Name of a virtual node, in the form of NodeDescription."""

    key, section, size = "vnodedescription", f"{_SOURCE}: attribute id; layout that of NodeDescription", 64
    carried_by = smp(0xFFB4)
    node_string = text(64, "NodeString", at="0")


class VPortPKeyTable(Struct):
    """32 partition keys of a virtual port, in the form of P_KeyTable."""

    key, section, size = "vportp_keytable", f"{_SOURCE}: attribute id; layout that of P_KeyTable", 64
    carried_by = smp(0xFFB6)
    p_key_table_block = array(32, nested(PKeyEntry, "P_KeyTableBlock", at="0"))


class VPortGUIDInfo(Struct):
    """Eight GUIDs of a virtual port, in the form of GUIDInfo."""

    key, section, size = "vportguidinfo", f"{_SOURCE}: attribute id; layout that of GUIDInfo", 64
    carried_by = smp(0xFFB5)
    guid = array(8, guid("GUID", at="0"))


class ChassisInfo(Struct):
    """Which chassis a node is in."""

    key, section, size = "mlnxchassisinfo", f"{_SOURCE} ib_chassis_info_t", 20
    carried_by = smp(0xFF18)
    chassis_id = raw(16, "ChassisID", at="..4")


class FabricManagerInfo(Struct):
    """State of the fabric manager on an NVLink switch."""

    key, section, size = "mlnxfabricmanagerinfo", f"{_SOURCE} ib_fabric_manager_info_t", 24
    carried_by = smp(0xFF8E)
    fm_state = uint(8, "FMState", at="..7")
    last_restart = uint(64, "LastRestart", at="8", base="hex")
    since_last_restart = uint(64, "SinceLastRestart", at="16")
