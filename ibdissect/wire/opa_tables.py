"""The tables of Omni-Path's subnet management: partitions, service channels, forwarding, buffers, congestion."""

from .names import MEMBERSHIP
from .opa import opa_smp
from .spec import Struct, array, enum, flag, lid, nested, pad, part, pkey, qpn, raw, uint

_SOURCE = "opa-ff stl_sm_types.h"
SERVICE_TYPE = {0: "RC", 1: "UC", 2: "RD", 3: "UD"}


class STLPKeyEntry(Struct):
    """One entry of a partition table."""

    prefix, key, section, size = "opa", "p_keytable", f"{_SOURCE} STL_PKEY_ELEMENT", 2
    p_key = pkey("P_Key", at="0")
    membership_type = part(p_key, 15, 15, "MembershipType", values=MEMBERSHIP)
    p_key_base = part(p_key, 14, 0, "P_KeyBase", base="hex")


class STLPartitionTable(Struct):
    """32 of a port's partition keys."""

    prefix, key, section, size = "opa", "p_keytable", f"{_SOURCE} STL_PARTITION_TABLE", 64
    carried_by = opa_smp(0x0016)
    partition_table_block = array(32, nested(STLPKeyEntry, "PartitionTableBlock", at="0"))


class STLSLtoSCEntry(Struct):
    """The SC of an SL."""

    prefix, key, section, size = "opa", "sltoscmappingtable", f"{_SOURCE} STL_SLSCMAP", 1
    sc = uint(5, "SC", at="..0[3]", ws="+sltosclowbits")


class STLSLtoSCMappingTable(Struct):
    """The SC of each SL."""

    prefix, key, section, size = "opa", "sltoscmappingtable", f"{_SOURCE} STL_SLSCMAP", 32
    carried_by = opa_smp(0x0017)
    sl_sc_map = array(32, nested(STLSLtoSCEntry, "SLSCMap", at="0"))


class STLSCtoSCEntry(Struct):
    """The outgoing SC of an incoming one."""

    prefix, key, section, size = "opa", "sctoscmappingtable", f"{_SOURCE} STL_SCSCMAP", 1
    sc = uint(5, "SC", at="..0[3]", ws="+sctosclowbits")


class STLSCtoSCMappingTable(Struct):
    """The outgoing SC of each incoming one."""

    prefix, key, section, size = "opa", "sctoscmappingtable", f"{_SOURCE} STL_SCSCMAP", 32
    carried_by = opa_smp(0x0081)
    scsc_map = array(32, nested(STLSCtoSCEntry, "SCSCMap", at="0"))


class STLSCSCMultiSet(Struct):
    """SC to SC mapping of several ports at once."""

    prefix, key, section, size = "opa", "scscmultiset", f"{_SOURCE} STL_SCSC_MULTISET", 96
    carried_by = opa_smp(0x0094)
    ingress_port_mask = array(4, uint(64, "IngressPortMask", at="0", base="hex"))
    egress_port_mask = array(4, uint(64, "EgressPortMask", at="32", base="hex"))
    scsc_map = array(32, nested(STLSCtoSCEntry, "SCSCMap", at="64"))


class STLSCtoSLEntry(Struct):
    """The SL of an SC."""

    prefix, key, section, size = "opa", "sctoslmappingtable", f"{_SOURCE} STL_SCSLMAP", 1
    sl = uint(5, "SL", at="..0[3]", ws="+sctosllowbits")


class STLSCtoSLMappingTable(Struct):
    """The SL of each SC."""

    prefix, key, section, size = "opa", "sctoslmappingtable", f"{_SOURCE} STL_SCSLMAP", 32
    carried_by = opa_smp(0x0082)
    sc_sl_map = array(32, nested(STLSCtoSLEntry, "SCSLMap", at="0"))


class STLSCtoVLEntry(Struct):
    """The VL of an SC."""

    prefix, key, section, size = "opa", "sctovlxmappingtable", f"{_SOURCE} STL_SCVLMAP", 1
    vl = uint(5, "VL", at="..0[3]", ws="+sctovlxlowbits")


class STLSCtoVLMappingTable(Struct):
    """The VL of each SC: for receiving (0x0083), sending (0x0084) or credit return (0x0085)."""

    prefix, key, section, size = "opa", "sctovlxmappingtable", f"{_SOURCE} STL_SCVLMAP", 32
    carried_by = opa_smp(0x0083) + opa_smp(0x0084) + opa_smp(0x0085)
    sc_vl_map = array(32, nested(STLSCtoVLEntry, "SCVLMap", at="0"))


class STLVLArbitrationEntry(Struct):
    """A VL and its weight."""

    prefix, key, section, size = "opa", "vlarbitrationtable", f"{_SOURCE} STL_VLARB_TABLE_ELEMENT", 2
    vl = uint(5, "VL", at="..0[3]")
    weight = uint(8, "Weight", at="1")


