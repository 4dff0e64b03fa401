"""Operands of display filters and their values in a chunk, for filters and for columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.comparisons import Network, computed
from ibdissect.decode.conditions import Evaluator
from ibdissect.decode.hidden.cut_keys import hidden_checksums, hides, without_keys
from ibdissect.decode.operand_values import Blobs, NumberSeries, Series, Values, alike, blobs_of, constant, joined, pairs
from ibdissect.engine.offsets import MALFORMED
from ibdissect.wire.spec import Field
from ibdissect.wire.text import gid_text

from .frame_properties import State, texts_of, values_of
from .literals import Value
from .names import Kind, NameSource


class Operand(Record, frozen=True):
    kind: Kind

    def series(self, evaluator: Evaluator) -> Series:
        raise NotImplementedError


class Constant(Operand, frozen=True):
    """A value from the filter's text."""

    value: Value

    def series(self, evaluator: Evaluator) -> Series:
        assert not isinstance(self.value, Network)
        return constant(self.value)


class NamedOperand(Operand, frozen=True):
    """A field, a structure or a property of the frame."""

    source: NameSource
    state: State
    to_end: bool = False
    """Whether the bytes of a structure extend to the end of the frame."""

    def series(self, evaluator: Evaluator) -> Series:
        found = self.read(evaluator)
        return self.hidden_bytes(evaluator, found) if isinstance(found, Blobs) else found

    def hidden_bytes(self, evaluator: Evaluator, found: Blobs) -> Blobs:
        """The same bytes of the packet, with those of keys as zeros if keys are hidden."""
        if self.state.hide_keys and found.data is evaluator.table.chunk.data:
            return Blobs(found.rows, evaluator.table.once(without_keys), found.at, found.stop, found.text)
        return found

    def read(self, evaluator: Evaluator) -> Series:
        """The captured values, including keys."""
        source, table = self.source, evaluator.table
        if source.fields:
            return joined([self._shown(evaluator, field) for field in source.fields])
        if not source.structs:
            return values_of(source.name, table, self.state)
        parts = [table.occurrences(struct) for struct in source.structs]
        found = joined([Blobs(each.rows, table.chunk.data, each.at, each.stop) for each in parts])
        if not self.to_end:
            return found
        assert isinstance(found, Blobs) and found.rows is not None
        return Blobs(found.rows, found.data, found.at, table.located.end[found.rows])

    def _shown(self, evaluator: Evaluator, field: Field[Any]) -> Series:
        """The values of a field, without checksums that would reveal a hidden key."""
        found = evaluator.series(field)
        if not self.state.hide_keys or field.holds != "checksum" or found.rows is None:
            return found
        assert isinstance(found, NumberSeries)
        rows = found.rows if evaluator.rows is None else evaluator.rows[found.rows]
        shown = np.flatnonzero(~hidden_checksums(evaluator.table, rows, found.values))
        self.state.hidden_checksums += len(rows) - len(shown)
        return found.pick(shown)


class ByteRange(Operand, frozen=True):
    """Bytes of another operand; `ranges` are (start, stop), stop None: to the end, negative numbers: from the end."""

    of: Operand
    ranges: tuple[tuple[int, int | None], ...]

    def series(self, evaluator: Evaluator) -> Series:
        whole = self.of.series(evaluator)
        assert isinstance(whole, Blobs)
        size = whole.stop - whole.at
        parts = []
        good = np.ones(len(size), np.bool_)
        for start, stop in self.ranges:
            first = size + start if start < 0 else np.full(len(size), start, np.int64)
            last = size if stop is None else size + stop if stop < 0 else np.full(len(size), stop, np.int64)
            good &= (first >= 0) & (last <= size) & (first < last)
            parts.append((whole.at + first, whole.at + last))
        index = np.flatnonzero(good)
        rows = None if whole.rows is None else whole.rows[index]
        if len(parts) == 1:
            return Blobs(rows, whole.data, parts[0][0][index], parts[0][1][index])
        items = [Blobs(rows, whole.data, at[index], stop[index]).items() for at, stop in parts]
        return blobs_of(rows, [b"".join(pieces) for pieces in zip(*items, strict=True)])


class Computation(Operand, frozen=True):
    """`left op right`."""

    op: str
    left: Operand
    right: Operand

    def series(self, evaluator: Evaluator) -> Series:
        _, left, right = pairs(self.left.series(evaluator), self.right.series(evaluator))
        return computed(self.op, left, right)


class NotZero(Operand, frozen=True):
    """The nonzero values of another operand."""

    of: Operand

    def series(self, evaluator: Evaluator) -> Series:
        found = self.of.series(evaluator)
        there = found.values != 0 if isinstance(found, NumberSeries) else np.array([any(item) for item in found.items()], np.bool_)
        return found.pick(np.flatnonzero(there))


