"""How do filter names become Arrow columns: which type does each have, and which values do the rows of a chunk have?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ibdissect.dissect import named_values
from ibdissect.dissect.summary import Summaries, summaries
from ibdissect.dissect.value import Presenter
from ibdissect.table.locate import EXTENDED_STRUCTS, MALFORMED, Bool, Int
from ibdissect.table.secrets import must_mask
from ibdissect.table.table import HEADERS, ChunkTable
from ibdissect.wire.catalog import BOTH, Catalog
from ibdissect.wire.column import ComputedField
from ibdissect.wire.spec import Field, decode_text
from ibdissect.wire.text import plain_value

if TYPE_CHECKING:
    from ibdissect.dfilter.answers import Answers

TIME = pa.timestamp("ns", "UTC")
SECONDS = pa.decimal128(28, 9)
"""Seconds with all nine decimals; a float would lose the last two."""
FRAME_TYPES = {
    "frame.number": pa.int64(), "frame.time": TIME, "frame.time_epoch": SECONDS, "frame.time_relative": SECONDS,
    "frame.len": pa.int64(), "frame.cap_len": pa.int64(), "frame.interface_id": pa.int32(),
    "ibdissect.request_frame": pa.int64(), "ibdissect.response_frame": pa.int64(), "ibdissect.response_time": SECONDS,
    **dict.fromkeys(named_values.MESSAGE_NAMES, pa.int64()), "ibdissect.message.kind": pa.string(), "ibdissect.message.latency": SECONDS,
    "ibdissect.message.complete": pa.bool_(),
}  # fmt: skip
"""Types of names that are not fields of a structure; those not listed are text."""


@dataclass(frozen=True, slots=True)
class Named:
    """One column of an export."""

    name: str
    """Canonical filter name."""
    fields: tuple[Field[Any], ...]
    """Empty for a name of the frame itself."""
    type: pa.DataType
    """Type of one value: integers as wide as the field, text for addresses, hex text for raw bytes."""
    repeats: bool
    """Whether a frame may have several values; then the column's values are lists."""

    @property
    def arrow(self) -> pa.Field:
        """The column as an Arrow field."""
        return pa.field(self.name, pa.list_(self.type) if self.repeats else self.type)


def named_columns(catalog: Catalog, names: Iterable[str], *, first: bool = False) -> list[Named]:
    """The columns for filter names. Raises FilterError for an unknown name. `first`: only first values, no lists."""
    found: dict[str, Named] = {}
    for name in names:
        short = name.lower()
        if short in named_values.FRAME_NAMES or short in named_values.ANSWER_NAMES:
            found[short] = Named(short, (), FRAME_TYPES.get(short, pa.string()), False)
            continue
        fields = named_values.fields_named(catalog, name)
        full = name if name in BOTH else fields[0].filter_name
        found[full] = Named(full, fields, _type(fields), not first and _repeats(fields))
    return list(found.values())


def _type(fields: tuple[Field[Any], ...]) -> pa.DataType:
    if all(field.kind == "flag" for field in fields):
        return pa.bool_()
    if any(isinstance(field, ComputedField) and field.kind == "uint" for field in fields):
        return pa.int64()  # differences may be negative
    if all(field.kind in ("uint", "flag", "pad") and field.bits <= 64 for field in fields):
        bits = max(field.bits for field in fields)
        return next(kind for width, kind in ((8, pa.uint8()), (16, pa.uint16()), (32, pa.uint32()), (64, pa.uint64())) if bits <= width)
    return pa.string()


def _repeats(fields: tuple[Field[Any], ...]) -> bool:
    """Whether a frame may have several values; only the headers occur at most once per packet."""
    if len(fields) > 1 or fields[0].count > 1:
        return True
    owner = fields[0].owner
    assert owner is not None
    return owner not in EXTENDED_STRUCTS and len(HEADERS.get(owner, ("", ""))) > 1


