"""NVIDIA's attributes of adaptive routing, routing notification and private forwarding tables.

Layouts as in the ib_types.h that trex-core carries (NVIDIA, 2021-2025, GPL-2.0 or BSD).
"""

from .places import smp
from .spec import Struct, array, bit, enum, flag, nested, pad, raw, uint

_SOURCE = "trex-core ib_types.h"
LID_STATE = {0: "Bounded", 1: "Free", 2: "Static"}
RN_DECISION = {0: "Discard", 1: "Consume ARN", 2: "Consume ARN and FRN", 3: "Pass on"}


class PLFTMode(Struct):
    """How many private forwarding tables of which size a mode offers."""

    key, section, size = "mlnxplftinfo", f"{_SOURCE} ib_plft_bank_entry_t", 2
    bank_size = uint(8, "BankSize", at="0", unit="blocks of 1024 LIDs")
    num_banks = uint(8, "NumBanks", at="1")


class PrivateLFTInfo(Struct):
    """Private forwarding tables of a switch."""

    key, section, size = "mlnxplftinfo", f"{_SOURCE} ib_plft_info_t", 18
    carried_by = smp(0xFF10)
    num_plfts = uint(8, "NumPLFTs", at="..1")
    mode_cap = uint(8, "ModeCap", at="2")
    active_mode = uint(8, "ActiveMode", at="3")
    description_mode = array(7, nested(PLFTMode, "DescriptionMode", at="4"))


class PLFTDefEntry(Struct):
    """Part of the physical table that a private one takes."""

    key, section, size = "mlnxplftdef", f"{_SOURCE} ib_plft_def_element_t", 4
    force_sub_group0_and_bank = uint(8, "ForceSubGroup0AndBank", at="0", base="hex")
    lid_space = uint(8, "LIDSpace", at="1", unit="blocks of 512 LIDs")
    lid_offset = uint(8, "LIDOffset", at="..3", unit="blocks of 512 LIDs")


class PrivateLFTDef(Struct):
    """16 private forwarding tables."""

    key, section, size = "mlnxplftdef", f"{_SOURCE} ib_plft_def_t", 64
    carried_by = smp(0xFF11)
    lft = array(16, nested(PLFTDefEntry, "LFT", at="0"))


class PrivateLFTMap(Struct):
    """Ports that use a private forwarding table."""

    key, section, size = "mlnxplftmap", f"{_SOURCE} ib_plft_map_t", 40
    carried_by = smp(0xFF12)
    lft_top_en = flag("LFTTopEn", at="..3[6]")
    port_mask_en = flag("PortMaskEn", at="3[7]")
    fdb_port_group_mask = raw(32, "FDBPortGroupMask", at="4")
    lft_top = uint(16, "LFTTop", at="..38")


class PortSLToPLFTEntry(Struct):
    """Private forwarding table of each SL of a port."""

    key, section, size = "mlnxportsltoplft", f"{_SOURCE} ib_port_sl_to_plft_map_entry_t", 16
    plft = array(16, uint(8, "PLFT", at="0"))


class PortSLToPrivateLFTMap(Struct):
    """Private forwarding tables of four ports."""

    key, section, size = "mlnxportsltoplft", f"{_SOURCE} ib_port_sl_to_plft_map_t", 64
    carried_by = smp(0xFF14)
    port_sl_to_plft = array(4, nested(PortSLToPLFTEntry, "PortSLToPLFT", at="0"))


