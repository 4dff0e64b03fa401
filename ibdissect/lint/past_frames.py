"""Which frames are older than an earlier frame of the file? Files joined in the wrong order have them, and clocks that were set back."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from ibdissect.bounded import Dropped
from ibdissect.table.history import SECOND_NS
from ibdissect.table.table import ChunkTable

MAX_STRETCHES = 4096
"""Stretches of such frames that are told apart: from the next one on, all frames count as such."""


class PastFrames:
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
        past = (times < latest - SECOND_NS) & (times > 0)
        for row in np.flatnonzero(np.diff(past, prepend=self._late)).tolist():
            if past[row] and len(self._edges) >= 2 * MAX_STRETCHES:
                self.dropped.add(table.chunk.first + row, int(times[row]))
            if len(self._edges) <= 2 * MAX_STRETCHES:
                self._edges.append(table.chunk.first + row)
        self._late = bool(past[-1])

    def __contains__(self, frame: int) -> bool:
        return bisect_right(self._edges, frame) % 2 == 1
