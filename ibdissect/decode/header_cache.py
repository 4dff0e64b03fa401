"""The first bytes of every record, gathered once; the columns of the outer headers are read from them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.capture.chunk import FRONT, Chunk
from ibdissect.capture.gather import Bytes, columns, gather

from .equal_rows import places_in

Int = npt.NDArray[np.int64]

WIDTH = FRONT


class HeaderCache:
    """The first bytes of each record of a chunk. One gather replaces many that would each cost as much."""

    def __init__(self, chunk: Chunk) -> None:
        self.data = chunk.data
        self.base = chunk.front_at()
        """Where the front of each record starts in `chunk.data`, int64[n]."""
        self._words = chunk.front

    @property
    def words(self) -> npt.NDArray[np.uint32]:
        """WIDTH bytes from `base` as columns of four in capture byte order, uint32[WIDTH / 4, n]; zeros past the end of the data."""
        if self._words is None:
            self._words = _columns(self.data, self.base)
        return self._words

    def part(self, rows: Int, at: Int, size: int) -> Bytes:
        """`size` bytes at offset `at` of the chunk's data for each of `rows`: uint8[k, size], perhaps a view.

        Zeros past the end of the data.
        """
        return FieldReader(self, rows, at).part(0, size)


class Unread(Record, frozen=True, eq=False):
    """Bits of some records that the standard tells receivers to ignore. Reads return zero for them."""

    rows: Int
    """Rows of the chunk, ascending int64[k]."""
    at: Int
    """Where the bytes of `bits` begin in the chunk's data, int64[k]."""
    bits: Bytes
    """Those bits of each byte, uint8[k, bytes]; the last column is 0."""


class FieldReader:
    """Where a structure starts in some records.

    Most packets of a capture have their headers at the same offset; those are read from the front, the others from the data.
    """

    def __init__(self, front: HeaderCache, rows: Int, at: Int, unread: Unread | None = None) -> None:
        self.front, self.at = front, at
        self.rows = None if len(rows) == len(front.base) else rows
        """None: all rows of the chunk."""
        self.usual = -1
        """Offset in the front at which it starts in most rows; -1 if there is no such offset."""
        self.others: Int | None = None
        """Indices of the rows that have it elsewhere; None for none."""
        self._words: dict[int, Bytes] = {}
        self._unread = unread
        self._which = places_in(unread.rows, rows) if unread is not None else None
        """The entry of `unread` for each structure, int64[k]; -1 for none."""
        delta = at - (front.base if self.rows is None else front.base.take(rows))
        if len(delta):
            usual = int(delta[len(delta) // 2])
            alike = delta == usual
            count = np.count_nonzero(alike)
            if 0 <= usual < WIDTH and count * 2 >= len(delta):
                self.usual = usual
                self.others = np.flatnonzero(~alike) if count < len(delta) else None

    def holds(self, offset: int, size: int) -> bool:
        """Whether most rows have the `size` bytes at `offset` from its start in their front."""
        return self.usual >= 0 and self.usual + offset >= 0 and self.usual + offset + size <= WIDTH

    def part(self, offset: int, size: int) -> Bytes:
        """`size` bytes at `offset` from its start: uint8[k, size], perhaps a view; zeros past the end of the data, and for unread bits."""
        part = self._captured(offset, size)
        if self._unread is None or self._which is None:
            return part
        there = np.flatnonzero(self._which >= 0)
        which = self._which[there]
        column = (self.at[there] + offset - self._unread.at[which])[:, None] + np.arange(size)
        last = self._unread.bits.shape[1] - 1
        part = part.copy()
        part[there] &= ~self._unread.bits[which[:, None], np.where((column >= 0) & (column < last), column, last)]
        return part

    def _captured(self, offset: int, size: int) -> Bytes:
        """The bytes as they were captured."""
        if not len(self.at) or not size:
            return np.zeros((len(self.at), size), np.uint8)
        if not self.holds(offset, size):
            return _padded(self.data, self.at + offset, size)
        start = self.usual + offset
        words = self.front.words[start // 4 : (start + size + 3) // 4]
        if len(words) == 1 and self.rows is None and self.others is None:
            found = words[0][:, None]
        else:
            found = np.empty((len(self.at), len(words)), np.uint32)
            for i, column in enumerate(words):
                found[:, i] = column if self.rows is None else column.take(self.rows)
        part: Bytes = found.view(np.uint8)[:, start % 4 : start % 4 + size]
        if self.others is not None:
            part[self.others] = _padded(self.data, self.at[self.others] + offset, size)
        return part

    def word(self, number: int) -> Bytes | None:
        """The four bytes at `4 * number`, uint8[k, 4], if most rows have them in the front; None otherwise. Cached."""
        found = self._words.get(number)
        if found is None and self.holds(4 * number, 4):
            found = self._words[number] = self.part(4 * number, 4)
        return found

    @property
    def data(self) -> Bytes:
        return self.front.data


def _columns(data: Bytes, at: Int) -> npt.NDArray[np.uint32]:
    """WIDTH bytes at each offset as columns of four, with zeros past the end of the data."""
    if int(at.max(initial=0)) <= data.size - WIDTH:
        return columns(data, at, (0, WIDTH // 4))
    return np.ascontiguousarray(_padded(data, at, WIDTH).view(np.uint32).T)


def _padded(data: Bytes, at: Int, size: int) -> Bytes:
    """Like `gather`, with zeros past the end of the data."""
    last = data.size - size
    if int(at.max(initial=0)) <= last:
        return gather(data, at, size)
    found = np.zeros((len(at), size), np.uint8) if last < 0 else gather(data, np.minimum(at, last), size)
    for i in np.flatnonzero(at > last).tolist():
        rest = data[int(at[i]) :][:size]
        found[i] = 0
        found[i, : len(rest)] = rest
    return found


def tight(rows: Bytes) -> Bytes:
    """A contiguous copy of a slice of wider rows; copies whole rows, which is faster than byte by byte."""
    width = rows.shape[1]
    return rows.view(f"V{width}")[:, 0].copy().view(np.uint8).reshape(-1, width)


def u16(part: Bytes, at: int) -> Int:
    """The big-endian 16-bit number at column `at` of rows of bytes, int64[k]."""
    return part[:, at : at + 2].view(">u2")[:, 0].astype(np.int64)
