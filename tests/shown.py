"""Numbers that people read, read back: the text of `stats`, the tables of the screen and the page of `report`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from html import unescape
from typing import Any

from ibdissect.cli.stats import TABLES, lines
from ibdissect.pictures.page import pictures
from ibdissect.pictures.portrait import Portrait
from ibdissect.tui.screens.connections import ConnectionsView
from ibdissect.tui.screens.conversations import ConversationTable, ExchangeTable
from ibdissect.tui.screens.statistics import KindTable
from ibdissect.tui.widgets.table import Table
from ibdissect.wire.catalog import builtin

Row = dict[str, str]
"""Cells by the title of their column."""
ALL = 10_000
"""Lines of text that no capture has."""


def text_of_stats(result: dict[str, Any]) -> dict[str, list[Row]]:
    """The tables of the text by title; that of connections has none."""
    found: dict[str, list[Row]] = {}
    told = [*lines(result, lambda text, style: text)]
    titles = {title for title, _, _ in TABLES if title}
    at = 1
    while at < len(told):
        title = told[at] if told[at] in titles else "Connections" if told[at].startswith("Connections  ") else ""
        at += 1
        if title:
            heads = headings(title)
            starts = places(told[at], heads)
            rows = found.setdefault(title, [])
            at += 1
            while at < len(told) and told[at]:
                rows.append(dict(zip(heads, cells(told[at], starts), strict=True)))
                at += 1
    return found


def headings(title: str) -> list[str]:
    columns = next(columns for name, key, columns in TABLES if name == title or (title == "Connections" and key == "connection_list"))
    return [one.partition("=")[0] for one in columns.split("|")]


def places(line: str, heads: Sequence[str]) -> list[tuple[int, int]]:
    """Where each heading stands in the line of headings."""
    found, at = [], 0
    for head in heads:
        at = line.index(head, at) if head else at
        found.append((at, at + len(head)))
        at += len(head)
    return found


def cells(line: str, heads: Sequence[tuple[int, int]]) -> Iterator[str]:
    """The pieces of a line, which two blanks part, below the headings that they overlap."""
    pieces = [(match.start(), match.end(), match.group()) for match in re.finditer(r"\S+(?: \S+)*", line)]
    for start, stop in heads:
        yield next((text for first, last, text in pieces if first < max(stop, start + 1) and last > start), "")


def table_rows(table: Table[Any]) -> list[Row]:
    """The cells of a table of the screen; of columns with one title the last, which is the far end's."""
    return [{column.title: column.cell(item)[0] for column in table.columns} for item in table.items]


def screens(portrait: Portrait) -> dict[str, list[Row]]:
    """The tables of the screens of conversations, statistics and connections."""
    shot, diagnosis = portrait.shot, portrait.study.stories.diagnosis
    return {
        "conversations": table_rows(ConversationTable(shot.conversations)), "exchanges": table_rows(ExchangeTable(shot.exchanges)),
        "kinds": table_rows(KindTable(shot.kinds, builtin())),
        "connections": table_rows(ConnectionsView(diagnosis.connections if diagnosis is not None else [], 0)),
    }  # fmt: skip


def report(portrait: Portrait) -> dict[str, list[Row]]:
    """The tables of the page about a capture, by the name of their filter or their caption."""
    found: dict[str, list[Row]] = {}
    html = pictures(portrait, 1, 3).html
    for table in re.findall(r"<table.*?</table>", html, re.DOTALL):
        name = re.search(r'data-filter="(\w+)"|<caption>(.*?)</caption>', table)
        if name is not None:
            heads = re.findall(r'<th scope="col">(.*?)</th>', table)
            rows = re.findall(r"<tr>(.*?)</tr>", table[table.index("<tbody>") :], re.DOTALL)
            read = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows]
            found[name[1] or name[2]] = [dict(zip(heads, map(unescape, row), strict=True)) for row in read]
    return found


def number(cell: str) -> int:
    """A cell with a number; 0 where nothing is counted."""
    return int(cell.replace(",", "")) if cell not in ("·", "-", "", "?") else 0


def summed(rows: Sequence[Row], names: dict[str, str]) -> Counter[str]:
    """Sums of columns: of each name in `names` the sum of the column that it stands for."""
    found = Counter[str]()
    for row in rows:
        found.update({name: number(row[column]) for name, column in names.items()})
    return found
