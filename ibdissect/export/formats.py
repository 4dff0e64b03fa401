"""Formats of tables, a row for each; its function is in `export.writers`. Options and help of commands follow from them."""

from __future__ import annotations

from typing import NamedTuple


class TableFormat(NamedTuple):
    """A format of tables; `--format` takes its name."""

    writer: str
    """The function of `export.writers` that writes it."""
    endings: tuple[str, ...]
    """How files of that format end, its name first."""
    by_lines: bool = False
    """Whether each row is a line by itself, so that several processes can write them."""
    for_captures: bool = True
    """Whether `export` writes it, not only `sql`."""


TABLES = (
    TableFormat("write_parquet", (".parquet",)),
    TableFormat("write_arrow", (".arrow", ".feather")),
    TableFormat("write_csv", (".csv",), by_lines=True),
    TableFormat("write_jsonl", (".jsonl", ".ndjson"), by_lines=True),
    TableFormat("write_json", (".json",), for_captures=False),
)
WRITERS = {ending: one.writer for one in TABLES for ending in one.endings}
ENDINGS = tuple(ending for one in TABLES if one.for_captures for ending in one.endings)
LINES = frozenset(ending for one in TABLES if one.by_lines for ending in one.endings)
NAMES = tuple(one.endings[0].removeprefix(".") for one in TABLES if one.for_captures)
BY_LINES = " or ".join(one.endings[0] for one in TABLES if one.by_lines)
"""For sentences."""
PRINTED = tuple(one.endings[0].removeprefix(".") for one in TABLES if one.by_lines or not one.for_captures)
"""Formats that are text, so that `sql` prints them."""
