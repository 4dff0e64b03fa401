"""The streams of RC, UC and XRC that the engine follows, for rules: sender, queue pair, and the order of packets."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ibdissect.bounded import Dropped
from ibdissect.decode import ChunkTable
from ibdissect.decode.addresses import End, ends_of, same_side
from ibdissect.decode.cm_connections import Connections
from ibdissect.decode.connection_packets import LaneFollower
from ibdissect.decode.identity import Mark, QpNumber
from ibdissect.engine.psn_gaps import FAR, distance
from ibdissect.wire.headers import PSNS
from ibdissect.wire.opcodes import SERVICES

from .events import Exhausted, StreamEnds, StreamEvent

Way = tuple[str, End, End, bool]
"""What streams between the same ports in the same direction share: service, source, destination, and whether they are responses."""
Stream = Any
"""`engine.psn_order.Order`, compiled or not; its `ends` are a `StreamEnds`."""
_KINDS = {kind.__name__: kind for kind in StreamEvent.__subclasses__()}


class Streams:
    """The streams of a capture: who sends to which queue pair, from one set-up of a connection to the next. Feed windows in order."""

    after: ClassVar = (LaneFollower, Connections)

    def __init__(self, lanes: LaneFollower | None = None, connections: Connections | None = None) -> None:
        self.lanes, self.connections = lanes or LaneFollower(), connections or Connections()
        self.lanes.ordered = True
        self.all: list[Stream] = []
        """In order of their first packets; a stream's `number` is its place here."""
        self.between: dict[Way, dict[QpNumber, list[Stream]]] = {}
        """The streams of each way by their destination queue pair."""
        self._left_out = Dropped("packets of further streams")
        self.dropped: tuple[Dropped, ...] = (self._left_out,)
        self._by_queue_pair: dict[QpNumber, list[Stream]] = {}
        self._highs: dict[tuple[Way, Mark], tuple[int, list[int]]] = {}
        """The latest PSNs of each way and its GIDs, ascending, as they were in a window."""
        self._windows = 1

    def feed(self, table: ChunkTable) -> Iterator[StreamEvent]:
        """Process a window; yields its events in frame order."""
        self._windows += 1
        self.lanes.feed(table)
        engine = self.lanes.lanes
        if engine is None or not len(table):
            return
        told = engine.tells()
        begun, happened = told.taken()
        self._name(table, begun)
        self.dropped = self._left_out, told.gaps.dropped
        if more := engine.dropped + told.left_out - self._left_out.count:
            self._left_out.add(table.chunk.first, int(table.chunk.time_ns[0]), more)
        for kind, stream, frame, time_ns, psn, values in happened:
            if kind != Exhausted.__name__ or values.pop() or self.silent(stream, frame):
                yield _KINDS[kind](frame, time_ns, stream.ends, stream.number, psn, *values)

    def _name(self, table: ChunkTable, begun: list[Stream]) -> None:
        """Give new streams the ends of their first packets."""
        rows = np.array([stream.first_frame for stream in begun], np.int64) - table.chunk.first
        for stream, (source, destination) in zip(begun, ends_of(table, rows), strict=True):
            stream.ends = StreamEnds(SERVICES[stream.service], source, destination, stream.dest_qp, stream.response)
            self.all.append(stream)
            way = stream.ends.service, source, destination, stream.response
            self.between.setdefault(way, {}).setdefault(stream.dest_qp, []).append(stream)
            self._by_queue_pair.setdefault(stream.dest_qp, []).append(stream)

    def other(self, stream: Stream) -> Stream | None:
        """The opposite stream of the same queue pairs, as far as is known; None if it is not, or sent nothing but NAKs.

        Connection management tells it, otherwise the PSNs of answers (`engine.pairing`), if no other stream between the same ports has PSNs
        near these: many programs start all their queue pairs at PSN 0.
        """
        found = self.lanes.lanes.facing(stream) if self.lanes.lanes is not None else None
        if found is None or min(found.high, stream.high) < 0:
            return None
        return None if stream.lane.setup is None and (self._has_neighbours(stream) or self._has_neighbours(found)) else found

    def _has_neighbours(self, stream: Stream) -> bool:
        """Whether other streams of the same way, and the same GIDs, have PSNs near those of this one."""
        way = stream.ends.service, stream.ends.source, stream.ends.destination, stream.response
        some = self.between.get(way, {})
        if sum(map(len, some.values())) < 2:
            return False
        key = way, stream.gids
        windows, highs = self._highs.get(key, (0, []))
        if windows != self._windows:
            alike = [one for same in some.values() for one in same if one.gids == stream.gids and one.lane.setup is None]
            highs = sorted(one.high for one in alike if one.high >= 0)
            self._highs[key] = self._windows, highs
        near = sum(
            bisect_right(highs, stream.high + FAR + turn) - bisect_left(highs, stream.high - FAR + turn) for turn in (-PSNS, 0, PSNS)
        )
        return near > 1

    def silent(self, stream: Stream, frame: int) -> bool:
        """True if the capture has packets of the other side, but none before `frame` answers this stream."""
        ends = stream.ends
        answers, requests = (
            [
                one for some in self.between.get((ends.service, ends.destination, ends.source, response), {}).values() for one in some
                if one.first_frame < frame and same_side(one.ends.destination, ends.source) and same_side(one.ends.source, ends.destination)
            ]
            for response in (True, False)
        )  # fmt: skip
        if any(one.high < 0 or abs(distance(one.high, stream.high)) <= FAR for one in answers):
            return False  # it sent only NAKs, or acknowledges PSNs near these: it may respond to this stream
        return bool(answers or requests) or self.connections.speakers.get(ends.destination, frame) < frame

    def requests(self, service: str, source: End, destination: End, dest_qp: int) -> list[Stream]:
        """The requests of one service to a queue pair, in order of their first packets."""
        mine = self.between.get((service, source, destination, False), {}).get(dest_qp, ())
        return [one for one in mine if same_side(one.ends.source, source) and same_side(one.ends.destination, destination)]

    def to_queue_pair(self, qpn: int) -> list[Stream]:
        """All streams to the queue pairs of a number, in order of their first packets."""
        return self._by_queue_pair.get(qpn, [])

    def moved(self, stream: Stream, psn: int, frame: int) -> bool:
        """Whether requests to the same queue pair went on over another path after a frame, up to a PSN at least: a migrated connection."""
        return any(
            one.first_frame > max(frame, stream.last_frame) and one.high >= 0
            and 0 < distance(one.high, psn) <= FAR and abs(distance(one.first_psn, psn)) <= FAR
            and one.service == stream.service and one.response == stream.response and one.ends.source != stream.ends.source
            for one in self.to_queue_pair(stream.dest_qp)
        )  # fmt: skip


StreamEvent.source = Streams
