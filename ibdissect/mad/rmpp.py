"""RMPP transfers: the messages of each, its beginning and end, and the order of its segments (IBA 13.6).

Every check needs this, so it keeps only a few numbers per transfer; `rmpp_reassembly` also keeps the data of transfers that are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct as Record
from msgspec.structs import replace

from ibdissect.bounded import BoundedDict, Dropped
from ibdissect.decode.addresses import End
from ibdissect.decode.identity import Time, TransferId
from ibdissect.wire.numbers import ABORT, ACK, DATA, LAST_SEGMENT, STOP

from .loss_times import MissedPackets

MAX_TRANSFERS = 4096
"""Open transfers kept, and as many whose last segment was seen: to distinguish their repeated segments from new transfers."""
AGAIN_NS = 500_000
"""No requester asks for a transfer again this fast under the same transaction id."""
IN_FLIGHT_NS = 10_000_000_000
"""Segments that follow the end of their transfer within this time were sent before its sender knew of it."""
SEGMENT_BYTES = 220
"""Payload bytes per segment, including the class header: of subnet administration and of vendor classes of range 2."""


class RmppMessage(Record, frozen=True):
    """One MAD with an RMPP header in use."""

    frame: int
    time_ns: int
    source: End
    destination: End
    mgmt_class: int
    tid: int
    method: int
    attribute: int
    kind: int
    """DATA, ACK, STOP or ABORT."""
    flags: int
    status: int
    number: int
    """Data1: the segment's number in DATA and ACK."""
    length: int
    """Data2: PayloadLength in DATA, NewWindowLast in ACK."""
    step: int = 0
    """Bytes from one record to the next (AttributeOffset); 0 for classes without it."""
    offset: int = 0
    """Offset in the frame of the class's data."""
    data: bytes = b""
    """The class's data, without the class header that every segment repeats and without the padding of the last segment; empty where
    only the order of segments matters."""
    oui: int | None = None
    """Of the vendor that defines the data; None for classes without it."""

    def key(self, *, back: bool = False) -> TransferId:
        """Key of the transfer; `back`: if this came from its receiver."""
        return TransferId.of(self.mgmt_class, self.tid, self.source, self.destination, self.method, back=back)


class Transfer(Record, eq=False):
    """A transfer, from the first segment seen."""

    first: RmppMessage
    """The segment seen first."""
    last_ns: int
    next: int
    """One more than the highest segment number seen."""
    missing: int = 0
    """Number of the first missing segment; 0: no gap so far."""
    filled: bool = False
    """That segment arrived later: the sender went back, or the capture changed the order."""
    announced: int = 0
    """PayloadLength of the first segment: the whole transfer including a class header per segment; 0 if not given or not seen."""
    last: int = 0
    """Number of the last segment; 0 until it has been seen."""
    acknowledged: int = 0
    """Highest segment number that the receiver acknowledged."""
    before: int = 0
    """Highest segment number of the transfer with this key that it replaced: an acknowledgement of that may come late."""

    @property
    def ends(self) -> str:
        """`LID 1 → LID 7`."""
        return f"{self.first.source} → {self.first.destination}"

    def replaced_by(self, first: RmppMessage) -> bool:
        """Whether a segment of the same key starts another transfer."""
        if (first.method, first.attribute) != (self.first.method, self.first.attribute):
            return True
        if first.number != 1:
            return 0 < self.last < first.number
        # Once the receiver has acknowledged the last segment, the sender repeats none; but a second mirror may.
        again = first.time_ns - self.last_ns > AGAIN_NS
        return (again and 0 < self.last <= self.acknowledged) or 0 < self.announced != first.length


class TransferEvent(Record, frozen=True, eq=False):
    """An event of a transfer."""

    source: ClassVar[type[Any]]
    """The follower that emits it; set by `transactions`."""
    frame: int
    time_ns: int
    transfer: Transfer
    segment: int


class SegmentMissing(TransferEvent, frozen=True):
    """A segment was skipped; `expected` is its number."""

    expected: int


class SegmentRepeated(TransferEvent, frozen=True):
    """A segment was repeated or came late."""


class SegmentAlone(TransferEvent, frozen=True):
    """A segment other than the first came for an unknown transfer."""


class TransferLengthDisagrees(TransferEvent, frozen=True):
    """The length of a complete transfer differs from that announced in its first segment. Not if the last one has an impossible length."""

    found: int


class WindowBehind(TransferEvent, frozen=True):
    """An acknowledgement's window ends before the segment it acknowledges."""

    window: int


class AcknowledgedBeyond(TransferEvent, frozen=True):
    """A segment behind the last one was acknowledged."""


T = TypeVar("T", bound=Transfer)