class STLVLArbitrationTable(Struct):
    """128 elements of a section; section 3 of the attribute modifier is a matrix instead and reads as pairs here."""

    prefix, key, section, size = "opa", "vlarbitrationtable", f"{_SOURCE} STL_VLARB_TABLE", 256
    carried_by = opa_smp(0x0018)
    elements = array(128, nested(STLVLArbitrationEntry, "Elements", at="0"))


class STLLinearForwardingTable(Struct):
    """Output ports of 64 consecutive LIDs."""

    prefix, key, section, size = "opa", "linearforwardingtable", f"{_SOURCE} STL_LINEAR_FORWARDING_TABLE", 64
    carried_by = opa_smp(0x0019)
    port = array(64, uint(8, "Port", at="0"))


class STLMulticastForwardingTable(Struct):
    """Output ports, 64 of them, of eight multicast LIDs."""

    prefix, key, section, size = "opa", "multicastforwardingtable", f"{_SOURCE} STL_MULTICAST_FORWARDING_TABLE", 64
    carried_by = opa_smp(0x001B)
    port_mask = array(8, uint(64, "PortMask", at="0", base="hex"))


class STLPortGroupForwardingTable(Struct):
    """Port groups of 64 consecutive LIDs."""

    prefix, key, section, size = "opa", "portgroupforwardingtable", f"{_SOURCE} STL_PORT_GROUP_FORWARDING_TABLE", 64
    carried_by = opa_smp(0x0088)
    port = array(64, uint(8, "Port", at="0"))


class STLPortGroupTable(Struct):
    """Ports, 64 of them, of eight port groups."""

    prefix, key, section, size = "opa", "portgrouptable", f"{_SOURCE} STL_PORT_GROUP_TABLE", 64
    carried_by = opa_smp(0x0089)
    port_mask = array(8, uint(64, "PortMask", at="0", base="hex"))


class STLBufferControlEntry(Struct):
    """Transmit limits of a VL, in buffer allocation units."""

    prefix, key, section, size = "opa", "buffercontroltable", f"{_SOURCE} STL_BUFFER_CONTROL_TABLE_VL_s", 4
    tx_dedicated_limit = uint(16, "TxDedicatedLimit", at="0")
    tx_shared_limit = uint(16, "TxSharedLimit", at="2")


class STLBufferControlTable(Struct):
    """Transmit limits of a port."""

    prefix, key, section, size = "opa", "buffercontroltable", f"{_SOURCE} STL_BUFFER_CONTROL_TABLE", 132
    carried_by = opa_smp(0x008A)
    tx_overall_shared_limit = uint(16, "TxOverallSharedLimit", at="..2")
    vl = array(32, nested(STLBufferControlEntry, "VL", at="4"))


class STLCongestionInfo(Struct):
    """What congestion control a node has."""

    prefix, key, section, size = "opa", "congestioninfo", f"{_SOURCE} STL_CONGESTION_INFO", 4
    carried_by = opa_smp(0x008B)
    congestion_info = uint(16, "CongestionInfo", at="0", base="hex")
    control_table_cap = uint(8, "ControlTableCap", at="2")
    congestion_log_length = uint(8, "CongestionLogLength", at="3")


class STLSwitchCongestionEvent(Struct):
    """A packet that a switch marked."""

    prefix, key, section, size = "opa", "switchcongestionlog", f"{_SOURCE} STL_SWITCH_CONGESTION_LOG_EVENT", 16
    slid = lid("SLID", at="0", bits=32)
    dlid = lid("DLID", at="4", bits=32)
    sc = uint(5, "SC", at="8")
    reserved1 = pad(3, at="8[5]")
    reserved2 = pad(24, at="9")
    time_stamp = uint(32, "TimeStamp", at="12")


class STLSwitchCongestionLog(Struct):
    """The last 96 congestion events of a switch."""

    prefix, key, section, size = "opa", "switchcongestionlog", f"{_SOURCE} STL_SWITCH_CONGESTION_LOG", 1576
    carried_by = opa_smp(0x008C)
    log_type = uint(8, "LogType", at="0")
    congestion_flags = uint(8, "CongestionFlags", at="1", base="hex")
    log_events_counter = uint(16, "LogEventsCounter", at="2")
    current_time_stamp = uint(32, "CurrentTimeStamp", at="4")
    port_map = raw(32, "PortMap", at="8", holds="ports")
    congestion_entry_list = array(96, nested(STLSwitchCongestionEvent, "CongestionEntryList", at="40"))


class STLSwitchCongestionSetting(Struct):
    """When a switch marks packets."""

    prefix, key, section, size = "opa", "switchcongestionsetting", f"{_SOURCE} STL_SWITCH_CONGESTION_SETTING", 76
    carried_by = opa_smp(0x008D)
    control_map = uint(32, "ControlMap", at="0", base="hex")
    victim_mask = raw(32, "VictimMask", at="4", holds="ports")
    credit_mask = raw(32, "CreditMask", at="36", holds="ports")
    threshold = uint(4, "Threshold", at="68")
    packet_size = uint(8, "PacketSize", at="..69", unit="x 64 bytes")
    cs_threshold = uint(4, "CSThreshold", at="70")
    reserved2 = pad(4, at="70[4]")
    reserved3 = pad(8, at="71")
    cs_return_delay = uint(16, "CSReturnDelay", at="72")
    marking_rate = uint(16, "MarkingRate", at="74")


