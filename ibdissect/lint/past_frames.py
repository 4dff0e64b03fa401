"""Which frames are older than an earlier frame of the file? Files joined in the wrong order have them, and clocks that were set back."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from ibdissect.dropped import Dropped
from ibdissect.table.history import SECOND_NS
from ibdissect.table.locate import Bool
from ibdissect.table.table import ChunkTable

MAX_STRETCHES = 4096
"""Stretches of such frames that are remembered, the latest ones."""


class PastFrames:
    """Frames whose time is more than a second before that of an earlier one: what was learnt may not yet have been true then."""

    def __init__(self) -> None:
        self.dropped = Dropped("stretches of frames that were recorded late")
        self._latest = self._first = 0
        self._present: Bool = np.zeros(0, np.bool_)
        self._firsts: list[int] = []
        self._stops: list[int] = []

    def feed(self, table: ChunkTable) -> None:
        """Look at the times of a chunk."""
        times = table.chunk.time_ns
        if not len(times):
            return
        latest = np.maximum(np.maximum.accumulate(times), self._latest)
        self._latest = int(latest[-1])
        past = (times < latest - SECOND_NS) & (times > 0)
        self._first, self._present = table.chunk.first, past if past.any() else past[:0]
        if not past.any():
            return
        edges = np.flatnonzero(np.diff(past, prepend=False, append=False)) + table.chunk.first
        for first, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if self._stops and self._stops[-1] == first:
                self._stops[-1] = stop
                continue
            self._firsts.append(first)
            self._stops.append(stop)
            if len(self._stops) > MAX_STRETCHES:
                self.dropped.add(first, int(times[first - table.chunk.first]))
                del self._firsts[0], self._stops[0]

    def __contains__(self, frame: int) -> bool:
        if 0 <= frame - self._first < len(self._present):
            return bool(self._present[frame - self._first])
        i = bisect_right(self._firsts, frame) - 1
        return i >= 0 and frame < self._stops[i]
