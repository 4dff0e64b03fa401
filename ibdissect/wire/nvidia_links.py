"""NVIDIA's vendor attributes of ports: watchdogs, bit errors, profiles, planes, filters, containment.

Layouts as in the ib_types.h that trex-core carries (NVIDIA, 2021-2025, GPL-2.0 or BSD).
"""

from .names import PORT_STATE
from .places import smp
from .spec import Struct, array, enum, flag, nested, pad, raw, uint

_SOURCE = "trex-core ib_types.h"
CONTAIN_AND_DRAIN = {0: "no action", 1: "contain and drain", 2: "link down"}
CHANGE = {0: "no change", 1: "set", 2: "clear"}


class SwitchPortStateTable(Struct):
    """States of 128 ports of a switch."""

    key, section, size = "switchportstatetable", f"{_SOURCE} ib_switch_port_state_table_t", 64
    carried_by = smp(0x0034)
    port_state = array(128, enum(4, PORT_STATE, "PortState", at="0"))


class EndPortPlaneFilterConfig(Struct):
    """LIDs whose packets a plane of a multi-plane port filters."""

    key, section, size = "mlnxendportplanefilter", f"{_SOURCE} ib_end_port_plane_filter_config_t", 24
    carried_by = smp(0xFF54)
    plane_filter = array(4, uint(32, "PlaneFilter", at="..8", holds="data"))


class LinkWatch(Struct):
    """The start of a link watchdog's settings: which traps it sends, and what it does at the error threshold."""

    key, section, size = "mlnxcreditwatchdog", f"{_SOURCE}: the same bytes of both settings", 12
    error_trap_enable = flag("ErrorTrapEnable", at="..8")
    warning_trap_enable = flag("WarningTrapEnable", at="8[1]")
    normal_trap_enable = flag("NormalTrapEnable", at="8[2]")
    error_threshold_action = uint(2, "ErrorThresholdAction", at="..11[2]")
    threshold_enable = uint(2, "ThresholdEnable", at="..11[6]", base="hex")


class CreditWatchdogConfig(LinkWatch):
    """When a port without credits is reported or closed."""

    key, section, size = "mlnxcreditwatchdog", f"{_SOURCE} ib_credit_watchdog_config_t", 32
    carried_by = smp(0xFF71)
    reserved4 = pad(24, at="12")
    error_threshold = uint(8, "ErrorThreshold", at="15")
    reserved5 = pad(24, at="16")
    warning_threshold = uint(8, "WarningThreshold", at="19")
    reserved6 = pad(24, at="20")
    normal_threshold = uint(8, "NormalThreshold", at="23")
    reserved7 = pad(24, at="24")
    time_window = uint(8, "TimeWindow", at="27")
    reserved8 = pad(24, at="28")
    sampling_rate = uint(8, "SamplingRate", at="31")


class BERThreshold(Struct):
    """A bit error rate: mantissa * 10**-exponent."""

    key, section, size = "mlnxberconfig", f"{_SOURCE} IB_BER_THR_MASK", 4
    mantissa = uint(4, "Mantissa", at="..2[4]")
    exponent = uint(8, "Exponent", at="3")


class BERConfig(LinkWatch):
    """When a port with bit errors is reported or closed."""

    key, section, size = "mlnxberconfig", f"{_SOURCE} ib_ber_config_t", 32
    carried_by = smp(0xFF72)
    error_threshold = nested(BERThreshold, "ErrorThreshold", at="12")
    warning_threshold = nested(BERThreshold, "WarningThreshold", at="16")
    normal_threshold = nested(BERThreshold, "NormalThreshold", at="20")
    time_window = uint(32, "TimeWindow", at="24")
    reserved4 = pad(24, at="28")
    sampling_rate = uint(8, "SamplingRate", at="31")


class ProfilesConfig(Struct):
    """Profile of each of 128 ports; 15: none."""

    key, section, size = "mlnxprofilesconfig", f"{_SOURCE} ib_profiles_config_t", 64
    carried_by = smp(0xFF73)
    profile = array(128, uint(4, "Profile", at="0"))


