"""Tables of a capture for Arrow, polars, DuckDB, pandas and notebooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from html import escape
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from ibdissect.decode import ChunkTable, Int
from ibdissect.dfilter.frame_properties import State
from ibdissect.pipeline.reading import Progress, Selection
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.text import printable

if TYPE_CHECKING:
    import pyarrow as pa

    from ibdissect.decode.services import Services
    from ibdissect.dfilter.answers import AnswerFrames
    from ibdissect.dfilter.frame_properties import Findings
    from ibdissect.diagnosis.connection import Connection
    from ibdissect.dissect.shown_value import Presenter
    from ibdissect.subnet.nodes_of_packets import Ends

SHOWN = 10
"""Rows of a table that a notebook shows."""


class TableSource(Protocol):
    """What tables of a capture ask it for; `Capture` has it."""

    catalog: Catalog
    services: Services
    show_keys: bool
    selection: Selection | None
    progress: Progress | None

    @property
    def path(self) -> str: ...

    def tables(self, *, keys: bool = True, progress: Progress | None = None) -> Iterator[ChunkTable]: ...
    def selected(self, *, keys: bool = False) -> Iterator[tuple[ChunkTable, Int]]: ...
    def presenter(self) -> Presenter: ...
    def answers(self, names: Iterable[str] = ()) -> AnswerFrames: ...
    def codes(self) -> Findings: ...
    def ends(self) -> Ends: ...
    def state(self, names: Iterable[str]) -> State: ...
    def connections(self) -> list[Connection]: ...


class Tabular(ABC):
    """Rows that are read from the capture on demand. `polars.DataFrame(x)`, `duckdb.sql("from x")` and `pandas.DataFrame(x)` work."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Names and types of the columns. ConfigError if pyarrow is not installed."""

    @abstractmethod
    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as Arrow record batches, read lazily."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows, each a dictionary by column name."""
        for batch in self.batches():
            yield from batch.to_pylist()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows by Arrow's C interface, which other libraries look for."""
        schema = self.schema()
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(schema, self.batches()).__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """All rows as one Arrow table."""
        schema = self.schema()
        import pyarrow as pa

        return pa.Table.from_batches(list(self.batches()), schema=schema)

    def to_pandas(self) -> Any:
        """All rows as a DataFrame of pandas, which keeps columns and their types where there are no rows or no values.

        `pandas.DataFrame(x)` guesses them from the rows.
        """
        return self.to_arrow().to_pandas(types_mapper=_nullable)


class CaptureTable(Tabular):
    """Rows that are read from the capture each time: messages, records or requests."""

    def __init__(self, title: str, schema: pa.Schema, read: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self.title, self._schema, self._read = title, schema, read

    def schema(self) -> pa.Schema:
        """Names and types of the columns, also of a table without rows."""
        return self._schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, some at a time."""
        return self._read()

    def __repr__(self) -> str:
        return printable(f"<CaptureTable: {self.title}>")

    def _repr_html_(self) -> str:
        names = self._schema.names
        return table_html(names, (["" if row[name] is None else str(row[name]) for name in names] for row in self), self.title)


def _nullable(kind: pa.DataType) -> Any:
    """The type of pandas for an integer or flag that may be missing; the others stay as Arrow has them."""
    import pyarrow as pa

    pd: Any = import_module("pandas")  # has no types
    if pa.types.is_boolean(kind):
        return pd.BooleanDtype()
    if not pa.types.is_integer(kind):
        return None
    sign = "" if pa.types.is_signed_integer(kind) else "U"
    return pd.api.types.pandas_dtype(f"{sign}Int{kind.bit_width}")


def table_html(names: Iterable[str], rows: Iterable[Iterable[str]], caption: str) -> str:
    """The first rows of a table as HTML; all text is escaped."""

    def line(cells: Iterable[str], tag: str) -> str:
        return "<tr>" + "".join(f'<{tag} style="text-align:left">{escape(printable(cell))}</{tag}>' for cell in cells) + "</tr>"

    found = list(islice(rows, SHOWN + 1))
    more = "<p>...</p>" if len(found) > SHOWN else ""
    body = "".join(line(row, "td") for row in found[:SHOWN])
    return f"<table><caption>{escape(printable(caption))}</caption>{line(names, 'th')}{body}</table>{more}"
