"""RDMA messages (SEND, WRITE, READ, ATOMIC): their frames, and when each was answered.

A PSN names a packet of a request, and the responses and acknowledgements that belong to it. With the number of its stream it is a *place*
(`engine.message_places`): sorting by place puts a message together, whatever was lost, repeated or reordered (`message_parts`). A message
ends once it is complete and so are all before it. An incomplete one ends once later PSNs are acknowledged, as nobody repeats it then.
What is sent again of an ended message is added to its counts. So nothing depends on the reading window, but for what comes from before the
first message of a stream that ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import Dropped, KeptDict
from ibdissect.capture.gather import looked_up, u24
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.addresses import ends_hash, ends_of
from ibdissect.decode.equal_rows import SPREAD, run_starts
from ibdissect.decode.identity import Mark, StreamNumber
from ibdissect.decode.locate import IS_RESPONSE
from ibdissect.decode.payload_sizes import payload_sizes
from ibdissect.engine.message_places import BEHIND_READ, COLUMNS, PLACE_BITS
from ibdissect.engine.psn_order import MAX_ORDERS
from ibdissect.wire.headers import BTH, RNR
from ibdissect.wire.opcodes import ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE, CNP_OPCODE, OPCODES, OPERATION, READ_FIRST, READ_ONLY, SERVICE, UC, UD

from .congestion import SPECIAL_QP
from .events import StreamEnds
from .message_parts import ACKNOWLEDGED, ATOMIC_DATA, NOTIFIED, READ_DATA, REFUSED, REQUEST, UNREAD, MessageColumns, Parts, assembled
from .psn_streams import Streams

MAX_DATAGRAM_STREAMS = 65536
"""Senders to queue pairs of UD; messages of further ones are left out."""
MAX_OPEN = 1 << 20
"""Packets of messages that have not ended; when there are more, all messages end."""
BEHIND_ACKNOWLEDGED = 64
"""PSNs behind the highest acknowledged one from which on an incomplete message ends; captures may reorder packets a little. In streams with
READs and ATOMICs it is BEHIND_READ: a lost response is requested again although later ones arrived."""
BEHIND_SENT = 1024
"""The same behind the highest PSN sent, while no acknowledgement has been seen."""
NOWHERE = 1 << 62
"""A place behind all others."""
NOTHING = np.zeros(0, np.int64)
_OPERATIONS = np.arange(256) & OPERATION
_ROLE = np.where(~IS_RESPONSE, REQUEST, ACKNOWLEDGED).astype(np.uint8)
_ROLE[IS_RESPONSE & (_OPERATIONS >= READ_FIRST) & (_OPERATIONS <= READ_ONLY)] = READ_DATA
_ROLE[IS_RESPONSE & (_OPERATIONS == ATOMIC_ACKNOWLEDGE)] = ATOMIC_DATA
_ROLE[CNP_OPCODE] = NOTIFIED
_IS_ACKNOWLEDGE = IS_RESPONSE & (_OPERATIONS == ACKNOWLEDGE)
_IS_DATAGRAM = np.array([code in OPCODES and code & SERVICE == UD for code in range(256)])
_UNACKNOWLEDGED = np.arange(256) & SERVICE == UC
_STATE = ("newest", "acknowledged", "reads", "some", "ended", "floor")
"""Of each stream of requests, as places: the newest request, what is acknowledged, whether READs or ATOMICs were answered; whether some
message has ended, below `ended` all have, below `floor` incomplete ones, too."""


class EndedMessages(Record):
    """The messages that ended in a chunk, and later packets of messages that ended before."""

    messages: MessageColumns
    """The messages that ended."""
    late: Parts
    """Packets of messages that ended earlier; they count as sent again."""
    frames: Int
    places: Int
    """Which frame belongs to which place."""


class Messages:
    """All messages of a capture. Feed it chunks in order, after `streams`, then call `finish`."""

    after: ClassVar = (Streams,)

    def __init__(self, streams: Streams | None = None) -> None:
        self.streams = streams or Streams()
        self.streams.lanes.with_places = True
        self.dropped = Dropped("packets of open messages")
        self._state = dict.fromkeys(_STATE, NOTHING)
        self._datagrams = KeptDict[Mark, StreamNumber](MAX_DATAGRAM_STREAMS, "senders of datagrams")
        self._datagram_ends: list[StreamEnds] = []
        """Their numbers follow those of connections."""
        self._open = self._connected()

    def feed(self, table: ChunkTable) -> Iterator[EndedMessages]:
        """Process a chunk; yields the messages that end."""
        datagrams = self._of_datagrams(table)
        if len(datagrams.frame):
            yield EndedMessages(assembled(datagrams), datagrams.take(NOTHING), datagrams.frame, datagrams.place)
        yield from self._feed(everything=False)

    def finish(self) -> Iterator[EndedMessages]:
        """End all messages, at the end of the capture."""
        self.streams.lanes.finish()
        yield from self._feed(everything=True)

    def _feed(self, *, everything: bool) -> Iterator[EndedMessages]:
        parts = self._connected()
        if len(parts.frame):
            yield self._ended(parts, self._late(parts), everything=False)
        if not everything and len(self._open.frame) > MAX_OPEN:
            self.dropped.add(int(parts.frame.max()), int(parts.time_ns.max()), len(self._open.frame))
            everything = True
        if everything and len(self._open.frame):
            yield self._ended(self._open.take(NOTHING), np.zeros(0, np.bool_), everything=True)

    # -- streams

    def ends_of(self, number: StreamNumber) -> StreamEnds:
        """Source and destination of the requests of a stream."""
        ends: StreamEnds = self._datagram_ends[number - MAX_ORDERS] if number >= MAX_ORDERS else self.streams.all[number].ends
        return ends

    def between(self, number: StreamNumber) -> list[StreamNumber]:
        """Streams of requests between the queue pairs of one of them, both ways."""
        one, peer = self.ends_of(number), None if number >= MAX_ORDERS else self.streams.all[number].lane.peer
        ways = {(one.service, one.source, one.destination, one.dest_qp)}
        if peer is not None:
            ways.add((one.service, one.destination, one.source, peer.qpn))
        of_datagrams = enumerate(self._datagram_ends.copy(), MAX_ORDERS)
        every = [*((stream.number, stream.ends) for stream in self.streams.all.copy() if not stream.response), *of_datagrams]
        return [StreamNumber(n) for n, ends in every if (ends.service, ends.source, ends.destination, ends.dest_qp) in ways]

    def _connected(self) -> Parts:
        """The packets of connections that lanes got since the last call."""
        engine = self.streams.lanes.lanes
        taken = np.asarray(engine.notes_places().taken()) if engine is not None else NOTHING
        place, frame, time_ns, opcodes, length, dma_length, syndrome = taken.reshape(-1, len(COLUMNS)).T
        opcode = opcodes.astype(np.uint8)
        role = np.where(syndrome >> 5 >= RNR, REFUSED, looked_up(opcode, _ROLE)).astype(np.int8)
        role[looked_up(opcode, _IS_ACKNOWLEDGE) & (syndrome < 0)] = UNREAD  # the AETH is cut off: it may be a NAK
        return Parts(place, frame, time_ns, opcode, length, dma_length, role)

    def _of_datagrams(self, table: ChunkTable) -> Parts:
        """SENDs of UD, each a message of its own; its place ends in its frame."""
        loc, bth = table.located, table.located.at("bth")
        good = looked_up(loc.opcode, _IS_DATAGRAM) & (bth >= 0) & (loc.at("mad") < 0)
        rows = np.flatnonzero(good & ((loc.at("payload") >= 0) | loc.snapped | loc.complete))
        qp = u24(table.chunk.data, bth[rows] + BTH.destqp.span[0])
        rows, qp = rows[qp > SPECIAL_QP], qp[qp > SPECIAL_QP]
        key = ((qp.astype(np.uint64) << np.uint64(8) | np.uint64(UD)) ^ ends_hash(table, rows)) * SPREAD  # the GIDs may change
        keys, first, of = np.unique(key, return_index=True, return_inverse=True)
        frame, time_ns = table.chunk.first + rows, table.chunk.time_ns[rows]
        new = [i for i, one in enumerate(keys.tolist()) if one not in self._datagrams]
        for i, ends in zip(new, ends_of(table, rows[first[new]]), strict=True):
            one, number = Mark(int(keys[i])), StreamNumber(MAX_ORDERS + len(self._datagram_ends))
            self._datagrams.keep(one, number, int(frame[first[i]]), int(time_ns[first[i]]))
            if one in self._datagrams:
                self._datagram_ends.append(StreamEnds("UD", *ends, int(qp[first[i]]), False))
        stream = np.array([self._datagrams.get(one, -1) for one in keys.tolist()], np.int64)[of]
        none, role = np.full(len(rows), -1), np.full(len(rows), REQUEST, np.int8)
        parts = Parts((stream << PLACE_BITS) + (frame << 1), frame, time_ns, loc.opcode[rows], payload_sizes(table, rows), none, role)
        return parts.take(stream >= 0)

    # -- which messages end

    def _late(self, parts: Parts) -> Bool:
        """Which packets come after the end of their message; raises each stream's floor, below which incomplete messages end."""
        state, stream = self._grown(parts.place >> PLACE_BITS), parts.place >> PLACE_BITS
        order = np.argsort(stream, kind="stable")
        sorted_, of = parts.take(order), stream[order]
        place, role, opcode = sorted_.place, sorted_.role, sorted_.opcode
        starts = run_starts(of)
        streams, last = of[starts], np.append(starts[1:], len(of)) - 1
        base = of << PLACE_BITS
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
        answered = np.minimum(acknowledged, newest + 1) - np.where(reads, BEHIND_READ, BEHIND_ACKNOWLEDGED)
        floor = rising(np.where(acknowledged > base, answered, np.where(asks, unacknowledged, base)), "floor")
        late = np.zeros(len(of), np.bool_)
        late[order] = place < np.maximum(floor, state["ended"][of])
        return late

    def _ended(self, parts: Parts, late: Bool, *, everything: bool) -> EndedMessages:
        """Put open and new packets together; returns the messages that end and keeps the packets of the others."""
        every = Parts.joined(self._open, parts.take(~late))
        every = every.take(np.argsort(every.frame, kind="stable"))  # what waited for its lane's answers is older than what did not
        messages = assembled(every)
        state, stream = self._state, messages.place >> PLACE_BITS
        ending = np.ones(len(stream), np.bool_)
        if not everything and len(stream):
            starts = run_starts(stream)
            streams, group = stream[starts], np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(stream))))
            expected = np.append(0, messages.next[:-1])
            expected[starts] = np.where(state["some"][streams], state["ended"][streams], messages.place[starts])
            stops = ~messages.complete | (messages.place != expected)
            total = np.cumsum(stops)
            in_turn = total == (total - stops)[starts][group]
            ending = in_turn | (messages.next <= state["floor"][stream])
            # The first place that has not ended: that of the first open message, or else the end of the last one in turn.
            reached = np.maximum(np.maximum.reduceat(np.where(in_turn, messages.next, 0), starts), state["ended"][streams])
            open_ = np.minimum.reduceat(np.where(ending, NOWHERE, messages.place), starts)
            reached = np.maximum(reached, np.minimum(state["floor"][streams], open_))
            state["ended"][streams] = reached
            state["some"][stream[ending]] = 1
        if everything:
            self._open = every.take(NOTHING)
            keep = np.zeros(len(every.place), np.bool_)
            ends_at = np.maximum(state["newest"], state["acknowledged"]) + 1
            state["ended"], state["some"][:] = np.maximum(state["ended"], ends_at), 1
        else:
            keep = every.place >= state["ended"][every.place >> PLACE_BITS]
            self._open = every.take(keep)
        return EndedMessages(messages.take(ending), parts.take(late), parts.frame, parts.place)

    def _grown(self, streams: Int) -> dict[str, Int]:
        """The state, with room for some streams."""
        more = int(streams.max(initial=0)) + 1 - len(self._state["ended"])
        if more > 0:
            room = np.zeros(max(more, 1024), np.int64)
            self._state = {name: np.concatenate((values, room)) for name, values in self._state.items()}
        return self._state
