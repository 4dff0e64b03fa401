"""Values of filter names in the rows of a chunk: a column for each name, a cell for each frame; no pyarrow here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.equal_rows import python_values
from ibdissect.decode.find_structures import HEADERS
from ibdissect.decode.locate import EXTENDED_STRUCTS
from ibdissect.decode.reassembled import in_order
from ibdissect.dfilter.frame_properties import State
from ibdissect.dfilter.names import NameSource, names_of
from ibdissect.dfilter.operands import column as undeclared
from ibdissect.dissect import named_values
from ibdissect.dissect.named_values import FieldValues
from ibdissect.wire.catalog import BOTH, Catalog, StructType
from ibdissect.wire.column import ComputedField
from ibdissect.wire.convert import decode_text
from ibdissect.wire.encapsulation import AROUND_TUNNELS
from ibdissect.wire.numbers import SA_CLASS
from ibdissect.wire.places import Mad, MadFormat
from ibdissect.wire.spec import BIT_KINDS, Field, Struct
from ibdissect.wire.text import plain_value, value_text

Cell = npt.NDArray[Any]
OF_KIND = {"uint": "int64", "bool": "bool", "abstime": "seconds", "reltime": "seconds", "none": "bool"}
"""Types of values by kind, for names that are not declared fields; others are text."""
OF_NAME = {"frame.time": "time", "frame.interface_id": "int32", "_ws.malformed": "text"}
NAME = ".name"
"""Behind the filter name of a code: its meaning as text."""
SEVERAL = frozenset({"ibdissect.code", "ibdissect.rule", "ibdissect.severity", "ibdissect.node", "frame.comment", "tcp.port"})
"""Names of the frame that may have several values."""


@dataclass(frozen=True, slots=True)
class NamedColumn:
    source: NameSource
    """What the name means."""
    name: str
    """Canonical filter name."""
    fields: tuple[Field[Any], ...]
    """Empty for a name that no structure declares."""
    type: str
    """Type of one value: bool, integers as wide as the field (uint8 ... uint64, int32, int64), time (nanoseconds UTC), seconds (nine
    decimals), text for all else: addresses, hex digits of bytes."""
    repeats: bool
    """Whether a frame may have several values; then a cell is a list."""
    meaning: bool = False
    """The values are what its codes mean."""

    @property
    def dtype(self) -> npt.DTypeLike:
        return {"text": object, "time": np.int64, "seconds": np.int64}.get(self.type, self.type)


def named_columns(catalog: Catalog, names: Iterable[str], *, first: bool = False) -> list[NamedColumn]:
    """The columns for filter names. Raises FilterError for an unknown name. `first`: only first values, no lists."""
    found: dict[str, NamedColumn] = {}
    for name in names:
        if coded := meanings(catalog, name):
            column = named_columns(catalog, [name.removesuffix(NAME)], first=first)[0]
            found[column.name + NAME] = replace(column, name=column.name + NAME, fields=coded, type="text", meaning=True)
            continue
        fields = named_values.declared(catalog, name)
        source = names_of(catalog).named(name)
        if fields:
            full = name if name in BOTH else fields[0].filter_name
            found[full] = NamedColumn(source, full, fields, _type(fields), not first and _repeats(catalog, _own(fields)))
        else:
            kind = OF_NAME.get(source.name) or OF_KIND.get(source.kind, "text")
            several = source.name in SEVERAL or bool(source.structs or source.fields)
            found[source.name] = NamedColumn(source, source.name, (), kind, not first and several)
    return list(found.values())


def meanings(catalog: Catalog, name: str) -> tuple[Field[Any], ...]:
    """The fields of whose codes a name such as `infiniband.portinfo.portstate.name` asks the meanings; none for other names."""
    if not name.endswith(NAME) or names_of(catalog).find(name) is not None or names_of(catalog).find(name.removesuffix(NAME)) is None:
        return ()
    fields = named_values.declared(catalog, name.removesuffix(NAME))
    return fields if any(field.values is not None or field.show is not None for field in fields) else ()


def _own(fields: tuple[Field[Any], ...]) -> tuple[Field[Any], ...]:
    """The fields of the packet's own headers, without those around a tunnel: a column of single values has theirs."""
    return tuple(field for field in fields if field.owner not in AROUND_TUNNELS)


