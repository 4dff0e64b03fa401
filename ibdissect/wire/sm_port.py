"""PortInfo and PortInfoExtended: addresses, state, link, virtual lanes, capabilities of a port."""

from __future__ import annotations

from . import convert, names
from .places import smp
from .port_kinds import END_PORTS, EXTERNAL_PORT, LINK_PORTS
from .spec import Field, Struct, bit, enum, flag, guid, lid, pad, part, secret, uint


def _named(mask: Field[int], number: int, label: str) -> Field[bool]:
    """A bit that filters know below its mask, as in Wireshark: `capabilitymask.noticesupported`."""
    return bit(mask, number, label, ws=f"+{mask.label.lower()}.{label.removeprefix('Is').lower()}")


class PortInfo(Struct):
    """Per-port state and limits, as the subnet manager sees and sets them."""

    key, size = "portinfo", 64
    section = "IBA 14.2.5.6; python-rdma SMPPortInfo (60 bytes); opensm, libibmad (bytes 56 and 60-63, CapabilityMask bits 13-15, 28-31)"
    carried_by = smp(0x0015)
    m_key = secret(64, "M_Key", at="0", ports=END_PORTS)
    gid_prefix = guid("GidPrefix", at="8", ws="guid", holds="prefix", ports=END_PORTS)
    lid = lid("LID", at="16", ports=END_PORTS)
    master_sm_lid = uint(16, "MasterSMLID", at="18", show=convert.lid_text, holds="lid", ports=END_PORTS)
    capability_mask = uint(32, "CapabilityMask", at="20", base="hex", ports=END_PORTS, read_only=True)
    is_sm = bit(capability_mask, 1, "IsSM", ws="+capabilitymask.issm")
    is_notice_supported = _named(capability_mask, 2, "IsNoticeSupported")
    is_trap_supported = _named(capability_mask, 3, "IsTrapSupported")
    is_optional_ipd_supported = _named(capability_mask, 4, "IsOptionalIPDSupported")
    is_automatic_migration_supported = _named(capability_mask, 5, "IsAutomaticMigrationSupported")
    is_sl_mapping_supported = _named(capability_mask, 6, "IsSLMappingSupported")
    is_m_key_nvram = _named(capability_mask, 7, "IsMKeyNVRAM")
    is_p_key_nvram = _named(capability_mask, 8, "IsPKeyNVRAM")
    is_led_info_supported = _named(capability_mask, 9, "IsLedInfoSupported")
    is_sm_disabled = _named(capability_mask, 10, "IsSMdisabled")
    is_system_image_guid_supported = _named(capability_mask, 11, "IsSystemImageGUIDSupported")
    is_p_key_switch_external_port_trap_supported = _named(capability_mask, 12, "IsPKeySwitchExternalPortTrapSupported")
    is_cable_info_supported = _named(capability_mask, 13, "IsCableInfoSupported")
    is_extended_speeds_supported = _named(capability_mask, 14, "IsExtendedSpeedsSupported")
    is_capability_mask2_supported = _named(capability_mask, 15, "IsCapabilityMask2Supported")
    is_communication_management_supported = _named(capability_mask, 16, "IsCommunicationManagementSupported")
    is_snmp_tunneling_supported = _named(capability_mask, 17, "IsSNMPTunnelingSupported")
    is_reinit_supported = _named(capability_mask, 18, "IsReinitSupported")
    is_device_management_supported = _named(capability_mask, 19, "IsDeviceManagementSupported")
    is_vendor_class_supported = _named(capability_mask, 20, "IsVendorClassSupported")
    is_dr_notice_supported = _named(capability_mask, 21, "IsDRNoticeSupported")
    is_capability_mask_notice_supported = _named(capability_mask, 22, "IsCapabilityMaskNoticeSupported")
    is_boot_management_supported = _named(capability_mask, 23, "IsBootManagementSupported")
    is_link_round_trip_latency_supported = _named(capability_mask, 24, "IsLinkRoundTripLatencySupported")
    is_client_reregistration_supported = bit(
        capability_mask, 25, "IsClientReregistrationSupported", ws="+capabilitymask.clientregistrationsupported"
    )
    is_other_local_changes_notice_supported = _named(capability_mask, 26, "IsOtherLocalChangesNoticeSupported")
    is_link_speed_width_pairs_table_supported = _named(capability_mask, 27, "IsLinkSpeedWidthPairsTableSupported")
    is_vendor_specific_mads_table_supported = _named(capability_mask, 28, "IsVendorSpecificMadsTableSupported")
    is_multicast_p_key_trap_suppression_supported = _named(capability_mask, 29, "IsMulticastPKeyTrapSuppressionSupported")
    is_multicast_fdb_top_supported = _named(capability_mask, 30, "IsMulticastFDBTopSupported")
    is_hierarchy_info_supported = _named(capability_mask, 31, "IsHierarchyInfoSupported")
    diag_code = uint(16, "DiagCode", at="24", base="hex", read_only=True)
    diag_code_chain = part(diag_code, 15, 15, "DiagCodeChain")
    diag_code_vendor = part(diag_code, 14, 4, "DiagCodeVendor")
    diag_code_universal = part(diag_code, 3, 0, "DiagCodeUniversal", values=names.DIAG_UNIVERSAL)
    m_key_lease_period = uint(16, "M_KeyLeasePeriod", at="26", show=convert.lease_text, ports=END_PORTS)
    local_port_num = uint(8, "LocalPortNum", at="28", read_only=True)
    link_width_enabled = uint(8, "LinkWidthEnabled", at="29", show=convert.width_enabled_text, ports=LINK_PORTS)
    link_width_supported = uint(8, "LinkWidthSupported", at="30", show=convert.width_mask_text, ports=LINK_PORTS, read_only=True)
    link_width_active = enum(8, names.LINK_WIDTH, "LinkWidthActive", at="31", ports=LINK_PORTS, read_only=True)
    link_speed_supported = uint(4, "LinkSpeedSupported", at="32", show=convert.speed_mask_text, ports=LINK_PORTS, read_only=True)
    port_state = enum(4, names.PORT_STATE, "PortState", at="32[4]", ports=LINK_PORTS)
    port_physical_state = enum(4, names.PORT_PHYSICAL_STATE, "PortPhysicalState", at="33", ports=LINK_PORTS)
    link_down_default_state = enum(4, names.LINK_DOWN_DEFAULT_STATE, "LinkDownDefaultState", at="33[4]", ports=LINK_PORTS)
    m_key_protect_bits = enum(2, names.M_KEY_PROTECT, "M_KeyProtectBits", at="34", ports=END_PORTS)
    reserved1 = pad(3, at="34[2]")
    lmc = uint(3, "LMC", at="34[5]")
    link_speed_active = enum(
        4,
        {0: "see LinkSpeedExtActive", **names.LINK_SPEED},
        "LinkSpeedActive",
        at="35",
        ports=LINK_PORTS,
        read_only=True,
    )
    link_speed_enabled = uint(4, "LinkSpeedEnabled", at="35[4]", show=convert.speed_enabled_text, ports=LINK_PORTS)
    neighbor_mtu = enum(4, names.MTU, "NeighborMTU", at="36", ports=LINK_PORTS)
    master_smsl = uint(4, "MasterSMSL", at="36[4]", ports=END_PORTS)
    vl_cap = enum(4, names.VL_CAP, "VLCap", at="37", ports=LINK_PORTS, read_only=True)
    init_type = uint(4, "InitType", at="37[4]", base="hex", ports=END_PORTS, read_only=True)
    vl_high_limit = uint(8, "VLHighLimit", at="38", ports=LINK_PORTS)
    vl_arbitration_high_cap = uint(8, "VLArbitrationHighCap", at="39", ports=LINK_PORTS, read_only=True)
    vl_arbitration_low_cap = uint(8, "VLArbitrationLowCap", at="40", ports=LINK_PORTS, read_only=True)
    init_type_reply = uint(4, "InitTypeReply", at="41", base="hex", ports=END_PORTS)
    mtu_cap = enum(4, names.MTU, "MTUCap", at="41[4]", ports=LINK_PORTS, read_only=True)
    vl_stall_count = uint(3, "VLStallCount", at="42", ports=EXTERNAL_PORT)
    hoq_life = uint(5, "HOQLife", at="42[3]", show=convert.lifetime_text, ports=LINK_PORTS)
    operational_vls = enum(4, {0: "No change", **names.VL_CAP}, "OperationalVLs", at="43", ports=LINK_PORTS)
    partition_enforcement_inbound = flag("PartitionEnforcementInbound", at="43[4]", ports=EXTERNAL_PORT)
    partition_enforcement_outbound = flag("PartitionEnforcementOutbound", at="43[5]", ports=EXTERNAL_PORT)
    filter_raw_inbound = flag("FilterRawInbound", at="43[6]", ports=EXTERNAL_PORT)
    filter_raw_outbound = flag("FilterRawOutbound", at="43[7]", ports=EXTERNAL_PORT)
    m_key_violations = uint(16, "M_KeyViolations", at="44", ports=END_PORTS)
    p_key_violations = uint(16, "P_KeyViolations", at="46", ports=END_PORTS)
    q_key_violations = uint(16, "Q_KeyViolations", at="48", ports=END_PORTS)
    guid_cap = uint(8, "GUIDCap", at="50", ports=END_PORTS, read_only=True)
    client_reregister = flag("ClientReregister", at="51", ports=END_PORTS)
    multicast_p_key_trap_suppression_enabled = uint(2, "MulticastPKeyTrapSuppressionEnabled", at="51[1]", ports=END_PORTS)
    subnet_time_out = uint(5, "SubnetTimeOut", at="51[3]", show=convert.timeout_text, ports=END_PORTS)
    reserved2 = pad(3, at="52")
    resp_time_value = uint(5, "RespTimeValue", at="52[3]", show=convert.timeout_text, ports=END_PORTS, read_only=True)
    local_phy_errors = uint(4, "LocalPhyErrors", at="53", ports=LINK_PORTS)
    overrun_errors = uint(4, "OverrunErrors", at="53[4]", ports=LINK_PORTS)
    max_credit_hint = uint(16, "MaxCreditHint", at="54", ports=LINK_PORTS, read_only=True)
    link_speed_ext_active2 = enum(
        2,
        {0: "none", **names.LINK_SPEED_EXT2},
        "LinkSpeedExtActive2",
        at="..56[1]",
        ports=LINK_PORTS,
        read_only=True,
    )
    link_speed_ext_supported2 = uint(
        2,
        "LinkSpeedExtSupported2",
        at="56[3]",
        show=convert.speed_ext2_mask_text,
        ports=LINK_PORTS,
        read_only=True,
    )
    link_speed_ext_enabled2 = uint(3, "LinkSpeedExtEnabled2", at="56[5]", show=convert.speed_ext2_enabled_text, ports=LINK_PORTS)
    link_round_trip_latency = uint(24, "LinkRoundTripLatency", at="57", ports=LINK_PORTS, read_only=True)
    capability_mask2 = uint(16, "CapabilityMask2", at="60", base="hex", ports=END_PORTS, read_only=True)
    is_set_node_description_supported = _named(capability_mask2, 0, "IsSetNodeDescriptionSupported")
    is_port_info_extended_supported = _named(capability_mask2, 1, "IsPortInfoExtendedSupported")
    is_virtualization_supported = _named(capability_mask2, 2, "IsVirtualizationSupported")
    is_switch_port_state_table_supported = _named(capability_mask2, 3, "IsSwitchPortStateTableSupported")
    is_link_width_2x_supported = _named(capability_mask2, 4, "IsLinkWidth2xSupported")
    is_link_speed_hdr_supported = _named(capability_mask2, 5, "IsLinkSpeedHDRSupported")
    is_m_key_protect_bits_ext_supported = _named(capability_mask2, 6, "IsMKeyProtectBitsExtSupported")
    is_enhanced_trap128_supported = _named(capability_mask2, 7, "IsEnhancedTrap128Supported")
    is_partition_top_supported = _named(capability_mask2, 8, "IsPartitionTopSupported")
    is_enhanced_qos_arbiter_supported = _named(capability_mask2, 9, "IsEnhancedQoSArbiterSupported")
    is_link_speed_ndr_supported = _named(capability_mask2, 10, "IsLinkSpeedNDRSupported")
    is_extended_speeds2_supported = _named(capability_mask2, 11, "IsExtendedSpeeds2Supported")
    is_link_speed_xdr_supported = _named(capability_mask2, 12, "IsLinkSpeedXDRSupported")
    link_speed_ext_active = enum(4, {0: "none", **names.LINK_SPEED_EXT}, "LinkSpeedExtActive", at="62", ports=LINK_PORTS, read_only=True)
    link_speed_ext_supported = uint(
        4,
        "LinkSpeedExtSupported",
        at="62[4]",
        show=convert.speed_ext_mask_text,
        ports=LINK_PORTS,
        read_only=True,
    )
    reserved4 = pad(3, at="63")
    link_speed_ext_enabled = uint(5, "LinkSpeedExtEnabled", at="63[3]", show=convert.speed_ext_enabled_text, ports=LINK_PORTS)


