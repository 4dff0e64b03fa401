"""What do NVIDIA's (Mellanox's) vendor attributes of subnet management contain? Ports, nodes, virtual ports, sensors.

Adaptive routing and private forwarding tables: `nvidia_routing`; routers: `nvidia_routers`; health, lanes and planes of links:
`nvidia_links`; bandwidth of SLs and VLs: `qos`. Layouts as in the packet layouts of ibutils2 (2018-10), newer fields as in
the ib_types.h that trex-core carries (NVIDIA, 2021-2025, GPL-2.0 or BSD).
"""

from .convert import mlnx_speed_mask_text
from .names import FEC_MODE, PORT_STATE
from .places import smp
from .sm_tables import PKeyEntry
from .spec import Struct, array, bit, enum, flag, guid, lid, nested, pad, raw, text, uint

_SOURCE = "ibutils2 packets_layouts (2018-10), attribute id ibis_types"
_HEADER = "trex-core ib_types.h"
EXTENDED_NODE_TYPE = {1: "GPU", 2: "Multi-plane HCA"}


class MlnxExtPortInfo(Struct):
    """FDR10, FEC and retransmission of a port."""

    key, section, size = "mlnxextportinfo", f"{_SOURCE}; opensm, trex-core ib_mlnx_ext_port_info_t; libibmad", 64
    carried_by = smp(0xFF90)
    ame = flag("AME", at="0")
    reserved1 = pad(23, at="0[1]")
    state_change_enable = uint(8, "StateChangeEnable", at="3", base="hex")
    reserved2 = pad(5, at="4")
    bw_utilization_enable = flag("BWUtilizationEnable", at="4[5]")
    bw_utilization = uint(10, "BWUtilization", at="4[6]")
    unhealthy_reason = uint(8, "UnhealthyReason", at="6")
    link_speed_supported = uint(8, "LinkSpeedSupported", at="7", show=mlnx_speed_mask_text)
    reserved3 = pad(17, at="8")
    min_bw_utilization = uint(7, "MinBWUtilization", at="10[1]")
    link_speed_enabled = uint(8, "LinkSpeedEnabled", at="11", show=mlnx_speed_mask_text)
    active_rs_fec_data = uint(12, "ActiveRSFECData", at="12")
    active_rs_fec_parity = uint(12, "ActiveRSFECParity", at="13[4]")
    link_speed_active = uint(8, "LinkSpeedActive", at="15", show=mlnx_speed_mask_text)
    retrans_mode = uint(4, "RetransMode", at="16")
    reserved4 = pad(4, at="16[4]")
    fec_mode_active = enum(4, FEC_MODE, "FECModeActive", at="17")
    nmx_admin_state = uint(3, "NMXAdminState", at="17[4]")
    reserved5 = pad(1, at="17[7]")
    capability_mask = uint(16, "CapabilityMask", at="18", base="hex")
    fdr10_fec_mode_enabled = uint(16, "FDR10FECModeEnabled", at="20", base="hex")
    fdr10_fec_mode_supported = uint(16, "FDR10FECModeSupported", at="22", base="hex")
    fdr_fec_mode_enabled = uint(16, "FDRFECModeEnabled", at="24", base="hex")
    fdr_fec_mode_supported = uint(16, "FDRFECModeSupported", at="26", base="hex")
    edr20_fec_mode_enabled = uint(16, "EDR20FECModeEnabled", at="28", base="hex")
    edr20_fec_mode_supported = uint(16, "EDR20FECModeSupported", at="30", base="hex")
    edr_fec_mode_enabled = uint(16, "EDRFECModeEnabled", at="32", base="hex")
    edr_fec_mode_supported = uint(16, "EDRFECModeSupported", at="34", base="hex")
    fdr_retran_enabled = uint(8, "FDRRetranEnabled", at="36", base="hex")
    fdr_retran_supported = uint(8, "FDRRetranSupported", at="37", base="hex")
    fdr10_retran_enabled = uint(8, "FDR10RetranEnabled", at="38", base="hex")
    fdr10_retran_supported = uint(8, "FDR10RetranSupported", at="39", base="hex")
    edr_retran_enabled = uint(8, "EDRRetranEnabled", at="40", base="hex")
    edr_retran_supported = uint(8, "EDRRetranSupported", at="41", base="hex")
    edr20_retran_enabled = uint(8, "EDR20RetranEnabled", at="42", base="hex")
    edr20_retran_supported = uint(8, "EDR20RetranSupported", at="43", base="hex")
    is_fnm_port = uint(8, "IsFNMPort", at="44", base="hex")
    reserved6 = pad(8, at="45")
    special_port_capability_mask = uint(8, "SpecialPortCapabilityMask", at="46", base="hex")
    is_special_port = flag("IsSpecialPort", at="47")
    reserved7 = pad(3, at="47[1]")
    special_port_type = uint(4, "SpecialPortType", at="47[4]")
    hdr_fec_mode_enabled = uint(16, "HDRFECModeEnabled", at="48", base="hex")
    hdr_fec_mode_supported = uint(16, "HDRFECModeSupported", at="50", base="hex")
    adaptive_timeout_sl_mask = uint(16, "AdaptiveTimeoutSLMask", at="52", base="hex")
    ooo_sl_mask = uint(16, "OOOSLMask", at="54", base="hex")
    reserved8 = pad(64, at="56")


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

    key, section, size = "mlnxgeneralinfo", f"{_SOURCE}; bits: {_HEADER} IB_GENERAL_INFO", 16
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
    """Temperature of a switch and its warning thresholds; the flags keep the source's short names."""

    key, section, size = "mlnxtempsensing", _SOURCE, 16
    carried_by = smp(0xFF40)
    reserved1 = pad(25, at="0")
    wtge = flag("wtge", at="3[1]")
    wtgs = flag("wtgs", at="3[2]")
    wtte = flag("wtte", at="3[3]")
    wtts = flag("wtts", at="3[4]")
    stge = flag("stge", at="3[5]")
    stgs = flag("stgs", at="3[6]")
    tss = flag("tss", at="3[7]")
    reserved2 = pad(5, at="4")
    max_temp = uint(11, "MaxTemp", at="4[5]")
    reserved3 = pad(5, at="6")
    current_temp = uint(11, "CurrentTemp", at="6[5]")
    reserved4 = pad(5, at="8")
    overtemp_warning_threshold_lo = uint(11, "OvertempWarningThresholdLo", at="8[5]")
    reserved5 = pad(5, at="10")
    overtemp_warning_threshold_hi = uint(11, "OvertempWarningThresholdHi", at="10[5]")
    reserved6 = pad(27, at="12")
    wtgm = uint(2, "wtgm", at="15[3]")
    wtgp = flag("wtgp", at="15[5]")
    wtga = flag("wtga", at="15[6]")
    wts = flag("wts", at="15[7]")


