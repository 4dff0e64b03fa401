"""Packets that were sent but are missing in the capture. Rules ask before they conclude that a missing packet was never sent."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from ibdissect.bounded import Dropped, dropped_of
from ibdissect.capture.chunk import LINK_ERF
from ibdissect.capture.gather import looked_up
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.capture_places import UNUSUAL_NS, Scopes
from ibdissect.decode.history import AFTER_ALL, SECOND_NS
from ibdissect.decode.identity import Time
from ibdissect.decode.locate import EXTENDED_SIZE, IN_STREAM
from ibdissect.mad.datagrams import Datagrams
from ibdissect.mad.loss_times import MAX_SECONDS, MissedPackets
from ibdissect.mad.missed_exchanges import SmpGaps
from ibdissect.mad.transactions import SWAPPED_NS, Transactions
from ibdissect.mad.write_times import WriteTimes
from ibdissect.transport.lost_requests import answered_early, gaps, in_order
from ibdissect.transport.psn_streams import Streams
from ibdissect.wire.encapsulation import ERF
from ibdissect.wire.headers import BTH
from ibdissect.wire.mad import MAD

NEAR = 10
"""A packet lost within this many seconds makes silence doubtful: capture losses under load come in bursts."""
NEIGHBOURS = 8
"""Records of several queues are mixed over at most so many places."""
PAUSE_NS = SECOND_NS + 1000
"""A pause is longer than a second; programs that send once a second need not make one."""
STOPPED_NS = 1800 * SECOND_NS
"""For half an hour no manager is silent."""
FAR_LONGER, FEW = 4, 2
"""A pause is unusual if it is so many times as long as nine of ten pauses of the capture, or as all but so few."""
ENOUGH = 1000
"""This many packets whose loss would have been noticed prove that none is missing: at 1 % loss, only one of 20,000 captures would
show no loss."""
_HEADERS_SIZE = (BTH.size + EXTENDED_SIZE).astype(np.uint8)


class CaptureLoss:
    """When did the capture miss packets? One per capture; feed chunks in order, ask at the end.

    Evidence of a missed packet: an ERF record counts a loss; a request on a connection, or a segment of a multi-packet
    transfer, is acknowledged but not in the capture; a management answer has no request, though the capture shows earlier ones;
    a subnet manager's transaction ids go on while the capture pauses. A packet whose transport headers are cut off by the snap length
    also counts as missed. A management datagram whose attribute is cut off may have changed a fact: `unread_between`.
    """

    after: ClassVar = (Streams, Transactions, Scopes)

    def __init__(self, streams: Streams | None = None, transactions: Transactions | None = None, scopes: Scopes | None = None) -> None:
        self.streams, self.transactions, self.scopes = streams or Streams(), transactions or Transactions(), scopes or Scopes()
        self.counted_losses, self.cut = MissedPackets("lost packets"), MissedPackets("cut packets")
        self.unread = MissedPackets("cut management datagrams")
        """Those whose attribute nobody learns: they matter to facts, not to who answered."""
        self.gaps = SmpGaps()
        self._forgotten, self._uncounted = Dropped("pauses of the recording"), Dropped("records earlier than the one before")
        losses = (self.counted_losses, self.cut, self.unread)
        self.dropped = *(one.dropped for one in losses), self._forgotten, self._uncounted, *dropped_of(self.gaps)
        self.erf = False
        """The capture has ERF records; those of ibdump do not count losses."""
        self.set_back = False
        """The clock of the capture was set back by a second or more, so durations are not reliable."""
        self.unsorted = False
        """A record has an earlier time than the one before it, by less than a second."""
        self._pauses: list[tuple[int, int, int]] = []
        """Frame before each pause, its time, and how long nothing was recorded then."""
        self._lengths: list[int] | None = None
        """How long they were, ascending."""
        self._back: list[int] = []
        """Frames with an earlier time than the one before, up to `MAX_SECONDS` of them."""
        self._clock: list[tuple[int, int]] = []
        """First frame of each second, and the second; of a long recording, of every `_step` seconds."""
        self._step = 1
        self._known: tuple[list[int], list[int]] | None = None
        """First and last second of each time with missed packets; ascending, without overlaps."""
        self._cut_mads: list[int] | None = None
        self._swaps: bool | None = None
        self._writes = WriteTimes()
        self.card_counts_losses = False
        """The ERF records come from a card that counts losses: their lengths are padded, unlike those of ibdump."""

    def feed(self, table: ChunkTable) -> tuple[()]:
        """Process a chunk; emits no events."""
        self._known = self._swaps = self._cut_mads = self._lengths = None
        self.scopes.feed(table)
        pauses = self.gaps.feed(table)
        self._writes.feed(table.once(Datagrams))
        if (table.chunk.time_ns > 0).any():
            rows = self._that_fit(table, np.flatnonzero(pauses > PAUSE_NS), len(self._pauses), self._forgotten)
            before, lengths = (rows + table.chunk.first - 1).tolist(), pauses[rows]
            self._pauses += zip(before, (table.chunk.time_ns[rows] - lengths).tolist(), lengths.tolist(), strict=True)
            back = np.flatnonzero(pauses < 0)
            if len(back):
                self.set_back |= bool((pauses[back] <= -SECOND_NS).any())
                self.unsorted |= bool((pauses[back] > -SECOND_NS).any())
                self._back += (self._that_fit(table, back, len(self._back), self._uncounted) + table.chunk.first).tolist()
            self._tick(table)
        rows = _cut_off(table)
        for row in rows[np.unique(table.chunk.time_ns[rows] // SECOND_NS, return_index=True)[1]].tolist() if len(rows) else ():
            self.cut.add(table.chunk.first + row, int(table.chunk.time_ns[row]))
        for row in _unread(table) if table.located.snapped.any() else ():
            self.unread.add(table.chunk.first + row, int(table.chunk.time_ns[row]))
        if not (table.chunk.link == LINK_ERF).any():
            return ()
        self.erf = True
        lost = np.flatnonzero(table.values(ERF.loss_counter))
        rows = table.occurrences(ERF).rows[lost]
        for row in rows.tolist():
            self.counted_losses.add(table.chunk.first + row, int(table.chunk.time_ns[row]))
        if not self.card_counts_losses:
            padded = table.values(ERF.record_length).astype(np.int64) > table.values(ERF.wire_length).astype(np.int64) + ERF.size
            self.card_counts_losses = bool(padded.any())
        return ()

    def _times(self) -> tuple[list[int], list[int]]:
        """First and last seconds of the times with missed packets; computed on demand."""
        if self._known is None:
            firsts, lasts = self._known = [], []
            for first, last in sorted(self._evidence()):
                if lasts and first <= lasts[-1]:
                    lasts[-1] = max(lasts[-1], last)
                else:
                    firsts.append(first)
                    lasts.append(last)
        return self._known

    def _evidence(self) -> Iterator[tuple[int, int]]:
        missed = (self.counted_losses, self.cut, self.transactions.missed, self.transactions.transfers.missed)
        yield from ((second, second) for one in missed for second in one.seconds)
        for _, gap, unseen in gaps(self.streams):
            if unseen and not gap.requested:
                yield gap.time_ns // SECOND_NS, gap.time_ns // SECOND_NS
        yield from ((time_ns // SECOND_NS, time_ns // SECOND_NS) for time_ns in self.transactions.missed_requests())
        yield from self.gaps.seconds()

    def _any(self, first: int, last: int) -> bool:
        """Whether packets are missing between two seconds."""
        firsts, lasts = self._times()
        i = bisect_left(lasts, first)
        return i < len(firsts) and firsts[i] <= last

    def near(self, time_ns: int) -> bool:
        """Whether packets from around that time are missing."""
        return self._any(time_ns // SECOND_NS - NEAR, time_ns // SECOND_NS + NEAR)

    def cut_near(self, time_ns: int) -> bool:
        """Whether the capture has packets from around that time whose headers are cut off, so that streams lack them."""
        second = time_ns // SECOND_NS
        return any(near in self.cut.seconds for near in range(second - NEAR, second + NEAR + 1))

    def between(self, frame: int, time_ns: int) -> bool:
        """Whether a packet between a frame and about a time is missing, so that a fact from that frame may have changed unseen."""
        return self._any(*self._seconds_until(frame, time_ns))

    def between_frames(self, frame: int, later: int) -> bool:
        """Whether a packet between two frames is missing, or some seconds before or after them."""
        return self._any(*self._seconds_of(frame, later))

    def unread_between(self, frame: int, time_ns: int) -> bool:
        """Whether a management datagram between a frame and about a time is cut off, so that nobody knows what it told."""
        first, last = self._seconds_until(frame, time_ns)
        if self._cut_mads is None:
            self._cut_mads = sorted(self.unread.seconds)
        at = bisect_left(self._cut_mads, first)
        return at < len(self._cut_mads) and self._cut_mads[at] <= last

    def counted_between(self, frame: int, later: int) -> bool:
        """The same, by losses that the card counted and packets that are cut off alone."""
        first, last = self._seconds_of(frame, later)
        return any(first <= second <= last for one in (self.counted_losses, self.cut) for second in one.seconds)

    def _seconds_until(self, frame: int, time_ns: int) -> tuple[int, int]:
        return 0 if self.set_back else self._second_of(frame), time_ns // SECOND_NS + NEAR

    def _seconds_of(self, frame: int, later: int) -> tuple[int, int]:
        return (0, AFTER_ALL) if self.set_back else (self._second_of(frame), self._second_of(later) + self._step - 1 + NEAR)

    def nanoseconds_between(self, frame: int, later: int) -> int:
        """Time between two frames, to a second (to two from 18 hours on, to four from 36 on ...); very long if the clock was set back."""
        return AFTER_ALL if self.set_back else (self._second_of(later) - self._second_of(frame)) * SECOND_NS

    def stopped(self, frame: int, until_ns: int, for_ns: int = PAUSE_NS) -> bool:
        """Whether recording may have stopped between a frame and a time: from then on nothing was recorded for `for_ns` or longer."""
        for _, start, length in self._pauses[bisect_left(self._pauses, frame, key=lambda pause: pause[0]) :]:
            if start > until_ns or length >= for_ns:
                return start <= until_ns
        return self._forgotten.count > 0 and self._forgotten.time_ns <= until_ns

    def interrupted(self, frame: int, later: int) -> bool:
        """Whether recording may have stopped between two frames, as in captures that were joined: for half an hour nothing at all was
        recorded, or for a minute and far longer than in all the rest of the capture, which is a minute or more."""
        first, last = (bisect_left(self._pauses, one, key=lambda pause: pause[0]) for one in (frame, later))
        forgotten = self._forgotten.count > 0 and self._forgotten.frame <= later
        return forgotten or any(self._unusual(length) for *_, length in self._pauses[first:last])

    def _unusual(self, length: int) -> bool:
        if self._lengths is None:
            self._lengths = sorted(length for *_, length in self._pauses)
        usual = bisect_right(self._lengths, length // FAR_LONGER)
        longer = self._lengths[usual:]
        rhythm = (self._clock[-1][1] - self._clock[0][1]) * SECOND_NS - sum(longer) >= UNUSUAL_NS
        return length >= STOPPED_NS or (length >= UNUSUAL_NS and rhythm and len(longer) <= max(FEW, len(self._lengths) // 10))

    def unsettled(self, frame: int, time_ns: int) -> bool:
        """Whether another write may have been sent before a frame although it is recorded after it: the capture changes the order."""
        return self._writes.others(frame, time_ns) and self.disorderly()

    def disordered(self, frame: int, later: int) -> bool:
        """Whether records may stand in another order than they were sent in, from a frame to another one or at their neighbours."""
        at = bisect_right(self._back, frame - NEIGHBOURS)
        if at < len(self._back):
            return self._back[at] <= later + NEIGHBOURS
        return len(self._back) >= MAX_SECONDS

    def disorderly(self) -> bool:
        """Whether times run backwards, or a request was recorded after its answer, first or again; computed on demand."""
        if self._swaps is None:
            self._swaps = self.unsorted or self.transactions.swapped > 0 or answered_early(self.streams, SWAPPED_NS)
        return self._swaps

    def _tick(self, table: ChunkTable) -> None:
        """Remember which frames the seconds of a chunk start with; in a long recording, one of ever more seconds."""
        times, last = table.chunk.time_ns, self._clock[-1][1] if self._clock else -1
        if int(times.max()) // SECOND_NS // self._step <= last // self._step:
            return
        seconds = np.maximum.accumulate(times) // SECOND_NS
        rows = np.flatnonzero(np.diff(np.maximum(seconds // self._step, last // self._step), prepend=last // self._step))
        self._clock += zip((rows + table.chunk.first).tolist(), seconds[rows].tolist(), strict=True)
        while len(self._clock) > MAX_SECONDS:
            self._step *= 2
            first = dict[Time, tuple[int, int]]()
            for frame, second in self._clock:
                first.setdefault(second // self._step, (frame, second))
            self._clock = [*first.values()]

    @staticmethod
    def _that_fit(table: ChunkTable, rows: Int, known: int, dropped: Dropped) -> Int:
        """The rows for which there is room beside so many known ones; others are counted as dropped."""
        kept, over = np.split(rows, [MAX_SECONDS - known])
        if len(over):
            dropped.add(table.chunk.first + int(over[0]), int(table.chunk.time_ns[over[0]]), len(over))
        return kept

    def _second_of(self, frame: int) -> int:
        at = bisect_right(self._clock, frame, key=lambda tick: tick[0]) - 1
        return self._clock[at][1] if at >= 0 else 0

    def complete(self) -> bool:
        """Whether the traffic shows that nothing is missing: enough packets could be checked, and none is missing."""
        return ((self.erf and self.card_counts_losses) or self.enough()) and not any(self._times())

    def enough(self, share: float = 0.01) -> bool:
        """Whether enough packets were checked that the loss of such a share of the packets would have been noticed."""
        return (in_order(self.streams) + 2 * self.transactions.paired) * share >= ENOUGH * 0.01

    def proves_silence(self, time_ns: int) -> bool:
        """Whether a packet that is not in the capture was not sent at that time.

        If the container cannot report losses (ERF of ibdump), the traffic must show that nothing is missing.
        """
        return self.complete() if self.erf else not self.near(time_ns)


def _unread(table: ChunkTable) -> list[int]:
    """Rows of management datagrams that the snap length cut off before the end of their attribute."""
    found = list[int]()
    for (mgmt_class, attribute), rows in table.attributes().items():
        cut = rows[table.located.snapped[rows]]
        for row, method in zip(cut.tolist(), table.values_at(MAD.method, cut).tolist(), strict=True):
            struct = table.catalog.attribute(mgmt_class, attribute, method)
            if struct is not None and table.first(struct)[row] < 0:
                found.append(row)
    return found


def _cut_off(table: ChunkTable) -> Int:
    """Rows of stream packets whose extended headers are cut off by the snap length: only their PSNs and OpCodes are known."""
    loc, bth = table.located, table.located.at("bth")
    return np.flatnonzero((bth >= 0) & looked_up(loc.opcode, IN_STREAM) & (loc.limit - bth < looked_up(loc.opcode, _HEADERS_SIZE)))
