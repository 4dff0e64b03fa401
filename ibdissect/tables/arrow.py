"""Arrow record batches of the columns of filter names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.dfilter.frame_properties import State
from ibdissect.tables.values_in_frames import Cells, NamedColumn, Rows

TIME = pa.timestamp("ns", "UTC")
BATCH = 4096
"""Rows of a batch."""
SECONDS = pa.decimal128(28, 9)
"""Seconds with all nine decimals; a float would lose the last two."""
TYPES = {
    "bool": pa.bool_(), "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(), "int32": pa.int32(),
    "int64": pa.int64(), "time": TIME, "seconds": SECONDS, "text": pa.string(),
}  # fmt: skip
"""Arrow types by the type of a column."""


def schema_of(columns: Iterable[NamedColumn]) -> pa.Schema:
    return pa.schema([pa.field(one.name, pa.list_(TYPES[one.type]) if one.repeats else TYPES[one.type]) for one in columns])


def in_batches(rows: Iterable[Sequence[Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows, each with a value for every column, as record batches; seconds are given in nanoseconds, unknown ones as None or below 0."""
    rest = iter(rows)
    while some := list(islice(rest, BATCH)):
        columns = zip(zip(*some, strict=True), schema, strict=True)
        yield pa.RecordBatch.from_arrays([_column(values, kind.type) for values, kind in columns], schema=schema)


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if kind == SECONDS:
        known = np.array([-1 if value is None else value for value in values], np.int64)
        return decimal(known, known < 0)
    return pa.array(values, kind)


class ArrowColumns(Rows):
    """Turns rows of chunks into record batches. Pass the chunks of one capture in order."""

    def __init__(self, columns: list[NamedColumn], state: State) -> None:
        super().__init__(columns, state)
        self.schema = schema_of(columns)

    def batch(self, table: ChunkTable, rows: Int) -> pa.RecordBatch:
        """The given rows of a chunk, ascending int64, as a record batch."""
        arrays = [_array(cells, column.type) for cells, column in zip(self.cells(table, rows), self.columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _array(cells: Cells, kind: str) -> pa.Array:
    flat = _values(cells.values, cells.null, kind)
    if cells.counts is None:
        return flat
    ends = np.concatenate([[0], np.cumsum(cells.counts)]).astype(np.int32)
    there = np.ones(len(ends), np.bool_)
    there[:-1] = cells.counts > 0  # the offset of a list that is null is null, too
    return pa.ListArray.from_arrays(_buffered(ends, ~there, pa.int32()), flat)


def _values(values: npt.NDArray[Any], null: Bool, kind: str) -> pa.Array:
    if kind == "seconds":
        return decimal(values, null)
    if kind == "text":
        encoded = [text.encode() for text in np.where(null, "", values).tolist()]
        ends = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
        return pa.StringArray.from_buffers(len(null), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)), _bitmap(~null))
    return _buffered(np.packbits(values, bitorder="little") if kind == "bool" else values, null, TYPES[kind])


def decimal(ns: Int, null: Bool) -> pa.Array:
    """Nanoseconds as decimal seconds, built directly as Arrow's little-endian 128-bit integers."""
    return _buffered(np.stack([ns, ns >> 63], axis=1), null, SECONDS)


def _buffered(values: npt.NDArray[Any], null: Bool, kind: pa.DataType) -> pa.Array:
    """An array from its bytes. `pa.array` would import pandas first, where that is installed."""
    return pa.Array.from_buffers(kind, len(null), [_bitmap(~null), pa.py_buffer(np.ascontiguousarray(values))])


def _bitmap(there: Bool) -> pa.Buffer | None:
    """Which entries have a value, as Arrow wants it; None for all."""
    return None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
