"""Bandwidth of SLs and VLs: the enhanced QoS arbiter, and NVIDIA's own attributes of the same kind.

Layouts as in the ib_types.h that trex-core carries (NVIDIA, 2021-2025, GPL-2.0 or BSD).
"""

from .places import Inside, Mad, smp
from .spec import Struct, array, bit, flag, lid, nested, pad, raw, uint

_SOURCE = "trex-core ib_types.h"


class EnhancedQoSArbiterInfo(Struct):
    """What a port can do to limit and share bandwidth; SMP 0x0050, and 0x0053 for a virtual port."""

    key, section, size = "enhancedqosarbiterinfo", f"{_SOURCE} ib_enh_qos_arbiter_info_t", 8
    carried_by = (*smp(0x0050), *smp(0x0053))
    capability_mask = uint(32, "CapabilityMask", at="0", base="hex")
    is_port_rate_limit_supported = bit(capability_mask, 1, "IsPortRateLimitSupported")
    is_vl_group0_rate_limit_supported = bit(capability_mask, 2, "IsVLGroup0RateLimitSupported")
    is_rate_limit_on_all_vl_groups_supported = bit(capability_mask, 3, "IsRateLimitOnAllVLGroupsSupported")
    is_vl_group_bw_share_supported = bit(capability_mask, 4, "IsVLGroupBWShareSupported")
    is_port_vl_bw_share_supported = bit(capability_mask, 5, "IsPortVLBWShareSupported")
    is_port_vl_rate_limit_supported = bit(capability_mask, 6, "IsPortVLRateLimitSupported")
    is_port_sl_bw_share_supported = bit(capability_mask, 7, "IsPortSLBWShareSupported")
    is_port_sl_rate_limit_supported = bit(capability_mask, 8, "IsPortSLRateLimitSupported")
    is_vl_group0_min_bw_supported = bit(capability_mask, 9, "IsVLGroup0MinBWSupported")
    is_min_bw_on_all_vl_groups_supported = bit(capability_mask, 10, "IsMinBWOnAllVLGroupsSupported")
    is_port_vl_min_bw_supported = bit(capability_mask, 11, "IsPortVLMinBWSupported")
    is_independent_granularity_supported = bit(capability_mask, 12, "IsIndependentGranularitySupported")
    num_vl_groups_cap = uint(4, "NumVLGroupsCap", at="4")
    sl_cap = uint(4, "SLCap", at="4[4]")
    rate_limit_granularity_cap = uint(4, "RateLimitGranularityCap", at="..6", base="hex")
    rate_limit_granularity_enabled = uint(4, "RateLimitGranularityEnabled", at="6[4]", base="hex")
    min_bw_granularity_cap = uint(4, "MinBWGranularityCap", at="7", base="hex")
    min_bw_granularity_enabled = uint(4, "MinBWGranularityEnabled", at="7[4]", base="hex")


class Bandwidth(Struct):
    """Share and limit of the bandwidth of one SL, VL or group of VLs."""

    key, section, size = "bandwidth", f"{_SOURCE} ib_enh_bw_per_element_t", 4
    share = uint(12, "Share", at="0")
    rate_limit = uint(20, "RateLimit", at="1[4]")


class PortVLArbiter(Struct):
    """Bandwidth of a port's VLs or groups of VLs; bit 30 of the modifier says of which, bit 31 whether these are minima or limits."""

    key, section, size = "portvlarbiter", f"{_SOURCE} ib_enh_port_vl_arbiter_t", 64
    carried_by = smp(0x0051)
    data = raw(64, "Data", at="0")


VL_TYPE = 1 << 30
"""Bit of the attribute modifier (IB_VL_PORT_ARBITER_CONFIG_TYPE_MASK)."""


class VLArbiter(Struct):
    """Bandwidth of each of 15 VLs."""

    key, section, size = "vlarbiter", f"{_SOURCE} ib_vl_arbiter_config_t", 64
    carried_by = (Inside(PortVLArbiter.data, modifier=(VL_TYPE, VL_TYPE)),)
    vl_mask = uint(16, "VLMask", at="0", base="hex")
    vl = array(15, nested(Bandwidth, "VL", at="..4"))


class VLGroupsArbiter(Struct):
    """Bandwidth of eight groups of VLs, and which VLs each holds."""

    key, section, size = "vlgroupsarbiter", f"{_SOURCE} ib_vl_groups_arbiter_config_t", 64
    carried_by = (Inside(PortVLArbiter.data, modifier=(VL_TYPE, 0)),)
    vl_group_mask = uint(8, "VLGroupMask", at="0", base="hex")
    rate_limiter = uint(20, "RateLimiter", at="..4")
    reserved3 = pad(12, at="6[4]")
    vl_group_vl_mask = array(8, uint(16, "VLGroupVLMask", at="8", base="hex"))
    vl_group = array(8, nested(Bandwidth, "VLGroup", at="24"))
    reserved2 = pad(64, at="56")


