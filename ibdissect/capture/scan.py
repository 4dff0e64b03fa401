"""Where does every record of a window start? Many walkers go down the chain of record lengths at once, in NumPy.

A record's length is only known once its start is known, so a chain is walked one record after the other. Here many
walkers start at once from guessed places. A guess costs nothing when it is wrong: only walkers that the walker before
them runs into, back to the known first record, are believed; everything else is walked again, plainly.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ibdissect.record import record

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
Mask = npt.NDArray[np.bool_]

BLOCK = 65536
"""Bytes for each walker: 512 walkers in a window of 32 MiB. More of them take fewer steps, but must be given a place to start."""
FEW = 16
"""Below so many walkers a NumPy step costs more than plain steps of each."""
WIDTHS = (1024, 4096, 16384)
"""How far behind the start of its block a walker's first record is looked for, in turn."""
CANDIDATES = 1 << 18
"""More places than that are not looked at: payload that is full of the key byte must not cost memory."""
AT_ONCE = 4096
"""Rows that are turned into columns together: so many stay in the processor's cache."""


@record
class Stride:
    """How a record tells its own size: `max(least, field + plus)` bytes, the field `at` bytes behind its start."""

    dtype: str
    """`<u4`, `>u4` or `>u2`."""
    at: int
    plus: int
    least: int
    """No step is shorter, so that a zero length cannot stand still."""
    header: int
    """Bytes that must be there before a record's start counts as one."""

    def sizes(self, raw: Bytes, positions: Ints) -> Ints:
        """Sizes of the records at `positions`, each with a whole header inside `raw`."""
        sizes = unaligned(raw, self.dtype)[positions + self.at].astype(np.int64)
        sizes += self.plus
        return np.maximum(sizes, self.least, out=sizes)


def unaligned(raw: Bytes, dtype: str) -> npt.NDArray[np.generic]:
    """`raw` as overlapping values, one starting at every byte; element i is read from byte i."""
    size = np.dtype(dtype).itemsize
    return np.ndarray((max(0, len(raw) - size + 1),), dtype, buffer=raw, strides=(1,))


def gather(raw: Bytes, positions: Ints, width: int) -> Bytes:
    """`width` bytes from each of `positions`, shape (n, width); all must lie inside `raw`."""
    rows = np.ndarray((max(0, len(raw) - width + 1),), f"V{width}", buffer=raw, strides=(1,))
    return rows[positions].view(np.uint8).reshape(len(positions), width)


def looked_up(values: Bytes, table: Bytes) -> Bytes:
    """`table[values]` of a table of 256 bytes, many times as fast; read-only."""
    return np.frombuffer(values.tobytes().translate(table.tobytes()), np.uint8)


def columns(raw: Bytes, positions: Ints, *pieces: tuple[int, int]) -> Words:
    """Columns of four bytes each, uint32[words, n] as they lie in `raw`: `pieces` say from which byte behind each position, and how many.

    All must lie inside `raw`. To read such a column costs a tenth of what reading four bytes of each row of a gather does.
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
    """Starts of all records from `start` whose header ends at or before `stop`, and where the next one would start.

    Exactly what walking one record after the other gives, whatever `key` and `likely` say: `key` (byte offset and
    value that most record headers have) and `likely` (which positions look like records) only make it fast.
    The last record may reach beyond `stop`.
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
    """The same walk, one record after the other: positions below `limit` and the first one at or above it."""
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
    """A probable record start for each block, ascending, `start` first; blocks where nothing is found have none."""
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
        # One dimension is four times as fast to search as two.
        row, column = np.divmod(np.flatnonzero(hits), hits.shape[1])
        block_of = pending[row]
        positions = start + block_of * block + column
        good = chained(raw, positions, stop, stride, likely, hops=2)
        blocks, first = np.unique(block_of[good], return_index=True)
        found[blocks] = positions[good][first]
        pending = np.flatnonzero(found < 0)
    ordered: Ints = np.unique(found[found >= 0], return_index=True)[0]  # without indices it loads numpy.ma (10 ms)
    return ordered


def chained(raw: Bytes, positions: Ints, stop: int, stride: Stride, likely: Callable[[Ints], Mask], hops: int = 3, end: int = -1) -> Mask:
    """Which of `positions` start a chain of `hops` likely records, or of fewer that end exactly at byte `end`."""
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
    """Walk from each of `starts` to its limit; all positions in no order, and for each walker the first beyond."""
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
    """Keep the walkers that the chain from the first one reaches; walk what lies between them plainly."""
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
