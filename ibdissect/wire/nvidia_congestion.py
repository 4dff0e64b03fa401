"""NVIDIA's vendor attributes of congestion control (class 0x21).

Layouts as in the ib_types.h that trex-core carries (NVIDIA, 2021-2025, GPL-2.0 or BSD).
"""

from .numbers import CC_CLASS
from .places import Mad
from .spec import Struct, array, bit, flag, nested, pad, raw, uint

_SOURCE = "trex-core ib_types.h"


class CCEnhancedInfo(Struct):
    """Versions and capabilities of enhanced congestion control."""

    key, section, size = "mlnxccenhancedinfo", f"{_SOURCE} ib_cc_enh_info_t", 16
    carried_by = (Mad(CC_CLASS, 0xFF00),)
    ver0_supported = flag("Version0Supported", at="0")
    ver1_supported = flag("Version1Supported", at="0[1]")
    cc_capability_mask = uint(64, "CCCapabilityMask", at="..8", base="hex")
    is_algo_config_supported = bit(cc_capability_mask, 2, "IsAlgoConfigSupported")
    is_granularity_supported = bit(cc_capability_mask, 3, "IsGranularitySupported")
    is_dual_cc_key_supported = bit(cc_capability_mask, 5, "IsDualCCKeySupported")
    is_per_plane_supported = bit(cc_capability_mask, 6, "IsPerPlaneSupported")


class CCSwitchGeneralSettings(Struct):
    """Whether and how a switch watches its queues."""

    key, section, size = "mlnxccswitchsettings", f"{_SOURCE} ib_cc_sw_general_settings_t", 12
    carried_by = (Mad(CC_CLASS, 0xFF08),)
    enable = flag("Enable", at="..0[7]")
    aqs_weight = uint(8, "AQSWeight", at="..2")
    aqs_time = uint(8, "AQSTime", at="3")
    cap_total_buffer_size = uint(32, "CapTotalBufferSize", at="4")
    cap_cc_profile_step_size = uint(8, "CapCCProfileStepSize", at="..11")


class CCPortProfile(Struct):
    """The buffer fill levels at which a port marks packets."""

    key, section, size = "mlnxccportprofile", f"{_SOURCE} ib_cc_port_profile_t", 8
    profile_min = uint(32, "ProfileMin", at="0")
    profile_percent = uint(7, "ProfilePercent", at="..4[1]")
    profile_max = uint(20, "ProfileMax", at="..5[4]")


class CCPortProfileSettings(Struct):
    """Three marking profiles of a switch port."""

    key, section, size = "mlnxccportprofile", f"{_SOURCE} ib_cc_port_profile_settings_t", 28
    carried_by = (Mad(CC_CLASS, 0xFF09),)
    mode = flag("Mode", at="0")
    granularity = flag("Granularity", at="0[1]")
    vl_mask = uint(16, "VLMask", at="..2", base="hex")
    profile = array(3, nested(CCPortProfile, "Profile", at="4"))


class CCSLMappingSettings(Struct):
    """Profile of each SL, SL 0 first."""

    key, section, size = "mlnxccslmapping", f"{_SOURCE} ib_cc_sl_mapping_settings_t", 4
    carried_by = (Mad(CC_CLASS, 0xFF10),)
    profile = array(16, uint(2, "Profile", at="0"))


class CCHCAGeneralSettings(Struct):
    """Whether an HCA reacts to congestion and sends notifications."""

    key, section, size = "mlnxcchcasettings", f"{_SOURCE} ib_cc_hca_general_settings_t", 1
    carried_by = (Mad(CC_CLASS, 0xFF20),)
    notify_enable = flag("NotifyEnable", at="0")
    react_enable = flag("ReactEnable", at="0[1]")
    per_plane_enable = flag("PerPlaneEnable", at="0[2]")
    reserved1 = pad(5, at="0[3]")


class CCHCAReactionParameters(Struct):
    """How an HCA slows down when it is notified (RP parameters of DCQCN)."""

    key, section, size = "mlnxcchcareaction", f"{_SOURCE} ib_cc_hca_rp_parameters_t", 60
    carried_by = (Mad(CC_CLASS, 0xFF21),)
    clamp_target_rate = flag("ClampTargetRate", at="0")
    clamp_target_rate_after_time = flag("ClampTargetRateAfterTime", at="0[1]")
    rpg_time_reset = uint(32, "RPGTimeReset", at="..4")
    rpg_byte_reset = uint(32, "RPGByteReset", at="8")
    rpg_threshold = uint(8, "RPGThreshold", at="..15")
    rpg_max_rate = uint(32, "RPGMaxRate", at="16")
    rpg_ai_rate = uint(16, "RPGAIRate", at="..22")
    rpg_hai_rate = uint(16, "RPGHAIRate", at="..26")
    rpg_gd = uint(8, "RPGGD", at="..31")
    rpg_min_dec_fac = uint(8, "RPGMinDecFac", at="..35")
    rpg_min_rate = uint(32, "RPGMinRate", at="36")
    rate_to_set_on_first_cnp = uint(32, "RateToSetOnFirstCNP", at="40")
    dce_tcp_g = uint(16, "DCETCPG", at="..46")
    dce_tcp_rtt = uint(32, "DCETCPRTT", at="48")
    rate_reduce_monitor_period = uint(32, "RateReduceMonitorPeriod", at="52")
    initial_alpha_value = uint(16, "InitialAlphaValue", at="..58")


class CCHCANotificationParameters(Struct):
    """How often, and with which SL, an HCA notifies a sender (NP parameters of DCQCN)."""

    key, section, size = "mlnxcchcanotification", f"{_SOURCE} ib_cc_hca_np_parameters_t", 8
    carried_by = (Mad(CC_CLASS, 0xFF22),)
    min_time_between_cnps = uint(16, "MinTimeBetweenCNPs", at="..2")
    rtt_resp_sl_mode = flag("RTTRespSLMode", at="..5[6]")
    cnp_sl_mode = flag("CNPSLMode", at="5[7]")
    rtt_resp_sl = uint(8, "RTTRespSL", at="6")
    cnp_sl = uint(8, "CNPSL", at="7")


class CCHCAAlgorithmParameters(Struct):
    """Programmable congestion control: parameters of an algorithm, in the form that EncapType says."""

    key, section, size = "mlnxcchcaalgorithmparams", f"{_SOURCE} ib_ppcc_hca_config_param_t", 192
    carried_by = (Mad(CC_CLASS, 0xFF25),)
    state = uint(32, "AlgorithmState", at="0", base="hex")
    sl_bitmask = uint(16, "SLBitmask", at="4", base="hex")
    encap_len = uint(8, "EncapLen", at="6")
    encap_type = uint(8, "EncapType", at="7")
    reserved2 = pad(64, at="8")
    encapsulation = raw(176, "Encapsulation", at="16")


class CCHCAAlgorithmConfig(CCHCAAlgorithmParameters):
    """Programmable congestion control: which algorithm runs."""

    key, section, size = "mlnxcchcaalgorithm", f"{_SOURCE} ib_ppcc_hca_algo_config_t", 192
    carried_by = (Mad(CC_CLASS, 0xFF24),)
    algorithm_enable = bit(CCHCAAlgorithmParameters.state, 31, "AlgorithmEnable")
    algorithm_status = bit(CCHCAAlgorithmParameters.state, 30, "AlgorithmStatus")
    trace_enable = bit(CCHCAAlgorithmParameters.state, 29, "TraceEnable")
    counter_enable = bit(CCHCAAlgorithmParameters.state, 28, "CounterEnable")
