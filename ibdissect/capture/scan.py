"""Where does every record of a window start? Many walkers follow the chain of record lengths at once, in NumPy.

A record's length is known only once its start is known, so a chain must be walked record by record. Here many walkers start
at once from guessed positions. A wrong guess does no harm: a walker is trusted only if the chain from the known first record
arrives at its start; everything else is walked again one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from .scattered import Bytes, Ints, unaligned

Mask = npt.NDArray[np.bool_]

BLOCK = 65536
"""Bytes per walker: 192 walkers in a window of 12 MiB. More walkers need fewer steps but more guesses."""
FEW = 16
"""Below this many walkers, a NumPy step costs more than one plain step per walker."""
WIDTHS = (1024, 4096, 16384)
"""How far from the start of its block a walker's first record is searched, tried in turn."""
CANDIDATES = 1 << 18
"""If there are more candidates, stop guessing: payload full of the key byte must not use up memory."""


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


def walk(
    raw: Bytes,
    start: int,
    stop: int,
    stride: Stride,
    key: tuple[int, int],
    likely: Callable[[Ints], Mask],
    block: int = BLOCK,
    few: int = FEW,
) -> tuple[Ints, int]:
    """All record starts from `start` whose header ends at or before `stop`, and where the next one would start.

    The result is that of walking record by record: `key` (byte offset and value common to most record headers) and `likely`
    (which positions look like records) only make it faster. The last record may extend beyond `stop`.
    """
    limit = stop - stride.header + 1
    if limit - start < few * block:
        positions, end = _plain(raw, start, limit, stride)
        return np.array(positions, np.int64), end
    guesses = _guess(raw, start, stop, stride, key, likely, block)
    limits = np.append(guesses[1:], limit)
    positions_, ends = _lockstep(raw, guesses, limits, stride, few)
    wrong = np.flatnonzero(ends[:-1] != guesses[1:])
    if not wrong.size:
        positions_.sort()
        return positions_, int(ends[-1])
    return _repair(raw, limit, stride, guesses, positions_, ends)


def _plain(raw: Bytes, start: int, limit: int, stride: Stride) -> tuple[list[int], int]:
    """Walk record by record: positions below `limit`, and the first one at or above it."""
    unpack = struct.Struct({"<u4": "<I", ">u4": ">I", ">u2": ">H"}[stride.dtype]).unpack_from
    view, at, plus, least = raw.data, stride.at, stride.plus, stride.least
    positions = []
    position = start
    while position < limit:
        positions.append(position)
        size = unpack(view, position + at)[0] + plus
        position += size if size > least else least
    return positions, position


def _guess(raw: Bytes, start: int, stop: int, stride: Stride, key: tuple[int, int], likely: Callable[[Ints], Mask], block: int) -> Ints:
    """A probable record start per block, ascending, `start` first; none for blocks in which none is found."""
    offset, value = key
    count = (stop - start - offset) // block
    rows = np.lib.stride_tricks.as_strided(raw[start + offset :], (count, block), (block, 1), writeable=False)
    found = np.full(count, -1, np.int64)
    found[0] = start
    pending = np.arange(1, count)
    for width in WIDTHS:
        hits = rows[pending, :width] == value if width != WIDTHS[0] else rows[1:, :width] == value
        if not pending.size or np.count_nonzero(hits) > CANDIDATES:
            break
        # Searching one dimension is four times as fast as two.
        row, column = np.divmod(np.flatnonzero(hits), hits.shape[1])
        block_of = pending[row]
        positions = start + block_of * block + column
        good = chained(raw, positions, stop, stride, likely, hops=2)
        blocks, first = np.unique(block_of[good], return_index=True)
        found[blocks] = positions[good][first]
        pending = np.flatnonzero(found < 0)
    return np.unique(found[found >= 0], return_index=True)[0]  # without indices it imports numpy.ma (10 ms)


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


def _lockstep(raw: Bytes, starts: Ints, limits: Ints, stride: Stride, few: int) -> tuple[Ints, Ints]:
    """Walk from each of `starts` to its limit: all positions, unordered, and each walker's first position at or above its limit."""
    lengths = unaligned(raw[stride.at :], stride.dtype)
    plus, least = stride.plus, stride.least
    bounded = least > plus
    ends = np.empty_like(starts)
    walker = np.arange(len(starts))
    at = starts
    taken = []
    while at.size >= few:
        taken.append(at)
        if bounded:
            after = at + np.maximum(lengths[at].astype(np.int64) + plus, least)
        else:
            after = at + plus
            after += lengths[at].astype(np.int64)
        inside = after < limits
        if np.count_nonzero(inside) < len(inside):
            done = ~inside
            ends[walker[done]] = after[done]
            after, walker, limits = after[inside], walker[inside], limits[inside]
        at = after
    for index, position, limit in zip(walker.tolist(), at.tolist(), limits.tolist(), strict=True):
        rest, ends[index] = _plain(raw, position, limit, stride)
        taken.append(np.array(rest, np.int64))
    return np.concatenate(taken), ends


def _repair(raw: Bytes, limit: int, stride: Stride, guesses: Ints, positions: Ints, ends: Ints) -> tuple[Ints, int]:
    """Keep the walkers that the chain from the first one reaches; walk between them record by record."""
    starts = guesses.tolist()
    reached = np.zeros(len(starts), np.bool_)
    extra: list[int] = []
    index, at = 0, starts[0]
    while True:
        if index < len(starts) and at == starts[index]:
            reached[index] = True
            at = int(ends[index])
            index += 1
            continue
        while index < len(starts) and starts[index] < at:
            index += 1
        if index < len(starts) and at == starts[index]:
            continue
        if at >= limit:
            break
        between, at = _plain(raw, at, min(limit, starts[index]) if index < len(starts) else limit, stride)
        extra += between
    owner = np.searchsorted(guesses, positions, "right") - 1
    kept = np.concatenate([positions[reached[owner]], np.array(extra, np.int64)])
    kept.sort()
    return kept, at
