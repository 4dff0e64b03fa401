"""CSV: numbers as they are, texts in quotes and harmless to spreadsheets, nothing where there is no value.

The lines of many rows are made at once: each row is a row of words of four bytes, a column takes as many as its longest cell needs, a
separator takes one. One call then deletes all NUL bytes. For columns of numbers that takes a fifth of the time of a `str` for each cell
and a `join` for each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import IO

import numpy as np
import numpy.typing as npt

from ibdissect.decode import ChunkTable, Int
from ibdissect.tables.values_in_frames import Cells, NamedColumn, Rows, texts
from ibdissect.wire.text import printable

Words = npt.NDArray[np.uint32]
"""Cells of one column, uint32[n, words]: the bytes of each text in order, with NULs anywhere between them."""
Numbers = npt.NDArray[np.unsignedinteger]

AT_ONCE = 1 << 18
"""Bytes of the rows that are joined at a time, one row at least: as many as fit in the CPU cache."""
FORMULA = frozenset("=+-@\t\r|%\uff1d\uff0b\uff0d\uff20")
"""Spreadsheets may run a cell that starts with one of these, the last four being wide forms of the first (OWASP, CSV injection)."""
GROUP, SECOND = 10_000, 1_000_000_000
"""Numbers that four digits can hold; nanoseconds."""


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
        words = of_texts(["false", "true"])[values.astype(np.intp)]
    else:
        words = of_seconds(values) if column.type == "seconds" else of_numbers(values)
    words[found.null] = 0
    return words


def write(names: list[str], quoted: list[bool], blocks: Iterable[Sequence[list[str] | Words]], file: IO[bytes]) -> int:
    """Write blocks of columns and return the number of rows. `quoted`: columns whose cells are texts, not numbers."""
    file.write((",".join(map(cell, names)) + "\n").encode())
    count = 0
    for block in blocks:
        columns = [_cells(column) if quote and isinstance(column, list) else column for column, quote in zip(block, quoted, strict=True)]
        for rows in pieces(columns) if columns else ():
            cells = [column[rows] for column in columns]
            file.write(lines([of_texts(column) if isinstance(column, list) else column for column in cells]))
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


def of_texts(texts: list[str]) -> Words:
    """Texts without NUL, as UTF-8."""
    number = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    encoded = [text.encode("utf-8", "backslashreplace") for text in number]
    size = max(1, -(-max(map(len, encoded), default=0) // 4))
    table = np.array(encoded, f"S{4 * size}").view(np.uint32).reshape(-1, size)
    return table[np.fromiter(map(number.__getitem__, texts), np.intp, len(texts))]


def of_numbers(values: npt.NDArray[np.integer]) -> Words:
    """Whole numbers from 0 on, in decimal."""
    rest: Numbers = values.astype(np.uint32 if int(values.max(initial=0)) < 1 << 32 else np.uint64)
    groups: list[npt.NDArray[np.uint32]] = []
    while not groups or rest.any():
        above = rest // GROUP
        groups.insert(0, _digits()[(rest - above * GROUP).astype(np.intp) + GROUP * (above == 0)])
        rest = above
    groups[-1][values == 0] = _word("0")
    return np.stack(groups, axis=1)


def of_seconds(ns: npt.NDArray[np.int64]) -> Words:
    """Nanoseconds from 0 on, as seconds with nine decimals."""
    whole = ns // SECOND
    part = (ns - whole * SECOND).astype(np.intp)
    dot = np.full(len(ns), _word("."), np.uint32)
    decimals = np.stack([dot, _digits()[part // GROUP**2 + GROUP], _digits()[part // GROUP % GROUP], _digits()[part % GROUP]], axis=1)
    decimals[part < GROUP**2, 1] = _word("0")
    return np.hstack([of_numbers(whole), decimals])


def lines(columns: list[Words]) -> bytes:
    """The rows of columns of equal length as lines, with commas between the cells."""
    whole = np.empty((len(columns[0]), sum(column.shape[1] + 1 for column in columns)), np.uint32)
    end = 0
    for column in columns:
        start, end = end, end + column.shape[1] + 1
        whole[:, start : end - 1] = column
        whole[:, end - 1] = _word(",")
    whole[:, -1] = _word("\n")
    return whole.tobytes().translate(None, b"\0")


def pieces(columns: list[Words | list[str]]) -> Iterator[slice]:
    """Which rows to join at a time, so that one long text does not make all rows as long."""
    count = len(columns[0])
    widths = (4 * column.shape[1] if isinstance(column, np.ndarray) else max(map(len, column), default=0) for column in columns)
    step = max(1, AT_ONCE // (sum(widths) + 4 * len(columns)))
    return (slice(first, first + step) for first in range(0, count, step))


@cache
def _digits() -> npt.NDArray[np.uint32]:
    """The four digits of each number below GROUP as a word, uint32[2 * GROUP]: first with leading zeros, then with NULs for them."""
    number, place = np.arange(GROUP)[:, None], np.array([1000, 100, 10, 1])
    digits = number // place % 10 + ord("0")
    return np.concatenate([digits, np.where(number < place, 0, digits)]).astype(np.uint8).view(np.uint32)[:, 0]


def _word(character: str) -> np.uint32:
    word: np.uint32 = np.frombuffer(character.encode().rjust(4, b"\0"), np.uint32)[0]
    return word
