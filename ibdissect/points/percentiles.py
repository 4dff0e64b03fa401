"""What are the percentiles of any number of values? Of every one, or of every second, fourth, ... one of many."""

from __future__ import annotations

import numpy as np

from ibdissect.table import Int

NAMES = ("min", "p50", "p90", "p99", "max")


class Percentiles:
    """At most `limit` values are kept, evenly spread; minimum and maximum are exact."""

    def __init__(self, limit: int) -> None:
        self._limit, self._every, self._skip = limit, 1, 0
        self._kept: Int = np.empty(0, np.int64)
        self._ends: list[int] = []

    def add(self, values: Int) -> None:
        if not len(values):
            return
        self._ends = [min([*self._ends[:1], int(values.min())]), max([*self._ends[1:], int(values.max())])]
        self._kept = np.concatenate([self._kept, values[self._skip :: self._every]])
        self._skip = (self._skip - len(values)) % self._every
        while len(self._kept) > self._limit:
            self._skip += self._every * (len(self._kept) % 2)
            self._kept = self._kept[::2].copy()
            self._every *= 2

    def result(self) -> dict[str, int | None]:
        """Minimum, percentiles and maximum; None without values."""
        if not self._ends:
            return dict.fromkeys(NAMES)
        middle = np.rint(np.percentile(self._kept, (50, 90, 99))).astype(np.int64).tolist()
        return dict(zip(NAMES, (self._ends[0], *middle, self._ends[1]), strict=True))
