"""Congestion control MADs (class 0x21): keys, settings of switches and channel adapters, tables, logs."""

from .places import Inside, Mad, MadFormat
from .spec import Struct, array, bit, enum, flag, hole, lid, nested, pad, part, qpn, raw, secret, uint

CONTROL_TYPES = {0: "congestion control", 1: "credit starvation"}
"""Control_Type of a switch port's setting (OpenSM ib_types.h)."""
LOG_TYPES = {1: "switch", 2: "channel adapter"}
"""LogType (OpenSM ib_types.h; libibmad's query tool agrees)."""


class CongestionControlFormat(Struct):
    """The format of every congestion control MAD: CC_Key, then the attribute at byte 64, except CongestionLog, which starts at 32."""

    key, section, size = "cc", "IBA annex A10.4.1; OpenSM ib_types.h, libibmad", 256
    carried_by = (MadFormat(0x21),)
    header = hole(24, "MAD header", at="0")
    cc_key = secret(64, "CC_Key", at="24")
    log_data = hole(32, "CC Log Data", at="32")
    data = hole(192, "CC Management Data", at="64")


class CongestionInfo(Struct):
    """What a node can do for congestion control.

    OpenSM reads the first byte only, libibmad all 16 bits; the second byte is reserved in the one and zero in the other.
    """

    key, section, size = "congestioninfo", "IBA A10.4.3.3", 4
    carried_by = (Mad(0x21, 0x0011),)
    congestion_info = uint(16, "CongestionInfo", at="0", base="hex")
    control_table_cap = uint(8, "ControlTableCap", at="2", unit="blocks of 64 entries")
    reserved_24 = pad(8, at="3")


class CongestionKeyInfo(Struct):
    """The key that protects a node's congestion control settings, and for how long."""

    key, section, size = "congestionkeyinfo", "IBA A10.4.3.4", 14
    carried_by = (Mad(0x21, 0x0012),)
    cc_key = secret(64, "CC_Key", at="0")
    cc_key_protect_bit = flag("CC_KeyProtectBit", at="8")
    reserved_65 = pad(15, at="8[1]")
    cc_key_lease_period = uint(16, "CC_KeyLeasePeriod", at="10", unit="s")
    cc_key_violations = uint(16, "CC_KeyViolations", at="12")


class SwitchCongestionSetting(Struct):
    """How a switch marks packets: which ports mark victims or apply credit starvation, how early and how often.

    The masks are 256-bit maps of ports, port 0 in the least significant bit. So is the order of Control_Map in the two sources that name
    its bits: OpenSM's options and opa-ff.
    """

    key, section, size = "switchcongestionsetting", "IBA A10.4.3.6; libibmad; Control_Map: OpenSM options file, opa-ff stl_sm_types.h", 76
    carried_by = (Mad(0x21, 0x0014),)
    control_map = uint(32, "Control_Map", at="0", base="hex")
    sets_victim_mask = bit(control_map, 0, "Sets Victim_Mask")
    sets_credit_mask = bit(control_map, 1, "Sets Credit_Mask")
    sets_threshold = bit(control_map, 2, "Sets Threshold and Packet_Size")
    sets_cs_threshold = bit(control_map, 3, "Sets CS_Threshold and CS_ReturnDelay")
    sets_marking_rate = bit(control_map, 4, "Sets Marking_Rate")
    victim_mask = raw(32, "Victim_Mask", at="4", holds="ports")
    credit_mask = raw(32, "Credit_Mask", at="36", holds="ports")
    threshold = uint(4, "Threshold", at="68")
    reserved_548 = pad(4, at="68[4]")
    packet_size = uint(8, "Packet_Size", at="69")
    cs_threshold = uint(4, "CS_Threshold", at="70")
    reserved_564 = pad(12, at="70[4]")
    cs_return_delay = uint(16, "CS_ReturnDelay", at="72", base="hex")
    cs_return_delay_shift = part(cs_return_delay, 15, 14, "CS_ReturnDelay Shift")
    cs_return_delay_multiplier = part(cs_return_delay, 13, 0, "CS_ReturnDelay Multiplier")
    marking_rate = uint(16, "Marking_Rate", at="74")


class SwitchPortCongestionSettingElement(Struct):
    """How one port of a switch marks packets, or applies credit starvation (then only Threshold counts)."""

    key, section, size = "switchportcongestionsetting", "IBA A10.4.3.7", 4
    valid = flag("Valid", at="0")
    control_type = enum(1, CONTROL_TYPES, "Control_Type", at="0[1]")
    reserved_2 = pad(2, at="0[2]")
    threshold = uint(4, "Threshold", at="0[4]")
    packet_size = uint(8, "Packet_Size", at="1")
    cong_parm_marking_rate = uint(16, "Cong_Parm_Marking_Rate", at="2")


class SwitchPortCongestionSetting(Struct):
    """Settings of 32 ports of a switch; the attribute modifier is the block."""

    key, section, size = "switchportcongestionsetting", "IBA A10.4.3.7", 128
    carried_by = (Mad(0x21, 0x0015),)
    element = array(32, nested(SwitchPortCongestionSettingElement, "Element", at="0"))


