"""The first bytes of every record, gathered once: the columns of its outer headers are slices of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
    """The start of each record of a chunk. One gather costs as much as the many that slices of it save."""

    def __init__(self, chunk: Chunk) -> None:
        self.data = chunk.data
        self.base: Int = np.where(chunk.pseudo >= 0, chunk.pseudo, chunk.offset)
        """Where the ERF header of the record, else its frame, starts in `chunk.data`, int64[n]."""
        self._block: Bytes | None = chunk.front

    @property
    def block(self) -> Bytes:
        """The WIDTH bytes from `base` on, uint8[n, WIDTH]; zeros behind the end of the data."""
        if self._block is None:
            self._block = _padded(self.data, self.base, WIDTH)
        return self._block

    def part(self, rows: Int, at: Int, size: int) -> Bytes:
        """`size` bytes from `at`, an offset into the chunk's data for each of `rows`: uint8[k, size], perhaps a view.

        Zeros behind the end of the data.
        Most packets of a capture have their headers at the same place; those are read from the block, the others from the data.
        """
        k = len(rows)
        if not k or not size:
            return np.zeros((k, size), np.uint8)
        whole = k == len(self.base)
        delta = at - (self.base if whole else self.base[rows])
        usual = int(delta[k // 2])
        if usual < 0 or usual + size > WIDTH:
            return _padded(self.data, at, size)
        alike = delta == usual
        block = self.block[:, usual : usual + size]
        if alike.all():
            return block if whole else _picked(block, rows)
        if np.count_nonzero(alike) * 2 < k:
            return _padded(self.data, at, size)
        part = tight(block) if whole else _picked(block, rows)
        other = np.flatnonzero(~alike)
        part[other] = _padded(self.data, at[other], size)
        return part


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


def _picked(block: Bytes, rows: Int) -> Bytes:
    """Some rows of bytes; copied as items of their whole width, which is faster than byte by byte."""
    width = block.shape[1]
    return block.view(f"V{width}")[:, 0][rows].view(np.uint8).reshape(-1, width)


def u16(part: Bytes, at: int) -> Int:
    """The big-endian 16-bit number at column `at` of rows of bytes, int64[k]."""
    return part[:, at : at + 2].view(">u2")[:, 0].astype(np.int64)
