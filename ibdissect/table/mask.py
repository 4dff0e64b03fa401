"""Where a condition holds: the one engine behind rules, TOML rules and display filters, over the columns of a chunk."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.record import record
from ibdissect.wire.catalog import StructType
from ibdissect.wire.expr import And, Arith, Compare, Expr, In, Not, Or, Present, Where
from ibdissect.wire.spec import BYTE_KINDS, Field, decode_text

from .bits import among
from .distinct import common
from .locate import Bool, Int
from .table import ChunkTable

Values = npt.NDArray[Any]

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
_ARITH: dict[str, Callable[[Any, Any], Any]] = {
    "&": np.bitwise_and, ">>": np.right_shift, "<<": np.left_shift, "+": np.add, "-": np.subtract, "*": np.multiply,
}  # fmt: skip


def rows_where(expr: Expr, table: ChunkTable) -> Bool:
    """Rows of the chunk where the condition holds, bool[n].

    A field that occurs several times in a packet: `==` and the orderings hold if any occurrence agrees, `!=` only if there is
    one and all differ, as in Wireshark 4. A field that is absent makes every comparison false.
    """
    return _Rows(table).mask(expr)


def occurrences_where(expr: Expr, table: ChunkTable, domain: StructType) -> Bool:
    """Occurrences of `domain` for which the condition holds, bool[k].

    Fields of `domain` are those of the occurrence itself; fields of another structure are those of its first occurrence in
    the same frame.
    """
    return Judged(table, domain).mask(expr)


@record
class _Series:
    """Values of an operand: one entry an occurrence, `rows` saying which row it belongs to; a constant has no rows."""

    rows: Int | None
    values: Any
    text: bool = False
    """Byte rows that are NUL-padded strings."""


class _Evaluator:
    """The boolean structure, shared by both domains."""

    def __init__(self, table: ChunkTable) -> None:
        self.table = table

    def mask(self, expr: Expr) -> Bool:
        if isinstance(expr, Compare):
            rows, left, right = self.align(self.series(expr.left), self.series(expr.right))
            return self.reduce(rows, _compare(expr.op, left, right), all_of=expr.op == "!=")
        if isinstance(expr, And):
            result = self.mask(expr.parts[0])
            for part in expr.parts[1:]:
                if not np.count_nonzero(result):
                    break
                result = result & self.mask(part)
            return result
        if isinstance(expr, In):
            series = self.series(expr.value)
            return self.reduce(series.rows, _isin(series, expr.choices), all_of=False)
        if isinstance(expr, Or):
            result = self.mask(expr.parts[0])
            for part in expr.parts[1:]:
                result = result | self.mask(part)
            return result
        if isinstance(expr, Not):
            return ~self.mask(expr.part)
        if isinstance(expr, Present):
            return self.present(expr.what)
        if isinstance(expr, Where):
            return self.where(expr)
        raise TypeError(f"{expr!r} is no condition")

    def series(self, value: Any) -> _Series:
        if isinstance(value, Field):
            return self.of_field(value)
        if isinstance(value, Arith):
            rows, left, right = self.align(self.series(value.left), self.series(value.right))
            if value.op == "&" and type(right.values) is int and right.values >= 0 and left.values.dtype.kind == "u":
                return _Series(rows, left.values & left.values.dtype.type(right.values & np.iinfo(left.values.dtype).max))
            return _Series(rows, _ARITH[value.op](_wide(left.values), _wide(right.values)))
        return _Series(None, value)

    def align(self, left: _Series, right: _Series) -> tuple[Int | None, _Series, _Series]:
        """Bring two operands to the same occurrences: entry by entry where they agree, else the first of each row."""
        if left.rows is None or right.rows is None:
            return (left.rows if right.rows is None else right.rows), left, right
        if left.rows is right.rows or np.array_equal(left.rows, right.rows):
            return left.rows, left, right
        lrows, lfirst = np.unique(left.rows, return_index=True)
        rrows, rfirst = np.unique(right.rows, return_index=True)
        rows, li, ri = common(lrows, rrows)
        return rows, _Series(rows, left.values[lfirst[li]], left.text), _Series(rows, right.values[rfirst[ri]], right.text)

    def of_field(self, field: Field[Any]) -> _Series:
        raise NotImplementedError

    def present(self, what: Any) -> Bool:
        raise NotImplementedError

    def where(self, expr: Where) -> Bool:
        raise NotImplementedError

    def reduce(self, rows: Int | None, hits: Bool, *, all_of: bool) -> Bool:
        raise NotImplementedError


class _Rows(_Evaluator):
    """Truth for each row of the chunk."""

    def of_field(self, field: Field[Any]) -> _Series:
        column = self.table.column(field)
        return _Series(column.rows, column.values, field.kind == "text")

    def present(self, what: Any) -> Bool:
        rows = self.table.column(what).rows if isinstance(what, Field) else self.table.occurrences(what).rows
        return self._scatter(rows)

    def where(self, expr: Where) -> Bool:
        if expr.of is None:
            return np.asarray(expr.holds(self.table), np.bool_)
        return self._scatter(self.table.occurrences(expr.of).rows[expr.holds(self.table)])

    def reduce(self, rows: Int | None, hits: Bool, *, all_of: bool) -> Bool:
        if rows is None:
            return np.full(len(self.table), bool(hits))
        if not all_of:
            return self._scatter(rows[hits])
        return self._scatter(rows) & ~self._scatter(rows[~hits])

    def _scatter(self, rows: Int) -> Bool:
        out = np.zeros(len(self.table), np.bool_)
        out[rows] = True
        return out


NARROW, SMALL = 4, 512
"""When a condition leaves fewer than one occurrence in NARROW, the rest of it is asked about those only - where there are so many that
this is worth it."""


class Judged(_Evaluator):
    """Truth for each occurrence of one structure, or for the `picked` ones; here `rows` of a series are positions among them.

    Conditions asked of the same object share the columns that they read.
    """

    def __init__(self, table: ChunkTable, domain: StructType, picked: Int | None = None) -> None:
        super().__init__(table)
        self.domain, self.picked = domain, picked
        self.size = len(table.occurrences(domain)) if picked is None else len(picked)
        self.all = _numbers(self.size)
        self.known: dict[Field[Any], _Series] = {}

    def mask(self, expr: Expr) -> Bool:
        if type(expr) is Compare and type(expr.right) is int and type(expr.left) is Field:  # most conditions are of this form
            series = self.of_field(expr.left)
            if series.values.ndim == 1:
                return self.reduce(series.rows, _COMPARE[expr.op](series.values, expr.right), all_of=expr.op == "!=")
        if not isinstance(expr, And):
            return super().mask(expr)
        result = self.mask(expr.parts[0])
        for part in expr.parts[1:]:
            left = int(np.count_nonzero(result))
            if not left:
                break
            if left * NARROW > self.size or self.size <= SMALL:
                result = result & self.mask(part)
                continue
            few = np.flatnonzero(result)
            narrowed = Judged(self.table, self.domain, few if self.picked is None else self.picked[few])
            result = np.zeros(self.size, np.bool_)
            result[few] = narrowed.mask(part)
        return result

    def _elsewhere(self, owner: StructType) -> Int | None:
        """Index of the occurrence of `owner` that goes with each of ours, -1 for none; None when it has the same index."""
        if owner is self.domain:
            return self.picked
        partners = self.table.partners(owner, self.domain)
        if partners is None or self.picked is None:
            return self.picked if partners is None else partners
        return partners[self.picked]

    def of_field(self, field: Field[Any]) -> _Series:
        found = self.known.get(field)
        if found is None:
            found = self.known[field] = self._read(field)
        return found

    def _read(self, field: Field[Any]) -> _Series:
        assert field.owner is not None
        values = self.table.values(field)
        keep = None if field.when is None else np.isin(self.table.values(field.when[0]), list(field.when[1]))
        where, index = self._elsewhere(field.owner), self.all
        if not len(values):
            where = index = index[:0]
        if where is not None:
            there = where >= 0
            if not there.all():
                index = np.flatnonzero(there)
                where = where[index]
            values = values[where]
            keep = None if keep is None else keep[where]
        if keep is not None:
            index, values = index[keep], values[keep]
        if field.count > 1 and field.kind not in BYTE_KINDS:
            index, values = np.repeat(index, field.count), values.ravel()
        return _Series(index, values, field.kind == "text")

    def present(self, what: Any) -> Bool:
        if isinstance(what, Field):
            out = np.zeros(self.size, np.bool_)
            out[self.of_field(what).rows] = True
            return out
        where = self._elsewhere(what)
        return np.ones(self.size, np.bool_) if where is None else where >= 0

    def where(self, expr: Where) -> Bool:
        holds: Bool = expr.holds(self.table)
        if expr.of is None:
            holds = holds[self.table.occurrences(self.domain).rows]
            return holds if self.picked is None else holds[self.picked]
        where = self._elsewhere(expr.of)
        if where is None:
            return holds
        if not len(holds):
            return np.zeros(self.size, np.bool_)
        return (where >= 0) & holds[np.maximum(where, 0)]

    def reduce(self, rows: Int | None, hits: Bool, *, all_of: bool) -> Bool:
        if rows is None:
            return np.full(self.size, bool(hits))
        if rows is self.all:
            return hits
        out = np.zeros(self.size, np.bool_)
        out[rows] = True
        if all_of:
            out[rows[~hits]] = False
            return out
        out[:] = False
        out[rows[hits]] = True
        return out


_COUNT = np.arange(1 << 17)


def _numbers(size: int) -> Int:
    """0, 1, 2 ... as a view where possible; a new array costs as much as a comparison."""
    return _COUNT[:size] if size <= len(_COUNT) else np.arange(size)


def _wide(values: Any) -> Any:
    """Integers wide enough to compute with: int64, uint64 only for 64-bit fields."""
    if isinstance(values, np.ndarray) and values.dtype.itemsize < 8:
        return values.astype(np.int64)
    return values


def _compare(op: str, left: _Series, right: _Series) -> Bool:
    if isinstance(right.values, (bytes, str)):
        return _compare_bytes(op, left, right.values)
    a, b = left.values, right.values
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype != b.dtype:
        a, b = _wide(a), _wide(b)
    if isinstance(a, np.ndarray) and a.ndim == 2:  # two byte fields
        equal = (a == b).all(axis=1) if a.shape == getattr(b, "shape", None) else np.zeros(len(a), np.bool_)
        return equal if op == "==" else ~equal
    return np.asarray(_COMPARE[op](a, b), np.bool_)


def _compare_bytes(op: str, left: _Series, wanted: bytes | str) -> Bool:
    """Byte and text fields against a constant; strings end at their first NUL, orderings are those of bytes."""
    if left.text:
        text = wanted if isinstance(wanted, str) else wanted.decode("utf-8", "replace")
        found: list[Any] = [decode_text(row.tobytes()) for row in left.values]
        return np.fromiter((_COMPARE_PY[op](value, text) for value in found), np.bool_, len(found))
    want = wanted.encode() if isinstance(wanted, str) else wanted
    if op in ("==", "!=") and left.values.ndim == 2 and left.values.shape[1] == len(want):
        equal = (left.values == np.frombuffer(want, np.uint8)).all(axis=1)
        return np.asarray(equal if op == "==" else ~equal, np.bool_)
    return np.fromiter((_COMPARE_PY[op](row.tobytes(), want) for row in left.values), np.bool_, len(left.values))


_COMPARE_PY: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: bool(a == b), "!=": lambda a, b: bool(a != b), "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b), ">": lambda a, b: bool(a > b), ">=": lambda a, b: bool(a >= b),
}  # fmt: skip


@lru_cache(1024)
def _bytes_of(choices: frozenset[int]) -> bytes:
    """Whether each byte is among `choices`, 256 bytes of 0 and 1."""
    return bytes(n in choices for n in range(256))


@lru_cache(256)
def _table_of(choices: frozenset[int]) -> Bool:
    """Whether each 16-bit number is among `choices`, bool[65536]."""
    table = np.zeros(1 << 16, np.bool_)
    table[[n for n in choices if 0 <= n < 1 << 16]] = True
    return table


FEW_CHOICES = 8
"""So many comparisons cost less than sorting does."""


def _isin(series: _Series, choices: frozenset[Any]) -> Bool:
    numbers = [c for c in choices if isinstance(c, int)]
    if len(numbers) == len(choices):
        values = series.values
        if isinstance(values, np.ndarray) and values.dtype == np.uint8:
            return among(values, _bytes_of(choices))
        if isinstance(values, np.ndarray) and values.dtype.kind in "iub":
            top = 1 if values.dtype.kind == "b" else np.iinfo(values.dtype).max
            numbers = [n for n in numbers if -(1 << 63) <= n <= top and not (n < 0 and values.dtype.kind != "i")]
            if values.dtype == np.uint16:
                return _table_of(choices)[values]
            if len(numbers) <= FEW_CHOICES:
                hits = np.zeros(values.shape, np.bool_)
                for number in numbers:
                    hits |= values == number
                return hits
            return np.asarray(np.isin(values, np.array(sorted(numbers), values.dtype)), np.bool_)
        return np.asarray(np.isin(values, numbers), np.bool_)
    result: Bool = np.zeros(len(series.values), np.bool_)
    for choice in choices:
        result |= _compare("==", series, _Series(None, choice))
    return result
