"""PDUs in TCP connections, if a structure declares their bytes as a stream (`wire.places.Stream` over `TcpPort`).

A direction is followed from its SYN on. Segments that come again say nothing new; those that come early wait for the bytes before them.
Where these never come, or a segment is cut off, nothing more of the direction is shown.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import field as each_new

from ibdissect.bounded import Dropped, KeptDict
from ibdissect.decode import ChunkTable
from ibdissect.decode.bit_fields import value_at
from ibdissect.decode.identity import Index, SocketId
from ibdissect.decode.reassembled import FrameSpan, WholeMessage
from ibdissect.decode.tcp_segments import segments_of
from ibdissect.wire.places import TcpPort
from ibdissect.wire.ulp.ip import TCP

from .pdu_streams import MAX_STREAMS, Bytes, Kind, cut, tcp_streams_of

MAX_EARLY, MAX_EARLY_BYTES = 256, 1 << 18
"""Segments of a direction that wait for the bytes before them, and their bytes; with more of them, these were lost."""
NUMBERS = 1 << 32


class _Direction(Bytes):
    """One direction of a connection."""

    next: int
    """Sequence number of the byte that comes next."""
    early: dict[Index, tuple[bytes, FrameSpan]] = each_new(default_factory=dict)
    """Segments behind a gap, by their sequence number."""

    def take(self, number: int, data: bytes, span: FrameSpan) -> None:
        """Add the bytes of a segment, and those that waited for them."""
        if len(data) > len(self.early.get(number, (b"", span))[0]):
            self.early[number] = data, span
        while self.early:
            behind = {number: (number - self.next) % NUMBERS for number in self.early}
            due = [number for number in self.early if behind[number] == 0 or behind[number] >= NUMBERS // 2]
            if not due:
                self.lost = len(self.early) > MAX_EARLY or sum(len(data) for data, _ in self.early.values()) > MAX_EARLY_BYTES
                return
            for number in due:
                data, span = self.early.pop(number)
                known = (self.next - number) % NUMBERS
                if known < len(data):
                    self.data += data[known:]
                    self.spans.append(FrameSpan(span.frame, span.offset + known, span.length - known))
                    self.next = (self.next + len(data) - known) % NUMBERS


class TcpStreams:
    """Follows the streams of a capture over TCP. Feed it tables in capture order."""

    def __init__(self) -> None:
        self._directions = KeptDict[tuple[TcpPort, tuple[SocketId, SocketId]], _Direction](MAX_STREAMS, "streams of bytes over TCP")

    @property
    def dropped(self) -> Dropped:
        """What was not followed, because there is a bound."""
        return self._directions.dropped

    def give_up(self) -> None:
        """As `pdu_streams.Streams.give_up`."""
        for one in self._directions.values():
            one.lost, one.data, one.spans, one.early = True, bytearray(), [], {}

    def feed(self, table: ChunkTable) -> Iterator[tuple[int, WholeMessage]]:
        """The PDUs that the segments of a chunk complete, each with its frame; in frame order for each stream."""
        for port, kind in tcp_streams_of(table.catalog):
            yield from self._of(port, kind, table)

    def _of(self, port: TcpPort, kind: Kind, table: ChunkTable) -> Iterator[tuple[int, WholeMessage]]:
        found, chunk = segments_of(table, port.port), table.chunk
        heads = found.head
        numbers = value_at(chunk.data, heads, TCP.sequence).tolist()
        syn, fin, reset = (value_at(chunk.data, heads, field).astype(np.bool_).tolist() for field in (TCP.syn, TCP.fin, TCP.reset))
        rows, starts, stops = (part.tolist() for part in (found.data.rows, found.data.at, found.data.stop))
        for i, row in enumerate(rows):
            key, number, frame = (port, found.ends[i]), numbers[i], chunk.first + row
            if syn[i]:
                self._directions.pop(key, None)
                number = (number + 1) % NUMBERS
                self._directions.keep(key, _Direction(next=number), frame, int(chunk.time_ns[row]))
            one = self._directions.get(key)
            if one is None:
                continue
            if not one.lost:
                data, offset = chunk.data[starts[i] : stops[i]].tobytes(), starts[i] - int(chunk.offset[row])
                if data:
                    one.take(number, data, FrameSpan(frame, offset, len(data)))
                yield from ((frame, pdu) for pdu in cut(one, kind, frame))
                one.lost |= not found.complete[i]
            if one.lost:
                one.data, one.spans, one.early = bytearray(), [], {}
            if (fin[i] or reset[i]) and not one.early:
                del self._directions[key]
