"""Which frames were damaged before they were captured? Their receiver dropped them, so what they seem to show proves nothing."""

from __future__ import annotations

import numpy as np

from ibdissect.bounded import Dropped
from ibdissect.table.crcs import icrc
from ibdissect.table.locate import Int
from ibdissect.table.table import ChunkTable

MAX_DAMAGED = 1 << 20
"""Damaged frames that are remembered, the first ones: what is remembered must not depend on the reading window."""
SHARE = 2
"""A wrong ICRC means damage while at most one of this many ICRCs is wrong: where most are, the capture changed what they cover."""


class DamagedFrames:
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
