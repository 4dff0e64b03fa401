"""Values of fields in a whole capture: columns as arrays or Arrow tables, optionally filtered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.dfilter.names import names_of
from ibdissect.dissect import named_values
from ibdissect.errors import missing_extra
from ibdissect.wire.convert import decode_text
from ibdissect.wire.spec import BYTE_KINDS, Field
from ibdissect.wire.text import printable

from .capture_table import TableSource, Tabular, table_html
from .default_fields import DEFAULT
from .values_in_frames import Rows, named_columns, objects, occurrences, plain_values, texts

if TYPE_CHECKING:
    import pyarrow as pa

    from ibdissect.dfilter.compile import Filter

    from .arrow import ArrowColumns


@dataclass(frozen=True, slots=True)
class Column:
    """One field of a whole capture: one entry per occurrence, in frame order."""

    frame: npt.NDArray[np.int64]
    """Frame number of each entry, int64[k]."""
    value: npt.NDArray[Any]
    """uint8 ... uint64[k], bool[k] for flags, uint8[k, n] for GIDs (n = 16), addresses and raw bytes; objects for text and bytes of
    variable length. A `numpy.ma.MaskedArray` if some are hidden: keys, and what reveals one, unless the capture was opened with
    `show_keys`."""

    def __len__(self) -> int:
        return len(self.frame)


class Columns(Tabular):
    """Columns by filter name, and the selected frames as rows. Keys are masked.

    `table[name]` is read from the capture on first use and kept; rows are read each time.
    """

    def __init__(self, capture: TableSource, only: Filter | None = None, names: tuple[str, ...] = DEFAULT) -> None:
        self._capture, self._only, self.names = capture, only, names
        self._found: dict[str, Column] = {}

    def filter(self, text: str) -> Columns:
        """The columns of those frames here that a display filter selects. FilterError if the filter is not valid.

        As on the command line, a filter compares keys only if the capture was opened with `show_keys=True`.
        """
        from ibdissect.dfilter.compile import compile_filter  # loaded only when there is a filter

        both = text if self._only is None else f"({self._only.text}) and ({text})"
        catalog, hide = self._capture.catalog, not self._capture.show_keys
        compile_filter(text, catalog, hide_keys=hide)  # so that an error refers to this text alone
        only = compile_filter(both, catalog, hide_keys=hide)
        if only.nodes:
            only.know(self._capture.ends())
        return Columns(self._capture, only, self.names)

    def select(self, *names: str) -> Columns:
        """The same frames with other columns in their rows. FilterError for an unknown name.

        Columns have full names: that of `lrh.slid` is called `infiniband.lrh.slid`.
        """
        named_columns(self._capture.catalog, names)
        return Columns(self._capture, self._only, names or self.names)

    def __getitem__(self, name: str) -> Column:
        (column,) = named_columns(self._capture.catalog, [name])
        if column.name not in self._found:
            self.read([name])
        return self._found[column.name]

    def __contains__(self, name: str) -> bool:
        return names_of(self._capture.catalog).find(name) is not None

    def read(self, names: Iterable[str]) -> None:
        """Read several columns in one pass. Raises FilterError for an unknown name."""
        wanted = [column for column in named_columns(self._capture.catalog, names) if column.name not in self._found]
        parts: dict[str, list[tuple[Int, npt.NDArray[Any], Bool]]] = {column.name: [] for column in wanted}
        state = self._capture.state(parts)
        for table, chosen in self._chosen():
            state.begin(table)
            for column in wanted:
                rows, values, hidden = occurrences(column, table, state, chosen, _array)
                if column.fields and len(chosen) < len(table):
                    keep = np.isin(rows, chosen)
                    rows, values, hidden = rows[keep], values[keep], hidden[keep]
                if len(rows):
                    parts[column.name].append((rows + table.chunk.first, values, hidden))
            state.end(table)
        for column in wanted:
            nothing = _nothing(column.fields[0]) if column.fields else np.empty(0, column.dtype)
            pieces = parts[column.name] or [(np.empty(0, np.int64), nothing, np.empty(0, np.bool_))]
            frame, value, hidden = (np.concatenate(each) for each in zip(*pieces, strict=True))
            self._found[column.name] = Column(frame, _masked(value, hidden) if hidden.any() else value)

    def frames(self) -> npt.NDArray[np.int64]:
        """Numbers of the selected frames, int64[n], ascending."""
        parts = [rows + table.chunk.first for table, rows in self._chosen()]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def schema(self) -> pa.Schema:
        """Names and types of the columns, see `batches`."""
        return self._arrow(self.names, False).schema

    def batches(self, *names: str, first: bool = False) -> Iterator[pa.RecordBatch]:
        """The selected frames as Arrow record batches, one row per frame, read lazily.

        Types are those of `ibdissect export`: integers as wide as the field, addresses as text, lists where a frame may have
        several values (`first`: only the first one), null for missing values and for keys unless the capture was opened with
        `show_keys`. Without names, those of `select`, else a summary of the frames. Raises FilterError for an unknown name,
        ConfigError if pyarrow is not installed.
        """
        made = self._arrow(names or self.names, first)
        for table, rows in self._chosen():
            yield made.batch(table, rows)

    def to_arrow(self, *names: str, first: bool = False) -> pa.Table:
        """The same as one Arrow table; `.to_pandas()` or `polars.DataFrame(table)` makes a data frame of it."""
        made = self._arrow(names or self.names, first)
        import pyarrow as pa

        return pa.Table.from_batches([made.batch(table, rows) for table, rows in self._chosen()], schema=made.schema)

    def _arrow(self, names: tuple[str, ...], first: bool) -> ArrowColumns:
        try:
            from ibdissect.tables.arrow import ArrowColumns
        except ModuleNotFoundError as error:
            raise missing_extra("export", str(error.name)) from error
        columns = named_columns(self._capture.catalog, names, first=first)
        return ArrowColumns(columns, self._capture.state(one.name for one in columns))

    def __repr__(self) -> str:
        return printable(f"<Columns of {self._title()}: {', '.join(self.names)}>")

    def _repr_html_(self) -> str:
        columns = named_columns(self._capture.catalog, self.names)
        made = Rows(columns, self._capture.state(one.name for one in columns))
        cells = (
            zip(*(texts(each, column) for each, column in zip(made.cells(table, rows), columns, strict=True)), strict=True)
            for table, rows in self._chosen()
        )
        return table_html((column.name for column in columns), (row for some in cells for row in some), self._title())

    def _title(self) -> str:
        return f"frames of {self._capture.path}" + (f" with {self._only.text}" if self._only is not None else "")

    def _chosen(self) -> Iterator[tuple[ChunkTable, npt.NDArray[np.int64]]]:
        """Tables of the capture with their selected rows."""
        only = self._only
        codes = self._capture.codes() if only is not None and only.codes else {}
        answers = self._capture.answers(only.names) if only is not None and only.ahead else None
        for table in self._capture.tables(progress=self._capture.progress):
            yield table, np.arange(len(table)) if only is None else np.flatnonzero(only.rows(table, codes, answers))


def _masked(values: npt.NDArray[Any], hidden: Bool) -> npt.NDArray[Any]:
    """The values with nothing left of those that are hidden."""
    from numpy.ma import MaskedArray  # takes time to load

    values[hidden] = None if values.dtype == object else 0
    return MaskedArray(values, np.broadcast_to(hidden.reshape(-1, *[1] * (values.ndim - 1)), values.shape))


def _array(run: named_values.FieldValues, _hidden: Bool) -> npt.NDArray[Any]:
    if isinstance(run.values, list):
        return objects(plain_values(run))
    return objects([decode_text(row.tobytes()) for row in run.values]) if run.field.kind == "text" else run.values


def _nothing(field: Field[Any]) -> npt.NDArray[Any]:
    """An empty array of a field's type and shape, for a field that never occurs."""
    if field.kind in ("rest", "text"):
        return np.empty(0, object)
    if field.kind in BYTE_KINDS:
        return np.empty((0, field.bits // 8), np.uint8)
    return np.empty(0, np.bool_ if field.kind == "flag" else np.uint64)