def _type(fields: tuple[Field[Any], ...]) -> str:
    if all(field.kind == "flag" for field in fields):
        return "bool"
    if any(isinstance(field, ComputedField) and field.kind == "uint" for field in fields):
        return "int64"  # differences may be negative
    if all(field.kind in BIT_KINDS and field.bits <= 64 for field in fields):
        bits = max(field.bits for field in fields)
        return next(f"uint{width}" for width in (8, 16, 32, 64) if bits <= width)
    return "text"


def _repeats(catalog: Catalog, fields: tuple[Field[Any], ...]) -> bool:
    """Whether a frame may have several values: of one field, or of two that may both occur."""
    seen: set[object] = set()
    for field in fields:
        places = _places(catalog, field.owner)
        if field.count > 1 or not places or places & seen:
            return True
        seen |= places
    return False


def _places(catalog: Catalog, owner: StructType) -> set[object]:
    """The places of a structure that a frame has at most once; none for one that it may have several times, such as SA records."""
    if owner is Struct or owner in HEADERS or owner in EXTENDED_STRUCTS:
        return {owner} if owner in EXTENDED_STRUCTS or (owner is not Struct and len(HEADERS[owner]) == 1) else set()
    if catalog.nesting.get(owner) or not all(isinstance(place, (Mad, MadFormat)) for place in catalog.places(owner)):
        return set()
    mads = [place for place in owner.carried_by if isinstance(place, Mad)]
    if any(place.mgmt_class == SA_CLASS for place in mads):
        return set()
    formats = {place.base_version for place in owner.carried_by if isinstance(place, MadFormat)}
    return formats | {(place.mgmt_class, place.attr_id, place.base_version) for place in mads}


class Cells(Record, frozen=True, eq=False):
    """One column of some rows."""

    values: npt.NDArray[Any]
    """All entries of all rows: numbers, times in nanoseconds, or objects (str)."""
    null: Bool
    """Entries without a value: absent fields, masked keys."""
    counts: Int | None = None
    """Number of entries of each row, for columns of lists; None: one per row."""


def texts(cells: Cells, column: NamedColumn) -> list[str]:
    """Each cell as text: empty without a value, several values with commas between them. Not made printable."""
    kind = column.type
    if kind == "time":
        found = [f"{text[:10]} {text[11:]}Z" for text in np.datetime_as_string(cells.values.view("M8[ns]")).tolist()]
    elif kind == "bool":
        found = np.where(cells.values, "true", "false").tolist()
    elif kind == "seconds":
        found = named_values.seconds_texts(cells.values)
    else:
        found = cells.values.tolist() if kind == "text" else list(map(str, cells.values.tolist()))
    for place in np.flatnonzero(cells.null).tolist():
        found[place] = ""
    if cells.counts is None:
        return found
    stops = np.cumsum(cells.counts).tolist()
    return [",".join(found[start:stop]) for start, stop in zip([0, *stops], stops, strict=False)]


def occurrences(
    column: NamedColumn, table: ChunkTable, state: State, rows: Int, read: Callable[[FieldValues, Bool], Cell]
) -> tuple[Int, Cell, Bool]:
    """Every value of a column in some rows of a chunk (of a declared field: in all rows), in order of frames and bytes.

    Returns the row of each, the values, and which of them to hide. `read(run, hidden)` makes the values of a run.
    """
    if not column.fields:
        return undeclared(column.source, table, state, rows)
    runs = [run for run in named_values.runs(table, column.fields) if len(run.rows)]
    if not runs:
        return np.empty(0, np.int64), np.empty(0, column.dtype), np.empty(0, np.bool_)
    hides = [named_values.reveals_key(table, run) if state.hide_keys else np.zeros(len(run.rows), np.bool_) for run in runs]
    values = [_meant(run) if column.meaning else read(run, hidden) for run, hidden in zip(runs, hides, strict=True)]
    if len(runs) == 1:
        return runs[0].rows, values[0], hides[0]
    if len({each.shape[1:] for each in values}) > 1:  # byte fields of different lengths share this name
        values = [objects([row.tobytes() if isinstance(row, np.ndarray) else row for row in each]) for each in values]
    of_row = np.concatenate([run.rows for run in runs])
    order = in_order(table.shown, of_row, np.concatenate([run.at for run in runs]))
    return of_row[order], np.concatenate(values)[order], np.concatenate(hides)[order]