class ExtendedNodeInfo(Struct):
    """Ways of SL to VL mapping, planes and kind of a node."""

    key, section, size = "mlnxextendednodeinfo", f"{_HEADER} ib_mlnx_ext_node_info_t; SL2VL: ibutils2 (2018-10)", 64
    carried_by = smp(0xFF91)
    num_oob = uint(8, "NumOOB", at="0")
    num_pcie = uint(8, "NumPCIe", at="1")
    reserved1 = pad(5, at="2")
    sl2vl_act = uint(3, "SL2VLAct", at="2[5]")
    reserved2 = pad(5, at="3")
    sl2vl_cap = uint(3, "SL2VLCap", at="3[5]", base="hex")
    reserved3 = pad(72, at="4")
    anycast_lid_table_top = uint(8, "AnycastLIDTableTop", at="13")
    anycast_lid_table_cap = uint(8, "AnycastLIDTableCap", at="14")
    node_type_extended = enum(8, EXTENDED_NODE_TYPE, "NodeTypeExtended", at="15")
    multiplane_asymmetry_enable = flag("MultiplaneAsymmetryEnable", at="16")
    link_auto_retrain_enable = flag("LinkAutoRetrainEnable", at="16[1]")
    reserved4 = pad(22, at="16[2]")
    asic_max_planes = uint(8, "ASICMaxPlanes", at="19")
    reserved5 = pad(44 * 8, at="20")


class ExtendedSwitchInfo(Struct):
    """Turbo path and in-service upgrade of a switch."""

    key, section, size = "mlnxextendedswitchinfo", f"{_HEADER} ib_extended_switch_info_t", 16
    carried_by = smp(0xFF92)
    reserved1 = pad(26, at="0")
    issu_approve = flag("ISSUApprove", at="3[2]")
    issu_request = flag("ISSURequest", at="3[3]")
    turbo_path_cap = flag("TurboPathCap", at="3[4]")
    turbo_path_enable = uint(3, "TurboPathEnable", at="3[5]")
    reserved2 = pad(4, at="4")
    req_delay_cap = flag("ReqDelayCap", at="4[4]")
    set_trigger_threshold_cap = flag("SetTriggerThresholdCap", at="4[5]")
    reset_trigger_threshold_cap = flag("ResetTriggerThresholdCap", at="4[6]")
    req_trigger_window_cap = flag("ReqTriggerWindowCap", at="4[7]")
    reserved3 = pad(14, at="5")
    req_delay = uint(10, "ReqDelay", at="6[6]")
    reserved4 = pad(6, at="8")
    set_trigger_threshold = uint(10, "SetTriggerThreshold", at="8[6]")
    reserved5 = pad(6, at="10")
    reset_trigger_threshold = uint(10, "ResetTriggerThreshold", at="10[6]")
    reserved6 = pad(22, at="12")
    req_trigger_window = uint(10, "ReqTriggerWindow", at="14[6]")


