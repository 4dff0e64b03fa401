"""Data of RMPP transfers, reassembled from their segments (IBA 13.6).

Segments may come late, twice, or never; a capture may begin or end in mid-transfer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator

from msgspec import Struct as Record
from msgspec import field

from ibdissect.decode.identity import Index
from ibdissect.decode.reassembled import FrameSpan

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
