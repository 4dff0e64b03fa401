"""How does a table of a capture reach Arrow, polars, DuckDB, pandas and notebooks?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

from ibdissect.wire.text import printable

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 10
"""Rows of a table that a notebook shows."""


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


def table_html(names: Iterable[str], rows: Iterable[Iterable[str]], caption: str) -> str:
    """The first rows of a table as HTML; all text is escaped."""

    def line(cells: Iterable[str], tag: str) -> str:
        return "<tr>" + "".join(f'<{tag} style="text-align:left">{escape(printable(cell))}</{tag}>' for cell in cells) + "</tr>"

    found = list(islice(rows, SHOWN + 1))
    more = "<p>...</p>" if len(found) > SHOWN else ""
    body = "".join(line(row, "td") for row in found[:SHOWN])
    return f"<table><caption>{escape(printable(caption))}</caption>{line(names, 'th')}{body}</table>{more}"
