"""Performance management: wrong methods, cleared and full counters, counters that fell, errors that were counted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product, repeat
from operator import gt
from typing import NamedTuple

import numpy as np

from ibdissect.bounded import BoundedDict
from ibdissect.decode import ChunkTable
from ibdissect.decode.conditions import occurrences_where
from ibdissect.decode.identity import AddressNumber, Code
from ibdissect.lint.rule import ERROR, INFERRED, INFO, Context, DeferredHit, Hit, Rule, Seen, fault, on_chunk
from ibdissect.mad.datagrams import Queries, number_text
from ibdissect.rules.PM.unsupported_requests import ALL_PORTS
from ibdissect.rules.shared.mad_conditions import METHODS_OF, NO_ERROR, REFUSED, NamesRequest
from ibdissect.wire.expr import Or
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import GET_RESP, PM_CLASS, SET
from ibdissect.wire.pm import OfPort, PortCounters, PortCountersExtended
from ibdissect.wire.spec import Field

COUNTER_ATTRIBUTES = frozenset({0x0012, 0x001D})
"""PortCounters and PortCountersExtended."""
FULL_32 = 0xFFFFFFFF
TRAFFIC = (PortCounters.port_xmit_data, PortCounters.port_rcv_data, PortCounters.port_xmit_pkts, PortCounters.port_rcv_pkts)
GOOD_ANSWER = (MAD.method == GET_RESP) & NO_ERROR
E = PortCountersExtended
_ERRORS = (
    E.symbol_error_counter, E.link_error_recovery_counter, E.link_downed_counter, E.port_rcv_errors, E.port_rcv_remote_physical_errors,
    E.port_rcv_switch_relay_errors, E.port_xmit_discards, E.port_xmit_constraint_errors, E.port_rcv_constraint_errors,
    E.local_link_integrity_errors, E.excessive_buffer_overrun_errors, E.vl15_dropped, E.qp1_dropped,
)  # fmt: skip
"""Counters of faults; PortXmitWait counts congestion."""


class CountersCleared(NamesRequest):
    """Somebody writes a port's counters, which normally clears them.

    Differences between two readings mean nothing if a third party clears the counters; monitoring then shows negative rates or misses
    errors.

    Let one tool clear the counters, and all others only read them (`perfquery` without -R).
    """

    code, name, severity = "PM004", "set-clears-counters", INFO
    reference = "IBA 16.1.3.5; kernel ib_pma.h; perfquery -R"
    when = (MAD.method == SET) & (MAD.mgmt_class == PM_CLASS) & MAD.attribute_id.isin(COUNTER_ATTRIBUTES)
    flow = (LRH.slid, LRH.dlid, MAD.attribute_id)
    message = "{what}: the counters start anew"
    example = "PerformanceSet(PortCounters)"


class CountersFull(Rule):
    """A 32-bit traffic counter reached its maximum.

    It stays at 0xffffffff until it is cleared: traffic since then is not counted. At 100 Gb/s PortXmitData is full after 1.4 seconds.

    Read PortCountersExtended, whose counters have 64 bits.

    One good answer is enough. Only an `info`: any busy port fills these counters within seconds.
    """

    code, name, severity = "PM006", "saturation-32", INFO
    reference = "IBA 16.1.3.5; python-rdma"
    when = Or(tuple(counter == FULL_32 for counter in TRAFFIC)) & GOOD_ANSWER
    flow = (LRH.slid, PortCounters.port_select)
    message = (
        "a traffic counter of port {port_select} is full: data out {port_xmit_data}, in {port_rcv_data}, packets out {port_xmit_pkts}, "
        "in {port_rcv_pkts}"
    )
    example = "PerformanceGetResp(PortCounters) with PortXmitData 0xffffffff"


class PMMethod(Rule):
    """A performance management MAD has a method that the class does not define.

    The class knows Get, Set and GetResp. Anything else is answered with status 2 or not at all.

    Correct the sender; a wrong management class is the usual cause.
    """

    code, name, severity = "PM009", "pm-method-undefined", ERROR
    explains = ("TXN006", "TXN008")
    reference = "IBA 16.1.1; python-rdma"
    when = ~MAD.method.isin(METHODS_OF[PM_CLASS]) & (MAD.mgmt_class == PM_CLASS) & (MAD.base_version == 1) & ~REFUSED
    message = "method 0x{method:02x} does not exist in performance management"
    example = "a class 0x04 MAD with method 0x05 (Trap)"


class ErrorsCounted(Rule):
    """A port has counted errors since its counters were cleared.

    Symbol errors and link recoveries point to the cable, discards and relay errors to routing or congestion, constraint
    errors to partitions.

    Read the counters twice, as only growth matters; if the symbol errors grow, check the cable first.
    """

    code, name, severity = "PM011", "extended-error-counters", INFO
    reference = "IBA 16.1.4.11; libibmad"
    when = Or(tuple(counter != 0 for counter in _ERRORS)) & GOOD_ANSWER
    flow = (LRH.slid, PortCountersExtended.port_select)
    message = (
        "port {port_select} counted errors: {symbol_error_counter:symbol error}, down {link_downed_counter:time}, "
        "{port_rcv_errors:receive error}, {port_xmit_discards:discard} (others are not listed)"
    )
    example = "PerformanceGetResp(PortCountersExtended) with SymbolErrorCounter 3"


MAX_PORTS = 32768
C = PortCounters
WIDE = (
    C.symbol_error_counter, C.port_rcv_errors, C.port_rcv_remote_physical_errors, C.port_rcv_switch_relay_errors,
    C.port_xmit_discards, C.vl15_dropped,
)  # fmt: skip
"""Counters of 16 bits."""
NARROW = (C.link_error_recovery_counter, C.link_downed_counter, C.port_xmit_constraint_errors, C.port_rcv_constraint_errors)
"""Counters of 8 bits."""
COUNTERS = (*WIDE, *NARROW, *TRAFFIC)
KINDS: tuple[tuple[type[OfPort], tuple[Field[int], ...]], ...] = (
    (PortCounters, COUNTERS),
    (PortCountersExtended, (
        E.port_xmit_data, E.port_rcv_data, E.port_xmit_pkts, E.port_rcv_pkts, E.port_unicast_xmit_pkts, E.port_unicast_rcv_pkts,
        E.port_multicast_xmit_pkts, E.port_multicast_rcv_pkts,
    )),
)  # fmt: skip
"""Attributes with counters that every agent has which answers them."""


class ErrorCountersFull(Rule):
    """An error counter of 8 or 16 bits reached its maximum.

    It stays there until it is cleared: errors since then are not counted, and a port that gets worse looks stable.

    Clear the counters and watch how fast they grow; read PortCountersExtended where the agent counts errors in 64 bits.

    One good answer is enough. Only an `info`: the counter may not have been cleared for long, and normal multicast alone fills
    PortRcvSwitchRelayErrors.
    """

    code, name, severity = "PM005", "saturation-16", INFO
    reference = "IBA 16.1.3.5; python-rdma"
    when = Or((*(counter == 0xFFFF for counter in WIDE), *(counter == 0xFF for counter in NARROW))) & GOOD_ANSWER
    flow = (LRH.slid, PortCounters.port_select)
    message = (
        "an error counter of port {port_select} is full: {symbol_error_counter:symbol error}, {link_error_recovery_counter:recovery}, down "
        "{link_downed_counter:time}, {port_rcv_errors:receive error}, {port_xmit_discards:discard} (others are not listed)"
    )
    example = "PerformanceGetResp(PortCounters) with SymbolErrorCounter 65535"


class CountersOf(NamedTuple):
    """A port of an agent, as its counters are asked for."""

    address: AddressNumber
    port: Code


class CountersFell(Rule):
    """A counter fell although no packet cleared it.

    Counters stop at their maximum and do not wrap: the port or its node restarted, or somebody cleared them unseen. Rates computed across
    this moment are wrong.

    Look for a restart of the node, or a second monitoring tool.

    Two readings of the same port's PortCounters or PortCountersExtended (without its error counters, which few agents have), and no
    PerformanceSet to it in between. Answers with a GRH are not compared.
    """

    code, name, severity = "PM010", "counter-jump", INFO
    reference = "IBA 16.1.3.5; python-rdma"
    message = "port {port} of {owner}: {counter} fell from {before} to {now}, and no PerformanceSet was seen"
    example = "two GetResp(PortCounters) of a port, SymbolErrorCounter 5 and 3"

    def __init__(self) -> None:
        self.last = BoundedDict[tuple[CountersOf, Code], tuple[int, list[int]]](MAX_PORTS, "ports with counters")
        """Frame and counters of the latest answer, by kind; frame 0: a Set was sent, whose answer is skipped."""

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[DeferredHit]:
        """Compare the counters of each port in the order of its answers; a Set of either kind starts both anew."""
        readings = sorted(one for kind in range(len(KINDS)) for one in self._readings(table, kind))
        for row, kind, i, written, key, now in readings:
            if written:
                ports = [key] if key.port != ALL_PORTS else {of for of, _ in self.last if of.address == key.address}
                for known in product(ports, range(len(KINDS))):
                    self.last[known] = 0, now
                continue
            if key.port == ALL_PORTS:
                continue
            before, frame = self.last.pop((key, kind), None), table.chunk.first + row
            if before is not None and not before[0]:
                continue
            self.last.put((key, kind), (frame, now), frame, int(table.chunk.time_ns[row]))
            if before is not None and any(map(gt, before[1], now)):
                proof = ((before[0], "the reading before"),)
                made = partial(self._made, table, KINDS[kind], i, key, before[1], now, proof)
                yield DeferredHit(frame=frame, key=key, make=made, proof=proof)

    def _readings(self, table: ChunkTable, kind: int) -> Iterator[tuple[int, int, int, bool, CountersOf, list[int]]]:
        """Row, kind, index, whether it is a Set, key and counters of each answer and Set of one kind."""
        struct, counters = KINDS[kind]
        found = table.occurrences(struct)
        if not len(found):
            return
        answered, written = (occurrences_where(when, table, struct) for when in (GOOD_ANSWER, MAD.method == SET))
        grh, lrh = (table.located.at(name)[found.rows] for name in ("grh", "lrh"))
        answered &= (grh < 0) | (lrh < 0)  # a router has one LID for many ports, and so has an adapter with virtual ones
        asked = table.once(Queries)
        index = np.flatnonzero((answered | written) & (asked.place[found.rows] >= 0))
        at = asked.place[found.rows[index]]
        ports = table.values(struct.port_select)[index].tolist()
        addresses = np.where(answered[index], asked.source[at], asked.destination[at]).tolist()
        keys = map(CountersOf, addresses, ports)
        values = np.stack([table.values(field)[index].astype(np.uint64) for field in counters], axis=1)
        rows, sets = found.rows[index].tolist(), written[index].tolist()
        yield from zip(rows, repeat(kind), index.tolist(), sets, keys, values.tolist(), strict=False)

    def _made(
        self, table: ChunkTable, of: tuple[type[OfPort], tuple[Field[int], ...]], i: int, key: CountersOf, before: list[int],
        now: list[int], proof: tuple[tuple[int, str]],
    ) -> Hit:  # fmt: skip
        struct, counters = of
        k = next(k for k in range(len(now)) if before[k] > now[k])
        port, owner, counter = key.port, number_text(key.address), counters[k]
        return fault(
            Seen(table, int(table.occurrences(struct).rows[i])),
            {"port": port, "owner": owner, "counter": counter.label, "before": before[k], "now": now[k]}, counter,
            of=table.view(struct, i), proof=proof, evidence=INFERRED, key=key,
        )  # fmt: skip
