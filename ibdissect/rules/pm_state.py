"""What performance management asks of agents that cannot do it, and counters that fall or are full (PM)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import gt
from typing import Any

import numpy as np

from ibdissect.dropped import Dropped
from ibdissect.flow.agents import Agent, Agents
from ibdissect.flow.asked import Asked
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related
from ibdissect.lint.rule import INFO, WARNING, Again, Hit, Rule, Seen, on_chunk
from ibdissect.table.locate import Bool, Int
from ibdissect.table.mask import occurrences_where
from ibdissect.table.table import ChunkTable
from ibdissect.wire.expr import Or
from ibdissect.wire.link import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.pm import PortCounters, PortCountersExtended
from ibdissect.wire.spec import Field

from .content import GET_RESP, NO_ERROR, PM_CLASS, SET

ALL_PORT_SELECT, XMIT_WAIT = 1 << 8, 1 << 12
"""Bits of ClassPortInfo.CapabilityMask of performance management (Linux ib_pma.h)."""
ALL_PORTS = 255
MAX_PORTS = 65536
_TOLD = (MAD.method == GET_RESP) & NO_ERROR

C = PortCounters
WIDE = (
    C.symbol_error_counter, C.port_rcv_errors, C.port_rcv_remote_physical_errors, C.port_rcv_switch_relay_errors,
    C.port_xmit_discards, C.vl15_dropped,
)  # fmt: skip
"""Counters of 16 bits."""
NARROW = (C.link_error_recovery_counter, C.link_downed_counter, C.port_xmit_constraint_errors, C.port_rcv_constraint_errors)
"""Counters of 8 bits."""
COUNTERS = (*WIDE, *NARROW, C.port_xmit_data, C.port_rcv_data, C.port_xmit_pkts, C.port_rcv_pkts)


class AgentRule(Rule):
    """What the rules share: requests to agents that have told what they can do."""

    lacks = 0
    """The capability that such an agent does not have."""

    def suspicious(self, table: ChunkTable, rows: Int) -> Bool:
        """Which requests need the capability; `rows` are those of performance management."""
        raise NotImplementedError

    def made(self, seen: Seen, agent: Agent) -> Hit:
        """The finding of one of them."""
        raise NotImplementedError

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        """Agents of this chunk are known from behind their answer on."""
        if not any(mgmt_class == PM_CLASS for mgmt_class, _ in table.attributes()):
            return
        asked = context.get(Asked).of(table)
        agents = context.get(Agents).of(table, asked).by_place
        mine = np.flatnonzero((asked.mgmt_class == PM_CLASS) & asked.asks)
        if not len(mine) or not agents:
            return
        for i in mine[self.suspicious(table, asked.rows[mine])].tolist():
            place = int(asked.destination[i])
            agent = agents.get((PM_CLASS, place))
            row = int(asked.rows[i])
            if agent is None or agent.frame > table.chunk.first + row or agent.capability_mask & self.lacks:
                continue
            hit = self.made(Seen(table, row), agent)
            hit.related, hit.evidence, hit.key = (Related(agent.frame, "ClassPortInfo"),), Evidence.LEARNT, place
            yield hit


def _held(table: ChunkTable, field: Field[Any], rows: Int) -> Int:
    """A field of the first structure in each of some rows, int64[n]; 0 where there is none."""
    assert field.owner is not None
    if not len(table.occurrences(field.owner)):
        return np.zeros(len(rows), np.int64)
    index = table.first(field.owner)[rows]
    return np.where(index >= 0, table.values(field)[index].astype(np.int64), 0)


class AllPortsUnsupported(AgentRule):
    """A request is for all ports at once, to an agent that cannot add them up.

    ## Why it matters
    Such an agent refuses port 255 or answers for a port of its choice: the numbers mean something else than the reader thinks.

    ## What to do
    Read the ports one by one; the agent's ClassPortInfo (bit 8 of CapabilityMask) says what it can do.
    """

    code, name, severity = "PM002", "allportselect-unsupported", WARNING
    reference = "IBA 16.1.2.1, 16.1.3.5; kernel ib_pma.h"
    message = "PortSelect 255 to an agent without AllPortSelect (CapabilityMask 0x{mask:04x})"
    example = "GetResp(ClassPortInfo) with CapabilityMask 0, then PerformanceGet(PortCounters) with PortSelect 255"
    lacks = ALL_PORT_SELECT

    def suspicious(self, table: ChunkTable, rows: Int) -> Bool:
        asks = np.zeros(len(rows), np.bool_)
        for field in (PortCounters.port_select, PortCountersExtended.port_select):
            asks |= _held(table, field, rows) == ALL_PORTS
        return asks

    def made(self, seen: Seen, agent: Agent) -> Hit:
        view = seen.first(PortCounters) or seen.first(PortCountersExtended)
        return self.hit(seen, view, type(view).port_select, mask=agent.capability_mask)


class XmitWaitUnsupported(AgentRule):
    """A request clears the counter PortXmitWait at an agent that does not have it.

    ## Why it matters
    Nothing is lost, but zeros read from such an agent do not mean that there was no congestion.

    ## What to do
    Do not rely on PortXmitWait of this port; the agent's ClassPortInfo (bit 12 of CapabilityMask) says what it can do.
    """

    code, name, severity = "PM007", "xmitwait-unsupported", INFO
    reference = "IBA 16.1.3.5; kernel ib_pma.h; seed004 portCountersXmitWaitSupported"
    message = "PortXmitWait selected at an agent that does not count it (CapabilityMask 0x{mask:04x})"
    example = "GetResp(ClassPortInfo) with CapabilityMask 0, then PerformanceSet(PortCounters) with CounterSelect2 1"
    lacks = XMIT_WAIT

    def suspicious(self, table: ChunkTable, rows: Int) -> Bool:
        clears: Bool = (_held(table, PortCounters.select_port_xmit_wait, rows) != 0) & (_held(table, MAD.method, rows) == SET)
        return clears

    def made(self, seen: Seen, agent: Agent) -> Hit:
        return self.hit(seen, seen.first(PortCounters), PortCounters.counter_select2, mask=agent.capability_mask)


class ErrorCountersFull(Rule):
    """An error counter of 8 or 16 bits has reached its end.

    ## Why it matters
    It stays there until it is cleared: errors since then are not counted, and a port that gets worse looks stable.

    ## What to do
    Clear the counters and watch how fast they grow; read PortCountersExtended where the agent counts errors in 64 bits.
    """

    code, name, severity = "PM005", "saturation-16", WARNING
    reference = "IBA 16.1.3.5; seed004"
    on = PortCounters
    when = Or((*(counter == 0xFFFF for counter in WIDE), *(counter == 0xFF for counter in NARROW))) & _TOLD
    at = PortCounters.symbol_error_counter
    flow = (LRH.slid, PortCounters.port_select)
    message = (
        "port {port_select}: {symbol_error_counter} symbol errors, {link_error_recovery_counter} recoveries, "
        "{link_downed_counter} times down, {port_rcv_errors} receive errors, {port_xmit_discards} discards, or others are full"
    )
    example = "PerformanceGetResp(PortCounters) with SymbolErrorCounter 65535"


class CountersFell(Rule):
    """A counter fell although nobody was seen to clear it.

    ## Why it matters
    Counters stop at their end and do not wrap: the port or its node was restarted, or somebody cleared them by a way that the
    capture does not show. Rates that were computed over this moment are wrong.

    ## What to do
    Look for a restart of the node, or a second monitoring tool. Answers with a GRH are not compared.
    """

    code, name, severity = "PM010", "counter-jump", INFO
    reference = "IBA 16.1.3.5; seed004"
    message = "port {port} of {owner}: {counter} fell from {before} to {now}, and no PerformanceSet was seen"
    example = "two GetResp(PortCounters) of a port, SymbolErrorCounter 5 and 3"

    def __init__(self) -> None:
        self.last: dict[int, tuple[int, list[int]]] = {}
        """Frame and counters of the latest answer by address and port; frame 0 where the answer to a Set comes next."""
        self.dropped = Dropped("ports with counters")

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Again]:
        """The counters of each port in the order of its answers; what a Set was sent to starts anew."""
        found = table.occurrences(PortCounters)
        if not len(found):
            return
        told, written = (occurrences_where(when, table, PortCounters) for when in (_TOLD, MAD.method == SET))
        grh, lrh = (table.located.at(name)[found.rows] for name in ("grh", "lrh"))
        told &= (grh < 0) | (lrh < 0)  # a router has one LID for many ports, and so has an adapter with virtual ones
        asked = context.get(Asked).of(table)
        place = np.full(len(table), -1, np.int64)
        place[asked.rows] = np.arange(len(asked.rows))
        index = np.flatnonzero((told | written) & (place[found.rows] >= 0))
        at = place[found.rows[index]]
        ports = table.values(PortCounters.port_select)[index].astype(np.uint64)
        keys = np.where(told[index], asked.source[at], asked.destination[at]) << np.uint64(8) | ports
        counters = np.stack([table.values(field)[index].astype(np.int64) for field in COUNTERS], axis=1).tolist()
        for i, key, now in zip(index.tolist(), keys.tolist(), counters, strict=True):
            if written[i]:
                for known in [key] if key & 0xFF != ALL_PORTS else [k for k in self.last if k >> 8 == key >> 8]:
                    self.last[known] = 0, now
                continue
            if key & 0xFF == ALL_PORTS:
                continue
            before = self.last.pop(key, None)
            if before is not None and not before[0]:
                continue
            if len(self.last) >= MAX_PORTS:
                self.dropped.add(self.last.pop(next(iter(self.last)))[0] or table.chunk.first, 0)
            self.last[key] = table.chunk.first + int(found.rows[i]), now
            if before is not None and any(map(gt, before[1], now)):
                yield Again(frame=self.last[key][0], key=key, made=partial(self._made, table, i, key, before, now))

    def _made(self, table: ChunkTable, i: int, key: int, before: tuple[int, list[int]], now: list[int]) -> Hit:
        k = next(k for k in range(len(now)) if before[1][k] > now[k])
        owner = f"LID {key >> 8}" if key >> 8 < 1 << 16 else "this address"
        hit = self.hit(Seen(table, int(table.occurrences(PortCounters).rows[i])), table.view(PortCounters, i), COUNTERS[k],
                       port=key & 0xFF, owner=owner, counter=COUNTERS[k].label, before=before[1][k], now=now[k])  # fmt: skip
        hit.related, hit.evidence, hit.key = (Related(before[0], "the reading before"),), Evidence.INFERRED, key
        return hit
