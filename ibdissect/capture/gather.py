"""Gathers of bytes and numbers from many offsets at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
T = TypeVar("T", np.uint8, np.bool_)

AT_ONCE = 4096
"""Rows converted to columns at once: as many as fit in the CPU cache."""


def unaligned(raw: Bytes, dtype: str) -> npt.NDArray[np.generic]:
    """`raw` as overlapping values; element i is read from byte i."""
    size = np.dtype(dtype).itemsize
    return np.ndarray((max(0, len(raw) - size + 1),), dtype, buffer=raw, strides=(1,))


def gather(data: Bytes, at: Ints, size: int) -> Bytes:
    """`size` bytes at each offset as rows, uint8[k, size]; all must be inside `data`."""
    if not len(at) or not size:
        return np.zeros((len(at), size), np.uint8)
    windows = np.ndarray((data.size - size + 1,), f"V{size}", data.data, 0, (1,))
    return windows[at].view(np.uint8).reshape(-1, size)


def looked_up(values: Bytes, table: npt.NDArray[T]) -> npt.NDArray[T]:
    """`table[values]` for a table of 256 bytes or flags, many times faster; read-only."""
    return np.frombuffer(values.tobytes().translate(table.tobytes()), table.dtype).reshape(values.shape)


def flags(numbers: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Whether each byte is one of some numbers, bool[256]: `flags(numbers)[values]` costs a tenth of `np.isin` for few values."""
    found = np.zeros(256, np.bool_)
    found[[*numbers]] = True
    return found


def columns(raw: Bytes, positions: Ints, *pieces: tuple[int, int]) -> Words:
    """Columns of four bytes in the byte order of `raw`, uint32[words, n]; `pieces`: (offset from each position, number of words).

    All must be inside `raw`. Reading such a column costs a tenth of reading four bytes from each row of a gather.
    """
    width = max(offset + 4 * count for offset, count in pieces)
    found = np.empty((sum(count for _, count in pieces), len(positions)), np.uint32)
    for first in range(0, len(positions), AT_ONCE):
        rows = gather(raw, positions[first : first + AT_ONCE], width)
        done = 0
        for offset, count in pieces:
            found[done : done + count, first : first + AT_ONCE] = rows[:, offset : offset + 4 * count].view(np.uint32).T
            done += count
    return found


def u16(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Big-endian 16-bit numbers at byte offsets `at`; one gather, several times faster than two of bytes."""
    if data.size < 2:  # then `at` must be empty
        return np.zeros(len(at), np.int64)
    return np.ndarray((data.size - 1,), ">u2", data.data, 0, (1,))[at].astype(np.int64)


def u24(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Big-endian 24-bit numbers at byte offsets `at`, which must not be 0: the preceding byte is read too."""
    if data.size < 4:
        return np.zeros(len(at), np.int64)
    return np.ndarray((data.size - 3,), ">u4", data.data, 0, (1,))[at - 1].astype(np.int64) & 0xFFFFFF