class Function(Operand, frozen=True):
    """`name(arguments)`."""

    name: str
    arguments: tuple[Operand, ...]

    def series(self, evaluator: Evaluator) -> Series:
        found = [argument.series(evaluator) for argument in self.arguments]
        first = found[0]
        if self.name in ("min", "max"):
            return _extreme(self.name, [each for each in found if isinstance(each, NumberSeries)], evaluator.size)
        if self.name == "count":
            assert first.rows is not None
            rows, counts = np.unique(first.rows, return_counts=True)
            return NumberSeries(rows, counts.astype(np.int64))
        if self.name == "len":
            if isinstance(first, Blobs):
                return NumberSeries(first.rows, first.stop - first.at)
            argument = self.arguments[0]
            bits = max((each.bits for each in argument.source.fields), default=32) if isinstance(argument, NamedOperand) else 32
            return NumberSeries(first.rows, np.full(len(first.values), (bits + 7) // 8, np.int64))
        if self.name == "abs":
            assert isinstance(first, NumberSeries)
            return NumberSeries(first.rows, first.values if first.values.dtype.kind == "u" else np.abs(first.values))
        if isinstance(first, NumberSeries):
            return blobs_of(first.rows, [str(value).encode() for value in first.values.tolist()], text=True)
        spell = _SPELL[self.arguments[0].kind if self.name == "string" else self.name]
        return blobs_of(first.rows, [spell(item) for item in first.items()], text=True)


_SPELL: Mapping[str, Callable[[bytes], bytes]] = {
    "upper": bytes.upper, "lower": bytes.lower, "bytes": lambda item: item.hex().encode(), "string": lambda item: item,
    "ether": lambda item: item.hex(":").encode(), "ipv4": lambda item: ".".join(map(str, item)).encode(),
    "ipv6": lambda item: gid_text(item).encode(),
}  # fmt: skip


def _extreme(name: str, found: list[NumberSeries], n: int) -> NumberSeries:
    """The smallest or largest value of all arguments in each entry that has a value of any argument from the packet."""
    choose = np.minimum if name == "min" else np.maximum
    best: Values = np.zeros(n, np.int64)
    there = np.zeros(n, np.bool_)
    for each in sorted(found, key=lambda numbers: numbers.rows is None):
        rows = np.flatnonzero(there) if each.rows is None else each.rows
        values = np.broadcast_to(each.values, rows.shape)
        best, values = alike(best, values)
        best = best.copy()
        fresh = rows[~there[rows]]
        best[fresh] = values[~there[rows]]
        choose.at(best, rows, values)
        there[rows] = True
    rows = np.flatnonzero(there)
    return NumberSeries(rows, best[rows])


def column(source: NameSource, table: ChunkTable, state: State, rows: Int) -> tuple[Int, Values, Bool]:
    """The values of a name that is not a declared field in some rows of a chunk (ascending), for columns.

    Returns the row of each value, the values, and which of them are hidden as keys.
    Numbers and times in nanoseconds are integers, marks without a value 1; strings are text, bytes hex digits.
    """
    of_row, values = rows, np.ones(len(rows), np.int64)
    table = table.shown
    if source.name == "_ws.malformed":
        of_row = rows[table.located.malformed[rows] != 0]
        values = np.array(MALFORMED, object)[table.located.malformed[of_row]]
    elif source.kind == "string":
        of_row, texts = texts_of(source.name, table, state, rows)
        values = np.empty(len(texts), object)
        values[:] = texts
    elif source.mark is not None:
        of_row = rows[Evaluator(table).mask(source.mark)[rows]]
        values = np.ones(len(of_row), np.int64)
    else:
        return _read(NamedOperand(source.kind, source, state), table, rows)
    return of_row, values, np.zeros(len(of_row), np.bool_)


def _read(named: NamedOperand, table: ChunkTable, rows: Int) -> tuple[Int, Values, Bool]:
    evaluator = Evaluator(table)
    found = named.read(evaluator)
    assert found.rows is not None
    if len(rows) < len(table):
        found = found.pick(np.flatnonzero(np.isin(found.rows, rows)))
    assert found.rows is not None
    if not isinstance(found, Blobs):
        return found.rows, found.values, np.zeros(len(found.rows), np.bool_)
    texts = np.empty(len(found.rows), object)
    texts[:] = [item.hex() for item in found.items()]
    secret = named.state.hide_keys and found.data is table.chunk.data
    return found.rows, texts, hides(table, found.at, found.stop) if secret else np.zeros(len(texts), np.bool_)
