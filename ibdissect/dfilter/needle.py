"""Which stretches hold some bytes: asked of a whole window at once, not of each stretch? And which bytes must a pattern find?"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from .regex import Item

Bool = npt.NDArray[np.bool_]
Int = npt.NDArray[np.int64]
LOWER = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in range(256))
WORTH = 3
"""A shorter literal stands nearly everywhere: looking for it first only costs."""


def holding(data: npt.NDArray[np.uint8], at: Int, stop: Int, needle: bytes, *, fold: bool = False) -> Bool:
    """Which of the stretches `data[at:stop]` hold `needle`, bool[k]; none for an empty one.

    `fold`: `needle` is in small letters, and capital letters of the data count as small ones.
    """
    hits = np.zeros(len(at), np.bool_)
    if not len(at) or not needle:
        return hits
    low, high = int(at.min()), int(stop.max())
    hay = data[low:high].tobytes()
    if fold:
        hay = hay.translate(LOWER)
    starts, stops = (at - low).tolist(), (stop - low).tolist()
    if (at[1:] < stop[:-1]).any():  # they overlap, or go back
        found = [hay.find(needle, a, b) >= 0 for a, b in zip(starts, stops, strict=True)]
        return np.array(found, np.bool_)
    place = hay.find(needle)
    while place >= 0:
        row = bisect_right(starts, place) - 1
        if row >= 0 and place + len(needle) <= stops[row]:
            hits[row] = True
        # One is enough; what begins later in a stretch that this one leaves would leave it, too.
        if row + 1 == len(starts):
            break
        place = hay.find(needle, max(starts[row + 1], place))
    return hits


def literal(tree: Item) -> bytes:
    """The longest bytes, in small letters, that stand in whatever a pattern finds; empty when there are none for sure."""
    best = run = b""
    for part in _flat(tree):
        byte = _byte(part.chosen) if part.what == "set" else -1
        if byte >= 0:
            run += bytes([byte])
        elif part.what not in ("start", "end"):
            best, run = max(best, run, key=len), b""
            if part.what == "repeat" and part.low:
                best = max(best, literal(part.parts[0]), key=len)
    return max(best, run, key=len)


def _flat(item: Item) -> list[Item]:
    """A sequence with the sequences inside it written out."""
    return [below for part in item.parts for below in _flat(part)] if item.what == "and" else [item]


def _byte(chosen: int) -> int:
    """The byte, or the small letter, that a set is all about; -1 for any other set."""
    least = (chosen & -chosen).bit_length() - 1
    if chosen == 1 << least:
        return LOWER[least]
    return least + 32 if 65 <= least <= 90 and chosen == (1 << least | 1 << least + 32) else -1
