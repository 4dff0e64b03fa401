"""The first bytes of every record, gathered once: the columns of its outer headers are read from them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ibdissect.capture import scan
from ibdissect.capture.chunk import FRONT, Chunk

Int = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

WIDTH = FRONT


def gather(data: Bytes, at: Int, size: int) -> Bytes:
    """`size` bytes from each offset as rows, uint8[k, size]; every offset must leave room for them."""
    if not len(at) or not size:
        return np.zeros((len(at), size), np.uint8)
    windows = np.ndarray((data.size - size + 1,), f"V{size}", data.data, 0, (1,))
    return windows[at].view(np.uint8).reshape(-1, size)


class Front:
    """The start of each record of a chunk. One gather costs as much as the many that it saves."""

    def __init__(self, chunk: Chunk) -> None:
        self.data = chunk.data
        self.base = chunk.front_at()
        """Where the front of each record starts in `chunk.data`, int64[n]."""
        self._words = chunk.front

    @property
    def words(self) -> npt.NDArray[np.uint32]:
        """The WIDTH bytes from `base` on as columns of four, as they lie there, uint32[WIDTH / 4, n]; zeros behind the end of the data."""
        if self._words is None:
            last = self.data.size - WIDTH
            if int(self.base.max(initial=0)) <= last:
                self._words = scan.columns(self.data, self.base, (0, WIDTH // 4))
            else:
                self._words = np.ascontiguousarray(_padded(self.data, self.base, WIDTH).view(np.uint32).T)
        return self._words

    def part(self, rows: Int, at: Int, size: int) -> Bytes:
        """`size` bytes from `at`, an offset into the chunk's data for each of `rows`: uint8[k, size], perhaps a view.

        Zeros behind the end of the data.
        """
        return Place(self, rows, at).part(0, size)


class Place:
    """Where something lies in some records.

    Most packets of a capture have their headers at the same place; those are read from the front, the others from the data.
    """

    def __init__(self, front: Front, rows: Int, at: Int) -> None:
        self.front, self.at = front, at
        self.rows = None if len(rows) == len(front.base) else rows
        """None: all rows of the chunk."""
        self.usual = -1
        """Bytes from the start of the front to where it lies in most rows; -1 where it mostly lies elsewhere."""
        self.others: Int | None = None
        """Which rows of `rows` have it elsewhere, None for none."""
        self._words: dict[int, Bytes] = {}
        delta = at - (front.base if self.rows is None else front.base.take(rows))
        if len(delta):
            usual = int(delta[len(delta) // 2])
            alike = delta == usual
            count = np.count_nonzero(alike)
            if 0 <= usual < WIDTH and count * 2 >= len(delta):
                self.usual = usual
                self.others = np.flatnonzero(~alike) if count < len(delta) else None

    def holds(self, offset: int, size: int) -> bool:
        """Whether so many bytes, from so many on behind where it lies, are in the front of most rows."""
        return self.usual >= 0 and self.usual + offset >= 0 and self.usual + offset + size <= WIDTH

    def part(self, offset: int, size: int) -> Bytes:
        """`size` bytes from `offset` behind where it lies: uint8[k, size], perhaps a view; zeros behind the end of the data."""
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
        """The four bytes at `4 * number`, uint8[k, 4], where the front has them in most rows; None elsewhere. Kept for who asks again."""
        found = self._words.get(number)
        if found is None and self.holds(4 * number, 4):
            found = self._words[number] = self.part(4 * number, 4)
        return found

    @property
    def data(self) -> Bytes:
        """The data of the chunk."""
        return self.front.data


def _padded(data: Bytes, at: Int, size: int) -> Bytes:
    """The same as `gather`, with zeros behind the end of the data."""
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
    """A copy of a slice of wider rows, item by item, which is faster than byte by byte."""
    width = rows.shape[1]
    return rows.view(f"V{width}")[:, 0].copy().view(np.uint8).reshape(-1, width)


def u16(part: Bytes, at: int) -> Int:
    """The big-endian 16-bit number at column `at` of rows of bytes, int64[k]."""
    return part[:, at : at + 2].view(">u2")[:, 0].astype(np.int64)
