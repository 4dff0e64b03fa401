"""Which byte ranges contain some bytes? The whole chunk is searched at once, not each range."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from .locate import Bool, Int


def holding(data: npt.NDArray[np.uint8], at: Int, stop: Int, needle: bytes) -> Bool:
    """Which of the ranges `data[at:stop]` contain `needle`, bool[k]; none contains an empty one, as in Wireshark."""
    hits = np.zeros(len(at), np.bool_)
    if not len(at) or not needle:
        return hits
    low = int(at.min())
    hay = data[low : int(stop.max())].tobytes()
    starts, stops = (at - low).tolist(), (stop - low).tolist()
    if (at[1:] < stop[:-1]).any():  # ranges overlap or are not ascending
        return np.array([hay.find(needle, a, b) >= 0 for a, b in zip(starts, stops, strict=True)], np.bool_)
    place = hay.find(needle)
    while place >= 0:
        row = bisect_right(starts, place) - 1
        if row >= 0 and place + len(needle) <= stops[row]:
            hits[row] = True
        # A later match in this range would overrun it too.
        if row + 1 == len(starts):
            break
        place = hay.find(needle, max(starts[row + 1], place))
    return hits
