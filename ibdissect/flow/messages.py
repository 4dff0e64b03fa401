"""Which RDMA messages were sent (SEND, WRITE, READ, ATOMIC), in which frames, and when was each answered?

A PSN names a packet of a request, and the responses and acknowledgements that belong to it. Unwrapped and with the number of its stream
it is a *place*: sorting by place puts a message together, whatever was lost, repeated or reordered (`message_parts`). A message
ends once it is complete and so are all before it. An incomplete one ends once later PSNs are acknowledged, as nobody repeats it then.
What is sent again of an ended message is added to its counts. So nothing depends on the reading window.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.capture.scattered import looked_up, u24
from ibdissect.dropped import Dropped
from ibdissect.table.addresses import End, ends_hash, ends_of
from ibdissect.table.connections import Connections
from ibdissect.table.crcs import wrong_icrcs
from ibdissect.table.history import AFTER_ALL
from ibdissect.table.locate import Bool, Int
from ibdissect.table.rows import SPREAD
from ibdissect.table.table import ChunkTable
from ibdissect.wire.opcodes import CNP_OPCODE, OPCODES, RC, RD, SERVICES, UD, XRC
from ibdissect.wire.transport import RNR

from .events import StreamEnds
from .message_parts import (
    ACKNOWLEDGED,
    ATOMIC_DATA,
    NOTIFIED,
    PLACE_BITS,
    READ_DATA,
    REFUSED,
    REQUEST,
    MessageColumns,
    Parts,
    assembled,
)
from .recovery import FAR, PSNS, distance
from .stream_packets import ATOMIC_ACKNOWLEDGE, IS_RESPONSE, OPERATION, READ_FIRST, READ_ONLY, READ_REQUEST, SERVICE, Packets, packets

MAX_STREAMS = 65536
"""Streams followed; when there are more, all messages end and all streams are forgotten."""
MAX_OPEN = 1 << 20
"""Packets of messages that have not ended; when there are more, all messages end."""
BEHIND_ACKNOWLEDGED = 64
"""PSNs behind the highest acknowledged one from which on an incomplete message ends; captures may reorder packets a little."""
BEHIND_READ = 4096
"""The same in streams with READs and ATOMICs: a response that got lost is asked for again although later ones arrived."""
BEHIND_SENT = 1024
"""The same behind the highest PSN sent, while no acknowledgement has been seen."""
UNKNOWN = -1
NOWHERE = 1 << 62
"""A place behind all others."""
_STATE: dict[str, int] = {
    "seen": UNKNOWN, "psn": UNKNOWN, "unwrapped": 0, "first": 0, "newest": 0, "reach": 0, "acknowledged": 0, "ended": 0, "floor": 0,
    "reads": 0, "partner": UNKNOWN, "paired": AFTER_ALL, "shift": 0, "packets": 0, "sealed": 0,
}  # fmt: skip
"""Columns with the state of every stream, and the value if unknown. Of requests: places, `paired` the frame from which on the stream
of responses is known. Of responses: `shift` from their unwrapped PSN to the place. `seen`: the latest PSN, even of a damaged packet."""
_MAY_ATTACH = np.array([code in OPCODES and (code & SERVICE) != RD for code in range(256)])
_OPERATIONS = np.arange(256) & OPERATION
_ROLE = np.where(~IS_RESPONSE, REQUEST, ACKNOWLEDGED).astype(np.uint8)
_ROLE[IS_RESPONSE & (_OPERATIONS >= READ_FIRST) & (_OPERATIONS <= READ_ONLY)] = READ_DATA
_ROLE[IS_RESPONSE & (_OPERATIONS == ATOMIC_ACKNOWLEDGE)] = ATOMIC_DATA
_IS_READ = _OPERATIONS == READ_REQUEST
_SILENT = np.isin(np.arange(256) & SERVICE, (0x20, UD))


class Ended(Record):
    """What a chunk taught about messages."""

    messages: MessageColumns
    """Those that ended."""
    late: Parts
    """Packets of messages that had ended before; they count as sent again."""
    frames: Int
    places: Int
    """Which frame belongs to which place; frames ascend."""
    ends: dict[int, StreamEnds]
    """Streams of requests by number (the upper bits of a place); all that are followed."""


class _Run(Record):
    """Packets of one stream in a chunk, in order: indices first to stop of the arrays."""

    stream: int
    first: int
    stop: int


class Messages:
    """All messages of a capture. Feed it chunks in order, then call `finish`."""

    after: Any = (Connections,)
    columns: Any = (packets,)

    def __init__(self, connections: Connections | None = None) -> None:
        self.connections = connections or Connections()
        self.dropped = Dropped("streams of messages"), Dropped("packets of open messages")
        self._base = 1
        """Number of the first stream followed."""
        self._forget()
        self._open = _nothing()

    def _forget(self) -> None:
        self._by_key: dict[int, int] = {}
        """Stream by hash of its addresses, queue pair, service and direction: its index, which `_base` makes its number."""
        self._ends: list[StreamEnds] = []
        self._asking: dict[int, StreamEnds] = {}
        """Streams of requests by number."""
        self._between: dict[tuple[str, End, End], list[int]] = {}
        """Streams of requests whose responses are not known yet, by service and addresses."""
        self._state = {name: np.full(1024, empty, np.int64) for name, empty in _STATE.items()}

    def feed(self, table: ChunkTable) -> Iterator[Ended]:
        """Process a chunk; yields what it ends."""
        found = table.once(packets)
        new = [_nothing()]
        if found is not None:
            new += self._placed(table, found)
        new += self._datagrams(table)
        parts = Parts.joined(*new)
        if not len(parts.frame):
            return
        parts = parts.take(np.argsort(parts.frame, kind="stable"))
        late = self._late(parts)
        yield self._ended(parts, late, everything=False)
        if len(self._ends) >= MAX_STREAMS or len(self._open.frame) > MAX_OPEN:
            dropped = self.dropped[len(self._ends) < MAX_STREAMS]
            dropped.add(int(parts.frame[-1]), int(parts.time_ns[-1]), max(len(self._open.frame), 1))
            yield from self.finish()
            self._base += len(self._ends)
            self._forget()

    def finish(self) -> Iterator[Ended]:
        """End all messages."""
        none = _nothing()
        if len(self._open.frame):
            yield self._ended(none, np.zeros(0, np.bool_), everything=True)

    def requester(self, number: int) -> int | None:
        """The queue pair that sends a stream of requests: the one that its responses go to; None if none were seen."""
        found = np.flatnonzero(self._state["partner"][: len(self._ends)] == number - self._base)
        return self._ends[found[0]].dest_qp if len(found) else None

    # -- which stream, and which place

    def _placed(self, table: ChunkTable, p: Packets) -> Iterator[Parts]:
        """The packets of streams with their places; responses to unknown requests are left out."""
        opcode, first_ns = p.opcode, table.chunk.time_ns
        group = np.repeat(np.arange(len(p.starts)), np.diff(np.append(p.starts, len(p.rows))))
        good = looked_up(opcode, _MAY_ATTACH) & ~self._damaged(table, p, group)
        index = np.flatnonzero(good)
        if not len(index):
            return
        runs, unwrapped = self._unwrapped(table, p, index, group)
        for key, psn in zip(p.key[p.starts].tolist(), p.psn[np.append(p.starts[1:], len(p.rows)) - 1].tolist(), strict=True):
            if (known_stream := self._by_key.get(key)) is not None:
                self._state["seen"][known_stream] = psn
        rows, opcode = p.rows[index], opcode[index]
        stream = np.repeat([run.stream for run in runs], [run.stop - run.first for run in runs])
        base = (stream + self._base) << PLACE_BITS
        place = base + unwrapped
        responses = looked_up(opcode, IS_RESPONSE)
        reach = place + 1 + np.where(looked_up(opcode, _IS_READ), np.maximum(p.dma_length[index], 0) >> 8, 0)
        known = self._pair(table, runs, rows, p.psn[index], unwrapped, reach, responses)
        state = self._state
        partner = state["partner"][stream]
        place = np.where(responses, unwrapped + state["shift"][stream], place)
        owner = np.where(responses, partner, stream)
        refused = p.syndrome[index] >> 5 >= RNR
        role = np.where(refused, REFUSED, looked_up(opcode, _ROLE)).astype(np.int8)
        keep = np.flatnonzero(known & (place >= state["first"][owner]))
        rows, role = rows[keep], role[keep]
        parts = Parts(
            place[keep], table.chunk.first + rows, first_ns[rows], opcode[keep], p.length[index[keep]], p.dma_length[index[keep]], role
        )  # fmt: skip
        yield parts
        yield from self._notified(table, parts)

    def _damaged(self, table: ChunkTable, p: Packets, group: Int) -> Bool:
        """Packets with an unexpected PSN and a wrong ICRC, in streams whose first ICRC was right: their PSN says nothing."""
        state, found = self._state, np.zeros(len(p.rows), np.bool_)
        slots = np.array([self._by_key.get(key, UNKNOWN) for key in p.key[p.starts].tolist()], np.int64)
        before = np.empty_like(p.psn)
        before[1:] = p.psn[:-1]
        before[p.starts] = np.where(slots < 0, p.psn[p.starts], state["seen"][slots])
        step = p.psn - before
        odd = np.flatnonzero((step < 0) | (step > 1))
        sealed = np.where(slots < 0, 1, state["sealed"][slots])[group[odd]] > 0
        odd = odd[sealed]
        if len(odd):
            found[odd] = wrong_icrcs(table, p.rows[odd])
        return found

    def _unwrapped(self, table: ChunkTable, p: Packets, index: Int, group: Int) -> tuple[list[_Run], Int]:
        """Runs of packets by stream, and each packet's unwrapped PSN. A PSN far from the one before begins another stream."""
        state, psn, group = self._state, p.psn[index], group[index]
        starts = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
        keys = p.key[index[starts]].tolist()
        slots = np.array([self._by_key.get(key, UNKNOWN) for key in keys], np.int64)
        before = np.empty_like(psn)
        before[1:] = psn[:-1]
        before[starts] = np.where(slots < 0, psn[starts], state["psn"][slots])
        step = ((psn - before + (PSNS >> 1)) & (PSNS - 1)) - (PSNS >> 1)
        far = np.abs(step) > FAR
        far[starts[slots < 0]] = True
        heads = np.flatnonzero(far)
        fresh: dict[int, int] = {}
        if len(heads):
            rows = p.rows[index[heads]]
            sealed = ~wrong_icrcs(table, rows)
            of_key = np.searchsorted(starts, heads, side="right") - 1
            for head, at, way, good in zip(heads.tolist(), of_key.tolist(), ends_of(table, rows), sealed.tolist(), strict=True):
                opcode = int(p.opcode[index[head]])
                ends = StreamEnds(SERVICES[opcode & SERVICE], *way, int(p.dest_qp[group[head]]), bool(IS_RESPONSE[opcode]))
                fresh[head] = self._begin(keys[at], ends, int(psn[head]), good)
        bounds = sorted({*starts.tolist(), *heads.tolist(), len(psn)})
        slot_at = dict(zip(starts.tolist(), slots.tolist(), strict=True))
        runs = [_Run(fresh.get(a, slot_at.get(a, UNKNOWN)), a, b) for a, b in pairwise(bounds)]
        state = self._state
        step[heads] = 0
        total = np.cumsum(step)
        firsts, lasts = np.array(bounds[:-1]), np.array(bounds[1:]) - 1
        of = np.array([run.stream for run in runs])
        begin = state["unwrapped"][of] + step[firsts]
        unwrapped = total + np.repeat(begin - total[firsts], lasts - firsts + 1)
        state["unwrapped"][of], state["psn"][of] = unwrapped[lasts], psn[lasts]
        return runs, unwrapped

    def _begin(self, key: int, ends: StreamEnds, psn: int, sealed: bool) -> int:
        """Index of a new stream."""
        number = len(self._ends)
        if number >= len(self._state["psn"]):
            for name, empty in _STATE.items():
                self._state[name] = np.concatenate((self._state[name], np.full(number, empty, np.int64)))
        self._ends.append(ends)
        self._by_key[key] = number
        state, base = self._state, (number + self._base) << PLACE_BITS
        # One turn of the PSNs is added, so that packets from before the first one have places, too.
        state["seen"][number] = state["psn"][number] = psn
        state["unwrapped"][number], state["sealed"][number] = psn + PSNS, sealed
        for name in ("first", "newest", "reach", "ended"):
            state[name][number] = base + psn + PSNS
        state["acknowledged"][number] = state["floor"][number] = state["reads"][number] = base
        if not ends.response:
            self._asking[number + self._base] = ends
            self._between.setdefault((ends.service, ends.source, ends.destination), []).append(number)
        return number

    # -- which responses belong to which requests

    def _pair(self, table: ChunkTable, runs: list[_Run], rows: Int, psn: Int, unwrapped: Int, reach: Int, responses: Bool) -> Bool:
        """Find the requests that streams of responses answer; which packets belong to a known stream of requests, bool[n]."""
        state, first = self._state, np.array([run.first for run in runs])
        of = np.array([run.stream for run in runs])
        sizes, answers = np.diff(np.append(first, len(rows))), responses[first]
        known = np.repeat(~answers | (state["partner"][of] >= 0), sizes)
        there = {run.stream: run for run in runs}
        tries: list[tuple[int, int]] = []
        for number in np.flatnonzero(answers & (state["partner"][of] < 0)).tolist():
            # Looking is slow: at the first packet, the second, the fourth ...
            run, before = runs[number], int(state["packets"][of[number]])
            ordinals = [1 << k for k in range(before.bit_length(), (before + run.stop - run.first).bit_length())]
            tries += [(run.first + ordinal - before - 1, number) for ordinal in ordinals]
        state["packets"][of] += sizes
        for i, number in sorted(tries, key=lambda one: rows[one[0]]):
            run = runs[number]
            if state["partner"][run.stream] >= 0:
                continue
            found = self._partner(self._ends[run.stream], table.chunk.first + int(rows[i]), int(rows[i]), int(psn[i]), there, rows, reach)
            if found is not None:
                stream, place = found
                state["partner"][run.stream], state["shift"][run.stream] = stream, place - unwrapped[i]
                state["paired"][stream] = table.chunk.first + rows[i]
                ends = self._ends[stream]
                self._between[ends.service, ends.source, ends.destination].remove(stream)
                known[i : run.stop] = True
        asks = of[~answers]
        state["reach"][asks] = np.maximum(state["reach"][asks], np.maximum.reduceat(reach, first)[~answers])
        return known

    def _partner(
        self, ends: StreamEnds, frame: int, row: int, psn: int, there: dict[int, _Run], rows: Int, reach: Int
    ) -> tuple[int, int] | None:
        """The only stream of requests whose PSNs so far include that of a response, and the place; None if none or several do."""
        state, found = self._state, []
        peer = self._connected(ends, frame)
        for stream in self._between.get((ends.service, ends.destination, ends.source), ()):
            if peer not in (None, self._ends[stream].dest_qp):
                continue
            sent = int(state["reach"][stream])
            run = there.get(stream)
            if run is not None:
                before = int(np.searchsorted(rows[run.first : run.stop], row))
                if before:
                    sent = max(sent, int(reach[run.first : run.first + before].max()))
                elif state["packets"][stream] == run.stop - run.first:
                    continue  # its first packet comes later
            place = sent + distance(psn, sent % PSNS)
            if state["first"][stream] <= place < sent:
                found.append((stream, place))
        return found[0] if len(found) == 1 else None

    def _connected(self, ends: StreamEnds, frame: int) -> int | None:
        """The queue pair that connection management says responses to `ends` come from; None if it does not."""
        for one in reversed(self.connections.all):
            if 0 < one.rep_frame < frame:
                if (one.active, one.passive, one.active_qpn) == (ends.destination, ends.source, ends.dest_qp):
                    return one.passive_qpn
                if (one.passive, one.active, one.passive_qpn) == (ends.destination, ends.source, ends.dest_qp):
                    return one.active_qpn
        return None

    # -- packets outside streams

    def _notified(self, table: ChunkTable, parts: Parts) -> Iterator[Parts]:
        """CNPs, each with the place of the newest request before it on the queue pair that it slows down."""
        bth = table.located.at("bth")
        rows = np.flatnonzero((table.located.opcode == CNP_OPCODE) & (bth >= 0))
        if not len(rows):
            return
        qp = u24(table.chunk.data, bth[rows] + 5).astype(np.uint64) << np.uint64(8)
        ways = ends_hash(table, rows)
        keys = [(((qp | np.uint64(service | response)) ^ ways) * SPREAD).tolist() for response in (1, 0) for service in (RC, XRC)]
        asked = parts.take(parts.role == REQUEST)
        for row, *some in zip(rows.tolist(), *keys, strict=True):
            stream = next((stream for key in some if (stream := self._by_key.get(key)) is not None), None)
            if stream is not None and self._ends[stream].response:
                stream = int(self._state["partner"][stream])
            if stream is None or stream < 0:
                continue
            frame, number = table.chunk.first + row, stream + self._base
            mine = asked.place[(asked.place >> PLACE_BITS == number) & (asked.frame < frame)]
            newest = max(int(self._state["newest"][stream]), int(mine.max(initial=0)))
            one = np.array([newest, frame, table.chunk.time_ns[row], CNP_OPCODE, 0, UNKNOWN, NOTIFIED], np.int64)[:, None]
            yield Parts(one[0], one[1], one[2], one[3].astype(np.uint8), one[4], one[5], one[6].astype(np.int8))

    def _datagrams(self, table: ChunkTable) -> Iterator[Parts]:
        """SENDs of UD, each a message of its own; its place ends in its frame."""
        loc = table.located
        bth = loc.start.get("bth")
        if bth is None:
            return
        good = ((loc.opcode & SERVICE) == UD) & looked_up(loc.opcode, _MAY_ATTACH)
        rows = np.flatnonzero(good & (bth >= 0) & (loc.at("mad") < 0) & (loc.at("payload") >= 0))
        if not len(rows):
            return
        qp = u24(table.chunk.data, bth[rows] + 5)
        key = ((qp.astype(np.uint64) << np.uint64(8) | np.uint64(UD)) ^ ends_hash(table, rows)) * SPREAD
        keys, first, of = np.unique(key, return_index=True, return_inverse=True)
        new = [i for i, one in enumerate(keys.tolist()) if one not in self._by_key]
        for i, ends in zip(new, ends_of(table, rows[first[new]]), strict=True):
            self._begin(int(keys[i]), StreamEnds("UD", *ends, int(qp[first[i]]), False), 0, sealed=True)
        stream = np.array([self._by_key[one] for one in keys.tolist()], np.int64)[of]
        frame = table.chunk.first + rows
        length = np.where(loc.complete[rows], loc.payload_end[rows] - loc.at("payload")[rows], -1)
        yield Parts(
            (stream + self._base << PLACE_BITS) + PSNS + (frame << 1), frame, table.chunk.time_ns[rows], loc.opcode[rows], length,
            np.full(len(rows), UNKNOWN), np.full(len(rows), REQUEST, np.int8),
        )  # fmt: skip

    # -- which messages end

    def _late(self, parts: Parts) -> Bool:
        """Which packets come after the end of their message; raises each stream's floor, below which incomplete messages end."""
        state, stream = self._state, (parts.place >> PLACE_BITS) - self._base
        order = np.argsort(stream, kind="stable")
        sorted_, of = parts.take(order), stream[order]
        place, role, frame, opcode = sorted_.place, sorted_.role, sorted_.frame, sorted_.opcode
        starts = np.flatnonzero(np.concatenate(([True], of[1:] != of[:-1])))
        streams, last = of[starts], np.append(starts[1:], len(of)) - 1
        base = (of + self._base) << PLACE_BITS
        asks, told = role == REQUEST, (role != REQUEST) & (role != NOTIFIED)

        def rising(values: Int, name: str) -> Int:
            values[starts] = np.maximum(values[starts], state[name][streams])
            np.maximum.accumulate(values, out=values)
            state[name][streams] = values[last]
            return values

        newest = rising(np.where(asks, place, base), "newest")
        acknowledged = rising(np.where(told, place + (role != REFUSED), base), "acknowledged")
        reads = rising(base + ((role == READ_DATA) | (role == ATOMIC_DATA)), "reads") > base
        unheard = newest + 1 - np.where(looked_up(opcode, _SILENT), BEHIND_ACKNOWLEDGED, BEHIND_SENT)
        heard = acknowledged - np.where(reads, BEHIND_READ, BEHIND_ACKNOWLEDGED)
        floor = rising(np.where(frame >= state["paired"][of], heard, np.where(asks, unheard, base)), "floor")
        late = np.zeros(len(of), np.bool_)
        late[order] = place < np.maximum(floor, state["ended"][of])
        return late

    def _ended(self, parts: Parts, late: Bool, *, everything: bool) -> Ended:
        """Put open and new packets together; messages that end are returned, the packets of others stay."""
        every = Parts.joined(self._open, parts.take(~late))
        messages = assembled(every)
        state, stream = self._state, (messages.place >> PLACE_BITS) - self._base
        ending = np.ones(len(stream), np.bool_)
        if not everything and len(stream):
            starts = np.flatnonzero(np.concatenate(([True], stream[1:] != stream[:-1])))
            streams, group = stream[starts], np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(stream))))
            expected = np.append(0, messages.next[:-1])
            expected[starts] = state["ended"][streams]
            datagram = messages.complete & (messages.latency_ns < 0) & self._datagram(streams)[group]
            stops = (~messages.complete | (messages.place != expected)) & ~datagram
            total = np.cumsum(stops)
            in_turn = total == (total - stops)[starts][group]
            ending = in_turn | (messages.next <= state["floor"][stream])
            # The first place that has not ended: that of the first open message, or else the end of the last one in turn.
            reached = np.maximum(np.maximum.reduceat(np.where(in_turn, messages.next, 0), starts), state["ended"][streams])
            open_ = np.minimum.reduceat(np.where(ending, NOWHERE, messages.place), starts)
            reached = np.maximum(reached, np.minimum(state["floor"][streams], open_))
            state["ended"][streams] = reached
        if everything:
            self._open = _nothing()
            keep = np.zeros(len(every.place), np.bool_)
            ends_at = np.maximum(state["newest"], state["acknowledged"]) + 1
            state["ended"] = np.maximum(state["ended"], ends_at)
        else:
            keep = every.place >= state["ended"][(every.place >> PLACE_BITS) - self._base]
            self._open = every.take(keep)
        return Ended(messages.take(ending), parts.take(late), parts.frame, parts.place, self._asking)

    def _datagram(self, streams: Int) -> Bool:
        return np.array([self._ends[stream].service == "UD" for stream in streams.tolist()], np.bool_)


def _nothing() -> Parts:
    none = np.empty(0, np.int64)
    return Parts(none, none, none, np.empty(0, np.uint8), none, none, np.empty(0, np.int8))