class CACongestionEntry(Struct):
    """How a channel adapter port throttles one service level after a BECN."""

    key, section, size = "cacongestionsetting", "IBA A10.4.3.8", 8
    ccti_timer = uint(16, "CCTI_Timer", at="0")
    ccti_increase = uint(8, "CCTI_Increase", at="2")
    trigger_threshold = uint(8, "Trigger_Threshold", at="3")
    ccti_min = uint(8, "CCTI_Min", at="4")
    reserved_40 = pad(24, at="5")


class CACongestionSetting(Struct):
    """How a channel adapter port reacts to congestion, by service level."""

    key, section, size = "cacongestionsetting", "IBA A10.4.3.8", 132
    carried_by = (Mad(0x21, 0x0016),)
    port_control = uint(16, "Port_Control", at="0", base="hex")
    sl_port_based = bit(port_control, 0, "SL/Port based")
    control_map = uint(16, "Control_Map", at="2", base="hex")
    entry = array(16, nested(CACongestionEntry, "Entry", at="4"))


class CongestionControlTableEntry(Struct):
    """One step of throttling: the injection rate delay is Multiplier shifted right by Shift."""

    key, section, size = "congestioncontroltable", "IBA A10.4.3.9", 2
    cct_shift = uint(2, "CCT_Shift", at="0")
    cct_multiplier = uint(14, "CCT_Multiplier", at="0[2]")


class CongestionControlTable(Struct):
    """64 entries of a channel adapter's table of injection rate delays; the attribute modifier is the block."""

    key, section, size = "congestioncontroltable", "IBA A10.4.3.9", 132
    carried_by = (Mad(0x21, 0x0017),)
    ccti_limit = uint(16, "CCTI_Limit", at="0")
    reserved_16 = pad(16, at="2")
    entry = array(64, nested(CongestionControlTableEntry, "Entry", at="4"))


class TimeStamp(Struct):
    """The clock of a node's congestion log."""

    key, section, size = "timestamp", "IBA A10.4.3.10; libibmad", 4
    carried_by = (Mad(0x21, 0x0018),)
    time_stamp = uint(32, "TimeStamp", at="0")


class CongestionLog(Struct):
    """The congestion log of a switch or channel adapter; LogType decides what follows the flags. Starts at byte 32 of the MAD."""

    key, section, size = "congestionlog", "IBA A10.4.3.5", 220
    carried_by = (Mad(0x21, 0x0013, data_at=32),)
    log_type = enum(8, LOG_TYPES, "LogType", at="0")
    congestion_flags = uint(8, "CongestionFlags", at="1", base="hex")
    log_details = hole(218, "Log Details", at="2")


class CongestionLogEventSwitch(Struct):
    """One packet that a switch marked."""

    key, section, size = "congestionlog", "IBA A10.4.3.5", 12
    slid = lid("SLID", at="0")
    dlid = lid("DLID", at="2")
    sl = uint(4, "SL", at="4")
    reserved_36 = pad(28, at="4[4]")
    timestamp = uint(32, "Timestamp", at="8")


class CongestionLogSwitch(Struct):
    """What a switch logged: ports that marked packets with FECN (256-bit map, port 0 last) and the latest of these packets."""

    key, section, size = "congestionlog", "IBA A10.4.3.5; OpenSM ib_types.h, libibmad", 218
    carried_by = (Inside(CongestionLog.log_details, ((CongestionLog.log_type, frozenset({1})),)),)
    log_events_counter = uint(16, "LogEventsCounter", at="0")
    current_time_stamp = uint(32, "CurrentTimeStamp", at="2")
    port_map = raw(32, "PortMap", at="6", holds="ports")
    log_event = array(15, nested(CongestionLogEventSwitch, "CongestionLogEvent", at="38"))


class CongestionLogEventCA(Struct):
    """One queue pair that reached its threshold.

    OpenSM's layout. libibmad has SL and service type in byte 3, a local LID in bytes 8-9 and the remote LID after it; no source decides
    between them.
    """

    key, section, size = "congestionlog", "IBA A10.4.3.5; OpenSM ib_types.h", 16
    local_qp_cn_entry = qpn("Local_QP_CN_Entry", at="0")
    reserved_24 = pad(8, at="3")
    remote_qp_number_cn_entry = qpn("Remote_QP_Number_CN_Entry", at="4")
    sl_cn_entry = uint(4, "SL_CN_Entry", at="7")
    service_type_cn_entry = uint(4, "Service_Type_CN_Entry", at="7[4]")
    remote_lid_cn_entry = lid("Remote_LID_CN_Entry", at="8")
    reserved_80 = pad(16, at="10")
    timestamp_cn_entry = uint(32, "Timestamp_CN_Entry", at="12")


class CongestionLogCA(Struct):
    """What a channel adapter logged: the service levels that passed their threshold and the latest queue pairs that did."""

    key, section, size = "congestionlog", "IBA A10.4.3.5; OpenSM ib_types.h, libibmad", 218
    carried_by = (Inside(CongestionLog.log_details, ((CongestionLog.log_type, frozenset({2})),)),)
    threshold_event_counter = uint(16, "ThresholdEventCounter", at="0")
    threshold_congestion_event_map = uint(16, "ThresholdCongestionEventMap", at="2", base="hex")
    reserved_32 = pad(16, at="4")
    current_time_stamp = uint(32, "CurrentTimeStamp", at="6")
    log_event = array(13, nested(CongestionLogEventCA, "CongestionLogEvent", at="10"))
