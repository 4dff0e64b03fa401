"""Hashing, grouping and look-up of rows of plain numbers: equal rows, distinct values, membership in a set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record
from msgspec.structs import astuple

from ibdissect.engine.seen_before import Marks

Int = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""An odd multiplier that spreads small numbers over 64 bits (Knuth's multiplicative hashing)."""
_ODD = (
    0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB,
    0x8EBC6AF09C88C6E3, 0x589965CC75374CC3,
)  # fmt: skip
"""Odd multipliers, used for the columns in turn."""
FREQUENT, FEW = 16, 64
"""`by_value` looks for at most so many frequent numbers, among more than a few."""
SLOTS = 1 << 16
"""Slots of a small table indexed by 16 bits of a hash."""


class Columns(Record):
    """Arrays of equal length."""

    def take(self, index: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Self:
        """Some of their entries."""
        return type(self)(*(column[index] for column in astuple(self)))

    @classmethod
    def joined(cls, *parts: Self) -> Self:
        """Several, one after the other."""
        return cls(*(np.concatenate(columns) for columns in zip(*map(astuple, parts), strict=True)))


class Entry(Record, frozen=True, eq=False):
    """One entry of an object with columns. Each column of numbers is an attribute: `entry.modifier` is `int(columns.modifier[i])`."""

    columns: Any
    i: int

    def __getattr__(self, name: str) -> int:
        return int(getattr(self.columns, name)[self.i])


def mix(columns: Sequence[npt.NDArray[Any]]) -> U64:
    """A hash of each row of integer columns, uint64[n]; independent of the chunk and of trailing columns of zeros."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for k, column in enumerate(columns):
        if not column.any():
            continue  # it adds nothing
        part = column.astype(np.uint64, copy=False) * np.uint64(_ODD[k % len(_ODD)] + 2 * (k // len(_ODD)))
        part ^= part >> np.uint64(29)
        part *= np.uint64(_ODD[1])
        mixed += part
    mixed ^= mixed >> np.uint64(31)
    mixed *= SPREAD
    return mixed


def digest(block: npt.NDArray[np.uint8]) -> U64:
    """A hash of each row of bytes, uint64[n]; the row length is a multiple of 8."""
    words = np.ascontiguousarray(block).view(np.uint64)
    value = words ^ (words >> np.uint64(29))
    value *= SPREAD * (np.arange(words.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1))
    value ^= value >> np.uint64(32)
    total: U64 = value.sum(axis=1) * SPREAD
    return total ^ (total >> np.uint64(32))


def digest_at(data: npt.NDArray[np.uint8], at: Int, size: int) -> U64:
    """A hash of the `size` bytes at each offset, uint64[n]; all must be inside `data`."""
    found = np.empty(len(at), np.int64)
    Marks(data).at(np.ascontiguousarray(at), size, found)
    return found.view(np.uint64)


def order_of(keys: U64) -> Int:
    """A stable sort order of well spread keys, int64[n]: by their high halves, 16 bits at a time, which NumPy sorts without comparing."""
    order = np.argsort((keys >> np.uint64(32)).astype(np.uint16), kind="stable")
    order = order[np.argsort((keys >> np.uint64(48)).astype(np.uint16)[order], kind="stable")]
    found = keys[order]
    apart = found[1:] ^ found[:-1]
    apart -= np.uint64(1)
    if (apart < np.uint64((1 << 32) - 1)).any():  # keys differ in low halves only; equal keys wrap around to the maximum
        return np.argsort(keys, kind="stable")
    return order


def by_value(numbers: npt.NDArray[Any]) -> Iterator[tuple[int, Int]]:
    """Each distinct number, in order of its first index, and its indices, int64[k] ascending.

    In that order whatever keeps only the first of them keeps the same ones for any size of window. Avoids np.unique, which imports
    numpy.ma (10 ms).
    """
    left: Int | None = None
    for _ in range(FREQUENT if len(numbers) > FEW else 0):  # as a rule few numbers make up nearly all: they need no sorting
        same = numbers == numbers[0]
        index = same.nonzero()[0]
        yield int(numbers[0]), index if left is None else left[index]
        if len(index) == len(numbers):
            return
        rest = (~same).nonzero()[0]
        numbers, left = numbers[rest], rest if left is None else left[rest]
        if len(index) < len(rest) // FREQUENT:
            break
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    edges = [*run_starts(ordered).tolist(), len(order)]
    for start, stop in sorted(pairwise(edges), key=lambda edge: int(order[edge[0]])) if len(order) else ():
        index = order[start:stop]
        yield int(ordered[start]), index if left is None else left[index]


def groups(columns: Sequence[npt.NDArray[Any]]) -> tuple[Int, Int]:
    """Group equal rows of integer columns: the first row of each group, int64[g], and the group of each row, int64[n]."""
    mixed = mix(columns)
    order = order_of(mixed)
    found = mixed[order]
    new = np.ones(len(found), np.bool_)
    np.not_equal(found[1:], found[:-1], out=new[1:])
    first = order[new]
    inverse = np.empty(len(found), np.int64)
    inverse[order] = np.cumsum(new) - 1
    if all((column[first][inverse] == column).all() for column in columns if column.any()):
        return first, inverse
    return _exact(columns)


def python_values(values: npt.NDArray[Any]) -> list[Any]:
    """The values of a column as Python's own: numbers, or the bytes of each row."""
    return values.tolist() if values.ndim == 1 else [row.tobytes() for row in values]


def keys_of(columns: Sequence[npt.NDArray[Any]], size: int) -> list[tuple[Any, ...]]:
    """What the rows of some columns hold, as keys of a dict; empty tuples without columns. `size`: the number of rows."""
    return list(zip(*map(python_values, columns), strict=True)) if columns else [()] * size


def run_starts(values: npt.NDArray[Any]) -> Int:
    """Where each run of equal values begins, int64[g], from 0 on; [0] if there are no values."""
    return np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))