class AdaptiveRoutingInfo(Struct):
    """Adaptive routing of a switch: capabilities and settings."""

    key, section, size = "mlnxarinfo", f"{_SOURCE} ib_ar_info_t", 64
    carried_by = smp(0xFF20)
    dyn_cap_calc_sup = flag("DynCapCalcSup", at="..0[1]")
    by_transp_cap = flag("ByTranspCap", at="0[2]")
    by_sl_en = flag("BySLEn", at="0[3]")
    by_sl_cap = flag("BySLCap", at="0[4]")
    glb_groups = flag("GlbGroups", at="0[5]")
    is4_mode = flag("IS4Mode", at="0[6]")
    no_fallback = flag("NoFallback", at="0[7]")
    direction_num_sup = uint(8, "DirectionNumSup", at="1")
    group_table_copy_sup = uint(4, "GroupTableCopySup", at="2")
    sub_grps_active = uint(4, "SubGrpsActive", at="2[4]")
    rn_xmit_enabled = flag("RNXmitEnabled", at="..3[2]")
    fr_enabled = flag("FREnabled", at="3[3]")
    is_fr_sup = flag("IsFRSup", at="3[4]")
    is_frn_sup = flag("IsFRNSup", at="3[5]")
    is_arn_sup = flag("IsARNSup", at="3[6]")
    e = flag("E", at="3[7]")
    string_width_cap = uint(4, "StringWidthCap", at="4")
    group_table_cap = uint(4, "GroupTableCap", at="4[4]")
    group_top = uint(12, "GroupTop", at="5")
    group_cap = uint(12, "GroupCap", at="6[4]")
    enable_by_sl_mask = uint(16, "EnableBySLMask", at="8", base="hex")
    sub_grps_supported = uint(8, "SubGrpsSupported", at="10")
    rn_version_cap = uint(4, "RNVersionCap", at="11")
    ar_version_cap = uint(4, "ARVersionCap", at="11[4]")
    by_transport_disable = uint(8, "ByTransportDisable", at="..15", base="hex")
    ud_disable = bit(by_transport_disable, 0, "UDDisable")
    rc_disable = bit(by_transport_disable, 1, "RCDisable")
    uc_disable = bit(by_transport_disable, 2, "UCDisable")
    dct_disable = bit(by_transport_disable, 3, "DCTDisable")
    ageing_time_value = uint(32, "AgeingTimeValue", at="16", unit="us")
    is_hbf_supported = flag("IsHBFSupported", at="20")
    is_whbf_supported = flag("IsWHBFSupported", at="20[1]")
    symmetric_hash_supported = flag("SymmetricHashSupported", at="20[2]")
    dceth_hash_supported = flag("DCETHHashSupported", at="20[3]")
    bth_dqp_hash_supported = flag("BTHDQPHashSupported", at="20[4]")
    is_nvl_hbf_supported = flag("IsNVLHBFSupported", at="20[5]")
    is_pfrn_supported = flag("IsPFRNSupported", at="20[6]")
    reserved5 = pad(9, at="20[7]")
    hbf_enabled_by_sl = flag("HBFEnabledBySL", at="22")
    whbf_enabled = flag("WHBFEnabled", at="22[1]")
    reserved6 = pad(1, at="22[2]")
    pfrn_enabled = flag("PFRNEnabled", at="22[3]")
    reserved7 = pad(12, at="22[4]")
    whbf_granularity = uint(8, "WHBFGranularity", at="24")
    reserved8 = pad(8, at="25")
    enable_by_sl_mask_hbf = uint(16, "EnableBySLMaskHBF", at="26", base="hex")
    reserved9 = pad(36 * 8, at="28")


class ARGroupTable(Struct):
    """Two adaptive routing groups of 32 bytes. How subgroups share them is unknown: `ib_types.h` does not describe it."""

    key, section, size = "mlnxargrouptable", f"{_SOURCE} ib_ar_group_table_t", 64
    carried_by = smp(0xFF21)
    group = array(2, raw(32, "Group", at="0"))


class ARLFTEntry(Struct):
    """How packets to a LID are routed."""

    key, section, size = "mlnxarlineartable", f"{_SOURCE} ib_ar_lft_entry_t", 4
    lid_state = enum(2, LID_STATE, "LIDState", at="0")
    table_number = uint(4, "TableNumber", at="..0[4]")
    default_port = uint(8, "DefaultPort", at="1")
    group_number = uint(16, "GroupNumber", at="2")


class ARLinearForwardingTable(Struct):
    """Adaptive routing of 16 consecutive LIDs (the SX form)."""

    key, section, size = "mlnxarlineartable", f"{_SOURCE} ib_ar_lft_t", 64
    carried_by = smp(0xFF23)
    lid_entry = array(16, nested(ARLFTEntry, "LIDEntry", at="0"))


class RNGenStringTable(Struct):
    """Strings of 32 directions."""

    key, section, size = "mlnxrngenstring", f"{_SOURCE} ib_rn_gen_string_table_t", 64
    carried_by = smp(0xFFB8)
    rn_gen_string = array(32, uint(16, "RNGenString", at="0"))


class RNRcvStringEntry(Struct):
    """What a switch does with a routing notification."""

    key, section, size = "mlnxrnrcvstring", f"{_SOURCE} ib_rn_rcv_string_entry_t", 4
    string2string = uint(16, "String2String", at="0")
    plft_id = uint(8, "PLFTID", at="2")
    decision = enum(8, RN_DECISION, "Decision", at="3")


class RNRcvString(Struct):
    """What a switch does with the notifications of 16 strings."""

    key, section, size = "mlnxrnrcvstring", f"{_SOURCE} ib_rn_rcv_string_table_t", 64
    carried_by = smp(0xFFB9)
    element = array(16, nested(RNRcvStringEntry, "Element", at="0"))


class RNSubGroupDirectionTable(Struct):
    """Directions of 64 subgroups."""

    key, section, size = "mlnxrnsubgroupdirection", f"{_SOURCE} ib_rn_sub_group_direction_table_t", 64
    carried_by = smp(0xFFBA)
    direction = array(64, uint(8, "Direction", at="0"))


class RNXmitPortMask(Struct):
    """For 128 ports: bit 0 generate ARN, bit 1 generate FRN, bit 2 pass notifications on."""

    key, section, size = "mlnxrnxmitportmask", f"{_SOURCE} ib_rn_xmit_port_mask_t", 64
    carried_by = smp(0xFFBC)
    element = array(128, uint(4, "Element", at="0", base="hex"))


