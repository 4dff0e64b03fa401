"""Capture times of all frames that carry packets, within a bound."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from ibdissect.bounded import Dropped
from ibdissect.decode import ChunkTable

MAX_TIMES = 7 << 19
"""Frames whose times are remembered, 8 bytes each."""


class FrameTimes:
    """Feed windows in order."""

    def __init__(self) -> None:
        self.dropped = Dropped("times of frames")
        self._times: list[npt.NDArray[np.int64]] = []
        self._first: list[int] = []
        """The first frame of each of `_times`."""
        self._kept = 0
        self.frames = 0
        """The last frame so far."""
        self.span: tuple[int, int] = (0, 0)
        """The earliest and the latest time so far."""
        self.cut = self.cut_at = 0
        """How many frames were not captured whole, and how many bytes there are of the longest of them."""

    def seen(self, table: ChunkTable) -> None:
        """A window of frames, of packets or of anything else."""
        known = table.chunk.time_ns[table.chunk.time_ns > 0]
        if len(known):
            self.span = (min(self.span[0] or int(known.min()), int(known.min())), max(self.span[1], int(known.max())))
        short = table.chunk.caplen < table.chunk.length
        if short.any():
            self.cut, self.cut_at = self.cut + int(np.count_nonzero(short)), max(self.cut_at, int(table.chunk.caplen[short].max()))
        if len(table):
            self.frames = table.chunk.first + len(table) - 1

    def feed(self, table: ChunkTable) -> None:
        """The next window."""
        room = MAX_TIMES - self._kept
        times = table.chunk.time_ns[:room].copy()
        if len(times):
            self._first.append(table.chunk.first)
            self._times.append(times)
            self._kept += len(times)
        if len(table) > room:
            self.dropped.add(table.chunk.first + len(times), int(table.chunk.time_ns[len(times)]), len(table) - len(times))

    def of(self, frame: int | None) -> int | None:
        """Nanoseconds since 1970; None if the frame is not known, or was beyond the bound."""
        place = bisect_right(self._first, frame) - 1 if frame is not None else -1
        if frame is None or place < 0 or frame - self._first[place] >= len(self._times[place]):
            return None
        return int(self._times[place][frame - self._first[place]])

    @property
    def last(self) -> int:
        """That of the last frame that is remembered; 0 without any."""
        return int(self._times[-1][-1]) if self._times else 0
