"""Which rows of some columns are alike? Grouping by a hash and one sort of plain numbers, checked to be exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
INDEX_BITS = 17
"""Rows of a chunk have numbers below 2**17 (`capture.records.ROWS`)."""
ROWS_AT_MOST = 1 << INDEX_BITS
_LOW = np.uint64(ROWS_AT_MOST - 1)
_SPREAD, _AGAIN = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
"""Odd multipliers that spread small numbers over 64 bits (Knuth's multiplicative hashing)."""


def mix(columns: Sequence[npt.NDArray[Any]]) -> U64:
    """One number a row, uint64[n], the same for rows that agree in all integer columns, most likely another for the rest."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed ^= column.astype(np.uint64)
        mixed *= _SPREAD
        mixed ^= mixed >> np.uint64(29)
    mixed *= _AGAIN
    return mixed


def order_of(keys: U64) -> Int:
    """A stable order by well spread keys, int64[n]: their high bits and the row number sorted as one plain number."""
    n = len(keys)
    if n > ROWS_AT_MOST:
        return np.argsort(keys, kind="stable")
    packed = (keys & ~_LOW) | np.arange(n, dtype=np.uint64)
    packed.sort()
    packed &= _LOW
    order = packed.astype(np.int64)
    found = keys[order]
    apart = found[1:] ^ found[:-1]
    apart -= np.uint64(1)
    if (apart < _LOW).any():  # two keys that differ in low bits only; those that agree are far above
        return np.argsort(keys, kind="stable")
    return order


def by_value(numbers: npt.NDArray[Any]) -> Iterator[tuple[int, Int]]:
    """Each distinct number, ascending, and where it stands, int64[k] ascending. np.unique without indices loads numpy.ma (10 ms)."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(order)]
    for start, stop in pairwise(starts):
        if start < stop:
            yield int(ordered[start]), order[start:stop]


def groups(columns: Sequence[npt.NDArray[Any]]) -> tuple[Int, Int]:
    """Of the distinct rows of integer columns: where each occurs first, int64[g], and which it is for every row, int64[n]."""
    mixed = mix(columns)
    order = order_of(mixed)
    found = mixed[order]
    new = np.ones(len(found), np.bool_)
    np.not_equal(found[1:], found[:-1], out=new[1:])
    first = order[new]
    inverse = np.empty(len(found), np.int64)
    inverse[order] = np.cumsum(new) - 1
    if all((column[first][inverse] == column).all() for column in columns):
        return first, inverse
    return _exact(columns)


def _exact(columns: Sequence[npt.NDArray[Any]]) -> tuple[Int, Int]:
    """The same by sorting each column: for rows that differ and hash alike."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, number = np.unique(column, return_inverse=True)
        # Numbered anew after each column, a code stays below the square of the number of rows.
        code = np.unique(code * len(values) + number, return_inverse=True)[1]
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return first, inverse


def common(left: Int, right: Int) -> tuple[Int, Int, Int]:
    """What two strictly rising arrays share: the values, and where they are in each. np.intersect1d loads numpy.ma (10 ms) and sorts."""
    if not len(left) or not len(right):
        return left[:0], left[:0], left[:0]
    place = np.minimum(np.searchsorted(right, left), len(right) - 1)
    index = np.flatnonzero(right[place] == left)
    return left[index], index, place[index]


def held(numbers: Int, some: Int) -> npt.NDArray[np.bool_]:
    """Which numbers are among `some`, bool[n]. np.isin loads numpy.ma (10 ms) where these are far apart."""
    if not len(some):
        return np.zeros(len(numbers), np.bool_)
    known = np.sort(some)
    found: npt.NDArray[np.bool_] = known[np.minimum(np.searchsorted(known, numbers), len(known) - 1)] == numbers
    return found