class PortInfoExtended(Struct):
    """Forward error correction of a port."""

    key, section, size = "portinfoextended", "opensm ib_port_info_ext_t; libibmad (whose HDR and NDR offsets are swapped)", 64
    carried_by = smp(0x0033)
    cap_mask = uint(32, "CapMask", at="0", base="hex")
    is_fec_mode_supported = _named(cap_mask, 0, "IsFECModeSupported")
    fec_mode_active = enum(16, names.FEC_MODE, "FECModeActive", at="4")
    fdr_fec_mode_supported = uint(16, "FDRFECModeSupported", at="6", show=convert.fec_mask_text)
    fdr_fec_mode_enabled = uint(16, "FDRFECModeEnabled", at="8", show=convert.fec_mask_text)
    edr_fec_mode_supported = uint(16, "EDRFECModeSupported", at="10", show=convert.fec_mask_text)
    edr_fec_mode_enabled = uint(16, "EDRFECModeEnabled", at="12", show=convert.fec_mask_text)
    hdr_fec_mode_supported = uint(16, "HDRFECModeSupported", at="14", show=convert.fec_mask_text)
    hdr_fec_mode_enabled = uint(16, "HDRFECModeEnabled", at="16", show=convert.fec_mask_text)
    ndr_fec_mode_supported = uint(16, "NDRFECModeSupported", at="18", show=convert.fec_mask_text)
    ndr_fec_mode_enabled = uint(16, "NDRFECModeEnabled", at="20", show=convert.fec_mask_text)
    reserved1 = pad(42 * 8, at="22")
