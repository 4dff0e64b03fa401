"""Omni-Path's PortInfo and PortStateInfo."""

from __future__ import annotations

from .convert import lease_text, lifetime_text, opa_lid_text, timeout_text
from .names import M_KEY_PROTECT, MTU, PORT_PHYSICAL_STATE, PORT_STATE
from .opa import opa_smp
from .spec import Field, Struct, array, bit, enum, flag, gid, guid, ip4, lid, nested, pad, part, qpn, secret, uint

_SOURCE = "opa-ff stl_sm_types.h"
PHYSICAL_STATE = {**PORT_PHYSICAL_STATE, 9: "Offline", 11: "Test"}
OFFLINE_REASON = {
    0: "None", 1: "Disconnected", 2: "Local media not installed", 3: "Not installed", 4: "Chassis configuration",
    6: "End to end not installed", 8: "Power policy", 9: "Link speed policy", 10: "Link width policy", 12: "Switch management",
    13: "SMA disabled", 15: "Transient",
}  # fmt: skip
LINK_INIT_REASON = {0: "No change", 1: "Link up", 2: "Flapping", 8: "Outside policy", 9: "Quarantined", 10: "Insufficient capability"}
LINK_DOWN_REASON = {
    0: "None", 1: "Receive error 0", 2: "Bad packet length", 3: "Packet too long", 4: "Packet too short", 5: "Bad SLID", 6: "Bad DLID",
    7: "Bad L2", 8: "Bad SC", 9: "Receive error 8", 10: "Bad mid tail", 11: "Receive error 10", 12: "Preempt error", 13: "Preempt VL15",
    14: "Bad VL marker", 15: "Receive error 14", 16: "Receive error 15", 17: "Bad head distance", 18: "Bad tail distance",
    19: "Bad control distance", 20: "Bad credit ack", 21: "Unsupported VL marker", 22: "Bad preempt", 23: "Bad control flit",
    24: "Multicast limit exceeded", **{reason: f"Receive error {reason - 1}" for reason in range(25, 32)}, 32: "Excessive buffer overrun",
    33: "Unknown", 35: "Reboot", 36: "Neighbor, unknown", 39: "Fabric manager bounce", 40: "Speed policy", 41: "Width policy",
    **{reason + 48: name for reason, name in OFFLINE_REASON.items() if reason},
}  # fmt: skip
"""LinkDownReason; 49-63 are the offline reasons."""
PORT_TYPE = {0: "Unknown", 1: "Disconnected", 2: "Fixed", 3: "Variable", 4: "Standard", 5: "Silicon photonics"}
NEIGHBOR_TYPE = {0: "HFI", 1: "Switch"}
STL_MTU = {**MTU, 6: "8192", 7: "10240"}


def _named(mask: Field[int], number: int, label: str) -> Field[bool]:
    """A bit that filters know below its mask, as in Wireshark: `portmode.isvlmarkerenabled`."""
    return bit(mask, number, label, ws=f"+{mask.label.lower()}.{label.lower()}")


class STLPortStates(Struct):
    """State of a port, in PortInfo and PortStateInfo."""

    prefix, key, section, size = "opa", "portstates", f"{_SOURCE} STL_PORT_STATES", 4
    led_enabled = flag("LEDEnabled", at="..1[1]")
    is_sm_configuration_started = flag("IsSMConfigurationStarted", at="1[2]")
    neighbor_normal = flag("NeighborNormal", at="1[3]")
    offline_disabled_reason = enum(4, OFFLINE_REASON, "OfflineDisabledReason", at="1[4]")
    port_physical_state = enum(4, PHYSICAL_STATE, "PortPhysicalState", at="..3")
    port_state = enum(4, PORT_STATE, "PortState", at="3[4]")


class STLPortStateInfo(Struct):
    """State and downgraded width of a port."""

    prefix, key, section, size = "opa", "portstates", f"{_SOURCE} STL_PORT_STATE_INFO", 8
    carried_by = opa_smp(0x0087)
    port_states = nested(STLPortStates, "PortStates", at="0")
    link_width_downgrade_tx_active = uint(16, "LinkWidthDowngradeTxActive", at="4", base="hex")
    link_width_downgrade_rx_active = uint(16, "LinkWidthDowngradeRxActive", at="6", base="hex")


