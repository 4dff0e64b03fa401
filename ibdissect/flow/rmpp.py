"""Did all segments of a multi-packet transfer (RMPP) arrive in order?

Every capture is judged by this, so it keeps a few numbers per transfer; `dissect.rmpp` keeps and joins the data of those that are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict
from ibdissect.dropped import Dropped
from ibdissect.table.addresses import End
from ibdissect.wire.mad import TransferKey, transfer_key
from ibdissect.wire.numbers import ABORT, ACK, DATA, LAST_SEGMENT, STOP

from .datagrams import Listed
from .missed import Missed

MAX_TRANSFERS = 4096
ROOM = 220
"""Payload bytes per segment, including the class header: of subnet administration and of vendor classes of range 2."""


class Transfer(Record):
    """A transfer, from the first segment seen."""

    frame: int
    time_ns: int
    source: End
    destination: End
    attribute: int
    claimed: int
    """PayloadLength of the first segment, 0 if not given."""
    next: int
    last_ns: int
    missing: int = 0
    """Number of the first missing segment; 0: no gap so far."""

    @property
    def whole(self) -> bool:
        """Whether there was no gap so far."""
        return not self.missing

    @property
    def ends(self) -> str:
        """`LID 1 → LID 7`."""
        return f"{self.source} → {self.destination}"


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


class LengthDisagrees(TransferEvent, frozen=True):
    """The length of a complete transfer differs from that announced in its first segment."""

    found: int


class WindowBehind(TransferEvent, frozen=True):
    """An acknowledgement's window ends before the segment it acknowledges."""

    window: int


class Transfers:
    """Transfers in progress, bounded; the oldest is evicted first."""

    def __init__(self) -> None:
        self.dropped = Dropped("transfers of several segments")
        self.open = BoundedDict[TransferKey, Transfer](MAX_TRANSFERS, self.dropped)
        self.ended = BoundedDict[TransferKey, Transfer](MAX_TRANSFERS)
        """Transfers whose last segment arrived: the sender may still resend missing or unacknowledged segments."""
        self.missed = Missed("segments that were acknowledged")
        """Times of acknowledgements of segments that are not in the capture."""

    def take(self, mads: Listed, i: int) -> Iterator[TransferEvent]:
        """Process a MAD with an active RMPP header."""
        kind = mads.rmpp_type[i]
        if kind == DATA:
            yield from self._data(mads, i)
        elif kind == ACK:
            yield from self._ack(mads, i)
        elif kind in (STOP, ABORT):
            for back in (False, True):
                self.open.pop(self._key(mads, i, back), None)

    @staticmethod
    def _key(mads: Listed, i: int, back: bool) -> TransferKey:
        return transfer_key(mads.mgmt_class[i], mads.transaction[i], mads.source[i], mads.destination[i], mads.method[i], back=back)

    def _data(self, mads: Listed, i: int) -> Iterator[TransferEvent]:
        key, segment = self._key(mads, i, False), mads.segment[i]
        frame, time_ns, length = mads.frames[i], mads.times[i], mads.data2[i]
        transfer = self.open.get(key)
        if segment == 1 and (transfer is None or transfer.next > 2 or transfer.attribute != mads.attribute[i]):
            self.open.pop(key, None)
            self.ended.pop(key, None)
            transfer = Transfer(frame, time_ns, mads.source[i], mads.destination[i], mads.attribute[i], length, 1, time_ns)
            self.open.put(key, transfer, frame, time_ns)
        ended = self.ended.get(key) if transfer is None else None
        if ended is not None and segment < ended.next:
            transfer = ended
        if transfer is None:
            lone = Transfer(frame, time_ns, mads.source[i], mads.destination[i], mads.attribute[i], 0, segment + 1, time_ns, missing=1)
            if not mads.rmpp_flags[i] & LAST_SEGMENT:
                self.open.put(key, lone, frame, time_ns)
            yield SegmentAlone(frame, time_ns, lone, segment)
            return
        transfer.last_ns = time_ns
        if segment < transfer.next:
            yield SegmentRepeated(frame, time_ns, transfer, segment)
            return
        if segment > transfer.next:
            transfer.missing = transfer.missing or transfer.next
            yield SegmentMissing(frame, time_ns, transfer, segment, transfer.next)
        transfer.next = segment + 1
        if mads.rmpp_flags[i] & LAST_SEGMENT:
            del self.open[key]
            self.ended.put(key, transfer, frame, time_ns)
            found = (segment - 1) * ROOM + length
            if transfer.whole and transfer.claimed and segment > 1 and found != transfer.claimed:
                yield LengthDisagrees(frame, time_ns, transfer, segment, found)

    def _ack(self, mads: Listed, i: int) -> Iterator[TransferEvent]:
        segment, window = mads.segment[i], mads.data2[i]
        key = self._key(mads, i, True)
        transfer = self.open.get(key) or self.ended.get(key)
        if transfer is not None and 0 < transfer.missing <= segment:
            self.missed.add(mads.frames[i], transfer.last_ns)
        if window < segment:
            frame, time_ns = mads.frames[i], mads.times[i]
            shown = transfer or Transfer(frame, time_ns, mads.destination[i], mads.source[i], mads.attribute[i], 0, 0, time_ns)
            yield WindowBehind(frame, time_ns, shown, segment, window)
        if transfer is not None:
            transfer.last_ns = mads.times[i]
