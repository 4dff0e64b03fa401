"""Bit fields read from rows of bytes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.capture.gather import gather
from ibdissect.wire.spec import Field

from .locate import Bool, Int


def extract(rows: npt.NDArray[np.uint8], bit: int, bits: int) -> npt.NDArray[Any]:
    """The unsigned integer of `bits` (at most 64) bits at bit `bit` of each row, in the smallest dtype that holds it."""
    plan = _plan(rows.shape[1], bit, bits)
    if not len(rows):
        return np.empty(0, plan.target)
    if plan.width == 1:
        word = rows[:, plan.start].copy()
    elif plan.width:
        word = rows[:, plan.start : plan.start + plan.width].view(plan.wire)[:, 0].astype(plan.word)
    else:
        word = np.zeros(len(rows), np.uint64)
        first, last = bit // 8, (bit + bits + 7) // 8
        for byte in range(first, min(last, first + 8)):
            word = (word << np.uint64(8)) | rows[:, byte]
        if last - first > 8:  # nine bytes hold more than the word: of the last one only what belongs to the number
            below = np.uint64(last * 8 - bit - bits)
            return (word << (np.uint64(8) - below) | rows[:, last - 1] >> below) & np.uint64((1 << bits) - 1)
    if plan.shift is not None:
        word >>= plan.shift
    if plan.mask is not None:
        word &= plan.mask
    return word.astype(plan.target, copy=False)


def part_of_little(field: Field[Any], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The bits of a field in little-endian numbers that were read in the order of the host."""
    return values if field.wire_bits == field.bits else values >> field.low & ((1 << field.bits) - 1)


def value_at(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], field: Field[Any]) -> npt.NDArray[np.int64]:
    """A field of at most 63 bits of the structures that start at byte offsets `at`, int64[k]; all must be inside `data`."""
    low, high = field.span
    return extract(gather(data, at + low, high - low), field.bit - low * 8, field.bits).astype(np.int64)


class _Plan(Record, frozen=True, eq=False):
    """How a field is read."""

    start: int
    width: int
    """Bytes of the aligned word to read: 1, 2, 4 or 8; 0: read byte by byte (near the edge of a short structure, or nine bytes wide)."""
    wire: np.dtype[Any]
    word: np.dtype[Any]
    shift: Any
    mask: Any
    target: np.dtype[Any]


@lru_cache(4096)
def _plan(size: int, bit: int, bits: int) -> _Plan:
    """How to read `bits` bits at bit `bit` of `size` bytes. Cached, because planning costs more than reading a small column."""
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


def any_set(data: npt.NDArray[np.uint8], at: Int, stop: Int) -> Bool:
    """Whether any byte of data[at:stop] is not zero; no range may be empty."""
    edges = np.empty(2 * len(at), np.int64)
    edges[::2], edges[1::2] = at, stop
    if len(edges) and edges[-1] >= data.size:
        last = bool(data[at[-1] : stop[-1]].any())
        before: Bool = np.maximum.reduceat(data, edges[:-2])[::2] != 0 if len(edges) > 2 else np.empty(0, np.bool_)
        return np.append(before, last)
    result: Bool = np.maximum.reduceat(data, edges)[::2] != 0
    return result