class STLNeighborMTU(Struct):
    """MTU codes of an even VL and the next odd one."""

    prefix, key, section, size = "opa", "portinfo", f"{_SOURCE} STL_VL_TO_MTU", 1
    even_vl_to_mtu = enum(4, STL_MTU, "EvenVLtoMTU", at="0", ws="+vl1")
    odd_vl_to_mtu = enum(4, STL_MTU, "OddVLtoMTU", at="0[4]", ws="+vl2")


class STLXmitQueue(Struct):
    """How long packets of a VL may wait."""

    prefix, key, section, size = "opa", "portinfo.xmitq", f"{_SOURCE} XmitQ_s", 1
    vl_stall_count = uint(3, "VLStallCount", at="0")
    hoq_life = uint(5, "HOQLife", at="0[3]", show=lifetime_text)


class STLPortInfo(Struct):
    """Per-port state and limits of Omni-Path."""

    prefix, key, section, size = "opa", "portinfo", f"{_SOURCE} STL_PORT_INFO (offsets of the compiled structure)", 242
    carried_by = opa_smp(0x0015)
    lid = lid("LID", at="0", bits=32)
    flow_control_mask = uint(32, "FlowControlMask", at="4", base="hex")
    vl_preempt_cap = uint(8, "VLPreemptCap", at="8", ws="+vl.preemptcap")
    vl_cap = uint(5, "VLCap", at="..9[3]", ws="+vl.cap")
    vl_high_limit = uint(16, "VLHighLimit", at="10", ws="+vl.highlimit")
    vl_preempting_limit = uint(16, "VLPreemptingLimit", at="12", ws="+vl.preemptinglimit")
    vl_arbitration_high_cap = uint(8, "VLArbitrationHighCap", at="14", ws="+vl.arbitrationhighcap")
    vl_arbitration_low_cap = uint(8, "VLArbitrationLowCap", at="15", ws="+vl.arbitrationlowcap")
    port_states = nested(STLPortStates, "PortStates", at="16")
    port_type = enum(4, PORT_TYPE, "PortType", at="..20[4]", ws="+portphysconfig.porttype")
    collective_mask = uint(3, "CollectiveMask", at="..21[2]", ws="+multicollectmask.collectivemask")
    multicast_mask = uint(3, "MulticastMask", at="21[5]", ws="+multicollectmask.multicastmask")
    m_key_protect_bits = enum(2, M_KEY_PROTECT, "M_KeyProtectBits", at="22", ws="+mkeyprotectbits")
    lmc = uint(4, "LMC", at="..22[4]")
    master_smsl = uint(5, "MasterSMSL", at="..23[3]", ws="+mastersml")
    link_init_reason = enum(4, LINK_INIT_REASON, "LinkInitReason", at="24")
    partition_enforcement_inbound = flag("PartitionEnforcementInbound", at="24[4]")
    partition_enforcement_outbound = flag("PartitionEnforcementOutbound", at="24[5]")
    reserved6 = pad(2, at="24[6]")
    reserved7 = pad(3, at="25")
    operational_vl = uint(5, "OperationalVL", at="25[3]")
    p_key_8b = uint(16, "P_Key_8B", at="26", base="hex", ws="+pkey8")
    p_key_10b = uint(16, "P_Key_10B", at="28", base="hex", ws="+pkey10")
    m_key_violations = uint(16, "M_KeyViolations", at="30")
    p_key_violations = uint(16, "P_KeyViolations", at="32")
    q_key_violations = uint(16, "Q_KeyViolations", at="34")
    sm_trap_qp = qpn("SMTrapQP", at="..37", ws="+trapqpair")
    sa_qp = qpn("SAQP", at="..41", ws="+saqpair")
    neighbor_port_num = uint(8, "NeighborPortNum", at="44")
    link_down_reason = enum(8, LINK_DOWN_REASON, "LinkDownReason", at="45")
    neighbor_link_down_reason = enum(8, LINK_DOWN_REASON, "NeighborLinkDownReason", at="46")
    client_reregister = flag("ClientReregister", at="47")
    multicast_p_key_trap_suppression_enabled = uint(2, "MulticastPKeyTrapSuppressionEnabled", at="47[1]", ws="+multicastpkeytrapenabled")
    subnet_timeout = uint(5, "SubnetTimeout", at="47[3]", show=timeout_text, ws="+timeout")
    link_speed_supported = uint(16, "LinkSpeedSupported", at="48", base="hex")
    link_speed_enabled = uint(16, "LinkSpeedEnabled", at="50", base="hex")
    link_speed_active = enum(16, {0: "Down", 1: "12.5 Gb/s", 2: "25.78125 Gb/s"}, "LinkSpeedActive", at="52")
    link_width_supported = uint(16, "LinkWidthSupported", at="54", base="hex")
    link_width_enabled = uint(16, "LinkWidthEnabled", at="56", base="hex")
    link_width_active = enum(16, {0: "Down", 1: "1x", 2: "2x", 4: "3x", 8: "4x"}, "LinkWidthActive", at="58")
    link_width_downgrade_supported = uint(16, "LinkWidthDowngradeSupported", at="60", base="hex")
    link_width_downgrade_enabled = uint(16, "LinkWidthDowngradeEnabled", at="62", base="hex")
    link_width_downgrade_tx_active = uint(16, "LinkWidthDowngradeTxActive", at="64", base="hex")
    link_width_downgrade_rx_active = uint(16, "LinkWidthDowngradeRxActive", at="66", base="hex")
    port_link_mode_supported = uint(5, "PortLinkModeSupported", at="..68[1]", ws="+portlinkmode.supported")
    port_link_mode_enabled = uint(5, "PortLinkModeEnabled", at="68[6]", ws="+portlinkmode.enabled")
    port_link_mode_active = uint(5, "PortLinkModeActive", at="69[3]", ws="+portlinkmode.active")
    port_ltp_crc_mode_supported = uint(4, "PortLTPCRCModeSupported", at="..70[4]", ws="+portltpcrc.supported")
    port_ltp_crc_mode_enabled = uint(4, "PortLTPCRCModeEnabled", at="71", ws="+portltpcrc.enabled")
    port_ltp_crc_mode_active = uint(4, "PortLTPCRCModeActive", at="71[4]", ws="+portltpcrc.active")
    port_mode = uint(16, "PortMode", at="72", base="hex")
    is_active_optimize_enabled = _named(port_mode, 6, "IsActiveOptimizeEnabled")
    is_pass_through_enabled = _named(port_mode, 5, "IsPassThroughEnabled")
    is_vl_marker_enabled = _named(port_mode, 4, "IsVLMarkerEnabled")
    is_16b_trap_query_enabled = _named(port_mode, 1, "Is16BTrapQueryEnabled")
    port_packet_formats_supported = uint(16, "PortPacketFormatsSupported", at="74", base="hex", ws="+portpacketformats.supported")
    port_packet_formats_enabled = uint(16, "PortPacketFormatsEnabled", at="76", base="hex", ws="+portpacketformats.enabled")
    distance_supported = uint(2, "DistanceSupported", at="..78[2]", ws="+flitcontrol.interleave.distancesupported")
    distance_enabled = uint(2, "DistanceEnabled", at="78[4]", ws="+flitcontrol.interleave.distanceenabled")
    max_nest_level_tx_enabled = uint(5, "MaxNestLevelTxEnabled", at="78[6]", ws="+flitcontrol.interleave.maxnestleveltxenabled")
    max_nest_level_rx_supported = uint(5, "MaxNestLevelRxSupported", at="79[3]", ws="+flitcontrol.interleave.maxnestlevelrxenabled")
    min_initial = uint(16, "MinInitial", at="80", ws="+flitcontrol.preemption.mininitial")
    min_tail = uint(16, "MinTail", at="82", ws="+flitcontrol.preemption.mintail")
    large_pkt_limit = uint(8, "LargePktLimit", at="84", ws="+flitcontrol.preemption.largepacketlimit")
    small_pkt_limit = uint(8, "SmallPktLimit", at="85", ws="+flitcontrol.preemption.smallpacketlimit")
    max_small_pkt_limit = uint(8, "MaxSmallPktLimit", at="86", ws="+flitcontrol.preemption.maxsmallpacketlimit")
    preemption_limit = uint(8, "PreemptionLimit", at="87", ws="+flitcontrol.preemption.preemptionlimit")
    max_lid = uint(32, "MaxLID", at="88", base="hex")
    port_error_action = uint(32, "PortErrorAction", at="92", base="hex")
    excessive_buffer_overrun = _named(port_error_action, 31, "ExcessiveBufferOverrun")
    fm_config_error_exceed_multicast_limit = _named(port_error_action, 23, "FmConfigErrorExceedMulticastLimit")
    fm_config_error_bad_control_flit = _named(port_error_action, 22, "FmConfigErrorBadControlFlit")
    fm_config_error_bad_preempt = _named(port_error_action, 21, "FmConfigErrorBadPreempt")
    fm_config_error_unsupported_vl_marker = bit(
        port_error_action, 20, "FmConfigErrorUnsupportedVLMarker", ws="+porterroraction.fmconfigerrorbadvlmarker"
    )
    fm_config_error_bad_crdt_ack = _named(port_error_action, 19, "FmConfigErrorBadCrdtAck")
    fm_config_error_bad_ctrl_dist = _named(port_error_action, 18, "FmConfigErrorBadCtrlDist")
    fm_config_error_bad_tail_dist = _named(port_error_action, 17, "FmConfigErrorBadTailDist")
    fm_config_error_bad_head_dist = _named(port_error_action, 16, "FmConfigErrorBadHeadDist")
    port_rcv_error_bad_vl_marker = _named(port_error_action, 13, "PortRcvErrorBadVLMarker")
    port_rcv_error_preempt_vl15 = _named(port_error_action, 12, "PortRcvErrorPreemptVL15")
    port_rcv_error_preempt_error = _named(port_error_action, 11, "PortRcvErrorPreemptError")
    port_rcv_error_bad_mid_tail = _named(port_error_action, 9, "PortRcvErrorBadMidTail")
    port_rcv_error_bad_sc = _named(port_error_action, 7, "PortRcvErrorBadSC")
    port_rcv_error_bad_l2 = _named(port_error_action, 6, "PortRcvErrorBadL2")
    port_rcv_error_bad_dlid = _named(port_error_action, 5, "PortRcvErrorBadDLID")
    port_rcv_error_bad_slid = _named(port_error_action, 4, "PortRcvErrorBadSLID")
    port_rcv_error_pkt_len_too_short = _named(port_error_action, 3, "PortRcvErrorPktLenTooShort")
    port_rcv_error_pkt_len_too_long = _named(port_error_action, 2, "PortRcvErrorPktLenTooLong")
    port_rcv_error_bad_pkt_len = _named(port_error_action, 1, "PortRcvErrorBadPktLen")
    egress_port = uint(8, "EgressPort", at="96", ws="+passthroughcontrol.egressport")
    dr_control = flag("DRControl", at="..97[7]", ws="+passthroughcontrol.drcontrol")
    m_key_lease_period = uint(16, "M_KeyLeasePeriod", at="98", show=lease_text)
    vl15_init = uint(12, "VL15Init", at="..101[1]", ws="+bufferunits.vl15init")
    vl15_credit_rate = uint(5, "VL15CreditRate", at="102[5]", ws="+bufferunits.vl15credit")
    credit_ack = uint(3, "CreditAck", at="103[2]", ws="+bufferunits.creditack")
    buffer_alloc = uint(3, "BufferAlloc", at="103[5]", ws="+bufferunits.bufferalloc")
    bundle_next_port = uint(8, "BundleNextPort", at="..106")
    bundle_lane = uint(8, "BundleLane", at="107")
    master_sm_lid = uint(32, "MasterSMLID", at="108", show=opa_lid_text, holds="lid")
    m_key = secret(64, "M_Key", at="112", ws="+mkey")
    subnet_prefix = guid("SubnetPrefix", at="120", holds="prefix")
    neighbor_mtu = array(16, nested(STLNeighborMTU, "NeighborMTU", at="128"))
    xmit_q = array(32, nested(STLXmitQueue, "XmitQ", at="144"))
    ip_addr_ipv6 = gid("IPAddrIPv6", at="176")
    ip_addr_ipv4 = ip4("IPAddrIPv4", at="192")
    neighbor_node_guid = guid("NeighborNodeGUID", at="..208")
    capability_mask = uint(32, "CapabilityMask", at="216", base="hex")
    is_capability_mask_notice_supported = _named(capability_mask, 22, "IsCapabilityMaskNoticeSupported")
    is_vendor_class_supported = _named(capability_mask, 20, "IsVendorClassSupported")
    is_device_management_supported = _named(capability_mask, 19, "IsDeviceManagementSupported")
    is_connection_management_supported = _named(capability_mask, 16, "IsConnectionManagementSupported")
    is_automatic_migration_supported = _named(capability_mask, 5, "IsAutomaticMigrationSupported")
    is_sm = _named(capability_mask, 1, "IsSM")
    capability_mask3 = uint(16, "CapabilityMask3", at="..222", base="hex")
    is_max_lid_supported = _named(capability_mask3, 12, "IsMAXLIDSupported")
    vl_scheduling_config = part(
        capability_mask3, 9, 8, "VLSchedulingConfig", values={0: "VL arbitration", 2: "Automatic"}, ws="+capabilitymask3.vlschedulingconfig"
    )
    is_snoop_supported = _named(capability_mask3, 7, "IsSnoopSupported")
    is_async_sc2vl_supported = _named(capability_mask3, 6, "IsAsyncSC2VLSupported")
    is_addr_range_config_supported = _named(capability_mask3, 5, "IsAddrRangeConfigSupported")
    is_pass_through_supported = _named(capability_mask3, 4, "IsPassThroughSupported")
    is_shared_space_supported = _named(capability_mask3, 3, "IsSharedSpaceSupported")
    is_shared_group_space_supported = _named(capability_mask3, 2, "IsSharedGroupSpaceSupported")
    is_vl_marker_supported = _named(capability_mask3, 1, "IsVLMarkerSupported")
    is_vlr_supported = _named(capability_mask3, 0, "IsVLrSupported")
    overall_buffer_space = uint(16, "OverallBufferSpace", at="..228")
    replay_buffer_depth_h = uint(8, "ReplayBufferDepthH", at="230", ws="+replaydepthh.bufferdepthh")
    replay_wire_depth_h = uint(8, "ReplayWireDepthH", at="231", ws="+replaydepthh.wiredepthh")
    diag_code = uint(16, "DiagCode", at="232", base="hex")
    replay_buffer_depth = uint(8, "ReplayBufferDepth", at="234", ws="+replaydepth.bufferdepth")
    replay_wire_depth = uint(8, "ReplayWireDepth", at="235", ws="+replaydepth.wiredepth")
    mgmt_allowed = flag("MgmtAllowed", at="..236[4]", ws="+portneighbormode.mgmtallowed")
    neighbor_fw_authen_bypass = flag("NeighborFWAuthenBypass", at="236[5]", ws="+portneighbormode.neighborfwauthenbypass")
    neighbor_node_type = enum(2, NEIGHBOR_TYPE, "NeighborNodeType", at="236[6]", ws="+portneighbormode.neighbornodetype")
    mtu_cap = enum(4, STL_MTU, "MTUCap", at="..237[4]", ws="+mtu.cap")
    resp_time_value = uint(5, "RespTimeValue", at="..238[3]", show=timeout_text, ws="+resp.timevalue")
    local_port_num = uint(8, "LocalPortNum", at="239")
    reserved22 = pad(16, at="240")
