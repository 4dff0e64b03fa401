"""Performance management MADs (class 0x04), and a port's basic counters."""

from __future__ import annotations

from .places import Mad, MadFormat
from .spec import Struct, bit, hole, pad, uint


def shown_port(value: int) -> str:
    """Text of a PortSelect; 255 means all ports, if AllPortSelect is supported (IBA 16.1.2.1)."""
    return "all ports" if value == 255 else str(value)


class PerfMgtFormat(Struct):
    """The format of every performance management MAD: 40 reserved bytes, then 192 for the attribute."""

    key, section, size = "pm", "IBA 16.1.1", 256
    carried_by = (MadFormat(0x04),)
    header = hole(24, "MAD header", at="0")
    reserved_192 = pad(320, at="24")
    data = hole(192, "PerfMgt Data", at="64")


class OfPort(Struct):
    """The start of most performance management attributes: the port, and the counters that a Set clears."""

    reserved_0 = pad(8, at="0")
    port_select = uint(8, "PortSelect", at="1", show=shown_port)
    counter_select = uint(16, "CounterSelect", at="2", base="hex")


class PortCounters(OfPort):
    """Basic error and traffic counters of a port; all stop at their maximum until written."""

    key, section, size = "portcounters", "IBA 16.1.3.5; CounterSelect bits after ib_pma.h", 44
    carried_by = (Mad(0x04, 0x0012),)
    select_symbol_error_counter = bit(OfPort.counter_select, 0, "Select SymbolErrorCounter")
    select_link_error_recovery_counter = bit(OfPort.counter_select, 1, "Select LinkErrorRecoveryCounter")
    select_link_downed_counter = bit(OfPort.counter_select, 2, "Select LinkDownedCounter")
    select_port_rcv_errors = bit(OfPort.counter_select, 3, "Select PortRcvErrors")
    select_port_rcv_remote_physical_errors = bit(OfPort.counter_select, 4, "Select PortRcvRemotePhysicalErrors")
    select_port_rcv_switch_relay_errors = bit(OfPort.counter_select, 5, "Select PortRcvSwitchRelayErrors")
    select_port_xmit_discards = bit(OfPort.counter_select, 6, "Select PortXmitDiscards")
    select_port_xmit_constraint_errors = bit(OfPort.counter_select, 7, "Select PortXmitConstraintErrors")
    select_port_rcv_constraint_errors = bit(OfPort.counter_select, 8, "Select PortRcvConstraintErrors")
    select_local_link_integrity_errors = bit(OfPort.counter_select, 9, "Select LocalLinkIntegrityErrors")
    select_excessive_buffer_overrun_errors = bit(OfPort.counter_select, 10, "Select ExcessiveBufferOverrunErrors")
    select_vl15_dropped = bit(OfPort.counter_select, 11, "Select VL15Dropped")
    select_port_xmit_data = bit(OfPort.counter_select, 12, "Select PortXmitData")
    select_port_rcv_data = bit(OfPort.counter_select, 13, "Select PortRcvData")
    select_port_xmit_pkts = bit(OfPort.counter_select, 14, "Select PortXmitPkts")
    select_port_rcv_pkts = bit(OfPort.counter_select, 15, "Select PortRcvPkts")
    symbol_error_counter = uint(16, "SymbolErrorCounter", at="4")
    link_error_recovery_counter = uint(8, "LinkErrorRecoveryCounter", at="6")
    link_downed_counter = uint(8, "LinkDownedCounter", at="7")
    port_rcv_errors = uint(16, "PortRcvErrors", at="8")
    port_rcv_remote_physical_errors = uint(16, "PortRcvRemotePhysicalErrors", at="10")
    port_rcv_switch_relay_errors = uint(16, "PortRcvSwitchRelayErrors", at="12")
    port_xmit_discards = uint(16, "PortXmitDiscards", at="14")
    port_xmit_constraint_errors = uint(8, "PortXmitConstraintErrors", at="16")
    port_rcv_constraint_errors = uint(8, "PortRcvConstraintErrors", at="17")
    counter_select2 = uint(8, "CounterSelect2", at="18", base="hex")
    select_port_xmit_wait = bit(counter_select2, 0, "Select PortXmitWait")
    local_link_integrity_errors = uint(4, "LocalLinkIntegrityErrors", at="19")
    excessive_buffer_overrun_errors = uint(4, "ExcessiveBufferOverrunErrors", at="19[4]")
    # libibmad's table lacks the byte swap here and reads 22-23; 20-21 is where OpenSM keeps it
    qp1_dropped = uint(16, "QP1Dropped", at="20")
    vl15_dropped = uint(16, "VL15Dropped", at="22")
    port_xmit_data = uint(32, "PortXmitData", at="24", unit="words of 4 bytes")
    port_rcv_data = uint(32, "PortRcvData", at="28", unit="words of 4 bytes")
    port_xmit_pkts = uint(32, "PortXmitPkts", at="32")
    port_rcv_pkts = uint(32, "PortRcvPkts", at="36")
    port_xmit_wait = uint(32, "PortXmitWait", at="40", unit="ticks")


