"""What does a CongestionLog contain: marked packets of a switch, throttled queue pairs of a channel adapter?"""

from .places import Inside, Mad
from .spec import Struct, array, enum, hole, lid, nested, pad, qpn, raw, uint

LOG_TYPES = {1: "switch", 2: "channel adapter"}
"""LogType (OpenSM ib_types.h; libibmad's query tool agrees)."""


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