class ARGroupCopyEntry(Struct):
    """A range of groups that copies take."""

    key, section, size = "mlnxargrouptablecopy", f"{_SOURCE} ib_ar_group_copy_entry_t", 4
    copy_to_index = uint(12, "CopyToIndex", at="..0[4]")
    copy_from_index = uint(12, "CopyFromIndex", at="..2[4]")


class ARGroupTableCopy(Struct):
    """16 ranges of groups that are copied."""

    key, section, size = "mlnxargrouptablecopy", f"{_SOURCE} ib_ar_group_copy_t", 64
    carried_by = smp(0xFFBD)
    element = array(16, nested(ARGroupCopyEntry, "Element", at="0"))


class RNSubGroupPriorityEntry(Struct):
    """Which notifications a subgroup priority makes."""

    key, section, size = "mlnxrnbypriority", f"{_SOURCE} IB_RN_GEN_BY_SUB_GROUP_PRIORITY_GEN_ARN_MASK, GEN_FRN_MASK", 4
    gen_frn = flag("GenFRN", at="..3[6]")
    gen_arn = flag("GenARN", at="3[7]")


class RNGenBySubGroupPriority(Struct):
    """Which notifications 16 subgroup priorities make."""

    key, section, size = "mlnxrnbypriority", f"{_SOURCE} ib_rn_gen_by_sub_group_priority_t", 64
    carried_by = smp(0xFFBE)
    element = array(16, nested(RNSubGroupPriorityEntry, "Element", at="0"))


class HBFConfig(Struct):
    """How a switch hashes packets onto equal paths."""

    key, section, size = "mlnxhbfconfig", f"{_SOURCE} ib_hbf_config_t", 20
    carried_by = smp(0xFF24)
    hash_type = uint(4, "HashType", at="0")
    seed_type = uint(2, "SeedType", at="..0[6]")
    seed = uint(32, "Seed", at="..8", base="hex")
    fields_enable = uint(64, "FieldsEnable", at="12", base="hex")


class HBFGroupWeight(Struct):
    """Weights of the three subgroups of an adaptive routing group."""

    key, section, size = "mlnxwhbfconfig", f"{_SOURCE} ib_ar_group_weight", 4
    subgroup_weight = array(3, uint(8, "SubgroupWeight", at="..1"))


class WeightedHBFConfig(Struct):
    """Weights of 16 adaptive routing groups."""

    key, section, size = "mlnxwhbfconfig", f"{_SOURCE} ib_whbf_config_t", 64
    carried_by = smp(0xFF25)
    group_weight = array(16, nested(HBFGroupWeight, "GroupWeight", at="0"))


class LFTSplit(Struct):
    """How a switch divides its forwarding table among global, anycast and local-plane LIDs."""

    key, section, size = "mlnxlftsplit", f"{_SOURCE} ib_linear_forwarding_table_split_t", 36
    carried_by = smp(0xFF26)
    global_lid_range_start = uint(32, "GlobalLIDRangeStart", at="0")
    global_lid_range_cap = uint(32, "GlobalLIDRangeCap", at="4")
    global_lid_range_top = uint(32, "GlobalLIDRangeTop", at="8")
    alid_range_start = uint(32, "ALIDRangeStart", at="12")
    alid_range_cap = uint(32, "ALIDRangeCap", at="16")
    alid_range_top = uint(32, "ALIDRangeTop", at="20")
    local_plane_lid_range_start = uint(32, "LocalPlaneLIDRangeStart", at="24")
    local_plane_lid_range_cap = uint(32, "LocalPlaneLIDRangeCap", at="28")
    local_plane_lid_range_top = uint(32, "LocalPlaneLIDRangeTop", at="32")


class NVLHBFConfig(Struct):
    """How an NVLink switch hashes packets onto equal paths."""

    key, section, size = "mlnxnvlhbfconfig", f"{_SOURCE} ib_nvl_hbf_config_t", 28
    carried_by = smp(0xFF27)
    hash_type = uint(4, "HashType", at="0")
    reserved1 = pad(4, at="0[4]")
    reserved2 = pad(80, at="1")
    packet_hash_bitmask = uint(8, "PacketHashBitmask", at="11", base="hex")
    seed = uint(32, "Seed", at="..16", base="hex")
    fields_enable = uint(64, "FieldsEnable", at="20", base="hex")


class PFRNConfig(Struct):
    """How a switch treats port failure routing notifications."""

    key, section, size = "mlnxpfrnconfig", f"{_SOURCE} ib_pfrn_config_t", 16
    carried_by = smp(0xFF61)
    capability_mask = uint(32, "CapabilityMask", at="0", base="hex")
    is_policy_supported = bit(capability_mask, 0, "IsPolicySupported", ws="+capabilitymask.policysupported")
    sl = uint(4, "SL", at="..8[4]")
    policy = enum(8, {0: "Tree", 1: "Dragonfly+"}, "Policy", at="..11")
    mask_force_clear_timeout = uint(16, "MaskForceClearTimeout", at="12")
    mask_clear_timeout = uint(16, "MaskClearTimeout", at="14")
