"""How is CSV written? Numbers as they are, texts in quotes and harmless to spreadsheets, nothing where there is no value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import IO

import numpy as np

from ibdissect.session.rows import Cells, NamedColumn, Rows, texts
from ibdissect.table.locate import Int
from ibdissect.table.table import ChunkTable
from ibdissect.wire.text import printable

from . import cells as fast
from .cells import Words

FORMULA = frozenset("=+-@\t\r|%")
"""Spreadsheets may run a cell that starts with one of these (OWASP, CSV injection)."""


def write_rows(columns: Rows, chosen: Iterable[tuple[ChunkTable, Int]], file: IO[bytes]) -> int:
    """Write columns of the chosen rows of a capture, in order, and return the number of rows."""
    quoted = [column.repeats or column.type == "text" for column in columns.columns]

    def blocks() -> Iterator[list[list[str] | Words]]:
        for table, rows in chosen:
            yield [_column(found, column) for found, column in zip(columns.cells(table, rows), columns.columns, strict=True)]

    return write([column.name for column in columns.columns], quoted, blocks(), file)


def _column(found: Cells, column: NamedColumn) -> list[str] | Words:
    """The cells of a column: numbers as words, all else as texts."""
    values = found.values
    if column.repeats or column.type in ("text", "time") or (values < 0).any():
        return texts(found, column)
    if column.type == "bool":
        words = fast.of_texts(["false", "true"])[values.astype(np.intp)]
    else:
        words = fast.of_seconds(values) if column.type == "seconds" else fast.of_numbers(values)
    words[found.null] = 0
    return words


def write(names: list[str], quoted: list[bool], blocks: Iterable[Sequence[list[str] | Words]], file: IO[bytes]) -> int:
    """Write blocks of columns and return the number of rows. `quoted`: columns whose cells are texts, not numbers."""
    file.write((",".join(map(cell, names)) + "\n").encode())
    count = 0
    for block in blocks:
        columns = [_cells(column) if quote and isinstance(column, list) else column for column, quote in zip(block, quoted, strict=True)]
        for rows in fast.pieces(columns) if columns else ():
            cells = [column[rows] for column in columns]
            file.write(fast.lines([fast.of_texts(column) if isinstance(column, list) else column for column in cells]))
        count += len(block[0]) if block else 0
    return count


def _cells(column: list[str]) -> list[str]:
    """Texts as cells; each distinct text is looked at once."""
    known = {text: cell(text) if text else "" for text in set(column)}
    return [known[text] for text in column]


def cell(text: str) -> str:
    """A text in quotes, with control characters escaped, and an apostrophe before what a spreadsheet would run."""
    text = printable(text).replace('"', '""')
    return f'"\'{text}"' if text.lstrip()[:1] in FORMULA and text.strip() else f'"{text}"'
