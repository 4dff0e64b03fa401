"""In which rows of a chunk does a comparison hold, if a field occurs several times in a packet?"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from ibdissect.record import record
from ibdissect.table.locate import Bool, Int
from ibdissect.table.table import ChunkTable, gather

from .literals import Network
from .needle import holding
from .pattern import Pattern
from .series import Blobs, Numbers, Series, State, alike, blobs_of, pairs
from .values import Constant, Named, Operand

_ORDER: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "===": operator.eq, "!=": operator.ne, "!==": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
ALL_OF = frozenset({"!=", "==="})
"""Operators that must hold for every value of a packet; the others for one."""
BLOCK = 1 << 20
"""Pairs of values compared at once: two tables of the same packet make thousands of pairs each."""


@record(eq=True)
class Comparison:
    """`left op right`."""

    op: str
    left: Operand
    right: Operand
    quantifier: str = ""
    pattern: Pattern | None = None

    def rows(self, table: ChunkTable, state: State) -> Bool:
        """Rows where it holds, bool[n]; where a side is absent it never does."""
        left = _operand(self.left, self.op, table, state)
        all_of = self.quantifier == "all" or (not self.quantifier and self.op in ALL_OF)
        out, against = np.zeros(len(table), np.bool_), np.zeros(len(table), np.bool_)
        for rows, hits in self._hits(left, table, state):
            out[rows[hits]] = True
            against[rows[~hits]] = True
        return out & ~against if all_of else out

    def _hits(self, left: Series, table: ChunkTable, state: State) -> list[tuple[Int, Bool]]:
        assert left.rows is not None
        if self.pattern is not None:
            assert isinstance(left, Blobs)
            return [(left.rows, self.pattern.search(left.data, left.at, left.stop))]
        if isinstance(self.right, Constant):
            return [(left.rows, against_constant(self.op, left, self.right, table, state))]
        right = _operand(self.right, self.op, table, state)
        found = []
        for start, stop in _blocks(left, right):
            rows, a, b = pairs(left.pick(np.arange(start, stop)), right)
            assert rows is not None
            found.append((rows, _compared(self.op, a, b, self.left.kind == "string")))
        return found


@record(eq=True)
class Choice:
    """`of in {choices}`; a choice is one operand, or two for a range with both ends."""

    of: Operand
    choices: tuple[tuple[Operand, ...], ...]
    quantifier: str = ""

    def rows(self, table: ChunkTable, state: State) -> Bool:
        """Rows where a value (every value, with `all`) is among the choices, bool[n]."""
        found = self.of.series(table, state)
        assert found.rows is not None
        hits = np.zeros(len(found.rows), np.bool_)
        for choice in self.choices:
            if len(choice) == 1:
                hits |= self._agrees("==", found, choice[0], table, state)
            else:
                low = self._agrees(">=", found, choice[0], table, state)
                hits |= low & self._agrees("<=", found, choice[1], table, state)
        out = np.zeros(len(table), np.bool_)
        out[found.rows[hits]] = True
        if self.quantifier == "all":
            out[found.rows[~hits]] = False
        return out

    def _agrees(self, op: str, found: Series, choice: Operand, table: ChunkTable, state: State) -> Bool:
        """For each value whether it agrees with (one value of) the choice."""
        if isinstance(choice, Constant):
            return against_constant(op, found, choice, table, state)
        right = choice.series(table, state)
        assert found.rows is not None
        hits = np.zeros(len(found.rows), np.bool_)
        for start, stop in _blocks(found, right):
            _, index, b = pairs(Numbers(found.rows[start:stop], np.arange(start, stop)), right)
            assert isinstance(index, Numbers)
            hits[index.values[_compared(op, found.pick(index.values), b, self.of.kind == "string")]] = True
        return hits


def _operand(operand: Operand, op: str, table: ChunkTable, state: State) -> Series:
    """Values of an operand; searches in a protocol go on to the end of the frame, as in Wireshark."""
    found = operand.series(table, state)
    if op in ("contains", "matches") and isinstance(operand, Named) and operand.source.whole:
        assert isinstance(found, Blobs) and found.rows is not None
        return Blobs(found.rows, found.data, found.at, table.located.end[found.rows])
    return found


def _blocks(left: Series, right: Series) -> list[tuple[int, int]]:
    """Ranges of the left values that make a bearable number of pairs each."""
    assert left.rows is not None
    if right.rows is None:
        return [(0, len(left.rows))]
    counts = np.searchsorted(right.rows, left.rows, "right") - np.searchsorted(right.rows, left.rows, "left")
    number = np.cumsum(counts) // BLOCK
    cuts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(left.rows)]
    return list(pairwise(cuts))


def against_constant(op: str, left: Series, constant: Constant, table: ChunkTable, state: State) -> Bool:
    """Each value compared with a constant, bool[k]."""
    value = constant.value
    if isinstance(value, Network):
        assert isinstance(left, Blobs)
        return _in_network(op, left, value)
    if isinstance(left, Blobs) and isinstance(value, bytes) and op not in ("<", "<=", ">", ">="):
        if op == "contains":
            return holding(left.data, left.at, left.stop, value)  # as in Wireshark, the empty string is nowhere
        same = _equal(left, value)
        return ~same if op in ("!=", "!==") else same
    return _compared(op, left, constant.series(table, state), constant.kind == "string")


def _equal(left: Blobs, value: bytes) -> Bool:
    same = left.stop - left.at == len(value)
    index = np.flatnonzero(same)
    if len(index) and value:
        rows = gather(left.data, left.at[index], len(value))
        same[index] = (rows == np.frombuffer(value, np.uint8)).all(axis=1)
    return np.asarray(same, np.bool_)


def _in_network(op: str, left: Blobs, network: Network) -> Bool:
    """Compare only the bits of the prefix."""
    size = len(network.address)
    mask = ((1 << network.bits) - 1 << size * 8 - network.bits).to_bytes(size, "big")
    prefix = bytes(a & b for a, b in zip(network.address, mask, strict=True))
    rows = gather(left.data, left.at, size) & np.frombuffer(mask, np.uint8)
    masked = blobs_of(left.rows, [row.tobytes() for row in rows])
    return _compared(op, masked, blobs_of(None, [prefix]))


def _compared(op: str, left: Series, right: Series, text: bool = False) -> Bool:
    """Value by value; a constant side has one value. `text`: the sequences are strings."""
    if isinstance(left, Numbers) and isinstance(right, Numbers):
        return np.asarray(_ORDER[op](*alike(left.values, right.values)), np.bool_)
    assert isinstance(left, Blobs) and isinstance(right, Blobs)
    ours, theirs = left.items(), right.items()
    if right.rows is None:
        theirs = theirs * len(ours)
    if op == "contains":
        return np.array([bool(b) and b in a for a, b in zip(ours, theirs, strict=True)], np.bool_)
    compare = _ORDER[op]
    if text:
        return np.array([compare(a, b) for a, b in zip(ours, theirs, strict=True)], np.bool_)
    # Wireshark orders bytes by their number first.
    return np.array([compare((len(a), a), (len(b), b)) for a, b in zip(ours, theirs, strict=True)], np.bool_)
