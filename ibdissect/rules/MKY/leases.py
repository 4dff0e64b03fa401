"""M_Key leases that expire, or are shorter than the interval of the manager's visits."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial

import numpy as np

from ibdissect.bounded import BoundedDict, Dropped, KeptDict
from ibdissect.decode.equal_rows import distinct_values, is_in
from ibdissect.decode.history import AFTER_ALL, SECOND_NS
from ibdissect.decode.identity import Frame, LidId, NodeId, PortId
from ibdissect.lint.finding import Severity, value_of
from ibdissect.lint.rule import INFO, WARNING, Context, Hit, Moment, Rule, fault, on_event
from ibdissect.mad.transactions import Transactions
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.rules.shared.smp_senders import senders_of
from ibdissect.rules.shared.trap_rule import MAX_TRAPS
from ibdissect.subnet import SWITCH, ChunkFollowed, FabricFollower, Node, Port
from ibdissect.subnet.earlier_answers import PortInfos
from ibdissect.subnet.events import MKeyLearnt, WrongMKey
from ibdissect.wire.numbers import GET, SET, SM_INFO, STATUS
from ibdissect.wire.sm import SMP
from ibdissect.wire.sm_port import PortInfo

MAX_PORTS, MAX_ASKED = 65536, 16384
DIRECTED = 0
"""In place of the LID of who asks along a directed route."""


class LeaseExpired(LearntFactRule):
    """The M_Key lease of a port expired: everybody may read and write it.

    After a request with a wrong key, the port waits for one lease period for a request with the right key. Then it sets its protect bits to
    0, so that a new subnet manager can take over: the key protects nothing any more.

    Find out why the subnet manager did not reach the port in time; choose a lease longer than its sweep interval.

    The port's lease and protect bits in PortInfo, a request with a wrong key that gets no good answer, and none with the right key until
    the lease is over. An `info` where the capture misses packets in that time, or shows the right key in a request along a directed route
    whose end is not known; where it does not show the port's manager asking or writing it; where the wrong key came with a request for
    SMInfo, which many adapters hand to the manager unchecked; and where the port still shows protect bits afterwards, before anybody
    writes them.
    """

    code, name, severity = "MKY008", "mkey-lease-expiry", WARNING
    reference = "IBA 14.2.4; opensm manual"
    message = "the M_Key lease of {port} ({lease} s) ran out {after:.1f} s after a request with a wrong key"
    example = "a port with M_KeyLeasePeriod 1, a Set with a wrong key, and nothing with the right key for a second"

    def __init__(self) -> None:
        self.watched = KeptDict[Frame, WrongMKey](MAX_TRAPS, "ports that refused a request")
        """Refused requests that started a timer, by frame."""
        self.astray = set[Frame]()
        """Those after which the right key went to an unknown place."""
        self.asked = KeptDict[tuple[NodeId, LidId], Frame](MAX_ASKED, "who asks ports with a lease period")
        """The first request from a LID to a node."""
        self.told = BoundedDict[Frame, bool](MAX_TRAPS)
        """Of reported requests, whether the port took them after all: its answer came late."""
        self.over = KeptDict[PortId, list[Frame]](MAX_TRAPS, "ports whose lease expired")
        """When it expired, until the port shows its protect bits or somebody writes them."""
        self.refuted = set[PortId]()
        """Ports that show protect bits afterwards."""

    @on_event(WrongMKey)
    def refused(self, event: WrongMKey, context: Context) -> None:
        guard = event.port.guard
        starts = guard is not None and guard.timer.at(event.frame) == (event.time_ns, event.frame)
        if event.held.lease and event.held.protect and not event.trap and starts:
            self.watched.keep(event.frame, event, event.frame, event.time_ns)

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        first, times, asks = event.table.chunk.first, event.table.chunk.time_ns, event.requests
        self._note(event, context)
        for answer in context.get(Transactions).answers_to([*self.watched, *self.told]):
            if not answer.status & STATUS:  # the port took it
                self.watched.pop(answer.request.frame, None)
                if answer.request.frame in self.told:
                    self.told[answer.request.frame] = True
        unplaced = np.flatnonzero(asks.slot < 0) if len(self.watched) else np.empty(0, np.int64)
        for started, of in list(self.watched.items()):
            guard, lease = of.port.guard, of.held.lease
            late = np.flatnonzero(times[max(started - first, 0) :] - of.time_ns >= lease * SECOND_NS)
            row = max(started - first, 0) + int(late[0]) if len(late) else len(times) - 1
            # What stopped the timer counts only before the lease ran out.
            runs = guard is not None and guard.timer.at(first + row - bool(len(late)))[1] == started
            rows = asks.rows[unplaced[asks.m_key[unplaced] == of.held.key]]
            if ((rows + first > started) & (rows <= row)).any():
                self.astray.add(started)
            doubtful = started in self.astray or of.attribute == SM_INFO
            if len(late) or not runs:
                del self.watched[started]
                self.astray.discard(started)
            if len(late) and runs:
                over = self.over.get_or_make(of.port.id, list, first + row, int(times[row]))
                if over is not None:
                    over.append(first + row)
                self.told.put(started, False)
                yield fault(
                    Moment(first + row, int(times[row])),
                    {"port": of.port.name_at(first + row), "lease": lease, "after": (int(times[row]) - of.time_ns) / SECOND_NS},
                    proof=[(started, "the request with a wrong key")], key=of.port.key, severity=INFO if doubtful else None,
                    about=(of.port.node.slot,),
                )  # fmt: skip
        self._refute(event, context)

    def _note(self, event: ChunkFollowed, context: Context) -> None:
        """Who sends requests to which node with a lease, along LIDs or, with a key, along directed routes."""
        asks, chunk = event.requests, event.table.chunk
        senders, hidden = senders_of(event.table, asks, slice(None))
        index = np.flatnonzero((asks.slot >= 0) & (~hidden | (asks.m_key != 0)))
        slots = distinct_values(asks.slot[index])
        known = {slot: since for slot in slots if (since := _leased(event.subnet.by_slot(slot)))}
        if not known:
            return
        index = index[is_in(asks.slot[index], np.array([*known], np.int64))]
        index = index[asks.rows[index] + chunk.first > [known[slot] for slot in asks.slot[index].tolist()]]
        each, at = np.unique(asks.slot[index] << 16 | np.where(hidden, DIRECTED, senders)[index], return_index=True)
        for way, row in zip(each.tolist(), asks.rows[index[at]].tolist(), strict=True):
            who, frame = (NodeId(way >> 16), LidId(way & 0xFFFF)), row + chunk.first
            self.asked.get_or_make(who, partial(int, frame), frame, int(chunk.time_ns[row]))

    def _refute(self, event: ChunkFollowed, context: Context) -> None:
        """Look at what ports show after their leases were over."""
        smps = context.get(PortInfos).of(event)
        if not self.over or not len(smps):
            return
        for smp in smps.each(np.isin(smps.key, [one.key for one in self.over]) & (smps.sets | smps.answers)):
            port = PortId.of(smp.key)
            expired = self.over.get(port, [])
            later = [frame for frame in expired if frame >= smp.frame]
            if len(later) == len(expired):
                continue
            del self.over[port]
            if later:
                self.over[port] = later
            if not smps.sets[smp.i] and smp.now(PortInfo.m_key_protect_bits):
                self.refuted.add(port)

    def stands(self, hit: Hit, context: Context) -> bool:
        """Not if the port answered the request later, and took it."""
        return not self.told.get(hit.related[0].frame, False)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """Also INFO if the port shows that nothing expired, or its manager may send what the capture does not show."""
        port = PortId.of(hit.key)
        nodes = self.facts_used_of(hit, context)
        known = context.get(FabricFollower).subnet.by_key(hit.key)
        master = known.info.master_sm_lid if known is not None and known.info is not None else 0
        asked = (self.asked.get((NodeId(node.slot), LidId(lid)), AFTER_ALL) for node in nodes or () for lid in (master, DIRECTED))
        if port in self.refuted or not any(frame < hit.frame for frame in asked):
            return INFO
        return super().severity_at_end(hit, context)


def _leased(node: Node | None) -> int:
    """The first frame that is known to show a lease of some port of a node; 0: none does."""
    guards = (port.guard for port in node.ports.values()) if node is not None else ()
    shown = (one for guard in guards if guard is not None for one in guard.held.values())
    return min((frame for key, frame in shown if key is not None and key.lease), default=0)


class LeaseTooShort(Rule):
    """A port's M_Key lease is shorter than the time between two visits of its manager.

    A request with a wrong key starts the lease; only one with the right key stops it. If the manager visits less often, anybody can open
    the port with one request and some patience.

    Choose a lease longer than the sweep interval, or 0 (it never expires). Light sweeps do not visit hosts.

    The lease in PortInfo, and two requests with the key that are further apart. Only ports that the capture shows being written to
    with their key are judged, since otherwise it may not show their manager.
    """

    code, name, severity = "MKY009", "mkey-lease-less-than-sweep", INFO
    reference = "IBA 14.2.4; opensm osm_subnet.c"
    message = "{port} has a lease of {lease} s, and got nothing with its M_Key for {gap:.0f} s"
    example = "a port with M_Key and M_KeyLeasePeriod 1, a Set with the key, and a Get with it 2 s later"

    def __init__(self) -> None:
        self.dropped = Dropped("ports with a lease period")
        self.leased = KeptDict[PortId, tuple[Port, int, int, int]](MAX_PORTS, self.dropped)
        """Port, key, and time and frame of the latest request with it."""
        self.managed: set[PortId] = set()
        """Ports that somebody wrote to with their key."""
        self.news = deque[MKeyLearnt]()
        """What was learnt in the present chunk."""

    @on_event(MKeyLearnt)
    def learnt(self, event: MKeyLearnt, context: Context) -> None:
        if (event.held.key and event.held.lease) or self.leased or self.news:
            self.news.append(event)

    def _learn(self, event: MKeyLearnt) -> None:
        key = event.port.id
        self.leased.pop(key, None)
        if event.held.key and event.held.lease:
            self.leased.keep(key, (event.port, event.held.key, event.time_ns, event.frame), event.frame, event.time_ns)

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        """Go through what was learnt and the visits, in the order of frames."""
        if not self.leased and not self.news:
            return
        asks, table = event.requests, event.table
        index = np.flatnonzero(((asks.method == GET) | (asks.method == SET)) & (asks.slot >= 0))
        kinds = asks.kind[index]
        port = asks.slot[index] << 8 | np.where(kinds == SWITCH, 0, asks.entered[index])
        presented = asks.m_key[index]
        ports = {one.key for one in self.leased} | {one.port.key for one in self.news}
        mine = np.flatnonzero(is_in(port, np.array([*ports])))
        for j in mine.tolist():
            frame = int(asks.rows[index[j]]) + table.chunk.first
            while self.news and self.news[0].frame < frame:
                self._learn(self.news.popleft())
            key = PortId.of(int(port[j]))
            if key not in self.leased:
                continue
            about, m_key, latest, before = self.leased[key]
            time_ns = int(table.chunk.time_ns[frame - table.chunk.first])
            if int(presented[j]) != m_key or frame <= before:
                continue
            self.leased[key] = (about, m_key, time_ns, frame)
            if key not in self.managed:
                if int(asks.method[index[j]]) == SET:
                    if len(self.managed) < MAX_PORTS:
                        self.managed.add(key)
                    else:
                        self.dropped.add(frame, time_ns)
                continue
            guarded = about.guard.held.at(frame)[0] if about.guard is not None else None
            if guarded is None or guarded.key != m_key or not guarded.lease or time_ns - latest < guarded.lease * SECOND_NS:
                continue
            yield fault(
                Moment(frame, time_ns), {"port": str(about), "lease": guarded.lease, "gap": (time_ns - latest) / SECOND_NS}, SMP.m_key,
                value_of(SMP.m_key, m_key), proof=[(before, "the latest request with the key")], start=int(asks.mad[index[j]]), key=key,
            )  # fmt: skip
        while self.news:
            self._learn(self.news.popleft())
