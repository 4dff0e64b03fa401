"""Evaluation of conditions, for rules, TOML rules and display filters, over the columns of a chunk.

The meaning of a comparison, the same everywhere and in Wireshark 4:

- A condition is evaluated for each *entry*: each frame of the chunk (`rows_where`; display filters and TOML rules), or each
  occurrence of one structure (`occurrences_where`, `Evaluator`; a rule's `when` is evaluated for each occurrence of its `on`).
- A field may have several values in an entry. If entries are occurrences, a field of that structure has the values of that
  occurrence only, so that fields of the same structure belong together; a field of any other structure has the values of all its
  occurrences in the same frame.
- A comparison holds if *any* value on the left and *any* value on the right satisfy it. `!=` (all differ) and `===` (all
  equal) must hold for *every* pair instead, `!==` (any differs) for one; the quantifiers `any` and `all` override the operator.
- A comparison with a side that has no value is false, whatever the operator.
- Arithmetic is applied to every pair of values in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, Protocol, cast

import numpy as np

from ibdissect.capture.gather import flags, looked_up
from ibdissect.wire.catalog import StructType
from ibdissect.wire.column import ComputedField
from ibdissect.wire.dialogue import is_notes
from ibdissect.wire.expr import Among, And, Arith, Compare, Expr, In, Not, Or, Present, Search, Where
from ibdissect.wire.spec import Field

from .chunk_table import NO_NUMBERS, ChunkTable
from .comparisons import Network, against, against_number, compared, computed
from .inner_structures import owners_of, parts_of
from .locate import Bool, Int
from .operand_values import Blobs, NumberSeries, Series, Values, all_of_each, constant, equal_pairs, pairs, stretches

EVERY_PAIR = frozenset({"!=", "==="})
"""Operators that must hold for every pair of values; others need one pair."""
NARROW, SMALL = 4, 512
"""Above SMALL entries: if part of an AND holds for fewer than one in NARROW, the other parts are evaluated for those entries only."""
BLOCK = 1 << 20
"""Pairs of values compared at once; two tables in one packet can make thousands of pairs."""
FEW_CHOICES = 8
"""Up to this many choices, comparing with each is cheaper than sorting."""


def rows_where(expr: Expr, table: ChunkTable) -> Bool:
    """Rows of the chunk where the condition holds, bool[n]."""
    return Evaluator(table).mask(expr)


def occurrences_where(expr: Expr, table: ChunkTable, domain: StructType) -> Bool:
    """Occurrences of `domain` for which the condition holds, bool[k]."""
    return Evaluator(table, domain).mask(expr) if len(table.occurrences(domain)) else np.zeros(0, np.bool_)


class HasValues(Protocol):
    """An operand with its own code, such as a display filter function."""

    def series(self, evaluator: Evaluator) -> Series:
        """Its values in the judged entries."""


class Evaluator:
    """Evaluates conditions for each row of a chunk or each occurrence of one structure (`domain`), or only for the `picked` ones.

    Conditions evaluated by the same object share the columns that they read.
    """

    def __init__(self, table: ChunkTable, domain: StructType | None = None, picked: Int | None = None) -> None:
        self.table, self.domain, self.picked = table, domain, picked
        self.size = len(picked) if picked is not None else self.count()
        self.all = _numbers(self.size)
        self.known: dict[Field[Any], Series] = {}
        self.known_places: dict[StructType, tuple[Int, Int | None]] = {}

    def count(self) -> int:
        """How many entries there are to judge."""
        return len(self.table) if self.domain is None else len(self.table.occurrences(self.domain))

    # -- conditions

    def mask(self, expr: Expr) -> Bool:
        """Entries for which a condition holds, bool[size]."""
        if isinstance(expr, Compare):
            return self.compare(expr)
        if isinstance(expr, And):
            return self.conjunction(expr)
        if isinstance(expr, In):
            series = self.series(expr.value)
            return self.reduce(series.rows, _isin(series, expr.choices))
        if isinstance(expr, Or):
            result = self.mask(expr.parts[0])
            for part in expr.parts[1:]:
                result = result | self.mask(part)
            return result
        if isinstance(expr, Not):
            return ~self.mask(expr.part)
        if isinstance(expr, Present):
            return self.reduce(*self.present(expr.what))
        if isinstance(expr, Where):
            return self.where(expr)
        if isinstance(expr, Among):
            series = self.series(expr.value)
            return self.reduce(series.rows, self.among(series, expr.choices), every=expr.every)
        if isinstance(expr, Search):
            found = self.series(expr.value)
            assert isinstance(found, Blobs)
            return self.reduce(found.rows, expr.search(found.data, found.at, found.stop), every=expr.every)
        raise TypeError(f"{expr!r} is not a condition")

    def compare(self, expr: Compare) -> Bool:
        """Entries for which a comparison holds, see the module docstring."""
        every = expr.op in EVERY_PAIR if expr.every is None else expr.every
        left, right = self.series(expr.left), expr.right
        if type(right) is int and isinstance(left, NumberSeries):  # most conditions are of this form
            return self.reduce(left.rows, against_number(expr.op, left.values, right), every=every)
        if isinstance(right, (int, bytes, str, Network)):
            return self.reduce(left.rows, against(expr.op, left, right), every=every)
        other = self.series(right)
        if absent(left) or absent(other):
            return np.zeros(self.size, np.bool_)
        if left.rows is not other.rows:  # often one side has a value in each entry: no pairs to look for
            if left.rows is self.all and other.rows is not None:
                return self.reduce(other.rows, compared(expr.op, left.pick(other.rows), other), every=every)
            if other.rows is self.all and left.rows is not None:
                return self.reduce(left.rows, compared(expr.op, left, other.pick(left.rows)), every=every)
        out, against_it = np.zeros(self.size, np.bool_), np.zeros(self.size, np.bool_)
        for entries, hits, _ in _pairwise(expr.op, left, other):
            if entries is None:
                return self.reduce(None, hits, every=every)
            out[entries[hits]] = True
            if every:
                against_it[entries[~hits]] = True
        return out & ~against_it

    def conjunction(self, expr: And) -> Bool:
        """Entries for which all parts hold. Once few entries are left, only these are judged further."""
        if not expr.parts:
            return np.ones(self.size, np.bool_)
        result = self.mask(expr.parts[0])
        for part in expr.parts[1:]:
            left = int(np.count_nonzero(result))
            if not left:
                break
            if self.domain is None or left * NARROW > self.size or self.size <= SMALL:
                result = result & self.mask(part)
                continue
            few = np.flatnonzero(result)
            narrowed = self.narrowed(few if self.picked is None else self.picked[few])
            result = np.zeros(self.size, np.bool_)
            result[few] = narrowed.mask(part)
        return result

    def narrowed(self, picked: Int) -> Evaluator:
        """An evaluator of some occurrences alone."""
        return Evaluator(self.table, self.domain, picked)

    def present(self, what: object) -> tuple[Int | None, Bool]:
        """The entries that contain a structure, field or value, each with True."""
        entries = self.places(what)[0] if isinstance(what, type) else self.series(what).rows
        assert entries is not None
        return entries, np.ones(len(entries), np.bool_)

    def where(self, expr: Where) -> Bool:
        """Entries in which a rule's function holds for any occurrence of its structure."""
        holds: Bool = np.asarray(expr.holds(self.table), np.bool_)
        if expr.of is None:
            rows = self.rows
            return holds if rows is None else holds[rows]
        entries, which = self.places(expr.of if isinstance(expr.of, type) else expr.of.owner)
        return self.reduce(entries, holds if which is None else holds[which])

    def among(self, series: Series, choices: tuple[tuple[object, ...], ...]) -> Bool:
        """For each value whether it equals a choice, or lies in a range of choices."""
        assert series.rows is not None
        hits = np.zeros(len(series.rows), np.bool_)
        for choice in choices:
            if len(choice) == 1:
                hits |= self.agrees("==", series, choice[0])
            else:
                hits |= self.agrees(">=", series, choice[0]) & self.agrees("<=", series, choice[1])
        return hits

    def agrees(self, op: str, series: Series, choice: object) -> Bool:
        """For each value whether the comparison with any value of the choice holds."""
        if isinstance(choice, (int, bytes, str, Network)):
            return against(op, series, choice)
        assert series.rows is not None
        hits = np.zeros(len(series.rows), np.bool_)
        for _, found, index in _pairwise(op, series, self.series(choice)):
            hits[index[found]] = True
        return hits

    def reduce(self, entries: Int | None, hits: Bool, *, every: bool = False) -> Bool:
        """Combine the results per value into one per entry: any value must hold, or every value."""
        if entries is None:
            return np.full(self.size, bool(hits.all()))
        if entries is self.all:
            return hits
        out = np.zeros(self.size, np.bool_)
        out[entries[hits]] = True
        if every:
            out[entries[~hits]] = False
        return out

    # -- values

    def series(self, operand: object) -> Series:
        if isinstance(operand, Field):
            found = self.known.get(operand)
            if found is None:
                found = self.known[operand] = self._read(operand)
            return found
        if isinstance(operand, Arith):
            _, left, right = pairs(self.series(operand.left), self.series(operand.right))
            return computed(operand.op, left, right)
        if isinstance(operand, (int, bytes, str)):
            return constant(operand)
        assert hasattr(operand, "series"), operand
        return cast("HasValues", operand).series(self)

    @property
    def rows(self) -> Int | None:
        """The row of each entry; None if the entries are the rows."""
        if self.domain is None:
            return self.picked
        rows = self.table.occurrences(self.domain).rows
        return rows if self.picked is None else rows[self.picked]

    def places(self, owner: StructType) -> tuple[Int, Int | None]:
        """Where a structure occurs in the entries: the entry of each occurrence, ascending, and its index (None: all, in order)."""
        found = self.known_places.get(owner)
        if found is None:
            found = self.known_places[owner] = self._places(owner)
        return found

    def _places(self, owner: StructType) -> tuple[Int, Int | None]:
        if owner is self.domain:
            return self.all, self.picked
        if self.domain is not None and owner in parts_of(self.domain):
            of = owners_of(self.table, self.domain, owner)
            entry = np.full(len(self.table.occurrences(self.domain)) + 1, -1, np.int64)
            entry[np.arange(len(entry) - 1) if self.picked is None else self.picked] = self.all
            order = np.argsort(entry[of], kind="stable")
            order = order[entry[of][order] >= 0]
            return entry[of][order], order
        there = self.table.occurrences(owner).rows
        rows = self.rows
        if rows is None:
            return (self.all if len(there) == self.size and _rising(there) else there), None
        if not len(there):
            return there, there
        if not _rising(there):
            counts = np.bincount(there, minlength=len(self.table))[rows]
            return all_of_each(self.table.first(owner)[rows], counts)
        assert self.domain is not None
        theirs = partners(self.table, owner, self.domain)
        if theirs is None:
            return self.all, self.picked
        which = theirs if self.picked is None else theirs[self.picked]
        if (which >= 0).all():
            return self.all, which
        entries = np.flatnonzero(which >= 0)
        return entries, which[entries]

    def _read(self, field: Field[Any]) -> Series:
        """The values of a field that are read."""
        found, which = self._carried(field)
        read = self.table.read_mask(field, which)
        found = found if read is None else found.pick(np.flatnonzero(read))
        if isinstance(found, Blobs) and isinstance(field, ComputedField) and is_notes(field):  # it is there where it says something
            return found.pick(np.flatnonzero(found.stop > found.at))
        return found

    def _carried(self, field: Field[Any]) -> tuple[Series, Int | None]:
        """The values of a field, and the occurrences of its structure that have it (None: all)."""
        table = self.table
        entries, which = self.places(field.owner)
        if field.when is not None:
            keep = np.flatnonzero(np.isin(_taken(table.values(field.when[0]), which), list(field.when[1])))
            entries, which = entries[keep], keep if which is None else which[keep]
        if field.kind in NO_NUMBERS or field.kind == "rest" or field.bits > 64:
            return stretches(table, field, entries, which), which
        values = _taken(table.values(field), which)
        if field.count > 1:
            entries, values = np.repeat(entries, field.count), values.ravel()
        return NumberSeries(entries, values.view(np.uint8) if values.dtype.kind == "b" else values), which


