"""What do performance management MADs show by themselves: methods, cleared and full counters, errors?"""

from __future__ import annotations

from ibdissect.lint.rule import ERROR, INFO, Rule
from ibdissect.rules.shared.mad_conditions import NO_ERROR
from ibdissect.wire.expr import Or
from ibdissect.wire.link import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import GET, GET_RESP, PM_CLASS, SET
from ibdissect.wire.pm import PortCounters, PortCountersExtended

COUNTERS = frozenset({0x0012, 0x001D})
"""PortCounters and PortCountersExtended."""
FULL = 0xFFFFFFFF
TRAFFIC = (PortCounters.port_xmit_data, PortCounters.port_rcv_data, PortCounters.port_xmit_pkts, PortCounters.port_rcv_pkts)
GOOD_ANSWER = (MAD.method == GET_RESP) & NO_ERROR
E = PortCountersExtended
_ERRORS = (
    E.symbol_error_counter, E.link_error_recovery_counter, E.link_downed_counter, E.port_rcv_errors, E.port_rcv_remote_physical_errors,
    E.port_rcv_switch_relay_errors, E.port_xmit_discards, E.port_xmit_constraint_errors, E.port_rcv_constraint_errors,
    E.local_link_integrity_errors, E.excessive_buffer_overrun_errors, E.vl15_dropped, E.qp1_dropped,
)  # fmt: skip
"""Counters of faults; PortXmitWait counts congestion."""


class CountersCleared(Rule):
    """Somebody writes a port's counters, which normally clears them.

    Differences between two readings mean nothing if a third party clears the counters in between; monitoring then shows negative
    rates or misses errors.

    Let one tool clear the counters, and all others only read them (`perfquery` without -R).
    """

    code, name, severity = "PM004", "set-clears-counters", INFO
    reference = "IBA 16.1.3.5; kernel ib_pma.h; perfquery -R"
    when = (MAD.mgmt_class == PM_CLASS) & (MAD.method == SET) & MAD.attribute_id.isin(COUNTERS)
    at = MAD.method
    flow = (LRH.slid, LRH.dlid, MAD.attribute_id)
    message = "PerformanceSet of attribute 0x{attribute_id:04x}: the counters start anew"
    example = "PerformanceSet(PortCounters)"


class CountersFull(Rule):
    """A 32-bit traffic counter reached its maximum.

    It stays at 0xffffffff until it is cleared: traffic since then is not counted. At 100 Gb/s PortXmitData is full after 1.4 seconds.

    Read PortCountersExtended, whose counters have 64 bits.

    One good answer is enough. Only an `info`: any busy port fills these counters within seconds.
    """

    code, name, severity = "PM006", "saturation-32", INFO
    reference = "IBA 16.1.3.5; python-rdma"
    when = Or(tuple(counter == FULL for counter in TRAFFIC)) & GOOD_ANSWER
    flow = (LRH.slid, PortCounters.port_select)
    message = "port {port_select}: data out {port_xmit_data}, in {port_rcv_data}, packets out {port_xmit_pkts}, in {port_rcv_pkts}"
    example = "PerformanceGetResp(PortCounters) with PortXmitData 0xffffffff"


class PMMethod(Rule):
    """A performance management MAD has a method that the class does not define.

    The class knows Get, Set and GetResp. Anything else is answered with status 2 or not at all.

    Correct the sender; a wrong management class is the usual cause.
    """

    code, name, severity = "PM009", "pm-method", ERROR
    explains = ("TXN006",)
    reference = "IBA 16.1.1; python-rdma"
    when = (MAD.mgmt_class == PM_CLASS) & ~MAD.method.isin({GET, SET, GET_RESP}) & (MAD.base_version == 1)
    at = MAD.method
    message = "method 0x{method:02x} does not exist in performance management"
    example = "a class 0x04 MAD with method 0x05 (Trap)"


class ErrorsCounted(Rule):
    """A port has counted errors since its counters were cleared.

    Symbol errors and link recoveries point to the cable, discards and relay errors to routing or congestion, constraint
    errors to partitions.

    Read the counters twice: only growth matters. If the symbol errors grow, check the cable first.
    """

    code, name, severity = "PM011", "extended-error-counters", INFO
    reference = "IBA 16.1.4.11; libibmad"
    when = Or(tuple(counter != 0 for counter in _ERRORS)) & GOOD_ANSWER
    flow = (LRH.slid, PortCountersExtended.port_select)
    message = (
        "port {port_select}: {symbol_error_counter} symbol errors, {link_downed_counter} times down, {port_rcv_errors} receive errors, "
        "{port_xmit_discards} discards, or other errors"
    )
    example = "PerformanceGetResp(PortCountersExtended) with SymbolErrorCounter 3"