class EnhancedSLArbiter(Struct):
    """Bandwidth of each of 16 SLs; SMP 0x0052, and 0x0054 for a virtual port."""

    key, section, size = "enhancedslarbiter", f"{_SOURCE} ib_enh_sl_arbiter_t", 64
    carried_by = (*smp(0x0052), *smp(0x0054))
    sl = array(16, nested(Bandwidth, "SL", at="0"))


class EnhancedQoSArbiterInfoRecord(Struct):
    """EnhancedQoSArbiterInfo of a port."""

    key, section, size = "enhancedqosarbiterinforecord", f"{_SOURCE} ib_vport_enh_qos_arbiter_info_record_t", 12
    carried_by = (Mad(0x03, 0x0050),)
    lid = lid("LID", at="0")
    info = nested(EnhancedQoSArbiterInfo, "EnhancedQoSArbiterInfo", at="..4")


class ArbiterRecord(Struct):
    """The start of a port's arbiter records."""

    key, section, size = "vlarbiterrecord", f"{_SOURCE}: the same bytes of the three records", 4
    lid = lid("LID", at="0")
    output_port_num = uint(8, "OutputPortNum", at="2")
    rate_bandwidth = uint(8, "RateBandwidth", at="3", base="hex")


class VLArbiterRecord(ArbiterRecord):
    """Bandwidth of the VLs of a port."""

    key, section, size = "vlarbiterrecord", f"{_SOURCE} ib_vl_arbiter_config_record_t", 68
    carried_by = (Mad(0x03, 0x0052),)
    arbiter = nested(VLArbiter, "VLArbiter", at="4")


class VLGroupsArbiterRecord(ArbiterRecord):
    """Bandwidth of the VL groups of a port."""

    key, section, size = "vlgroupsarbiterrecord", f"{_SOURCE} ib_vl_groups_arbiter_config_record_t", 68
    carried_by = (Mad(0x03, 0x0051),)
    arbiter = nested(VLGroupsArbiter, "VLGroupsArbiter", at="4")


class EnhancedSLArbiterRecord(ArbiterRecord):
    """Bandwidth of the SLs of a port."""

    key, section, size = "enhancedslarbiterrecord", f"{_SOURCE} ib_enh_sl_arbiter_record_t", 68
    carried_by = (Mad(0x03, 0x0053),)
    rate_bandwidth = pad(8, at="3")
    arbiter = nested(EnhancedSLArbiter, "EnhancedSLArbiter", at="4")


class QosConfigSLEntry(Struct):
    """Bandwidth of one SL."""

    key, section, size = "mlnxqosconfigsl", f"{_SOURCE} ib_bw_layout_t", 4
    bandwidth_share = uint(12, "BandwidthShare", at="0")
    rate_limit = uint(20, "RateLimit", at="1[4]")


class QosConfigSL(Struct):
    """Bandwidth of each of the 16 SLs."""

    key, section, size = "mlnxqosconfigsl", f"{_SOURCE} qos_config_sl", 64
    carried_by = smp(0xFF82)
    bandwidth_per_sl = array(16, nested(QosConfigSLEntry, "BandwidthPerSL", at="0"))


class QosConfigVLEntry(Struct):
    """Buffer and kinds of data of one VL."""

    key, section, size = "mlnxqosconfigvl", f"{_SOURCE} ib_vl_config_block_t", 4
    vl_buffer_weight = uint(8, "VLBufferWeight", at="0")
    data_types = uint(16, "DataTypes", at="1", base="hex")
    is_infiniband = bit(data_types, 0, "InfiniBand")
    is_nvl_unicast_request = bit(data_types, 1, "NVLUnicastRequest")
    is_nvl_unicast_response = bit(data_types, 2, "NVLUnicastResponse")
    is_nvl_multicast_request = bit(data_types, 3, "NVLMulticastRequest")
    is_nvl_multicast_response = bit(data_types, 4, "NVLMulticastResponse")
    disable_hoq_life = flag("DisableHOQLife", at="..3[7]")


class QosConfigVL(Struct):
    """Buffers and kinds of data of the 15 data VLs."""

    key, section, size = "mlnxqosconfigvl", f"{_SOURCE} qos_config_vl", 64
    carried_by = smp(0xFF85)
    vl = array(15, nested(QosConfigVLEntry, "VL", at="0"))
    reserved1 = pad(32, at="60")
