"""What did an RMPP transfer carry, reassembled from its segments (IBA 13.6)?

Segments may come late, twice, or never; a capture may begin or end in mid-transfer. Memory is bounded: the transfer idle for
longest is evicted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import Struct as Record

from ibdissect.wire.mad import TransferKey, transfer_key
from ibdissect.wire.numbers import ABORT, ACK, DATA, LAST_SEGMENT, STOP

MAX_TRANSFERS = 4096
"""Transfers kept at once, including finished ones, to tell their repeated segments from new transfers."""
MAX_BYTES = 64 << 20
"""Bytes of segments kept at once."""


class Message(Record, frozen=True):
    """One MAD with an RMPP header in use."""

    frame: int
    source: bytes
    destination: bytes
    mgmt_class: int
    tid: int
    method: int
    attr_id: int
    kind: int
    """DATA, ACK, STOP or ABORT."""
    flags: int
    status: int
    number: int
    """Data1: the segment's number in DATA and ACK."""
    length: int
    """Data2: PayloadLength in DATA, NewWindowLast in ACK."""
    step: int
    """Bytes from one record to the next (AttributeOffset); 0 for classes without it."""
    offset: int
    """Offset in the frame of the class's data."""
    data: bytes
    """The class's data, without the class header that every segment repeats and without the padding of the last segment."""

    def key(self, *, back: bool = False) -> TransferKey:
        """Key of the transfer; `back`: if this came from its receiver."""
        return transfer_key(self.mgmt_class, self.tid, self.source, self.destination, self.method, back=back)