class VirtualizationInfo(Struct):
    """How many virtual ports a port has."""

    key, section, size = "virtualizationinfo", _SOURCE, 8
    carried_by = smp(0xFFB0)
    vport_cap = uint(16, "VPortCap", at="0")
    vport_index_top = uint(16, "VPortIndexTop", at="2")
    virtualization_enable = flag("VirtualizationEnable", at="4")
    client_reregister = flag("ClientReregister", at="4[1]")
    vport_state_change = flag("VPortStateChange", at="4[2]")
    reserved1 = pad(13, at="4[3]")
    virtualization_revision = uint(8, "VirtualizationRevision", at="6")
    capability_mask = uint(8, "CapabilityMask", at="7", base="hex")


class VPortInfo(Struct):
    """State, LID and GUID of a virtual port."""

    key, section, size = "vportinfo", _SOURCE, 28
    carried_by = smp(0xFFB1)
    vport_state = enum(4, PORT_STATE, "VPortState", at="0")
    client_reregister = flag("ClientReregister", at="0[4]")
    lid_required = flag("LIDRequired", at="0[5]")
    reserved1 = pad(2, at="0[6]")
    guid_cap = uint(8, "GUIDCap", at="1")
    capability_mask = uint(16, "CapabilityMask", at="2", base="hex")
    p_key_violations = uint(16, "P_KeyViolations", at="4")
    q_key_violations = uint(16, "Q_KeyViolations", at="6")
    vport_lid = lid("VPortLID", at="8")
    lid_by_vport_index = uint(16, "LIDByVPortIndex", at="10")
    vport_guid = guid("VPortGUID", at="12")
    vport_profile = uint(64, "VPortProfile", at="20", base="hex")


class VNodeInfo(Struct):
    """Identity of a virtual node."""

    key, section, size = "vnodeinfo", _SOURCE, 12
    carried_by = smp(0xFFB2)
    partition_cap = uint(16, "PartitionCap", at="0")
    local_port_num = uint(8, "LocalPortNum", at="2")
    num_ports = uint(8, "NumPorts", at="3")
    vnode_guid = guid("VNodeGUID", at="4")


class VPortState(Struct):
    """States of 128 virtual ports."""

    key, section, size = "vportstate", _SOURCE, 64
    carried_by = smp(0xFFB3)
    vport_state = array(128, enum(4, PORT_STATE, "VPortState", at="0"))


class VNodeDescription(Struct):
    """Name of a virtual node, in the form of NodeDescription."""

    key, section, size = "vnodedescription", "attribute id: ibutils2 ibis_types; layout that of NodeDescription", 64
    carried_by = smp(0xFFB4)
    node_string = text(64, "NodeString", at="0")


class VPortPKeyTable(Struct):
    """32 partition keys of a virtual port, in the form of P_KeyTable."""

    key, section, size = "vportp_keytable", "attribute id: ibutils2 ibis_types; layout that of P_KeyTable", 64
    carried_by = smp(0xFFB6)
    p_key_table_block = array(32, nested(PKeyEntry, "P_KeyTableBlock", at="0"))


class VPortGUIDInfo(Struct):
    """Eight GUIDs of a virtual port, in the form of GUIDInfo."""

    key, section, size = "vportguidinfo", f"{_HEADER}: attribute id; layout that of GUIDInfo", 64
    carried_by = smp(0xFFB5)
    guid = array(8, guid("GUID", at="0"))


class ChassisInfo(Struct):
    """Which chassis a node is in."""

    key, section, size = "mlnxchassisinfo", f"{_HEADER} ib_chassis_info_t", 20
    carried_by = smp(0xFF18)
    reserved1 = pad(32, at="0")
    chassis_id = raw(16, "ChassisID", at="4")


class FabricManagerInfo(Struct):
    """State of the fabric manager on an NVLink switch."""

    key, section, size = "mlnxfabricmanagerinfo", f"{_HEADER} ib_fabric_manager_info_t", 24
    carried_by = smp(0xFF8E)
    reserved1 = pad(56, at="0")
    fm_state = uint(8, "FMState", at="7")
    last_restart = uint(64, "LastRestart", at="8", base="hex")
    since_last_restart = uint(64, "SinceLastRestart", at="16")
