"""Which values do fields have in a whole capture? Columns as arrays or Arrow tables, optionally filtered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ibdissect.dissect import named_values
from ibdissect.dissect.value import Presenter
from ibdissect.errors import ConfigError
from ibdissect.lint.finding import Finding
from ibdissect.table.table import ChunkTable
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.spec import BYTE_KINDS, Field, decode_text

if TYPE_CHECKING:
    import pyarrow as pa

    from ibdissect.dfilter.answers import Answers
    from ibdissect.dfilter.compile import Filter

DEFAULT = (
    "frame.number", "frame.time", "frame.len", "_ws.col.source", "_ws.col.destination", "_ws.col.protocol",
    "infiniband.bth.opcode", "infiniband.bth.p_key", "infiniband.bth.destqp", "infiniband.bth.psn",
    "infiniband.mad.mgmtclass", "infiniband.mad.method", "infiniband.mad.attributeid", "_ws.col.info",
)  # fmt: skip
"""Columns of an export or an Arrow table if no names are given."""


class Source(Protocol):
    """The source of columns: an opened capture."""

    catalog: Catalog
    show_keys: bool

    def tables(self) -> Iterator[ChunkTable]: ...
    def answers(self, names: Iterable[str] = ()) -> Answers: ...
    def presenter(self) -> Presenter: ...
    def lint(self) -> list[Finding]: ...


@dataclass(frozen=True, slots=True)
class Column:
    """One field of a whole capture: one entry per occurrence, in frame order."""

    frame: npt.NDArray[np.int64]
    """Frame number of each entry, int64[k]."""
    value: npt.NDArray[Any]
    """uint8 ... uint64[k], bool[k] for flags, uint8[k, n] for GIDs (n = 16), addresses and raw bytes; objects for text and bytes of
    variable length."""

    def __len__(self) -> int:
        return len(self.frame)


class Columns(Mapping[str, Column]):
    """Columns by filter name, read from the capture on first use and kept. Keys in the arrays are not masked."""

    def __init__(self, capture: Source, only: Filter | None = None) -> None:
        self._capture, self._only = capture, only
        self._found: dict[str, Column] = {}

    def filter(self, text: str) -> Columns:
        """The columns of those frames here that a display filter selects. FilterError if the filter is not valid.

        As on the command line, a filter compares keys only if the capture was opened with `show_keys=True`.
        """
        from ibdissect.dfilter.compile import compile_filter  # loaded only when there is a filter

        both = text if self._only is None else f"({self._only.text}) and ({text})"
        hide = not self._capture.show_keys
        compile_filter(text, self._capture.catalog, hide_keys=hide)  # so that an error refers to this text alone
        return Columns(self._capture, compile_filter(both, self._capture.catalog, hide_keys=hide))

    def __getitem__(self, name: str) -> Column:
        found = self._found.get(name)
        if found is None:
            self.read([name])
            found = self._found[name]
        return found

    def read(self, names: Iterable[str]) -> None:
        """Read several columns in one pass. Raises FilterError for an unknown name."""
        wanted = [name for name in names if name not in self._found]
        fields = {name: named_values.fields_named(self._capture.catalog, name) for name in wanted}
        parts: dict[str, list[tuple[npt.NDArray[np.int64], npt.NDArray[Any]]]] = {name: [] for name in wanted}
        for table, chosen in self._chosen():
            for name in wanted:
                found = list(named_values.runs(table, fields[name]))
                if found:
                    rows, values = _joined(found)
                    if self._only is not None:
                        keep = np.isin(rows, chosen)
                        rows, values = rows[keep], values[keep]
                    parts[name].append((rows + table.chunk.first, values))
        for name, pieces in parts.items():
            if pieces:
                column = Column(np.concatenate([rows for rows, _ in pieces]), np.concatenate([values for _, values in pieces]))
            else:
                column = Column(np.empty(0, np.int64), _nothing(fields[name][0]))
            self._found[name] = column

    def frames(self) -> npt.NDArray[np.int64]:
        """Numbers of the selected frames, int64[n], ascending."""
        parts = [rows + table.chunk.first for table, rows in self._chosen()]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def batches(self, *names: str, first: bool = False) -> Iterator[pa.RecordBatch]:
        """The selected frames as Arrow record batches, one row per frame, read lazily.

        Types are those of `ibdissect export`: integers as wide as the field, addresses as text, lists where a frame may have
        several values (`first`: only the first one), null for missing values and for keys unless the capture was opened with
        `show_keys`. Without names, a summary of the frames. Raises FilterError for an unknown name, ConfigError if pyarrow is
        not installed.
        """
        made = self._arrow(names, first)
        for table, rows in self._chosen():
            yield made.batch(table, rows)

    def to_arrow(self, *names: str, first: bool = False) -> pa.Table:
        """The same as one Arrow table; `.to_pandas()` or `polars.DataFrame(table)` makes a data frame of it."""
        made = self._arrow(names, first)
        import pyarrow as pa

        return pa.Table.from_batches([made.batch(table, rows) for table, rows in self._chosen()], schema=made.schema)

    def __iter__(self) -> Iterator[str]:
        names = self._capture.catalog.names
        return (name for name in names if any(field.kind not in ("nested", "hole") for field in names[name]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _arrow(self, names: tuple[str, ...], first: bool) -> Any:
        try:
            from ibdissect.session.arrow import ArrowColumns, named_columns
        except ModuleNotFoundError as error:
            raise ConfigError(
                "ibdissect[export]", str(error.name), "is not installed", hint="install it: python -m pip install 'ibdissect[export]'"
            ) from error
        columns = named_columns(self._capture.catalog, names or DEFAULT, first=first)
        asked = {column.name for column in columns} & named_values.ANSWER_NAMES
        answers = self._capture.answers(asked) if asked else None
        return ArrowColumns(self._capture.catalog, columns, self._capture.presenter(), answers)

    def _chosen(self) -> Iterator[tuple[ChunkTable, npt.NDArray[np.int64]]]:
        """Tables of the capture with their selected rows."""
        only = self._only
        codes: dict[int, list[str]] = {}
        if only is not None and only.codes:
            for finding in self._capture.lint():
                codes.setdefault(finding.frame, []).append(finding.code)
        answers = self._capture.answers(only.names) if only is not None and only.ahead else None
        for table in self._capture.tables():
            yield table, np.arange(len(table)) if only is None else np.flatnonzero(only.rows(table, codes, answers))


def _joined(found: list[named_values.Run]) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Merge the runs of one name in frame order, in the widest of their types."""
    arrays = [_array(run) for run in found]
    if len(found) == 1:
        return found[0].rows, arrays[0]
    shapes = {array.shape[1:] for array in arrays}
    if len(shapes) > 1:  # byte fields of different lengths share this name
        arrays = [_objects([row.tobytes() if isinstance(row, np.ndarray) else row for row in array]) for array in arrays]
    rows = np.concatenate([run.rows for run in found])
    order = np.lexsort((np.concatenate([run.at for run in found]), rows))
    return rows[order], np.concatenate(arrays)[order]


def _array(run: named_values.Run) -> npt.NDArray[Any]:
    if isinstance(run.values, list):
        return _objects(run.values)
    if run.field.kind == "text":
        return _objects([decode_text(row.tobytes()) for row in run.values])
    return run.values


def _nothing(field: Field[Any]) -> npt.NDArray[Any]:
    """An empty array of a field's type and shape, for a field that never occurs."""
    if field.kind in ("rest", "text"):
        return np.empty(0, object)
    if field.kind in BYTE_KINDS:
        return np.empty((0, field.bits // 8), np.uint8)
    return np.empty(0, np.bool_ if field.kind == "flag" else np.uint64)


def _objects(values: list[Any]) -> npt.NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array