class Segment(Record, frozen=True):
    """The first copy of a DATA segment in the capture."""

    frame: int
    offset: int
    """Offset of its data in the frame."""
    data: bytes


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of one frame."""

    frame: int
    offset: int
    length: int


@dataclass(slots=True)
class Transfer:
    """The segments of one transfer so far."""

    key: TransferKey
    mgmt_class: int
    method: int
    attr_id: int
    step: int
    segments: dict[int, Segment] = field(default_factory=dict)
    last: int | None = None
    """Number of the last segment; None until it has been seen."""
    announced: int | None = None
    """PayloadLength of the first segment: the whole transfer including a class header per segment; None or 0 if not given."""
    acknowledged: int = 0
    """Highest segment number that the receiver acknowledged."""
    repeated: list[int] = field(default_factory=list)
    """Frames that repeat a segment."""
    contradicting: list[int] = field(default_factory=list)
    """Frames that repeat a segment with different bytes."""
    ended: str = ""
    """`complete`, `stopped`, `aborted`, `replaced`, `evicted`; empty while in progress."""
    status: int = 0
    """RMPPStatus of the STOP or ABORT."""
    end_frame: int = 0
    """Frame of the message that ended it."""

    @property
    def complete(self) -> bool:
        """Whether every segment was seen."""
        return self.last is not None and len(self.segments) >= self.last and all(n in self.segments for n in range(1, self.last + 1))

    @property
    def frames(self) -> list[int]:
        """Frames of the segments, in the order of the data."""
        return [self.segments[number].frame for number in sorted(self.segments)]

    def holds(self, frame: int) -> bool:
        """Whether a frame contains or repeats one of its segments."""
        return frame in self.repeated or frame in self.contradicting or any(s.frame == frame for s in self.segments.values())

    def missing(self) -> Iterator[tuple[int, int]]:
        """Ranges (first, last) of missing segment numbers up to the highest one known."""
        previous = 0
        for number in [*sorted(self.segments), *([self.last + 1] if self.last is not None else [])]:
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

    def records(self) -> Iterator[tuple[int, bytes, tuple[Span, ...]]]:
        """Number (from 0), bytes and spans of every complete record."""
        for first, offset, data in self.runs():
            if not self.step:
                if first == 1 and data:
                    yield 0, data, tuple(self.spans(first, 0, len(data)))
                continue
            skip = -offset % self.step
            for start in range(skip, len(data) - self.step + 1, self.step):
                yield (offset + start) // self.step, data[start : start + self.step], tuple(self.spans(first, start, self.step))
            rest = (len(data) - skip) % self.step if len(data) > skip else 0
            if rest and self.last is not None and all(number in self.segments for number in range(first, self.last + 1)):
                # The last record may be shorter than the step.
                start = len(data) - rest
                yield (offset + start) // self.step, data[start:], tuple(self.spans(first, start, rest))

    def spans(self, first: int, start: int, length: int) -> Iterator[Span]:
        """Where bytes of the data that starts with segment `first` came from."""
        number, stop = first, start + length
        at = 0
        while at < stop and number in self.segments:
            segment = self.segments[number]
            low, high = max(start, at), min(stop, at + len(segment.data))
            if low < high:
                yield Span(segment.frame, segment.offset + low - at, high - low)
            at += len(segment.data)
            number += 1


class Reassembler:
    """Puts together all transfers of a capture. Let it take every RMPP message in capture order."""

    def __init__(self, max_transfers: int = MAX_TRANSFERS, max_bytes: int = MAX_BYTES) -> None:
        self.max_transfers, self.max_bytes = max_transfers, max_bytes
        self._open: OrderedDict[TransferKey, Transfer] = OrderedDict()
        self._held = 0

    def take(self, message: Message) -> list[Transfer]:
        """The transfers that this message ended: complete, stopped, aborted, replaced or evicted."""
        if message.kind == DATA:
            return self._data(message)
        if message.kind == ACK:
            transfer = self._open.get(message.key(back=True))
            if transfer is not None:
                transfer.acknowledged = max(transfer.acknowledged, message.number)
            return []
        if message.kind in (STOP, ABORT):
            for key in (message.key(), message.key(back=True)):  # either end may stop or abort
                transfer = self._open.get(key)
                if transfer is not None and not transfer.ended:
                    transfer.status = message.status
                    self._forget(key)
                    return [_end(transfer, "stopped" if message.kind == STOP else "aborted", message.frame)]
        return []

    def unfinished(self) -> list[Transfer]:
        """Transfers that have not ended, oldest first."""
        return [transfer for transfer in self._open.values() if not transfer.ended]

    def _data(self, message: Message) -> list[Transfer]:
        over: list[Transfer] = []
        key = message.key()
        transfer = self._open.get(key)
        if transfer is not None and self._is_new(transfer, message):
            self._forget(key)
            if not transfer.ended:
                over.append(_end(transfer, "replaced", message.frame))
            transfer = None
        if transfer is None:
            transfer = self._open[key] = Transfer(key, message.mgmt_class, message.method, message.attr_id, message.step)
        self._open.move_to_end(key)
        known = transfer.segments.get(message.number)
        if known is not None:
            (transfer.repeated if known.data == message.data else transfer.contradicting).append(message.frame)
            return over
        if not message.number or (transfer.last is not None and message.number > transfer.last):
            return over  # invalid segment number: the rules report it
        transfer.segments[message.number] = Segment(message.frame, message.offset, message.data)
        self._held += len(message.data)
        if message.number == 1:
            transfer.announced = message.length
        if message.flags & LAST_SEGMENT:
            transfer.last = message.number
        if transfer.complete:
            over.append(_end(transfer, "complete", message.frame))
        return over + self._make_room()

    def _is_new(self, transfer: Transfer, message: Message) -> bool:
        """Whether a first segment starts another transfer under the same transaction id."""
        if (transfer.method, transfer.attr_id) != (message.method, message.attr_id):
            return True
        if message.number != 1:
            return False
        known = transfer.segments.get(1)
        different = known is not None and known.data != message.data
        # Once the receiver has acknowledged the last segment, the sender repeats none: this is a new transfer.
        confirmed = transfer.ended == "complete" and transfer.acknowledged >= (transfer.last or 0)
        return different or confirmed

    def _make_room(self) -> list[Transfer]:
        over = []
        while self._open and (len(self._open) > self.max_transfers or self._held > self.max_bytes):
            key, transfer = next(iter(self._open.items()))
            self._forget(key)
            if not transfer.ended:
                over.append(_end(transfer, "evicted", 0))
        return over

    def _forget(self, key: TransferKey) -> None:
        transfer = self._open.pop(key)
        self._held -= sum(len(segment.data) for segment in transfer.segments.values())


def _end(transfer: Transfer, how: str, frame: int) -> Transfer:
    transfer.ended, transfer.end_frame = how, frame
    return transfer
