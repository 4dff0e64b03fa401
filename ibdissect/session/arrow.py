"""How do columns of filter names become Arrow record batches?"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ibdissect.dfilter.computed import State
from ibdissect.session.rows import Cells, Named, Rows
from ibdissect.table.locate import Bool, Int
from ibdissect.table.table import ChunkTable

TIME = pa.timestamp("ns", "UTC")
SECONDS = pa.decimal128(28, 9)
"""Seconds with all nine decimals; a float would lose the last two."""
TYPES = {
    "bool": pa.bool_(), "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(), "int32": pa.int32(),
    "int64": pa.int64(), "time": TIME, "seconds": SECONDS, "text": pa.string(),
}  # fmt: skip
"""Arrow types by the type of a column."""


def schema_of(columns: Iterable[Named]) -> pa.Schema:
    return pa.schema([pa.field(one.name, pa.list_(TYPES[one.type]) if one.repeats else TYPES[one.type]) for one in columns])


class ArrowColumns(Rows):
    """Turns rows of chunks into record batches. Pass the chunks of one capture in order."""

    def __init__(self, columns: list[Named], state: State) -> None:
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
    ends = np.concatenate([[0], np.cumsum(cells.counts)])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), flat, mask=pa.array(cells.counts == 0))


def _values(values: npt.NDArray[np.int64], null: Bool, kind: str) -> pa.Array:
    if kind == "seconds":
        return decimal(values, null)
    mask = null if null.any() else None
    return pa.array(values, pa.int64(), mask=mask).cast(TIME) if kind == "time" else pa.array(values, TYPES[kind], mask=mask)


def decimal(ns: Int, null: Bool) -> pa.Array:
    """Nanoseconds as decimal seconds, built directly as Arrow's little-endian 128-bit integers."""
    words = np.ascontiguousarray(np.stack([ns, ns >> 63], axis=1))
    there = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    return pa.Array.from_buffers(SECONDS, len(ns), [there, pa.py_buffer(words)])
