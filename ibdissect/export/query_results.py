"""Results of SQL queries, written as a table for people or in a format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import pyarrow as pa

from ibdissect.tables.sql import Database
from ibdissect.wire.text import printable

from . import writers

SHOWN_ROWS = 10_000
"""Most rows of the text table; the other formats write all."""


def write(database: Database, query: str, file: IO[bytes], ending: str) -> int:
    """Write the result in a format of `writers.write`; return the number of rows."""
    reader = database.run(query)
    try:
        return writers.write(reader, reader.schema, file, ending)
    except (pa.ArrowException, OverflowError, ValueError) as error:  # as a date that Python does not have
        raise database.refused(query, error) from error


def text(database: Database, query: str) -> Iterator[str]:
    """The result as lines of a table; control characters are escaped."""
    reader = database.run(query)
    rows: list[tuple[str, ...]] = []
    try:
        for batch in reader:
            rows += zip(*(map(printable, writers.as_texts(column)) for column in batch.columns), strict=True)
            if len(rows) > SHOWN_ROWS:
                break
    except (pa.ArrowException, OverflowError, ValueError) as error:
        raise database.refused(query, error) from error
    names, more = [*map(printable, reader.schema.names)], len(rows) > SHOWN_ROWS
    del rows[SHOWN_ROWS:]
    if not names:
        return
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    yield "  ".join(name.ljust(width) for name, width in zip(names, widths, strict=True)).rstrip()
    yield "  ".join("-" * width for width in widths)
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    if more:
        yield f"... more than {SHOWN_ROWS} rows: --format csv prints all"
