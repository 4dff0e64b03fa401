"""How is CSV written? Numbers as they are, texts in quotes and harmless to spreadsheets, nothing where there is no value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO

from ibdissect.session.rows import Rows, texts
from ibdissect.table.locate import Int
from ibdissect.table.table import ChunkTable
from ibdissect.wire.text import printable

FORMULA = frozenset("=+-@\t\r|%")
"""Spreadsheets may run a cell that starts with one of these (OWASP, CSV injection)."""


def write_rows(columns: Rows, chosen: Iterable[tuple[ChunkTable, Int]], file: IO[bytes]) -> int:
    """Write columns of the chosen rows of a capture, in order, and return the number of rows."""
    quoted = [column.repeats or column.type == "text" for column in columns.columns]

    def blocks() -> Iterator[list[list[str]]]:
        for table, rows in chosen:
            yield [texts(cells, column) for cells, column in zip(columns.cells(table, rows), columns.columns, strict=True)]

    return write([column.name for column in columns.columns], quoted, blocks(), file)


def write(names: list[str], quoted: list[bool], blocks: Iterable[list[list[str]]], file: IO[bytes]) -> int:
    """Write blocks of columns of texts and return the number of rows. `quoted`: columns whose cells are texts, not numbers."""
    file.write((",".join(map(cell, names)) + "\n").encode())
    count = 0
    for block in blocks:
        columns = [_cells(column) if quote else column for column, quote in zip(block, quoted, strict=True)]
        file.write("".join([",".join(row) + "\n" for row in zip(*columns, strict=True)]).encode("utf-8", "backslashreplace"))
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
