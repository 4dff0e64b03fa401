"""How is a field read from rows of bytes?"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.record import record


def extract(rows: npt.NDArray[np.uint8], bit: int, bits: int) -> npt.NDArray[Any]:
    """The unsigned integer of `bits` (at most 64) bits from bit `bit` of each row; the smallest dtype that holds it."""
    plan = _plan(rows.shape[1], bit, bits)
    if not len(rows):
        return np.empty(0, plan.target)
    if plan.width == 1:
        word = rows[:, plan.start].copy()
    elif plan.width:
        word = rows[:, plan.start : plan.start + plan.width].view(plan.wire)[:, 0].astype(plan.word)
    else:
        word = np.zeros(len(rows), np.uint64)
        for byte in range(bit // 8, (bit + bits + 7) // 8):
            word = (word << np.uint64(8)) | rows[:, byte]
    if plan.shift is not None:
        word >>= plan.shift
    if plan.mask is not None:
        word &= plan.mask
    return word.astype(plan.target, copy=False)


def among(values: npt.NDArray[np.uint8], choices: bytes) -> npt.NDArray[np.bool_]:
    """Whether each byte is a chosen one; `choices`: 256 bytes of 0 and 1. Many times faster than np.isin or a gather."""
    return np.frombuffer(values.tobytes().translate(choices), np.bool_).reshape(values.shape)


def u16(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Big-endian 16-bit numbers at byte offsets `at`; one gather, several times cheaper than two of bytes."""
    if data.size < 2:  # then nothing can lie there, and `at` is empty
        return np.zeros(len(at), np.int64)
    return np.ndarray((data.size - 1,), ">u2", data.data, 0, (1,))[at].astype(np.int64)


def u24(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Big-endian 24-bit numbers at byte offsets `at`, none of which is 0: the byte in front is read along."""
    if data.size < 4:
        return np.zeros(len(at), np.int64)
    return np.ndarray((data.size - 3,), ">u4", data.data, 0, (1,))[at - 1].astype(np.int64) & 0xFFFFFF


@record
class _Plan:
    """How a field is read."""

    start: int
    width: int
    """Bytes of the number that holds it: 1, 2, 4 or 8; 0 for one at the edge of a short structure, or nine bytes wide."""
    wire: np.dtype[Any]
    word: np.dtype[Any]
    shift: Any
    mask: Any
    target: np.dtype[Any]


@lru_cache(4096)
def _plan(size: int, bit: int, bits: int) -> _Plan:
    """The reading of `bits` bits from bit `bit` of `size` bytes; made once, it costs more than a small column does."""
    lo, hi = bit // 8, (bit + bits + 7) // 8
    width = next(w for w in (1, 2, 4, 8, 16) if w >= hi - lo)
    start = max(0, hi - width)
    if width > 8 or start + width > size:
        width = 0
    word = np.dtype(f"u{width or 8}")
    shift = ((start + width) if width else hi) * 8 - bit - bits
    return _Plan(
        start, width, np.dtype(f">u{width or 8}"), word,
        np.array(shift, word) if shift else None,
        np.array((1 << bits) - 1, word) if shift + bits < word.itemsize * 8 else None,
        np.dtype(f"u{next(w for w in (1, 2, 4, 8) if w * 8 >= bits)}"),
    )  # fmt: skip