def members(which: Int, number: int) -> list[Int]:
    """The rows of each of `number` groups, ascending int64[k] each; `which`: the group of each row, as from `groups`."""
    small = which.astype(np.uint16) if number <= 1 << 16 else which  # NumPy sorts 16 bits by their value, without comparing
    counts = np.bincount(which, minlength=number)
    return parts(np.argsort(small, kind="stable"), np.cumsum(counts) - counts)


def parts(values: Int, starts: Int) -> list[Int]:
    """An array from each of `starts` to the next, or to its end. As np.split, which takes ten times as long for many parts."""
    return [values[start:stop] for start, stop in pairwise([*starts.tolist(), len(values)])]


def _exact(columns: Sequence[npt.NDArray[Any]]) -> tuple[Int, Int]:
    """`groups` by sorting each column, for when different rows have the same hash."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, number = np.unique(column, return_inverse=True)
        # Renumbering after each column keeps codes below the square of the row count.
        code = np.unique(code * len(values) + number, return_inverse=True)[1]
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return first, inverse


def common(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Int, Int]:
    """Intersect two strictly ascending arrays: the common values, and their indices in each. np.intersect1d imports numpy.ma (10 ms)."""
    place = places_in(right, left)
    index = np.flatnonzero(place >= 0)
    return left[index], index, place[index]


def is_in(numbers: npt.NDArray[Any], some: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which numbers are in `some`, bool[n]. np.isin may import numpy.ma (10 ms)."""
    return places_in(np.sort(some), numbers) >= 0


def places_in(ascending: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> Int:
    """The first index of each number in an ascending array, int64[n]; -1 if it is missing."""
    if not len(ascending):
        return np.full(len(numbers), -1, np.int64)
    place = np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)
    return np.where(ascending[place] == numbers, place, -1)


def slot(values: Int) -> Int:
    """The slot (below SLOTS) of each value."""
    spread = values.astype(np.uint64)
    spread *= SPREAD
    return slot_of_hash(spread)


def slot_of_hash(hashes: U64, bits: int = 48) -> Int:
    """The slot of each hash: 16 of its bits, from `bits` on. Signed, as NumPy takes twice as long for unsigned indices."""
    return (hashes >> np.uint64(bits)).view(np.int64) & SLOTS - 1


def distinct_values(values: Int) -> list[int]:
    """The distinct values, sorted. Of many values, only those that share a slot are processed one by one."""
    if len(values) < SLOTS // 4:  # less work than filling the slots
        return sorted({*values.tolist()})
    place = slot(values)
    holder = np.full(SLOTS, -1, np.int64)
    holder[place] = values
    crowded = values[holder[place] != values]
    return sorted({*holder[np.bincount(place, minlength=SLOTS) > 0].tolist(), *crowded.tolist()})
