"""RDMA messages (SEND, WRITE, READ, ATOMIC): their frames, and when each was answered.

A PSN names a packet of a request, and the responses and acknowledgements that belong to it. Unwrapped and with the number of its stream
it is a *place*: sorting by place puts a message together, whatever was lost, repeated or reordered (`message_parts`). A message
ends once it is complete and so are all before it. An incomplete one ends once later PSNs are acknowledged, as nobody repeats it then.
What is sent again of an ended message is added to its counts. So nothing depends on the reading window.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import Dropped
from ibdissect.capture.gather import looked_up, u24
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.addresses import ends_hash, ends_of, sides_hash
from ibdissect.decode.cm_connections import Connections
from ibdissect.decode.equal_rows import SPREAD, run_starts
from ibdissect.decode.identity import Mark, StreamNumber
from ibdissect.decode.payload_sizes import payload_sizes
from ibdissect.wire.headers import BTH, PSNS, RNR
from ibdissect.wire.opcodes import (
    ACKNOWLEDGE,
    ATOMIC_ACKNOWLEDGE,
    CNP_OPCODE,
    OPCODES,
    OPERATION,
    RC,
    RD,
    READ_FIRST,
    READ_ONLY,
    READ_REQUEST,
    SERVICE,
    UD,
    XRC,
)

from .congestion import SPECIAL_QP
from .events import StreamEnds
from .message_parts import (
    ACKNOWLEDGED,
    ATOMIC_DATA,
    NOTIFIED,
    PLACE_BITS,
    READ_DATA,
    REFUSED,
    REQUEST,
    UNREAD,
    MessageColumns,
    Parts,
    assembled,
)
from .message_streams import UNKNOWN, MessageStreams
from .stream_packets import IS_RESPONSE, Packets, packets

MAX_STREAMS = 65536
"""Streams followed; when there are more, all messages end and all streams are forgotten."""
MAX_OPEN = 1 << 20
"""Packets of messages that have not ended; when there are more, all messages end."""
BEHIND_ACKNOWLEDGED = 64
"""PSNs behind the highest acknowledged one from which on an incomplete message ends; captures may reorder packets a little."""
BEHIND_READ = 4096
"""The same in streams with READs and ATOMICs: a lost response is requested again although later ones arrived."""
BEHIND_SENT = 1024
"""The same behind the highest PSN sent, while no acknowledgement has been seen."""
NOWHERE = 1 << 62
"""A place behind all others."""
_OF_MESSAGES = np.array([code in OPCODES and (code & SERVICE) != RD for code in range(256)])
_OPERATIONS = np.arange(256) & OPERATION
_ROLE = np.where(~IS_RESPONSE, REQUEST, ACKNOWLEDGED).astype(np.uint8)
_ROLE[IS_RESPONSE & (_OPERATIONS >= READ_FIRST) & (_OPERATIONS <= READ_ONLY)] = READ_DATA
_ROLE[IS_RESPONSE & (_OPERATIONS == ATOMIC_ACKNOWLEDGE)] = ATOMIC_DATA
_IS_READ, _IS_ACKNOWLEDGE = _OPERATIONS == READ_REQUEST, IS_RESPONSE & (_OPERATIONS == ACKNOWLEDGE)
_UNACKNOWLEDGED = np.isin(np.arange(256) & SERVICE, (0x20, UD))


class EndedMessages(Record):
    """The messages that ended in a chunk, and later packets of messages that ended before."""

    messages: MessageColumns
    """The messages that ended."""
    late: Parts
    """Packets of messages that ended earlier; they count as sent again."""
    frames: Int
    places: Int
    """Which frame belongs to which place; frames ascend."""
    ends: dict[StreamNumber, StreamEnds]
    """Streams of requests by number (the upper bits of a place); all that are followed."""


class Messages:
    """All messages of a capture. Feed it chunks in order, then call `finish`."""

    after: Any = (Connections,)

    def __init__(self, connections: Connections | None = None) -> None:
        self.connections = connections or Connections()
        self.dropped = Dropped("streams of messages"), Dropped("packets of open messages")
        self.streams = MessageStreams(self.connections)
        self._open = _nothing()

    def feed(self, table: ChunkTable) -> Iterator[EndedMessages]:
        """Process a chunk; yields the messages that end."""
        found = table.once(packets)
        new = [_nothing()]
        if found is not None:
            new += self._parts(table, found)
        new += self._datagrams(table)
        parts = Parts.joined(*new)
        if not len(parts.frame):
            return
        parts = parts.take(np.argsort(parts.frame, kind="stable"))
        late = self._late(parts)
        yield self._ended(parts, late, everything=False)
        if len(self.streams.ends) >= MAX_STREAMS or len(self._open.frame) > MAX_OPEN:
            dropped = self.dropped[len(self.streams.ends) < MAX_STREAMS]
            dropped.add(int(parts.frame[-1]), int(parts.time_ns[-1]), max(len(self._open.frame), 1))
            yield from self.finish()
            self.streams.forget()

    def finish(self) -> Iterator[EndedMessages]:
        """End all messages."""
        none = _nothing()
        if len(self._open.frame):
            yield self._ended(none, np.zeros(0, np.bool_), everything=True)

    # -- which stream, and which place

    def _parts(self, table: ChunkTable, p: Packets) -> Iterator[Parts]:
        """The packets of streams with their places; responses to unknown requests are left out."""
        opcode, first_ns = p.opcode, table.chunk.time_ns
        group = np.repeat(np.arange(len(p.starts)), np.diff(np.append(p.starts, len(p.rows))))
        good = looked_up(opcode, _OF_MESSAGES) & ~self.streams.is_damaged(table, p, group)
        index = np.flatnonzero(good)
        if not len(index):
            return
        runs, unwrapped = self.streams.unwrap(table, p, index, group)
        for key, psn in zip(p.key[p.starts].tolist(), p.psn[np.append(p.starts[1:], len(p.rows)) - 1].tolist(), strict=True):
            if (known_stream := self.streams.by_key.get(key)) is not None:
                self.streams.state["seen"][known_stream] = psn
        rows, opcode = p.rows[index], opcode[index]
        stream = np.repeat([run.stream for run in runs], [run.stop - run.first for run in runs])
        base = (stream + self.streams.base) << PLACE_BITS
        place = base + unwrapped
        responses = looked_up(opcode, IS_RESPONSE)
        self.streams.begin_earlier(stream[~responses], place[~responses])
        asked = np.where(p.dma_length[index] < 0, BEHIND_READ, p.dma_length[index] >> 8)
        reach = place + 1 + np.where(looked_up(opcode, _IS_READ), asked, 0)
        known = self.streams.pair(table, runs, rows, p.psn[index], unwrapped, reach, responses)
        state = self.streams.state
        partner = state["partner"][stream]
        place = np.where(responses, unwrapped + state["shift"][stream], place)
        owner = np.where(responses, partner, stream)
        unread = looked_up(opcode, _IS_ACKNOWLEDGE) & (p.syndrome[index] < 0)  # the AETH is cut off: it may be a NAK
        refused = p.syndrome[index] >> 5 >= RNR
        role = np.where(refused, REFUSED, looked_up(opcode, _ROLE)).astype(np.int8)
        role[unread] = UNREAD
        keep = np.flatnonzero(known & (place >= state["first"][owner]))
        rows, role = rows[keep], role[keep]
        parts = Parts(
            place[keep], table.chunk.first + rows, first_ns[rows], opcode[keep], p.length[index[keep]], p.dma_length[index[keep]], role
        )  # fmt: skip
        yield parts
        yield from self._notified(table, parts)

    # -- packets outside streams

    def _notified(self, table: ChunkTable, parts: Parts) -> Iterator[Parts]:
        """CNPs, each with the place of the newest request before it on the queue pair that it slows down."""
        bth = table.located.at("bth")
        rows = np.flatnonzero((table.located.opcode == CNP_OPCODE) & (bth >= 0))
        if not len(rows):
            return
        qp = u24(table.chunk.data, bth[rows] + BTH.destqp.span[0]).astype(np.uint64) << np.uint64(8)
        ways = sides_hash(table, rows)
        keys = [(((qp | np.uint64(service | response)) ^ ways) * SPREAD).tolist() for response in (1, 0) for service in (RC, XRC)]
        asked = parts.take(parts.role == REQUEST)
        for row, *some in zip(rows.tolist(), *keys, strict=True):
            stream = next((stream for key in some if (stream := self.streams.by_key.get(key)) is not None), None)
            if stream is not None and self.streams.ends[stream].response:
                stream = int(self.streams.state["partner"][stream])
            if stream is None or stream < 0:
                continue
            frame, number = table.chunk.first + row, stream + self.streams.base
            mine = asked.place[(asked.place >> PLACE_BITS == number) & (asked.frame < frame)]
            newest = max(int(self.streams.state["newest"][stream]), int(mine.max(initial=0)))
            one = np.array([newest, frame, table.chunk.time_ns[row], CNP_OPCODE, 0, UNKNOWN, NOTIFIED], np.int64)[:, None]
            yield Parts(one[0], one[1], one[2], one[3].astype(np.uint8), one[4], one[5], one[6].astype(np.int8))

    def _datagrams(self, table: ChunkTable) -> Iterator[Parts]:
        """SENDs of UD, each a message of its own; its place ends in its frame."""
        loc = table.located
        bth = loc.start.get("bth")
        if bth is None:
            return
        good = ((loc.opcode & SERVICE) == UD) & looked_up(loc.opcode, _OF_MESSAGES)
        rows = np.flatnonzero(good & (bth >= 0) & (loc.at("mad") < 0) & ((loc.at("payload") >= 0) | loc.snapped | loc.complete))
        qp = u24(table.chunk.data, bth[rows] + BTH.destqp.span[0])
        rows, qp = rows[qp > SPECIAL_QP], qp[qp > SPECIAL_QP]
        if not len(rows):
            return
        key = ((qp.astype(np.uint64) << np.uint64(8) | np.uint64(UD)) ^ ends_hash(table, rows)) * SPREAD  # the GIDs may change
        keys, first, of = np.unique(key, return_index=True, return_inverse=True)
        new = [i for i, one in enumerate(keys.tolist()) if one not in self.streams.by_key]
        for i, ends in zip(new, ends_of(table, rows[first[new]]), strict=True):
            self.streams.begin(Mark(int(keys[i])), StreamEnds("UD", *ends, int(qp[first[i]]), False), 0, sealed=True)
        stream = np.array([self.streams.by_key[one] for one in keys.tolist()], np.int64)[of]
        frame = table.chunk.first + rows
        length = payload_sizes(table, rows)
        yield Parts(
            (stream + self.streams.base << PLACE_BITS) + PSNS + (frame << 1), frame, table.chunk.time_ns[rows], loc.opcode[rows], length,
            np.full(len(rows), UNKNOWN), np.full(len(rows), REQUEST, np.int8),
        )  # fmt: skip

    # -- which messages end

    def _late(self, parts: Parts) -> Bool:
        """Which packets come after the end of their message; raises each stream's floor, below which incomplete messages end."""
        state, stream = self.streams.state, (parts.place >> PLACE_BITS) - self.streams.base
        order = np.argsort(stream, kind="stable")
        sorted_, of = parts.take(order), stream[order]
        place, role, frame, opcode = sorted_.place, sorted_.role, sorted_.frame, sorted_.opcode
        starts = run_starts(of)
        streams, last = of[starts], np.append(starts[1:], len(of)) - 1
        base = (of + self.streams.base) << PLACE_BITS
        asks, answers = role == REQUEST, (role != REQUEST) & (role != NOTIFIED)

        def rising(values: Int, name: str) -> Int:
            values[starts] = np.maximum(values[starts], state[name][streams])
            np.maximum.accumulate(values, out=values)
            state[name][streams] = values[last]
            return values

        newest = rising(np.where(asks, place, base), "newest")
        acknowledged = rising(np.where(answers, place + ((role != REFUSED) & (role != UNREAD)), base), "acknowledged")
        reads = rising(base + ((role == READ_DATA) | (role == ATOMIC_DATA)), "reads") > base
        unacknowledged = newest + 1 - np.where(looked_up(opcode, _UNACKNOWLEDGED), BEHIND_ACKNOWLEDGED, BEHIND_SENT)
        answered = acknowledged - np.where(reads, BEHIND_READ, BEHIND_ACKNOWLEDGED)
        floor = rising(np.where(frame >= state["paired"][of], answered, np.where(asks, unacknowledged, base)), "floor")
        late = np.zeros(len(of), np.bool_)
        late[order] = place < np.maximum(floor, state["ended"][of])
        return late

    def _ended(self, parts: Parts, late: Bool, *, everything: bool) -> EndedMessages:
        """Put open and new packets together; returns the messages that end and keeps the packets of the others."""
        every = Parts.joined(self._open, parts.take(~late))
        messages = assembled(every)
        state, stream = self.streams.state, (messages.place >> PLACE_BITS) - self.streams.base
        ending = np.ones(len(stream), np.bool_)
        if not everything and len(stream):
            starts = run_starts(stream)
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
            keep = every.place >= state["ended"][(every.place >> PLACE_BITS) - self.streams.base]
            self._open = every.take(keep)
        return EndedMessages(messages.take(ending), parts.take(late), parts.frame, parts.place, self.streams.asking)

    def _datagram(self, streams: Int) -> Bool:
        return np.array([self.streams.ends[stream].service == "UD" for stream in streams.tolist()], np.bool_)


def _nothing() -> Parts:
    none = np.empty(0, np.int64)
    return Parts(none, none, none, np.empty(0, np.uint8), none, none, np.empty(0, np.int8))
