"""The message of each frame: all messages of a capture in memory, RDMA and connection management, as columns."""

from __future__ import annotations

from itertools import chain

import numpy as np

from ibdissect.bounded import Dropped, KeptDict
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.cm_connections import messages as cm_messages
from ibdissect.decode.identity import Frame, MessageId, StreamNumber
from ibdissect.engine.message_places import PLACE_BITS

from .events import StreamEnds
from .message_parts import CONNECT, DISCONNECT, NOTIFIED, REFUSED, REQUEST, SIDR, UNREAD, MessageColumns, Parts
from .messages import EndedMessages, Messages
from .psn_streams import Streams

MAX_MESSAGES = 1 << 22
"""Messages kept; further ones are left out."""
CM_BYTES = 232
"""Data of a connection management MAD after the common header."""
_FIELD = {"latency": "latency_ns"}
_EMPTY = {"ack_frame": 0, "bytes": -1, "latency": -1}
"""Values that stand for none."""
UNREAD_AS_ZERO = ("naks", "complete")
"""Columns in which 0 is not known where an answer is cut off before it says whether it is an ACK or a NAK."""


class MessageTable:
    """Messages by frame. Feed it chunks and call `finish`; one thread may add, any may read what ended so far."""

    def __init__(self, streams: Streams | None = None) -> None:
        """`streams`: those of somebody who feeds them, and their connections, each chunk before; without them it follows its own."""
        self._follows = streams is None
        self.follower = Messages(streams)
        self.connections = self.follower.streams.connections
        self.dropped = Dropped("messages")
        self._cm_times = KeptDict[Frame, int](MAX_MESSAGES, Dropped("messages of connection management"))
        self._parts: list[MessageColumns] = []
        self._late: list[Parts] = []
        self._frames: list[Int] = []
        self._places: list[Int] = []
        self._count = 0
        self._known: tuple[int, MessageColumns, Int, Int] | None = None
        """Cache: number of parts it was made of, messages by place, frames and their places."""

    def feed(self, table: ChunkTable) -> tuple[()]:
        """Process the next chunk."""
        if self._follows:
            for _ in chain(self.connections.feed(table), self.follower.streams.feed(table)):
                pass
        for message in table.once(cm_messages):
            self._cm_times.keep(message.frame, message.time_ns, message.frame, message.time_ns)
        for ended in self.follower.feed(table):
            self._take(ended)
        return ()

    def finish(self) -> None:
        """Call at the end of the capture: messages that are not complete end, too."""
        for ended in self.follower.finish():
            self._take(ended)

    def _take(self, ended: EndedMessages) -> None:
        new, frames = len(ended.messages.place), len(ended.frames)
        if self._count + new > MAX_MESSAGES:
            self.dropped.add(int(ended.messages.first_frame[:1].sum()), int(ended.messages.begin_ns[:1].sum()), new)
            return
        self._count += new
        if new:
            self._parts.append(ended.messages)
        if len(ended.late.place):
            self._late.append(ended.late)
        if frames:
            self._frames.append(ended.frames)
            self._places.append(ended.places)

    def columns(self) -> MessageColumns:
        """All messages that ended, by place; those of connection management first, with places below 0."""
        return self._all()[0]

    def ends_of(self, place: int) -> StreamEnds:
        """Source, destination and queue pair of a message; the service of connection management is called CM."""
        return self._cm_ends[MessageId(place)] if place < 0 else self.follower.ends_of(StreamNumber(place >> PLACE_BITS))

    def packets_of(self, index: int) -> tuple[Int, Int]:
        """Frames of a message of `columns`, ascending, and their places: equal places are copies, or a request and its response."""
        every, frames, places = self._all()
        low, high = np.searchsorted(frames, (every.first_frame[index], every.last_frame[index] + 1))
        mine = np.flatnonzero((places[low:high] >= every.place[index]) & (places[low:high] < every.next[index])) + low
        return frames[mine], places[mine]

    def conversation(self, index: int) -> Int:
        """Messages between the queue pairs of a message of `columns`, both ways, by first frame."""
        every = self.columns()
        streams = self.follower.between(StreamNumber(int(every.place[index]) >> PLACE_BITS))
        mine = np.flatnonzero(np.isin(every.place >> PLACE_BITS, streams))
        return mine[np.argsort(every.first_frame[mine], kind="stable")]

    def message_of(self, frame: int) -> int | None:
        """Index in `columns` of the message that a frame belongs to."""
        _, index = self._of_frames(frame, 1)
        return int(index[0]) if len(index) else None

    def values(self, name: str, first: int, count: int) -> tuple[Int, Int]:
        """The values of one of MESSAGE_COLUMNS for `count` frames from `first`: rows relative to `first`, ascending, and values.

        Times are nanoseconds, `kind` is an index of MESSAGE_KINDS.
        """
        frames, index = self._of_frames(first, count)
        values = getattr(self.columns(), _FIELD.get(name, name))[index].astype(np.int64)
        there = values != _EMPTY[name] if name in _EMPTY else np.ones(len(values), np.bool_)
        if name in UNREAD_AS_ZERO:
            there = there & ~((values == 0) & self.columns().unread[index])
        return (frames - first)[there], values[there]

    def _of_frames(self, first: int, count: int) -> tuple[Int, Int]:
        """Which of some frames belong to a message, and its index."""
        every, frames, places = self._all()
        low, high = np.searchsorted(frames, (first, first + count))
        place = places[low:high]
        index = np.searchsorted(every.place, place, side="right") - 1
        inside = (index >= 0) & (place < np.append(every.next, 0)[index])
        return frames[low:high][inside], index[inside]

    def _all(self) -> tuple[MessageColumns, Int, Int]:
        """Messages by place, frames and their places, put together when something was added."""
        made_of = len(self._frames) + len(self._parts) + len(self._cm_times)
        if self._known is None or self._known[0] != made_of:
            every = self._joined()
            of_cm = [(frame, place) for place, some in self._cm_frames.items() for frame in some]
            many = len(self._places)  # another thread may be adding
            frames, places = (
                np.concatenate([*each[:many], np.array([one[k] for one in of_cm], np.int64)])
                for k, each in enumerate((self._frames, self._places))
            )
            order = np.argsort(frames, kind="stable")
            self._known = made_of, every, frames[order], places[order]
        return self._known[1:]

    def _joined(self) -> MessageColumns:
        every = MessageColumns.joined(self._managed(), *self._parts)
        every = every.take(np.argsort(every.place, kind="stable"))
        if self._late:
            late = Parts.joined(*self._late)
            index = np.searchsorted(every.place, late.place, side="right") - 1
            inside = (index >= 0) & (late.place < every.next[index])
            index, role = index[inside], late.role[inside]
            np.maximum.at(every.last_frame, index, late.frame[inside])
            np.add.at(every.packets, index, 1)
            for column, kind in ((every.retries, REQUEST), (every.naks, REFUSED), (every.cnps, NOTIFIED)):
                np.add.at(column, index, role == kind)
            every.unread[index[role == UNREAD]] = True
        return every

    # -- connection management

    def _managed(self) -> MessageColumns:
        """Set-ups and ends of connections, and requests for datagram services, as messages."""
        self._cm_ends: dict[MessageId, StreamEnds] = {}
        self._cm_frames: dict[MessageId, list[int]] = {}
        rows: list[tuple[int, ...]] = []
        for one in self.connections.requested:
            ends = StreamEnds("CM", one.active, one.passive, one.passive_qpn, False)
            setup, tries = (
                [one.req_frame, *(event[0] for event in (one.mra, one.rep, one.rtu, one.rej) if event)],
                one.tries + max(one.reps, 1),
            )
            over = one.rtu_frame or one.rej_frame
            rows.append(self._exchange(CONNECT, ends, setup, over, tries - 2, over))
            if one.dreqs:
                rows.append(self._exchange(DISCONNECT, ends, [one.dreq_frame, one.drep_frame], one.drep_frame, 0, one.drep_frame))
        for asked in self.connections.resolutions:
            ends = StreamEnds("CM", asked.source, asked.destination, asked.qpn, False)
            frames = [asked.frame, asked.reply_frame]
            rows.append(self._exchange(SIDR, ends, frames, asked.reply_frame, asked.asked - 1, asked.reply_frame))
        place, kind, first, last, ack, packets, retries, complete = np.array(rows, np.int64).reshape(-1, 8).T
        begin, answered = (np.array([self._cm_times.get(frame, 0) for frame in frames.tolist()], np.int64) for frames in (first, ack))
        none = np.zeros(len(rows), np.int64)
        latency = np.where(ack > 0, np.maximum(answered - begin, -1), -1)
        return MessageColumns(
            place=place, next=place + 1, kind=kind.astype(np.int8), first_frame=first, last_frame=last, begin_ns=begin, ack_frame=ack,
            latency_ns=latency, retry_latency_ns=latency, bytes=packets * CM_BYTES, packets=packets, retries=retries,
            naks=none, cnps=none, complete=complete > 0, unread=none > 0, ended=complete > 0,
        )  # fmt: skip

    def _exchange(self, kind: int, ends: StreamEnds, frames: list[int], ack: int, retries: int, end: int) -> tuple[int, ...]:
        """One exchange; its place, made of its first frame, is below 0. `end`: the frame that completes it, 0 if it is missing."""
        frames = sorted(frame for frame in frames if frame)
        place = MessageId((frames[0] << 2 | (kind - CONNECT)) - (1 << 62))
        self._cm_ends[place], self._cm_frames[place] = ends, frames
        return place, kind, frames[0], frames[-1], ack, len(frames) + retries, retries, end