class ArrowColumns:
    """Turns rows of chunks into record batches. Pass the chunks of one capture in order."""

    def __init__(self, catalog: Catalog, columns: list[Named], presenter: Presenter, answers: Answers | None = None) -> None:
        self.catalog, self.columns, self.presenter, self.answers = catalog, columns, presenter, answers
        self.schema: pa.Schema = pa.schema([column.arrow for column in columns])
        self.first_ns: int | None = None
        self.masked = 0
        """Number of values omitted so far because they are keys."""

    @property
    def numbers_keys(self) -> bool:
        """Whether a column shows the numbers of masked keys, which requires the masker to see every frame."""
        return any(column.name == "_ws.col.info" for column in self.columns)

    def batch(self, table: ChunkTable, rows: Int) -> pa.RecordBatch:
        """The given rows of a chunk, ascending int64, as a record batch."""
        if self.first_ns is None and len(table):
            self.first_ns = int(table.chunk.time_ns[0])
        lines = summaries(table, rows, self.presenter) if any(c.name.startswith("_ws.col.") for c in self.columns) else None
        arrays = [self._fields(table, rows, c) if c.fields else self._frame(table, rows, c.name, lines) for c in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _frame(self, table: ChunkTable, rows: Int, name: str, lines: Summaries | None) -> pa.Array:
        if name in named_values.ANSWER_NAMES:
            return self._answer(table, rows, name)
        if lines is not None and name.startswith("_ws.col."):
            return pa.array(getattr(lines, name.removeprefix("_ws.col.")), pa.string())
        if name == "_ws.malformed":
            codes = table.located.malformed[rows]
            return pa.array(np.array(MALFORMED, object)[codes], pa.string(), mask=codes == 0)
        values = named_values.frame_numbers(table, name, self.first_ns or 0)[rows]
        kind = FRAME_TYPES[name]
        return decimal(values) if kind is SECONDS else pa.array(values, pa.int64()).cast(kind)

    def _answer(self, table: ChunkTable, rows: Int, name: str) -> pa.Array:
        """A column that depends on matching requests with answers; null where a row has none."""
        values, hidden = np.zeros(len(table), np.int64), np.ones(len(table), np.bool_)
        assert self.answers is not None
        of_row, found = self.answers.values(name, table.chunk.first, len(table))
        values[of_row], hidden[of_row] = found, False
        kind = FRAME_TYPES[name]
        if pa.types.is_string(kind):
            return pa.array(np.array(named_values.MESSAGE_KINDS, object)[values[rows]], kind, mask=hidden[rows])
        if kind is not SECONDS:
            return pa.array(values[rows].astype(kind.to_pandas_dtype()), kind, mask=hidden[rows])
        import pyarrow.compute as pc  # slow to import, and most columns do not need it

        return pc.if_else(pa.array(~hidden[rows]), decimal(values[rows]), pa.scalar(None, SECONDS))

    def _fields(self, table: ChunkTable, rows: Int, column: Named) -> pa.Array:
        """All occurrences of a field, or the first one per row; null where there is none or a key is masked."""
        parts = [run for run in named_values.runs(table, column.fields) if len(run.rows)]
        if not parts:
            return pa.nulls(len(rows), column.arrow.type)
        if len(parts) == 1 and not column.repeats and np.array_equal(parts[0].rows, rows):
            values, hidden = self._values(table, parts[0], column.type)
            return pa.array(values, column.type, mask=hidden if hidden.any() else None)
        pieces = [self._values(table, run, column.type) for run in parts]
        of_row = np.concatenate([run.rows for run in parts])
        values, hidden = np.concatenate([p[0] for p in pieces]), np.concatenate([p[1] for p in pieces])
        if len(parts) > 1:
            order = np.lexsort((np.concatenate([run.at for run in parts]), of_row))
            of_row, values, hidden = of_row[order], values[order], hidden[order]
        per_row = np.bincount(of_row, minlength=len(table))
        high = np.cumsum(per_row)[rows]
        low = high - per_row[rows]
        if not column.repeats:
            there = low < high
            take = np.minimum(low, len(of_row) - 1)
            return pa.array(values[take], column.type, mask=~there | hidden[take])
        counts = high - low
        ends = np.concatenate([[0], np.cumsum(counts)])
        take = np.repeat(low - ends[:-1], counts) + np.arange(ends[-1])
        flat = pa.array(values[take], column.type, mask=hidden[take])
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), flat, mask=pa.array(counts == 0))

    def _values(self, table: ChunkTable, run: named_values.Run, kind: pa.DataType) -> tuple[npt.NDArray[Any], Bool]:
        """Values of one field in the column's type, and which of them to hide."""
        field = run.field
        hidden = self._hidden(table, run)
        if not pa.types.is_string(kind):
            assert not isinstance(run.values, list)
            values = run.values.astype(kind.to_pandas_dtype(), copy=False)
            # Arrow's buffers, and so the file, keep the value under a null: overwrite it.
            return np.where(hidden, values.dtype.type(0), values) if hidden.any() else values, hidden
        if isinstance(run.values, list):
            raw: list[Any] = run.values
        elif run.values.ndim == 2:
            raw = [row.tobytes() for row in run.values]
        else:
            raw = run.values.tolist()
        known = {value: str(plain_value(field, decode_text(value) if field.kind == "text" else value)) for value in set(raw)}
        texts = np.empty(len(raw), object)
        texts[:] = [known[value] for value in raw]
        return texts, hidden

    def _hidden(self, table: ChunkTable, run: named_values.Run) -> Bool:
        """Which values are keys, or raw bytes that contain a key."""
        hidden = np.zeros(len(run.rows), np.bool_)
        field = run.field
        if self.presenter.show_keys:
            return hidden
        if field.secret:
            assert not isinstance(run.values, list)
            hidden = must_mask(field, run.values)
        else:
            hidden = named_values.tells_key(table, run)
        self.masked += int(np.count_nonzero(hidden))
        return hidden


def decimal(ns: Int) -> pa.Array:
    """Nanoseconds int64 as decimal seconds, built directly as Arrow's little-endian 128-bit integers."""
    words = np.stack([ns, ns >> 63], axis=1)
    return pa.Array.from_buffers(SECONDS, len(ns), [None, pa.py_buffer(np.ascontiguousarray(words))])
