"""Frames that prove little: those with a wrong ICRC, and those recorded out of order.

The receiver of a damaged frame dropped it, so what it seems to show proves nothing. Files joined in the wrong order have frames that are
older than earlier ones, and so have clocks that were set back: what was learnt before may not yet have been true then.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from ibdissect.bounded import Dropped
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.crcs import icrc
from ibdissect.decode.history import SECOND_NS

MAX_DAMAGED = 1 << 20
"""Damaged frames that are remembered, the first ones: what is remembered must not depend on the reading window."""
SHARE = 2
"""A wrong ICRC means damage while at most one of this many ICRCs is wrong: where most are, the capture changed what they cover."""


class CorruptFrames:
    """Frames with a wrong ICRC in a capture whose ICRCs are right. Knows none if no rule checks ICRCs."""

    def __init__(self) -> None:
        self.dropped = Dropped("damaged frames")
        self._checked = self._wrong = 0
        self._kept: Int = np.zeros(0, np.int64)

    def feed(self, table: ChunkTable) -> None:
        """Look at the ICRCs of a chunk, if they were checked."""
        if not table.has(icrc):
            return
        found = table.once(icrc)
        wrong = np.flatnonzero(found.bad)
        so_far = self._wrong + np.arange(1, len(wrong) + 1)
        checked = self._checked + np.searchsorted(found.rows, wrong, side="right")
        self._wrong += len(wrong)
        self._checked += len(found.rows)
        wrong = wrong[so_far * SHARE <= checked]
        if len(wrong):
            kept, left = np.split(wrong, [MAX_DAMAGED - len(self._kept)])
            self._kept = np.concatenate((self._kept, table.chunk.first + kept))
            if len(left):
                self.dropped.add(table.chunk.first + int(left[0]), int(table.chunk.time_ns[left[0]]), len(left))

    @property
    def known(self) -> bool:
        """Whether any frame is known to be damaged."""
        return len(self._kept) > 0

    def any_of(self, frames: list[int]) -> bool:
        """Whether one of some frames was damaged."""
        if not self.known:
            return False
        places = np.minimum(np.searchsorted(self._kept, frames), len(self._kept) - 1)
        return bool((self._kept[places] == frames).any())


MAX_STRETCHES = 4096
"""Separate stretches of such frames; from the next one on, all frames count as such."""


class LateFrames:
    """Frames whose time is more than a second before that of an earlier one: what was learnt may not yet have been true then."""

    def __init__(self) -> None:
        self.dropped = Dropped("stretches of frames that were recorded late")
        self._latest, self._late = 0, False
        self._edges: list[int] = []
        """First frame of a stretch, first frame behind it, and so on."""

    def feed(self, table: ChunkTable) -> None:
        """Look at the times of a chunk."""
        times = table.chunk.time_ns
        if not len(times):
            return
        latest = np.maximum(np.maximum.accumulate(times), self._latest)
        self._latest = int(latest[-1])
        if not self._late and int((latest - times).max()) <= SECOND_NS:
            return
        past = (times < latest - SECOND_NS) & (times > 0)
        for row in np.flatnonzero(np.diff(past, prepend=self._late)).tolist():
            if past[row] and len(self._edges) >= 2 * MAX_STRETCHES:
                self.dropped.add(table.chunk.first + row, int(times[row]))
            if len(self._edges) <= 2 * MAX_STRETCHES:
                self._edges.append(table.chunk.first + row)
        self._late = bool(past[-1])

    def __contains__(self, frame: int) -> bool:
        return bisect_right(self._edges, frame) % 2 == 1
