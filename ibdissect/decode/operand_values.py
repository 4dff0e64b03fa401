"""Values of an operand in a chunk: numbers or byte sequences, each with its entry (a frame or an occurrence)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.wire.column import ComputedField
from ibdissect.wire.spec import Field

from .chunk_table import ChunkTable
from .locate import Int

Values = npt.NDArray[Any]
_EMPTY = np.empty(0, np.int64)


class NumberSeries(Record, frozen=True, eq=False):
    """Integers, times in nanoseconds, flags."""

    rows: Int | None
    """Entry of each value, int64[k], never decreasing; None for a constant, which has one value."""
    values: Values
    """Integers of any width; dtype object if no machine integer is wide enough."""

    def pick(self, index: Int) -> NumberSeries:
        """The values at `index`; a constant is returned unchanged."""
        return self if self.rows is None else NumberSeries(self.rows[index], self.values[index])


class Blobs(Record, frozen=True, eq=False):
    """Byte sequences: ranges of an array."""

    rows: Int | None
    data: npt.NDArray[np.uint8]
    at: Int
    stop: Int
    text: bool = False
    """Whether they are strings, ordered letter by letter; other bytes are ordered by length first."""

    def pick(self, index: Int) -> Blobs:
        """The sequences at `index`; a constant is returned unchanged."""
        return self if self.rows is None else Blobs(self.rows[index], self.data, self.at[index], self.stop[index], self.text)

    def items(self) -> list[bytes]:
        """All sequences."""
        data = self.data.tobytes() if len(self.at) > 64 else self.data
        return [bytes(data[a:b]) for a, b in zip(self.at.tolist(), self.stop.tolist(), strict=True)]


Series = NumberSeries | Blobs


def constant(value: int | bytes | str) -> Series:
    """A value that is the same for every entry."""
    if isinstance(value, int):
        return NumberSeries(
            None, np.array([value], np.int64 if -(1 << 63) <= value < 1 << 63 else np.uint64 if 0 <= value < 1 << 64 else object)
        )
    return blobs_of(None, [value.encode() if isinstance(value, str) else value], isinstance(value, str))


def blobs_of(rows: Int | None, items: Sequence[bytes], text: bool = False) -> Blobs:
    """Byte sequences that are not taken from the chunk's data."""
    sizes = np.array([len(item) for item in items], np.int64)
    stop = np.cumsum(sizes) if items else _EMPTY
    return Blobs(rows, np.frombuffer(b"".join(items), np.uint8), stop - sizes, stop, text)


def alike(a: Values, b: Values) -> tuple[Values, Values]:
    """Two arrays with a common 64-bit dtype, or object if neither int64 nor uint64 holds both; NumPy would convert them to floats."""
    a, b = (each if each.dtype.itemsize == 8 else each.astype(np.int64) for each in (a, b))
    if a.dtype == b.dtype:
        return a, b
    if a.dtype.kind == "O" or b.dtype.kind == "O" or ((a if a.dtype.kind == "i" else b) < 0).any():
        return a.astype(object), b.astype(object)
    return a.astype(np.uint64), b.astype(np.uint64)


def equal_pairs(left: Int, right: Int) -> tuple[Int, Int]:
    """The index pairs of all equal values of two ascending arrays, in the order of the left one."""
    start = right.searchsorted(left, "left")
    counts = right.searchsorted(left, "right") - start
    return all_of_each(start, counts)


def all_of_each(start: Int, counts: Int) -> tuple[Int, Int]:
    """Expand ranges of `counts` numbers from `start`: the range index of each number, and the number."""
    which = np.repeat(np.arange(len(start)), counts)
    return which, np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts - start, counts)


def pairs(left: Series, right: Series) -> tuple[Int | None, Series, Series]:
    """Pair every value of one side with every value of the other in the same entry; a constant pairs with each."""
    if left.rows is None or right.rows is None:
        return (left.rows if right.rows is None else right.rows), left, right
    if left.rows is right.rows and (left.rows[1:] > left.rows[:-1]).all():
        return left.rows, left, right
    li, ri = equal_pairs(left.rows, right.rows)
    return left.rows[li], left.pick(li), right.pick(ri)


def joined(parts: Sequence[Series]) -> Series:
    """Merge the values of fields with one filter name, in packet order; byte sequences must be ranges of the same array."""
    if len(parts) == 1:
        return parts[0]
    rows = np.concatenate([part.rows for part in parts if part.rows is not None])
    order = np.argsort(rows, kind="stable")
    numbers = [part for part in parts if isinstance(part, NumberSeries)]
    if numbers:
        wide = any(part.values.dtype == np.uint64 for part in numbers)
        values = np.concatenate([part.values.astype(np.uint64 if wide else np.int64) for part in numbers])
        return NumberSeries(rows[order], values[order])
    blobs = [part for part in parts if isinstance(part, Blobs)]
    at, stop = np.concatenate([part.at for part in blobs]), np.concatenate([part.stop for part in blobs])
    return Blobs(rows[order], blobs[0].data, at[order], stop[order], blobs[0].text)


def stretches(table: ChunkTable, field: Field[Any], rows: Int, which: Int | None) -> Blobs:
    """The byte ranges of a byte field in the occurrences `which` (None: all); a string ends at its first NUL."""
    found = table.occurrences(field.owner)
    text = field.kind == "text" or field.is_text
    if isinstance(field, ComputedField):
        values = table.values(field)
        return blobs_of(rows, [row.tobytes().rstrip(b"\0") for row in (values if which is None else values[which])], text)
    start, stop = (found.at, found.stop) if which is None else (found.at[which], found.stop[which])
    if field.kind == "rest":
        return Blobs(rows, table.chunk.data, start + field.bit // 8, stop, text)
    size = field.bits // 8
    entries = np.array([bit // 8 for bit in field.entries()], np.int64)
    if len(entries) > 1:
        rows, at = np.repeat(rows, len(entries)), (start[:, None] + entries).ravel()
    else:
        at = start + entries[0]
    return Blobs(rows, table.chunk.data, at, at + (_text_sizes(table.chunk.data, at, size) if text else size), text)


def _text_sizes(data: npt.NDArray[np.uint8], at: Int, size: int) -> Int:
    sizes = np.full(len(at), size, np.int64)
    open_ = np.arange(len(at))
    for place in range(size):
        ended = data[at[open_] + place] == 0
        sizes[open_[ended]] = place
        open_ = open_[~ended]
        if not len(open_):
            break
    return sizes
