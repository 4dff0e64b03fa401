"""Percentiles of any number of latencies, computed from all of them, or from every second, fourth, ... of many.

They are those of docs/numbers.md, by nearest rank. Latencies between clocks that differ may be negative, so that
`mad.response_times.ResponseTimes`, which keeps a histogram, cannot hold them.
"""

from __future__ import annotations

import numpy as np

from ibdissect.decode import Int
from ibdissect.mad.response_times import PERCENTILES

NAMES = ("min", *(f"p{share}" for share in PERCENTILES), "max")


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
        """Minimum, percentiles and maximum, None without values; and `one_of`: 1 if they are exact, n if of one value of n."""
        if not self._ends:
            return dict.fromkeys(NAMES) | {"one_of": 1}
        middle = np.percentile(self._kept, PERCENTILES, method="inverted_cdf").tolist()
        return dict(zip(NAMES, (self._ends[0], *middle, self._ends[1]), strict=True)) | {"one_of": self._every}