class STLSwitchPortCongestionSetting(Struct):
    """When a port of a switch marks packets."""

    prefix, key, section, size = "opa", "switchportcongestionsetting", f"{_SOURCE} STL_SWITCH_PORT_CONGESTION_SETTING_ELEMENT", 4
    carried_by = opa_smp(0x008E)
    valid = flag("Valid", at="0")
    control_type = enum(1, {0: "Congestion control", 1: "Credit starvation"}, "ControlType", at="0[1]")
    threshold = uint(4, "Threshold", at="..0[4]")
    packet_size = uint(8, "PacketSize", at="1")
    marking_rate = uint(16, "MarkingRate", at="2")


class STLHFICongestionEvent(Struct):
    """A queue pair that reached its congestion threshold."""

    prefix, key, section, size = "opa", "hficongestionlog", f"{_SOURCE} STL_HFI_CONGESTION_LOG_EVENT", 16
    local_qp = qpn("LocalQP", at="0", ws="opa.hficongestionsetting.localqpcnentry")
    remote_qp = qpn("RemoteQP", at="3", ws="opa.hficongestionsetting.remoteqpnumbercnentry")
    sl = uint(5, "SL", at="6")
    service_type = enum(3, SERVICE_TYPE, "ServiceType", at="6[5]")
    remote_lid = lid("RemoteLID", at="..8", ws="opa.hficongestionsetting.lidcnentry", bits=32)
    time_stamp = uint(32, "TimeStamp", at="12", ws="opa.hficongestionsetting.timestampcnentry")


class STLHFICongestionLog(Struct):
    """The last 96 congestion events of an HFI."""

    prefix, key, section, size = "opa", "hficongestionlog", f"{_SOURCE} STL_HFI_CONGESTION_LOG", 1548
    carried_by = opa_smp(0x008F)
    log_type = uint(8, "LogType", at="0", ws="opa.hficongestionsetting.logtype")
    congestion_flags = uint(8, "CongestionFlags", at="1", base="hex", ws="opa.hficongestionsetting.congestionflags")
    threshold_event_counter = uint(16, "ThresholdEventCounter", at="2", ws="opa.hficongestionsetting.thresholdeventcounter")
    current_time_stamp = uint(32, "CurrentTimeStamp", at="4", ws="opa.hficongestionsetting.currenttimestamp")
    threshold_congestion_event_map = uint(
        32, "ThresholdCongestionEventMap", at="8", base="hex", ws="opa.hficongestionsetting.thresholdcongestioneventmap"
    )
    congestion_entry_list = array(96, nested(STLHFICongestionEvent, "CongestionEntryList", at="12"))


class STLHFICongestionEntry(Struct):
    """How an HFI slows an SL down."""

    prefix, key, section, size = "opa", "hficongestionsetting", f"{_SOURCE} STL_HFI_CONGESTION_SETTING_ENTRY", 6
    ccti_increase = uint(8, "CCTIIncrease", at="0")
    ccti_timer = uint(16, "CCTITimer", at="..2")
    trigger_threshold = uint(8, "TriggerThreshold", at="4")
    ccti_min = uint(8, "CCTIMin", at="5")


class STLHFICongestionSetting(Struct):
    """How an HFI slows down."""

    prefix, key, section, size = "opa", "hficongestionsetting", f"{_SOURCE} STL_HFI_CONGESTION_SETTING", 198
    carried_by = opa_smp(0x0090)
    control_map = uint(32, "ControlMap", at="0", base="hex")
    port_control = uint(16, "PortControl", at="4", base="hex")
    hfi_congestion_entry_list = array(32, nested(STLHFICongestionEntry, "HFICongestionEntryList", at="6"))


class STLCCTEntry(Struct):
    """One injection delay."""

    prefix, key, section, size = "opa", "hficongestioncontroltable", f"{_SOURCE} STL_HFI_CONGESTION_CONTROL_TABLE_ENTRY", 2
    cct_shift = uint(2, "CCTShift", at="0")
    cct_multiplier = uint(14, "CCTMultiplier", at="0[2]")


class STLHFICongestionControlTable(Struct):
    """64 injection delays, the first block of the table."""

    prefix, key, section, size = "opa", "hficongestioncontroltable", f"{_SOURCE} STL_HFI_CONGESTION_CONTROL_TABLE", 130
    carried_by = opa_smp(0x0091)
    ccti_limit = uint(16, "CCTILimit", at="0")
    cct_block_list = array(64, nested(STLCCTEntry, "CCTBlockList", at="2"))
