"""Did every segment of a multi-packet transfer (RMPP) come, in order, and to the end?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from ibdissect.dropped import Dropped
from ibdissect.record import record

from .datagrams import Address, Listed, address_text

DATA, ACK, STOP, ABORT = 1, 2, 3, 4
FIRST, LAST = 2, 4
MAX_TRANSFERS = 4096
SA_CLASS = 0x03
ROOM = {SA_CLASS: 220}
"""Payload bytes of one segment by class, class header included; vendor classes of range 2 have 220 as well."""
VENDOR_ROOM = 220
Key = tuple[int, int, Address, Address, int]
"""Class, transaction id, sender, receiver, response bit of the data."""


@record(eq=True, frozen=False)
class Transfer:
    """A transfer of which segments were seen."""

    frame: int
    time_ns: int
    source: Address
    destination: Address
    attribute: int
    claimed: int
    """PayloadLength of the first segment, 0 where it says nothing."""
    next: int
    last_ns: int
    whole: bool = True
    """No gap so far."""

    @property
    def ends(self) -> str:
        """`LID 1 → LID 7`."""
        return f"{address_text(self.source)} → {address_text(self.destination)}"


@record
class TransferEvent:
    """Something that happened to a transfer."""

    source: ClassVar[type[Any]]
    """The follower that raises it; set by `transactions`."""
    frame: int
    time_ns: int
    transfer: Transfer
    segment: int


@record
class SegmentMissing(TransferEvent):
    """A segment was skipped; `expected` is its number."""

    expected: int


@record
class SegmentRepeated(TransferEvent):
    """A segment in front of the latest was sent again, or came late."""


@record
class SegmentAlone(TransferEvent):
    """A segment behind the first came without a transfer."""


@record
class LengthDisagrees(TransferEvent):
    """The last segment ends a whole transfer elsewhere than the first announced."""

    found: int


@record
class WindowBehind(TransferEvent):
    """An acknowledgement allows fewer segments than it acknowledges."""

    window: int


@record
class TransferEnded(TransferEvent):
    """All segments up to the last came."""


class Transfers:
    """Transfers under way; bounded, the oldest goes first."""

    def __init__(self) -> None:
        self.open: dict[Key, Transfer] = {}
        self.ended: dict[Key, Transfer] = {}
        """Those with gaps whose last segment came: the sender may go back for what is missing."""
        self.dropped = Dropped("transfers of several segments")

    def take(self, mads: Listed, i: int) -> Iterator[TransferEvent]:
        """Take in a MAD with an active RMPP header."""
        kind = mads.rmpp_type[i]
        if kind == DATA:
            yield from self._data(mads, i)
        elif kind == ACK:
            yield from self._ack(mads, i)
        elif kind in (STOP, ABORT):
            for back in (False, True):
                self.open.pop(self._key(mads, i, back), None)

    @staticmethod
    def _key(mads: Listed, i: int, back: bool) -> Key:
        """Data and its acknowledgement differ in direction and in the response bit."""
        near, far = mads.source[i], mads.destination[i]
        bit = mads.method[i] & 0x80
        if back:
            near, far, bit = far, near, bit ^ 0x80
        return mads.mgmt_class[i], mads.transaction[i], near, far, bit

    def _forget(self, transfers: dict[Key, Transfer], frame: int, time_ns: int) -> None:
        transfers.pop(next(iter(transfers)))
        self.dropped.add(frame, time_ns)

    def _data(self, mads: Listed, i: int) -> Iterator[TransferEvent]:
        key, segment = self._key(mads, i, False), mads.segment[i]
        frame, time_ns, length = mads.frames[i], mads.times[i], mads.data2[i]
        transfer = self.open.get(key)
        if segment == 1 and (transfer is None or transfer.next > 2 or transfer.attribute != mads.attribute[i]):
            if len(self.open) >= MAX_TRANSFERS:
                self._forget(self.open, frame, time_ns)
            self.open.pop(key, None)
            self.ended.pop(key, None)
            transfer = Transfer(frame, time_ns, mads.source[i], mads.destination[i], mads.attribute[i], length, 1, time_ns)
            self.open[key] = transfer
        ended = self.ended.get(key) if transfer is None else None
        if ended is not None and segment < ended.next:
            transfer = ended
        if transfer is None:
            lone = Transfer(frame, time_ns, mads.source[i], mads.destination[i], mads.attribute[i], 0, segment + 1, time_ns, whole=False)
            if not mads.rmpp_flags[i] & LAST:
                self.open[key] = lone
                if len(self.open) > MAX_TRANSFERS:
                    self._forget(self.open, frame, time_ns)
            yield SegmentAlone(frame, time_ns, lone, segment)
            return
        transfer.last_ns = time_ns
        if segment < transfer.next:
            yield SegmentRepeated(frame, time_ns, transfer, segment)
            return
        if segment > transfer.next:
            transfer.whole = False
            yield SegmentMissing(frame, time_ns, transfer, segment, transfer.next)
        transfer.next = segment + 1
        if mads.rmpp_flags[i] & LAST:
            del self.open[key]
            if not transfer.whole:
                if len(self.ended) >= MAX_TRANSFERS:
                    self._forget(self.ended, frame, time_ns)
                self.ended[key] = transfer
            room = ROOM.get(mads.mgmt_class[i], VENDOR_ROOM)
            found = (segment - 1) * room + length
            if transfer.whole and transfer.claimed and segment > 1 and found != transfer.claimed:
                yield LengthDisagrees(frame, time_ns, transfer, segment, found)
            yield TransferEnded(frame, time_ns, transfer, segment)

    def _ack(self, mads: Listed, i: int) -> Iterator[TransferEvent]:
        segment, window = mads.segment[i], mads.data2[i]
        key = self._key(mads, i, True)
        transfer = self.open.get(key)
        if window < segment:
            frame, time_ns = mads.frames[i], mads.times[i]
            shown = transfer or Transfer(frame, time_ns, mads.destination[i], mads.source[i], mads.attribute[i], 0, 0, time_ns)
            yield WindowBehind(frame, time_ns, shown, segment, window)
        if transfer is not None:
            transfer.last_ns = mads.times[i]