def plain_values(run: FieldValues) -> list[Any]:
    """The values of a run: numbers, bool, bytes or text."""
    if isinstance(run.values, list):
        return list(map(decode_text, run.values)) if run.field.is_text else list(run.values)
    values = python_values(run.values)
    return list(map(decode_text, values)) if run.field.kind == "text" else values


def each_once(values: list[Any], text: Callable[[Any], str]) -> Cell:
    """The text of each value, made once for equal ones."""
    known = {value: text(value) for value in set(values)}
    return objects([known[value] for value in values])


def objects(values: list[Any]) -> Cell:
    array = np.empty(len(values), object)
    array[:] = values
    return array


class Rows:
    """Turns rows of chunks into cells. Pass the chunks of one capture in order."""

    def __init__(self, columns: list[NamedColumn], state: State) -> None:
        """`state`: findings, answers and names of nodes, for names that need them."""
        self.columns, self.state = columns, state
        self.masked = 0
        """Number of values omitted so far because they are keys."""

    @property
    def numbers_keys(self) -> bool:
        """Whether a column shows the numbers of masked keys, which requires the masker to see every frame."""
        return any(column.name == "_ws.col.info" for column in self.columns)

    def cells(self, table: ChunkTable, rows: Int) -> list[Cells]:
        """The columns of the given rows of a chunk, ascending int64."""
        self.state.begin(table)
        found = [self._cells(table, rows, column) for column in self.columns]
        self.state.end(table)
        return found

    def _cells(self, table: ChunkTable, rows: Int, column: NamedColumn) -> Cells:
        """All occurrences of a name, or the first of the packet's own per row; null where there is none or a key is masked."""
        column = column if column.repeats else replace(column, fields=_own(column.fields))
        of_row, values, hidden = occurrences(column, table, self.state, rows, partial(_typed, column.type))
        values = values.astype(column.dtype, copy=False)
        self.masked += int(np.count_nonzero(hidden))
        if not column.repeats and np.array_equal(of_row, rows):
            return Cells(values, hidden)
        per_row = np.bincount(of_row, minlength=len(table))
        high = np.cumsum(per_row)[rows]
        low = high - per_row[rows]
        if not column.repeats:
            there = low < high
            if not len(of_row):
                return Cells(np.full(len(rows), "" if column.type == "text" else 0, column.dtype), ~there)
            take = np.minimum(low, len(of_row) - 1)
            return Cells(values[take], ~there | hidden[take])
        counts = high - low
        ends = np.concatenate([[0], np.cumsum(counts)])
        take = np.repeat(low - ends[:-1], counts) + np.arange(ends[-1])
        return Cells(values[take], hidden[take], counts)


def _meant(run: FieldValues) -> Cell:
    """What the values of a field mean, without their numbers."""
    field = run.field
    if field.show is None and field.values is not None:
        known = field.values
        return each_once(plain_values(run), lambda value: known.get(value, f"unknown ({value})"))
    return each_once(plain_values(run), lambda value: value_text(field, value))


def _typed(kind: str, run: FieldValues, hidden: Bool) -> Cell:
    """Values of one field in a column's type."""
    if kind == "text":
        field = run.field
        return each_once(plain_values(run), lambda value: str(plain_value(field, value)))
    assert not isinstance(run.values, list)
    values = run.values.astype(kind, copy=False)
    # Arrow's buffers, and so the file, keep the value under a null: overwrite it.
    return np.where(hidden, values.dtype.type(0), values) if hidden.any() else values
