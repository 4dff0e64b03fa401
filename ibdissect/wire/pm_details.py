"""Optional counters of a port: reasons of dropped packets, packets by opcode and by virtual lane, quality of a link's lanes."""

from .places import Mad
from .pm import OfPort, shown_port
from .spec import Struct, array, pad, uint


class PortRcvErrorDetails(OfPort):
    """Why packets were counted in PortRcvErrors and PortRcvSwitchRelayErrors."""

    key, section, size = "portrcverrordetails", "IBA 16.1.4.1", 16
    carried_by = (Mad(0x04, 0x0015),)
    port_local_physical_errors = uint(16, "PortLocalPhysicalErrors", at="4")
    port_malformed_packet_errors = uint(16, "PortMalformedPacketErrors", at="6")
    port_buffer_overrun_errors = uint(16, "PortBufferOverrunErrors", at="8")
    port_dlid_mapping_errors = uint(16, "PortDLIDMappingErrors", at="10")
    port_vl_mapping_errors = uint(16, "PortVLMappingErrors", at="12")
    port_looping_errors = uint(16, "PortLoopingErrors", at="14")


class PortXmitDiscardDetails(OfPort):
    """Why packets were counted in PortXmitDiscards."""

    key, section, size = "portxmitdiscarddetails", "IBA 16.1.4.2", 12
    carried_by = (Mad(0x04, 0x0016),)
    port_inactive_discards = uint(16, "PortInactiveDiscards", at="4")
    port_neighbor_mtu_discards = uint(16, "PortNeighborMTUDiscards", at="6")
    port_sw_lifetime_limit_discards = uint(16, "PortSwLifetimeLimitDiscards", at="8")
    port_sw_hoq_limit_discards = uint(16, "PortSwHOQLimitDiscards", at="10")


class OfOpCode(Struct):
    """The start of attributes that count the packets of one BTH opcode."""

    op_code = uint(8, "OpCode", at="0", base="hex")
    port_select = uint(8, "PortSelect", at="1", show=shown_port)
    counter_select = uint(16, "CounterSelect", at="2", base="hex")


class PortOpRcvCounters(OfOpCode):
    """Packets and data received with one BTH opcode."""

    key, section, size = "portoprcvcounters", "IBA 16.1.4.3", 12
    carried_by = (Mad(0x04, 0x0017),)
    port_op_rcv_pkts = uint(32, "PortOpRcvPkts", at="4")
    port_op_rcv_data = uint(32, "PortOpRcvData", at="8", unit="words of 4 bytes")


class PortFlowCtlCounters(OfPort):
    """Flow control packets sent and received."""

    key, section, size = "portflowctlcounters", "IBA 16.1.4.4", 12
    carried_by = (Mad(0x04, 0x0018),)
    port_xmit_flow_pkts = uint(32, "PortXmitFlowPkts", at="4")
    port_rcv_flow_pkts = uint(32, "PortRcvFlowPkts", at="8")


class PortVLOpPackets(OfOpCode):
    """Packets received with one BTH opcode, by virtual lane."""

    key, section, size = "portvloppackets", "IBA 16.1.4.5", 36
    carried_by = (Mad(0x04, 0x0019),)
    port_vl_op_packets = array(16, uint(16, "PortVLOpPackets", at="4"))


class PortVLOpData(OfOpCode):
    """Data received with one BTH opcode, by virtual lane."""

    key, section, size = "portvlopdata", "IBA 16.1.4.6", 68
    carried_by = (Mad(0x04, 0x001A),)
    port_vl_op_data = array(16, uint(32, "PortVLOpData", at="4", unit="words of 4 bytes"))


class PortVLXmitFlowCtlUpdateErrors(OfPort):
    """Flow control update errors by virtual lane."""

    key, section, size = "portvlxmitflowctlupdateerrors", "IBA 16.1.4.7", 8
    carried_by = (Mad(0x04, 0x001B),)
    port_vl_xmit_flow_ctl_update_errors = array(16, uint(2, "PortVLXmitFlowCtlUpdateErrors", at="4"))


class PortVLXmitWaitCounters(OfPort):
    """Ticks with data waiting but not sent, by virtual lane."""

    key, section, size = "portvlxmitwaitcounters", "IBA 16.1.4.8", 36
    carried_by = (Mad(0x04, 0x001C),)
    port_vl_xmit_wait = array(16, uint(16, "PortVLXmitWait", at="4", unit="ticks"))


class PortExtendedSpeedsCounters(Struct):
    """Block and FEC counters of a port at FDR and above, by lane.

    With RS-FEC active the correctable block counters of the lanes are symbol counters, the uncorrectable ones are unused
    and the three port totals after them count; the packet does not say which FEC is active (PortInfoExtended does).
    """

    key, section, size = "portextendedspeedscounters", "libibmad fields.c", 152
    carried_by = (Mad(0x04, 0x001F),)
    reserved_0 = pad(8, at="0")
    port_select = uint(8, "PortSelect", at="1", show=shown_port)
    reserved_16 = pad(48, at="2")
    counter_select = uint(64, "CounterSelect", at="8", base="hex")
    sync_header_error_counter = uint(16, "SyncHeaderErrorCounter", at="16")
    unknown_block_counter = uint(16, "UnknownBlockCounter", at="18")
    error_detection_counter_lane = array(12, uint(16, "ErrorDetectionCounterLane", at="20"))
    fec_correctable_block_ctr_lane = array(12, uint(32, "FECCorrectableBlockCtrLane", at="44"))
    fec_uncorrectable_block_ctr_lane = array(12, uint(32, "FECUncorrectableBlockCtrLane", at="92"))
    port_fec_correctable_block_ctr = uint(32, "PortFECCorrectableBlockCtr", at="140")
    port_fec_uncorrectable_block_ctr = uint(32, "PortFECUncorrectableBlockCtr", at="144")
    port_fec_corrected_symbol_ctr = uint(32, "PortFECCorrectedSymbolCtr", at="148")
