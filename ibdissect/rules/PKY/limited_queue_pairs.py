"""Queue pairs of which both ends are limited members, by the packets of both directions. By P_Key tables: `limited_to_limited`."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict, Dropped, KeptDict
from ibdissect.capture.gather import gather
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.cm_connections import Connections
from ibdissect.decode.connection_events import ConnectionSetUp
from ibdissect.decode.equal_rows import SLOTS, groups, members, slot
from ibdissect.decode.identity import FlowId, LidId
from ibdissect.decode.native_packets import Native, source_qps
from ibdissect.lint.finding import Severity, Span
from ibdissect.lint.rule import ERROR, INFERRED, INFO, LEARNT, SEEN, Context, Hit, fault, on_chunk, on_end
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.visible_managers import CONFIGURED_NS
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.headers import BTH, GRH
from ibdissect.wire.numbers import BASE, FIRST_MULTICAST, FULL
from ibdissect.wire.opcodes import RD

MAX_FLOWS = 65536
"""Directions remembered of each kind; the oldest is evicted first."""
KEPT = 1024
"""Frames remembered of a direction until it is reported."""
PREFIX_BYTES = 8
MANY = -1
"""More than one destination QP was seen between two LIDs."""


class LimitedDirection(Record):
    """Limited packets of one direction."""

    base: int
    """The low 15 bits of their P_Key."""
    service: int
    """Upper three bits of their OpCode: both directions of a connection have the same."""
    frame: int
    time_ns: int
    span: Span
    count: int
    frames: array[int]
    """The first KEPT of them."""
    psns: array[int]
    """Their PSNs."""


class BothLimited(LearntFactRule):
    """Both ends of a queue pair send with the same limited P_Key.

    A sender uses an entry of its own table, so both ends are limited members and drop what the other sends. The connection was set up, but
    no data will pass.

    Make one of the two ports a full member (opensm: `full` in partitions.conf), or choose a partition in which one of them is.

    Packets in both directions of one queue pair: datagrams, which name both queue pairs; connections whose REQ and REP are in the
    capture; or the only connected queue pair between two LIDs, with one transport service. The last is an `info` if no PSN of one
    direction is answered in the other: the capture may miss another queue pair. Silent if one direction has a full P_Key. An `info` if the
    P_Key table of an end changed between the two directions, as the ends may have been limited members in turn, or a LID was given to
    another port, or half an hour lies between them. Connections between subnets are not judged, as a router's LID stands for many hosts,
    nor is what a port sends to itself.
    """

    code, name, severity = "PKY021", "limited-both-directions", ERROR
    reference = "IBA 10.9.3"
    message = "P_Key 0x{p_key:04x} (limited) in both directions between LID {near} and LID {far}, QPs 0x{far_qp:x} and 0x{near_qp:x}"
    needs = (Connections,)
    example = "an RC SEND with P_Key 0x0123, and an ACK with P_Key 0x0123 in the other direction"

    def __init__(self) -> None:
        dropped = Dropped("flows with limited P_Keys")
        self.only = BoundedDict[tuple[LidId, LidId], int](MAX_FLOWS, dropped)
        """SLID and DLID to the one destination QP of connected packets, or MANY."""
        self.limited = BoundedDict[FlowId, LimitedDirection](MAX_FLOWS, dropped)
        self.paired = KeptDict[tuple[FlowId, FlowId], tuple[LimitedDirection, LimitedDirection]](MAX_FLOWS, dropped)
        """Connected directions that belong together unless another QP appears between their LIDs."""
        self.reported = KeptDict[tuple[FlowId, FlowId], None](MAX_FLOWS, dropped)
        """Pairs that were reported with all packets until then."""

    @cached_property
    def latest(self) -> Int:
        """Ways learnt lately, by slot, 0 for none: most packets belong to one of them and need no further work."""
        return np.zeros(SLOTS, np.int64)

    @on_chunk
    def chunk(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        native = table.once(Native)
        connections = context.get(Connections)
        if not len(native.rows):
            return
        ordinary = (native.dest_qp > 1) & (native.dlid > 0) & (native.dlid < FIRST_MULTICAST) & (native.dlid != native.slid)
        connected = ordinary & (native.opcode < RD)  # RC and UC: one destination QP, no source QP
        way = (native.slid << 16) | native.dlid
        to = (way << 24) | native.dest_qp
        place = slot(to)
        self._destinations(to, place, connected, table.chunk.first, int(table.chunk.time_ns[0]))
        suspicious = (native.p_key > 0) & (native.p_key < FULL)
        suspicious &= ordinary
        if self.limited or suspicious.any():  # a full P_Key later clears the direction
            near = np.zeros(SLOTS, np.bool_)  # full P_Keys that share a slot with a limited one clear nothing
            near[place[suspicious]] = True
            ways = [one.source.lid << 40 | one.destination.lid << 24 | one.destination_qp for one in self.limited]
            near[slot(np.array(ways, np.int64))] = True
            suspicious |= ordinary & near[place]
        index = np.flatnonzero(suspicious)
        if not len(index):
            return
        source = source_qps(table, native.rows[index], native.opcode[index])
        known = (source > 1) | (connected[index] & ~_leaves_subnet(table, native.rows[index]))
        index, source = index[known], source[known]
        keys = (way[index], source, native.dest_qp[index], native.p_key[index])
        first, inverse = groups(keys)
        if len(groups(tuple(column[first] for column in keys[:3]))[0]) < len(first):
            first, inverse = groups((*keys, _turns(keys)))
        rows, parts = native.rows[index], members(inverse, len(first))
        frames, psns = rows + table.chunk.first, table.values_at(BTH.psn, rows).astype(np.uint32)
        flows = list(zip(*(column[first].tolist() for column in keys), strict=True))
        for i in np.argsort(first).tolist():
            (lids, src_qp, dest_qp, key), mine = flows[i], parts[i]
            flow = FlowId(LidId(lids >> 16), src_qp, LidId(lids & 0xFFFF), dest_qp)
            pair = connections.at((lids & 0xFFFF, dest_qp), int(frames[mine[0]])) if not src_qp else None
            yield from self._direction(table, flow, key, frames[mine], psns[mine], pair)

    def _destinations(self, ways: Int, place: Int, connected: Bool, frame: int, time_ns: int) -> None:
        """Learn the destination QPs of connected packets; a way is SLID, DLID and QP in one number, `place` its slot."""
        if not connected.all():
            ways, place = ways[connected], place[connected]
        if not len(ways):
            return
        other = np.flatnonzero(self.latest.take(place) != ways)
        if not len(other):
            return
        fresh = ways[other]
        for value in sorted(fresh[groups((fresh,))[0]].tolist()):
            lids, dest_qp = (LidId(value >> 40 & 0xFFFF), LidId(value >> 24 & 0xFFFF)), value & 0xFFFFFF
            known = self.only.get(lids)
            if known is None:
                if self.only.put(lids, dest_qp, frame, time_ns):
                    self.latest[:] = 0  # evicted ways must be learnt again
            elif known != dest_qp:
                self.only[lids] = MANY
        self.latest[place[other]] = fresh

    def _direction(
        self, table: ChunkTable, flow: FlowId, key: int, frames: Int, psns: Int, agreed: ConnectionSetUp | None
    ) -> Iterator[Hit]:
        if key & FULL or not key & BASE:
            self.limited.pop(flow, None)
            return
        base = key & BASE
        seen = self.limited.get(flow)
        if seen is None or seen.base != base:
            low, high = BTH.p_key.span
            frame, row = int(frames[0]), int(frames[0]) - table.chunk.first
            at = int(table.located.at("bth")[row] - table.chunk.offset[row])
            service, time_ns = int(table.values_at(BTH.opcode, frames[:1] - table.chunk.first)[0]) >> 5, int(table.chunk.time_ns[row])
            seen = LimitedDirection(base, service, frame, time_ns, Span(frame, at + low, high - low), 0, array("q"), array("I"))
            self.limited.put(flow, seen, seen.frame, seen.time_ns)
        seen.count += len(frames)
        room = max(KEPT - len(seen.frames), 0)
        if room:
            seen.frames.frombytes(frames[:room].tobytes())
            seen.psns.frombytes(psns[:room].tobytes())
        here, there = flow.source, flow.destination
        near = agreed.far((there.lid, flow.destination_qp)) if agreed is not None else None
        if near is not None and near[0] == here.lid:
            back = FlowId(there, 0, here, near[1])
        elif flow.source_qp:
            back = FlowId(there, flow.destination_qp, here, flow.source_qp)
        else:
            near, back = None, FlowId(there, 0, here, self.only.get((there, here), MANY))
        other = self.limited.get(back)
        if other is None or other.base != base:
            return
        pair = (flow, back) if flow < back else (back, flow)
        if flow.source_qp or near is not None:
            known = pair in self.reported
            self.reported.keep(pair, None, seen.frame, seen.time_ns)
            agreed = None if flow.source_qp else agreed
            yield self._hit(flow, seen, back, other, pair, agreed, frames if known else None)
        elif pair not in self.paired:
            self.paired.keep(pair, (seen, other) if pair[0] == flow else (other, seen), seen.frame, seen.time_ns)

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        """Connected pairs wait for the end: a second QP between the two ports would make them uncertain."""
        for (flow, back), (seen, other) in self.paired.items():
            alone = all(self.only.get((one.source, one.destination)) == one.destination_qp for one in (flow, back))
            if alone and seen.service == other.service:
                if seen.frame < other.frame:
                    flow, back, seen, other = back, flow, other, seen
                hit = self._hit(flow, seen, back, other, None)
                hit.severity = INFO if set(seen.psns).isdisjoint(other.psns) else None
                yield hit

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """It rests on packets of both directions: an info only if a table may have changed between them, or a LID was given away."""
        subnet, frames = context.get(FabricFollower).subnet, sorted((hit.frame, hit.related[0].frame))
        if context.get(CaptureLoss).nanoseconds_between(*frames) > CONFIGURED_NS:
            return INFO
        for lid in (hit.arguments["near"], hit.arguments["far"]):
            if not subnet.kept(lid, *frames):
                return INFO
            port = subnet.owner(lid, frames[1])[0]
            tables = port.p_keys.changes(frames[0]) if port is not None and port.p_keys is not None else ()
            if any(change < frames[1] for change in tables):
                return INFO
        return None if context.get(Scopes).together(frames) else INFO

    def _hit(
        self, flow: FlowId, seen: LimitedDirection, back: FlowId, other: LimitedDirection, key: object,
        agreed: ConnectionSetUp | None = None, again: Int | None = None,
    ) -> Hit:  # fmt: skip
        """The finding at the direction seen later; `again`: only these frames are new."""
        frames = sorted([*seen.frames, *other.frames]) if again is None else again
        count = seen.count + other.count if again is None else len(again)
        reply = [(agreed.rep_frame, "REP of the connection")] if agreed is not None else []
        return fault(
            seen,
            {"p_key": seen.base, "near": flow.source.lid, "far": back.source.lid, "near_qp": back.destination_qp,
             "far_qp": flow.destination_qp},
            BTH.p_key, seen.base,
            spans=(seen.span,), proof=[(other.frame, "the other direction"), *reply], count=count, frames=frames, key=key,
            evidence=LEARNT if reply else SEEN if flow.source_qp else INFERRED,
        )  # fmt: skip


def _leaves_subnet(table: ChunkTable, rows: Int) -> Bool:
    """Which packets have a GRH with GIDs of two subnets, bool[n]."""
    at, data = table.located.at("grh")[rows], table.chunk.data
    away, with_grh = np.zeros(len(rows), np.bool_), np.flatnonzero(at >= 0)
    source, destination = (gather(data, at[with_grh] + gid.bit // 8, PREFIX_BYTES) for gid in (GRH.sgid, GRH.dgid))
    away[with_grh] = (source != destination).any(axis=1)
    return away


def _turns(keys: tuple[Int, Int, Int, Int]) -> Int:
    """Number the stretches of the packets between two LIDs in which no direction of a queue pair changes its P_Key."""
    direction, (way, _, _, p_key) = groups(keys[:3])[1], keys
    order = np.argsort(direction, kind="stable")
    changed = np.zeros(len(order), np.bool_)
    changed[order[1:]] = (np.diff(p_key[order]) != 0) & (np.diff(direction[order]) == 0)
    ends = way >> 16, way & 0xFFFF
    order = np.argsort(np.minimum(*ends) << 16 | np.maximum(*ends), kind="stable")
    turns = np.zeros_like(p_key)
    turns[order] = np.cumsum(changed[order])
    return turns