class OpenTransfers(Generic[T]):
    """The transfers of a capture, bounded; those idle for longest are evicted first. Takes all messages in capture order."""

    def __init__(self, make: type[T]) -> None:
        self.make = make
        self.dropped = Dropped("transfers of several segments")
        self.open = BoundedDict[TransferId, T](MAX_TRANSFERS, self.dropped)
        """Transfers whose last segment has not been seen."""
        self.sent = BoundedDict[TransferId, T](MAX_TRANSFERS)
        """Transfers whose last segment was seen: the sender may still resend missing or unacknowledged segments."""
        self.over = BoundedDict[TransferId, Time](MAX_TRANSFERS)
        """Transfers that one end stopped or aborted, and when: a whole window of segments may still be on its way."""
        self.missed = MissedPackets("segments that were acknowledged")
        """Times of acknowledgements of segments that are not in the capture."""

    def take(self, message: RmppMessage) -> Iterator[TransferEvent]:
        if message.kind == DATA:
            yield from self._data(message)
        elif message.kind == ACK:
            yield from self._ack(message)
        elif message.kind in (STOP, ABORT):  # either end may stop or abort
            for key in (message.key(), message.key(back=True)):
                self._forget(key, "stopped" if message.kind == STOP else "aborted", message)
                self.over.pop(key, None)
                self.over.put(key, message.time_ns)

    def on_data(self, transfer: T, message: RmppMessage) -> None:
        """Called for a DATA message that belongs to a transfer."""

    def on_end(self, transfer: T, how: str, message: RmppMessage | None) -> None:
        """Called when a transfer is no longer followed: `stopped`, `aborted`, `replaced` by a message, or `evicted`."""

    def _forget(self, key: TransferId, how: str, message: RmppMessage) -> None:
        for transfers in (self.open, self.sent):
            if (transfer := transfers.pop(key, None)) is not None:
                self.on_end(transfer, how, message)

    def _put(self, transfers: BoundedDict[TransferId, T], key: TransferId, transfer: T, message: RmppMessage) -> None:
        evicted = transfers.put(key, transfer, message.frame, message.time_ns)
        if evicted is not None:
            self.on_end(evicted[1], "evicted", None)

    def _data(self, message: RmppMessage) -> Iterator[TransferEvent]:
        key, segment, frame, time_ns = message.key(), message.number, message.frame, message.time_ns
        transfer, before = self.open.get(key) or self.sent.get(key), 0
        if transfer is not None and transfer.replaced_by(message):
            before = max(transfer.before, transfer.next - 1) if time_ns - transfer.last_ns < IN_FLIGHT_NS else 0
            self._forget(key, "replaced", message)
            transfer = None
        if transfer is None and segment != 1 and time_ns - self.over.get(key, time_ns - IN_FLIGHT_NS) < IN_FLIGHT_NS:
            return
        if transfer is None:
            self.over.pop(key, None)
            transfer = self.make(message, time_ns, segment, missing=int(segment != 1), before=before)
            self._put(self.open, key, transfer, message)
            if segment != 1:
                yield SegmentAlone(frame, time_ns, transfer, segment)
        elif segment < transfer.next:
            transfer.filled |= segment == transfer.missing
            yield SegmentRepeated(frame, time_ns, transfer, segment)
        elif segment > transfer.next:
            transfer.missing = transfer.missing or transfer.next
            yield SegmentMissing(frame, time_ns, transfer, segment, transfer.next)
        transfer.last_ns, transfer.next = time_ns, max(transfer.next, segment + 1)
        if segment == 1:
            transfer.announced = message.length
        if message.flags & LAST_SEGMENT and key in self.open:
            transfer.last = segment
            found = (segment - 1) * SEGMENT_BYTES + message.length
            known = not transfer.missing and transfer.announced and message.length <= SEGMENT_BYTES
            if known and segment > 1 and found != transfer.announced:
                yield TransferLengthDisagrees(frame, time_ns, transfer, segment, found)
            del self.open[key]
            self._put(self.sent, key, transfer, message)
        else:
            (self.open if key in self.open else self.sent).move_to_end(key)
        self.on_data(transfer, message)

    def _ack(self, message: RmppMessage) -> Iterator[TransferEvent]:
        segment, window, key = message.number, message.length, message.key(back=True)
        transfer = self.open.get(key) or self.sent.get(key)
        if transfer is not None and 0 < transfer.last < segment <= transfer.before:
            return  # late: of the one before
        if transfer is not None and 0 < transfer.missing <= segment and not transfer.filled:
            self.missed.add(message.frame, transfer.last_ns)
        if window < segment:
            shown = transfer or Transfer(replace(message, source=message.destination, destination=message.source), message.time_ns, 0)
            yield WindowBehind(message.frame, message.time_ns, shown, segment, window)
        if transfer is not None:
            if 0 < transfer.last < segment:
                yield AcknowledgedBeyond(message.frame, message.time_ns, transfer, segment)
            transfer.last_ns = message.time_ns
            transfer.acknowledged = max(transfer.acknowledged, segment)
