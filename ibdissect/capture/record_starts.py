"""The start of every record in a window, along the chain of record lengths: a record's length says where the next one starts."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect import c_code

from .gather import Bytes, Ints, unaligned

Mask = npt.NDArray[np.bool_]


class Stride(Record, frozen=True, eq=False):
    """How to read a record's size: `max(least, field + plus)` bytes, the field at offset `at`."""

    dtype: str
    """`<u4`, `>u4` or `>u2`."""
    at: int
    plus: int
    least: int
    """Minimum step, so that a zero length does not loop forever."""
    header: int
    """Bytes of a record header, which must be present for the record to count."""

    def sizes(self, raw: Bytes, positions: Ints) -> Ints:
        """Sizes of the records at `positions`, each with a whole header in `raw`."""
        sizes = unaligned(raw, self.dtype)[positions + self.at].astype(np.int64)
        sizes += self.plus
        return np.maximum(sizes, self.least, out=sizes)


def walk(raw: Bytes, start: int, stop: int, stride: Stride) -> tuple[Ints, int]:
    """All record starts from `start` whose header ends at or before `stop`, and where the next one would start.

    The last record may extend beyond `stop`.
    """
    limit = stop - stride.header + 1
    if c_code.records is None:
        positions, after = _plain(raw, start, limit, stride)
        return np.array(positions, np.int64), after
    starts = np.empty(max(0, limit - start) // stride.least + 1, np.int64)
    count, after = c_code.records.walk(raw, start, limit, stride.dtype, stride.at, stride.plus, stride.least, starts)
    return starts[:count].copy(), after


def _plain(raw: Bytes, start: int, limit: int, stride: Stride) -> tuple[list[int], int]:
    """What `c_code/records.c` does: positions below `limit`, and the first one at or above it."""
    unpack = struct.Struct({"<u4": "<I", ">u4": ">I", ">u2": ">H"}[stride.dtype]).unpack_from
    view, at, plus, least = raw.data, stride.at, stride.plus, stride.least
    positions = []
    position = start
    while position < limit:
        positions.append(position)
        size = unpack(view, position + at)[0] + plus
        position += size if size > least else least
    return positions, position


def chained(raw: Bytes, positions: Ints, stop: int, stride: Stride, likely: Callable[[Ints], Mask], hops: int = 3, end: int = -1) -> Mask:
    """Which of `positions` start a chain of `hops` likely records, or of fewer that end exactly at `end`."""
    good = np.ones(len(positions), np.bool_)
    alive = np.arange(len(positions))
    at = positions
    for _ in range(hops):
        fits = at + stride.header <= stop
        good[alive[~fits & (at != end)]] = False
        alive, at = alive[fits], at[fits]
        here = likely(at)
        good[alive[~here]] = False
        alive, at = alive[here], at[here]
        at = at + stride.sizes(raw, at)
    good[alive[at > stop]] = False
    return good