def _taken(values: Values, which: Int | None) -> Values:
    return values if which is None else values[which]


def absent(series: Series) -> bool:
    """Whether there is no value in any entry."""
    return series.rows is not None and not len(series.rows)


def _rising(rows: Int) -> bool:
    """Whether no row is repeated."""
    return bool((rows[1:] > rows[:-1]).all())


def _pairwise(op: str, left: Series, right: Series) -> Iterator[tuple[Int | None, Bool, Int]]:
    """Compare every pair of values, in blocks: the entry of each pair, whether it holds, and the index of its left value."""
    if left.rows is None or right.rows is None:
        size = max(1 if each.rows is None else len(each.rows) for each in (left, right))
        yield (left.rows if right.rows is None else right.rows), np.broadcast_to(compared(op, left, right), size), np.arange(size)
        return
    if left.rows is right.rows and _rising(left.rows):  # the usual case: one value each
        yield left.rows, compared(op, left, right), np.arange(len(left.rows))
        return
    edges = []
    if len(left.rows) * len(right.rows) > BLOCK:
        counts = np.searchsorted(right.rows, left.rows, "right") - np.searchsorted(right.rows, left.rows, "left")
        edges = (np.flatnonzero(np.diff(np.cumsum(counts) // BLOCK)) + 1).tolist()
    for start, stop in pairwise([0, *edges, len(left.rows)]):
        li, ri = equal_pairs(left.rows[start:stop], right.rows)
        li += start
        yield left.rows[li], compared(op, left.pick(li), right.pick(ri)), li


_COUNT = np.arange(1 << 17)


def _numbers(size: int) -> Int:
    """0, 1, 2 ..., if possible as a view: a new array costs as much as a comparison."""
    return _COUNT[:size] if size <= len(_COUNT) else np.arange(size)


_BYTES = frozenset(range(256))


@lru_cache(1024)
def _bytes_of(choices: frozenset[int | bytes | str]) -> Bool:
    """Whether each byte is among `choices`, bool[256]."""
    return flags(map(int, choices & _BYTES))


@lru_cache(256)
def _table_of(choices: frozenset[int | bytes | str]) -> Bool:
    """Whether each 16-bit number is among `choices`, bool[65536]."""
    table = np.zeros(1 << 16, np.bool_)
    table[[n for n in choices if isinstance(n, int) and 0 <= n < 1 << 16]] = True
    return table


def _isin(series: Series, choices: frozenset[int | bytes | str]) -> Bool:
    """Which values are in a set of constants."""
    if isinstance(series, Blobs) or (len(choices) <= FEW_CHOICES and series.values.dtype.itemsize > 2):
        hits = np.zeros(len(series.values) if isinstance(series, NumberSeries) else len(series.at), np.bool_)
        for choice in choices:
            hits |= against("==", series, choice)
        return hits
    values = series.values
    if values.dtype == np.uint8:
        return looked_up(values, _bytes_of(choices))
    if values.dtype == np.uint16:
        return _table_of(choices)[values]
    numbers = [choice for choice in choices if isinstance(choice, int)]
    if values.dtype.kind == "O":
        return np.asarray(np.logical_or.reduce([against_number("==", values, number) for number in numbers]), np.bool_)
    limits = np.iinfo(values.dtype)
    fitting = sorted(number for number in numbers if limits.min <= number <= limits.max)
    return np.asarray(np.isin(values, np.array(fitting, values.dtype)), np.bool_)


def partners(table: ChunkTable, struct: StructType, of: StructType) -> Int | None:
    """For each occurrence of `of` the index of the first occurrence of `struct`, which occurs, in its frame, -1 for none.

    None if both occur once in the same frames: then the index is that of `of` itself.
    """
    known: dict[tuple[StructType, StructType], Int | None] = table.results(partners)
    if (struct, of) not in known:
        mine, theirs = table.occurrences(struct).rows, table.occurrences(of).rows
        paired = len(mine) == len(theirs) and bool((mine == theirs).all() and (mine[1:] > mine[:-1]).all())
        known[struct, of] = None if paired else table.first(struct)[theirs]
    return known[struct, of]
