"""RMPP transfers put together from the segments of a capture: their data, and the records in it (IBA 13.6).

Segments may come late, twice, or never; a capture may begin or end in mid-transfer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator

import numpy as np
from msgspec import Struct as Record
from msgspec import field
from msgspec.structs import replace

from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.addresses import End, ends_of
from ibdissect.decode.bit_fields import value_at
from ibdissect.decode.conversation_keys import between
from ibdissect.decode.identity import Frame, Index
from ibdissect.decode.inner_structures import holds_key
from ibdissect.decode.reassembled import FrameSpan, JoinedRecords, SaRecord, WholeMessage
from ibdissect.decode.sa_tables import RMPP_END
from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.kept import nothing
from ibdissect.wire.mad import MAD, MAD_SIZE, OUI_CLASSES, RMPP, RMPP_CLASSES
from ibdissect.wire.numbers import DATA, LAST_SEGMENT, RESPONSE_BIT, SA_CLASS
from ibdissect.wire.places import VendorOui
from ibdissect.wire.sa import SAFormat, SARecordPiece
from ibdissect.wire.tail_walk import walk
from ibdissect.wire.vendor import VendorOuiFormat

from .rmpp import OpenTransfers, RmppMessage, Transfer

MAX_BYTES = 64 << 20
"""Memory of the segments kept at once, in bytes."""
SEGMENT, REPEAT = 256, 40
"""Bytes of memory that a segment takes besides its data, and a repetition."""


class RmppSegment(Record, frozen=True):
    """The first copy of a DATA segment in the capture."""

    frame: int
    offset: int
    """Offset of its data in the frame."""
    data: bytes


class Reassembled(Transfer, eq=False):
    """A transfer with the data of its segments so far."""

    segments: dict[Index, RmppSegment] = field(default_factory=dict)
    repeated: list[int] = field(default_factory=list)
    """Frames that repeat a segment."""
    contradicting: list[int] = field(default_factory=list)
    """Frames that repeat a segment with different bytes."""
    ended: str = ""
    """`complete`, `stopped`, `aborted`, `replaced`, `evicted`; empty while in progress."""
    status: int = 0
    """RMPPStatus of the STOP or ABORT."""
    end_frame: int = 0
    """Frame of the message that ended it; 0 if evicted."""
    memory: int = 0
    """Memory that its segments take, in bytes."""

    def replaced_by(self, first: RmppMessage) -> bool:
        """Whether a segment of the same key starts another transfer, which it also does if the first segment's data differ."""
        known = self.segments.get(1)
        return super().replaced_by(first) or (first.number == 1 and known is not None and known.data != first.data)

    @property
    def complete(self) -> bool:
        """Whether every segment was seen."""
        return 0 < self.last <= len(self.segments) and all(n in self.segments for n in range(1, self.last + 1))

    @property
    def frames(self) -> list[int]:
        """Frames of the segments, in the order of the data."""
        return [self.segments[number].frame for number in sorted(self.segments)]

    def holds(self, frame: int) -> bool:
        """Whether a frame contains or repeats one of its segments."""
        return frame in self.repeated or frame in self.contradicting or any(s.frame == frame for s in self.segments.values())

    def gaps(self) -> Iterator[tuple[int, int]]:
        """Ranges (first, last) of missing segment numbers up to the highest one known."""
        previous = 0
        for number in [*sorted(self.segments), *([self.last + 1] if self.last else [])]:
            if number > previous + 1:
                yield previous + 1, number - 1
            previous = max(previous, number)

    def runs(self) -> Iterator[tuple[int, int, bytes]]:
        """Contiguous data: number of the first segment, offset of the data in the whole transfer, bytes.

        The offset after a gap is known because all segments except the last have the same size (IBA 13.6.3.1); a last
        segment without any other is left out, as that size is unknown.
        """
        size = max((len(segment.data) for number, segment in self.segments.items() if number != self.last), default=0)
        parts: list[bytes] = []
        start = previous = 0
        for number in sorted(self.segments):
            if parts and number != previous + 1:
                yield start, (start - 1) * size, b"".join(parts)
                parts = []
            if not parts:
                start = number
            parts.append(self.segments[number].data)
            previous = number
        if parts and (size or start == 1):
            yield start, (start - 1) * size, b"".join(parts)

    def records(self) -> Iterator[tuple[int, bytes, tuple[FrameSpan, ...]]]:
        """Number (from 0), bytes and spans of every complete record."""
        step = self.first.step
        for first, offset, data in self.runs():
            starts = self._starts(first, len(data))
            if not step:
                if first == 1 and data:
                    yield 0, data, tuple(self._spans(first, starts, 0, len(data)))
                continue
            skip = -offset % step
            for start in range(skip, len(data) - step + 1, step):
                yield (offset + start) // step, data[start : start + step], tuple(self._spans(first, starts, start, step))
            rest = (len(data) - skip) % step if len(data) > skip else 0
            if rest and self.last and all(number in self.segments for number in range(first, self.last + 1)):
                # The last record may be shorter than the step.
                start = len(data) - rest
                yield (offset + start) // step, data[start:], tuple(self._spans(first, starts, start, rest))

    def joined(self, number: int) -> Iterator[tuple[int, bytes, tuple[FrameSpan, ...]]]:
        """Number, bytes and spans of the records that lie in segment `number` and in others, if those have been seen."""
        step, data = self.first.step, self.segments[number].data
        full = max(len(data), len(self.segments[min(self.segments)].data))  # all but the last have this size
        start = (number - 1) * full
        for record in {start // step, (start + len(data) - 1) // step} if step and data else ():
            low, high = record * step, (record + 1) * step
            first, last = low // full + 1, (high - 1) // full + 1
            if 0 < self.last <= last:  # the last record may be shorter than the step
                last = self.last
                high = min(high, (last - 1) * full + len(self.segments[last].data) if last in self.segments else 0)
            parts = [part for part in map(self.segments.get, range(first, last + 1)) if part is not None] if last in self.segments else []
            if first < last and len(parts) == last - first + 1 and all(len(part.data) == full for part in parts[:-1]):
                starts = [place * full for place in range(len(parts))]
                low, high = low - (first - 1) * full, high - (first - 1) * full
                yield record, b"".join(part.data for part in parts)[low:high], tuple(self._spans(first, starts, low, high - low))

    def _starts(self, first: int, size: int) -> list[int]:
        """Where the data of each segment starts in the `size` bytes of a run that starts with segment `first`."""
        starts, at = [], 0
        while at < size:
            starts.append(at)
            at += len(self.segments[first + len(starts) - 1].data)
        return starts

    def _spans(self, first: int, starts: list[int], start: int, length: int) -> Iterator[FrameSpan]:
        """Where bytes of a run came from."""
        stop = start + length
        for place in range(bisect_right(starts, start) - 1, bisect_left(starts, stop)):
            segment, at = self.segments[first + place], starts[place]
            low, high = max(start, at), min(stop, at + len(segment.data))
            if low < high:
                yield FrameSpan(segment.frame, segment.offset + low - at, high - low)


class Reassembler(OpenTransfers[Reassembled]):
    """Reassembles all transfers of a capture."""

    def __init__(self) -> None:
        super().__init__(Reassembled)
        self._ended: list[Reassembled] = []
        self._bytes = 0

    def put(self, message: RmppMessage) -> list[Reassembled]:
        """Take a message; the transfers that it ended: complete, stopped, aborted, replaced or evicted."""
        deque(self.take(message), 0)
        ended, self._ended = self._ended, []
        return ended

    def unfinished(self) -> list[Reassembled]:
        """Transfers that have not ended, oldest first."""
        going = [transfer for transfer in (*self.open.values(), *self.sent.values()) if not transfer.ended]
        return sorted(going, key=lambda transfer: transfer.first.frame)

    def on_data(self, transfer: Reassembled, message: RmppMessage) -> None:
        """Keep a segment."""
        known = transfer.segments.get(message.number)
        if known is not None:
            (transfer.repeated if known.data == message.data else transfer.contradicting).append(message.frame)
            self._grow(transfer, REPEAT)
            return
        if not message.number:
            return  # invalid: the rules report it
        transfer.segments[message.number] = RmppSegment(message.frame, message.offset, message.data)
        if transfer.complete:
            self._end(transfer, "complete", message)
        self._grow(transfer, SEGMENT + len(message.data))

    def _grow(self, transfer: Reassembled, size: int) -> None:
        """Account for memory; the oldest transfers go if there is too much."""
        transfer.memory += size
        self._bytes += size
        while self._bytes > MAX_BYTES:
            _, oldest = (self.sent or self.open).popitem(last=False)
            self.on_end(oldest, "evicted", None)

    def on_end(self, transfer: Reassembled, how: str, message: RmppMessage | None) -> None:
        """Release the memory of a transfer."""
        self._bytes -= transfer.memory
        self._end(transfer, how, message)

    def _end(self, transfer: Reassembled, how: str, message: RmppMessage | None) -> None:
        if not transfer.ended:
            transfer.ended, transfer.end_frame = how, message.frame if message is not None else 0
            transfer.status = message.status if message is not None else 0
            self._ended.append(transfer)


def messages(table: ChunkTable) -> Iterator[RmppMessage]:
    """Every MAD of the chunk that uses RMPP, in frame order."""
    yield from _messages(table, _rows(table))


def _messages(table: ChunkTable, rows: Int) -> Iterator[RmppMessage]:
    for row, ends in zip(rows.tolist(), ends_of(table, rows), strict=True):
        message = _message(table, row, ends)
        if message is not None:
            yield message


def _rows(table: ChunkTable) -> Int:
    mad = table.located.at("mad")
    rows = np.flatnonzero((mad >= 0) & (mad + RMPP_END <= table.located.payload_end))
    data, at = table.chunk.data, mad[rows]
    version, kind = (value_at(data, at + MAD.size, field) for field in (RMPP.rmpp_version, RMPP.rmpp_type))
    used = np.isin(value_at(data, at, MAD.mgmt_class), list(RMPP_CLASSES)) & (version != 0) & (kind != 0)
    found: Int = rows[used]
    return found


def _message(table: ChunkTable, row: int, ends: tuple[End, End]) -> RmppMessage | None:
    chunk, located = table.chunk, table.located
    frame, at, stop = int(chunk.offset[row]), int(located.at("mad")[row]), int(located.payload_end[row])
    data = chunk.data[at:stop].tobytes()
    mad, rmpp, end = MAD(data), RMPP(data, MAD.size), len(data)
    data_at, size = table.catalog.data_at(mad.mgmt_class, mad.base_version), MAD_SIZE.get(mad.base_version, end)
    if end < data_at:
        return None
    if rmpp.rmpp_type == DATA:
        end = min(end, size)
        if rmpp.rmpp_flags & LAST_SEGMENT and rmpp.data2 <= end - RMPP_END:
            end = max(RMPP_END + rmpp.data2, data_at)
        elif end < size:
            return None  # the capture cut the segment off: what follows it in the transfer would be taken for its end
    return RmppMessage(
        frame=chunk.first + row, time_ns=int(chunk.time_ns[row]), source=ends[0], destination=ends[1], mgmt_class=mad.mgmt_class,
        tid=mad.transaction_id, method=mad.method, attribute=mad.attribute_id, kind=rmpp.rmpp_type, flags=rmpp.rmpp_flags,
        status=rmpp.rmpp_status, number=rmpp.data1, length=rmpp.data2,
        step=SAFormat(data).attribute_offset * 8 if mad.mgmt_class == SA_CLASS else 0, offset=at - frame + data_at,
        oui=VendorOuiFormat(data).oui if mad.mgmt_class in OUI_CLASSES else None, data=data[data_at:end] if rmpp.rmpp_type == DATA else b"",
    )  # fmt: skip


class Transfers(Reassembler):
    """Reassembles the transfers of a capture, chunk by chunk."""

    def feed(self, table: ChunkTable) -> dict[Frame, Reassembled]:
        """The transfers that ended in a chunk, by frame, without evicted ones. Feed chunks in capture order."""
        ended: dict[Frame, Reassembled] = {}
        for message in messages(table):
            for transfer in self.put(message):
                if transfer.end_frame:
                    ended[transfer.end_frame] = transfer
        return ended


class RecordReassembler(Reassembler):
    """Joins each record that straddles segments as soon as its last segment was seen, whatever becomes of the transfer; and what a vendor's
    MADs carry in several segments, when all have been seen."""

    def __init__(self, found: JoinedRecords) -> None:
        super().__init__()
        self.found = found

    def feed(self, table: ChunkTable) -> None:
        """Process a chunk; in capture order. Of the SA, it uses only segments with pieces of records, and those that show that a transfer
        begins anew."""
        rows = _rows(table)
        kind = value_at(table.chunk.data, table.located.at("mad")[rows] + MAD.size, RMPP.rmpp_type)
        classes = value_at(table.chunk.data, table.located.at("mad")[rows], MAD.mgmt_class)
        rows = rows[(kind != DATA) | (classes != SA_CLASS) | np.isin(rows, table.occurrences(SARecordPiece).rows)]
        self.catalog = table.catalog
        for message in _messages(table, rows):
            self.put(message)

    def on_data(self, transfer: Reassembled, message: RmppMessage) -> None:
        again = message.number in transfer.segments
        super().on_data(transfer, message)
        if again or message.number not in transfer.segments:
            return
        if message.mgmt_class != SA_CLASS:
            self._vendors(transfer, message.frame)
        else:
            struct = self.catalog.attribute(message.mgmt_class, message.attribute, message.method)
            for number, data, spans in transfer.joined(message.number):
                self.found.put(message.frame, record_of(struct, number, data, spans))

    def _vendors(self, transfer: Reassembled, frame: int) -> None:
        """Keep what a vendor's MADs carried in several segments, if the last of them to come was in `frame`."""
        place = place_of(transfer, self.catalog) if transfer.complete and len(transfer.segments) > 1 else None
        if place is not None and transfer.contradicting and holds_key(self.catalog, place[1]):
            return
        for _, data, spans in transfer.records() if place is not None else ():
            self.found.put(frame, WholeMessage(data, spans, 0, 0, stream=place and place[0]))


def records(transfer: Reassembled, catalog: Catalog) -> Iterator[SaRecord]:
    """The complete records of a transfer; of one with keys only those in front of the first missing segment, and none if segments of one
    number contradict each other: read at another place, a key would be another field."""
    first = transfer.first
    if first.mgmt_class == SA_CLASS and first.method & RESPONSE_BIT and not first.step:
        return  # AttributeOffset 0: the response has no records (IBA 15.2.1.1)
    struct, place = catalog.attribute(first.mgmt_class, first.attribute, first.method), place_of(transfer, catalog)
    carried = struct if place is None else place[1]
    keys, missing = carried is not None and holds_key(catalog, carried), min((low for low, _ in transfer.gaps()), default=0)
    if keys and transfer.contradicting:
        return
    seen = {segment.frame for number, segment in transfer.segments.items() if not missing or number < missing}
    for number, data, spans in transfer.records():
        if keys and not (all(span.frame in seen for span in spans) and (place is not None or _certain(carried, data, first.step))):
            return
        one = record_of(carried, number, data, spans)
        yield one if place is None else replace(one, place=place[0], spoken=between(first.source, first.destination))


def _certain(struct: StructType | None, data: bytes, step: int) -> bool:
    """Whether a record with a tail fits its AttributeOffset: the tail has room and is read to its end."""
    if struct is None or struct.tail is None or not step:
        return True
    if len(data) < step or step <= -(-struct.size // 8) * 8:
        return False
    found = walk(struct, memoryview(data), 0, len(data), {}, memory=nothing)
    return found.whole and not any(data[found.stop :])


def place_of(transfer: Reassembled, catalog: Catalog) -> tuple[VendorOui, StructType] | None:
    """What a vendor's MADs carry: the place and its structure; None for other classes, and if it is unknown."""
    first = transfer.first
    found = (one for one in catalog.of_vendors if one[0].takes(first.mgmt_class, first.attribute, first.oui, first.method))
    return next(found, None) if first.oui is not None else None


def record_of(struct: StructType | None, number: int, data: bytes, spans: tuple[FrameSpan, ...]) -> SaRecord:
    fits = struct is not None and len(data) >= struct.size
    return SaRecord(number, data, spans, struct(data, 0, len(data)) if fits and struct is not None else None)