class ContainAndDrainPorts(Struct):
    """What an even port and the next odd one are told to do with packets."""

    key, section, size = "mlnxcontainanddraininfo", f"{_SOURCE} IB_CND_PORT_BLOCK, ib_cnd_info_t", 1
    even_egress = enum(2, CONTAIN_AND_DRAIN, "EvenEgress", at="0")
    even_ingress = enum(2, CONTAIN_AND_DRAIN, "EvenIngress", at="0[2]")
    odd_egress = enum(2, CONTAIN_AND_DRAIN, "OddEgress", at="0[4]")
    odd_ingress = enum(2, CONTAIN_AND_DRAIN, "OddIngress", at="0[6]")


class ContainAndDrainInfo(Struct):
    """What each of 128 ports is told to contain or drain."""

    key, section, size = "mlnxcontainanddraininfo", f"{_SOURCE} ib_contain_and_drain_info_t", 64
    carried_by = smp(0xFF87)
    ports = array(64, nested(ContainAndDrainPorts, "Ports", at="0"))


class ContainAndDrainPortStates(ContainAndDrainPorts):
    """Whether the state of an even port and the next odd one is set or cleared."""

    key, section, size = "mlnxcontainanddrainportstate", f"{_SOURCE} IB_CND_PORT_BLOCK, ib_cnd_port_state_t", 1
    even_egress = enum(2, CHANGE, "EvenEgress", at="0")
    even_ingress = enum(2, CHANGE, "EvenIngress", at="0[2]")
    odd_egress = enum(2, CHANGE, "OddEgress", at="0[4]")
    odd_ingress = enum(2, CHANGE, "OddIngress", at="0[6]")


class ContainAndDrainPortState(Struct):
    """Whether each of 128 ports contains or drains."""

    key, section, size = "mlnxcontainanddrainportstate", f"{_SOURCE} ib_contain_and_drain_port_state_t", 64
    carried_by = smp(0xFF88)
    ports = array(64, nested(ContainAndDrainPortStates, "Ports", at="0"))


class ALIDEntry(Struct):
    """An anycast LID."""

    key, section, size = "mlnxalidinfo", f"{_SOURCE} IB_ALID_INFO_ENTRY", 4
    is_used = flag("IsUsed", at="..0[7]")
    alid = uint(20, "ALID", at="..1[4]")


class ALIDInfo(Struct):
    """16 anycast LIDs of a switch."""

    key, section, size = "mlnxalidinfo", f"{_SOURCE} ib_alid_info_t", 64
    carried_by = smp(0xFF89)
    entry = array(16, nested(ALIDEntry, "Entry", at="0"))


class RailFilterConfig(Struct):
    """Which ports may send to which, for keeping rails apart."""

    key, section, size = "mlnxrailfilter", f"{_SOURCE} ib_rail_filter_config_t", 52
    carried_by = smp(0xFF8A)
    unicast_enable = flag("UnicastEnable", at="..1[6]")
    multicast_enable = flag("MulticastEnable", at="1[7]")
    vl_mask = uint(16, "VLMask", at="2", base="hex")
    ingress_port_mask = raw(16, "IngressPortMask", at="4", holds="ports")
    egress_port_mask = raw(32, "EgressPortMask", at="20", holds="ports")


class PortRecoveryPolicyConfig(Struct):
    """How a port recovers from errors."""

    key, section, size = "mlnxportrecoverypolicy", f"{_SOURCE} ib_port_recovery_policy_config_t", 12
    carried_by = smp(0xFFDA)
    recovery_type_capability = uint(16, "RecoveryTypeCapability", at="0", base="hex")
    recovery_type_enable = uint(16, "RecoveryTypeEnable", at="2", base="hex")
    draining_timeout = uint(8, "DrainingTimeout", at="..7")
    link_down_timeout = uint(16, "LinkDownTimeout", at="..10")