class PortCountersExtended(OfPort):
    """64-bit traffic counters of a port and, with AdditionalPortCountersExtended, 64-bit error counters."""

    key, section, size = "portcounters_ext", "IBA 16.1.4.11; error counters after OpenSM and libibmad", 184
    carried_by = (Mad(0x04, 0x001D),)
    select_port_xmit_data = bit(OfPort.counter_select, 0, "Select PortXmitData")
    select_port_rcv_data = bit(OfPort.counter_select, 1, "Select PortRcvData")
    select_port_xmit_pkts = bit(OfPort.counter_select, 2, "Select PortXmitPkts")
    select_port_rcv_pkts = bit(OfPort.counter_select, 3, "Select PortRcvPkts")
    select_port_unicast_xmit_pkts = bit(OfPort.counter_select, 4, "Select PortUnicastXmitPkts")
    select_port_unicast_rcv_pkts = bit(OfPort.counter_select, 5, "Select PortUnicastRcvPkts")
    select_port_multicast_xmit_pkts = bit(OfPort.counter_select, 6, "Select PortMulticastXmitPkts")
    select_port_multicast_rcv_pkts = bit(OfPort.counter_select, 7, "Select PortMulticastRcvPkts")
    # reserved before the 64-bit error counters were added
    counter_select2 = uint(32, "CounterSelect2", at="4", base="hex")
    select_symbol_error_counter = bit(counter_select2, 0, "Select SymbolErrorCounter")
    select_link_error_recovery_counter = bit(counter_select2, 1, "Select LinkErrorRecoveryCounter")
    select_link_downed_counter = bit(counter_select2, 2, "Select LinkDownedCounter")
    select_port_rcv_errors = bit(counter_select2, 3, "Select PortRcvErrors")
    select_port_rcv_remote_physical_errors = bit(counter_select2, 4, "Select PortRcvRemotePhysicalErrors")
    select_port_rcv_switch_relay_errors = bit(counter_select2, 5, "Select PortRcvSwitchRelayErrors")
    select_port_xmit_discards = bit(counter_select2, 6, "Select PortXmitDiscards")
    select_port_xmit_constraint_errors = bit(counter_select2, 7, "Select PortXmitConstraintErrors")
    select_port_rcv_constraint_errors = bit(counter_select2, 8, "Select PortRcvConstraintErrors")
    select_local_link_integrity_errors = bit(counter_select2, 9, "Select LocalLinkIntegrityErrors")
    select_excessive_buffer_overrun_errors = bit(counter_select2, 10, "Select ExcessiveBufferOverrunErrors")
    select_vl15_dropped = bit(counter_select2, 11, "Select VL15Dropped")
    select_port_xmit_wait = bit(counter_select2, 12, "Select PortXmitWait")
    select_qp1_dropped = bit(counter_select2, 13, "Select QP1Dropped")
    port_xmit_data = uint(64, "PortXmitData", at="8", unit="words of 4 bytes")
    port_rcv_data = uint(64, "PortRcvData", at="16", unit="words of 4 bytes")
    port_xmit_pkts = uint(64, "PortXmitPkts", at="24")
    port_rcv_pkts = uint(64, "PortRcvPkts", at="32")
    port_unicast_xmit_pkts = uint(64, "PortUnicastXmitPkts", at="40")
    port_unicast_rcv_pkts = uint(64, "PortUnicastRcvPkts", at="48")
    port_multicast_xmit_pkts = uint(64, "PortMulticastXmitPkts", at="56")
    port_multicast_rcv_pkts = uint(64, "PortMulticastRcvPkts", at="64")
    symbol_error_counter = uint(64, "SymbolErrorCounter", at="72")
    link_error_recovery_counter = uint(64, "LinkErrorRecoveryCounter", at="80")
    link_downed_counter = uint(64, "LinkDownedCounter", at="88")
    port_rcv_errors = uint(64, "PortRcvErrors", at="96")
    port_rcv_remote_physical_errors = uint(64, "PortRcvRemotePhysicalErrors", at="104")
    port_rcv_switch_relay_errors = uint(64, "PortRcvSwitchRelayErrors", at="112")
    port_xmit_discards = uint(64, "PortXmitDiscards", at="120")
    port_xmit_constraint_errors = uint(64, "PortXmitConstraintErrors", at="128")
    port_rcv_constraint_errors = uint(64, "PortRcvConstraintErrors", at="136")
    local_link_integrity_errors = uint(64, "LocalLinkIntegrityErrors", at="144")
    excessive_buffer_overrun_errors = uint(64, "ExcessiveBufferOverrunErrors", at="152")
    vl15_dropped = uint(64, "VL15Dropped", at="160")
    port_xmit_wait = uint(64, "PortXmitWait", at="168", unit="ticks")
    qp1_dropped = uint(64, "QP1Dropped", at="176")
