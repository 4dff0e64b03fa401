"""Sortable tables: a list with titles above it, whose columns adapt to the width of the screen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, TypeVar

from rich.segment import Segment
from textual.binding import Binding, BindingType

from .cells import cut, cut_apart, fit, width_of
from .line_list import LineList

T = TypeVar("T")
Cell = tuple[str, str]
"""Text, and the name of its ink (empty: plain)."""
MARGIN = 2
"""Cells in front of the first column."""
NARROW = 12
"""Cells that the widest columns keep."""
GAP = 2
"""Cells between two columns."""
SOME = 4
"""Least width of what is drawn after the columns; it is left out if it has less."""
ADDRESS = 9, 26
"""Cells of a column of addresses, least and most."""
UNITS = {"": 1.0, "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 6e10,
         "h": 3.6e12}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Heading(Generic[T]):
    """A column, and what an item has in it."""

    title: str
    width: int
    cell: Callable[[T], Cell]
    align: str = "right"
    rank: int = 0
    """Without room for all columns, those with the highest rank are left out first; 0: never."""
    least: int = 0
    """Cells that it is narrowed to before any column is left out; 0: not narrowed."""
    names: Iterable[str] = ()
    """Its texts, if they are names: in a narrowed column they are cut so that they stay different."""


def address_heading(
    title: str, items: Iterable[T], text: Callable[[T], str], ink: Callable[[T], str] = lambda _: "", *, least: int = 0
) -> Heading[T]:
    """A column of addresses or names, as wide as the longest of them."""
    found = {text(item) for item in items}
    width = min(max(max(map(width_of, found), default=0), len(title), ADDRESS[0]), ADDRESS[1])
    return Heading(title, width, lambda item: (text(item), ink(item)), "left", 0, least, found)


class Table(LineList, Generic[T]):
    """Items as rows. A subclass says which columns there are, and what is drawn after them."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("o", "sort(1)", "sort"), Binding("O", "sort(-1)", "sort")]
    headed = True
    columns: Sequence[Heading[T]] = ()
    rest_title = ""
    """Title of what is drawn after the columns."""
    least_rest = 0
    """Cells it has at least, while columns of a rank above `rest_rank` can be left out."""
    rest_rank = 0

    def __init__(self, items: Sequence[T], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.items = items
        """In the order they came in."""
        self.order: Sequence[int] = range(len(items))
        """Which item each line shows."""
        self._cut: dict[tuple[str, int], Mapping[str, str]] = {}
        """Names in columns that are too narrow for them, by title and width of the column."""
        self.sorted_by = -1
        """Place of the column that lines are sorted by; -1: none."""

    def rest(self, item: T, room: int) -> Cell:
        """What is drawn after the columns."""
        return "", ""

    def rest_parts(self, item: T, room: int) -> list[Segment]:
        """The same in pieces of several inks."""
        text, ink = self.rest(item, room)
        return [Segment(cut(text, room), self.ink(ink) if ink else None)]

    def rest_room(self, width: int) -> int:
        """Cells after the columns, in lines of a width."""
        return _room(self._fitting(width), width)

    def answer(self, item: T) -> object:
        """What the screen returns when an item is chosen; None: it stays open."""
        return None

    def choose(self) -> None:
        if self.chosen is not None and (answer := self.answer(self.chosen)) is not None:
            self.screen.dismiss(answer)

    @property
    def chosen(self) -> T | None:
        return self.items[self.order[self.cursor]] if self.cursor < len(self.order) else None

    def count(self) -> int:
        return len(self.items)

    def on_mount(self) -> None:
        self.renew()

    def action_sort(self, step: int) -> None:
        """Sort by the next or previous column, the highest number first; after the last column, in the order they came in."""
        at = self.order[self.cursor] if self.items else 0
        self.sorted_by = (self.sorted_by + 1 + step) % (len(self.columns) + 1) - 1
        self.order = range(len(self.items))
        if self.sorted_by >= 0:
            head = self.columns[self.sorted_by]
            values = [sort_value(head.cell(item)[0]) for item in self.items]
            self.order = sorted(self.order, key=values.__getitem__, reverse=head.align == "right")
        self.redraw()
        if self.items:
            self.select(self.order.index(at), tell=False, center=True)

    @property
    def head(self) -> str:
        columns = self._fitting(self.line_width)
        cells = "".join(fit(head.title, head.width, head.align) + " " * GAP for head in columns)
        return " " * MARGIN + cells + (self.rest_title if _room(columns, self.line_width) else "")

    def parts(self, index: int, width: int) -> list[Segment]:
        item, columns = self.items[self.order[index]], self._fitting(width)
        segments = [Segment(" " * MARGIN)]
        for head in columns:
            text, ink = head.cell(item)
            if head.names and width_of(text) > head.width:
                key = head.title, head.width
                self._cut[key] = self._cut.get(key) or cut_apart(head.names, head.width)
                text = self._cut[key].get(text, text)
            segments += [Segment(fit(text, head.width, head.align), self.ink(ink) if ink else None), Segment(" " * GAP)]
        return [*segments, *self.rest_parts(item, _room(columns, width))]

    def _fitting(self, width: int) -> list[Heading[T]]:
        """The columns that fit; the one that lines are sorted by stays, and its title has a mark."""
        columns = list(self.columns)
        if self.sorted_by >= 0:
            head = columns[self.sorted_by]
            sign = "▾" if head.align == "right" else "▴"
            columns[self.sorted_by] = replace(head, title=f"{head.title[: head.width - 1]}{sign}", rank=0)
        return fitting(columns, width, self.least_rest, self.rest_rank)


def _room(columns: Sequence[Heading[T]], width: int) -> int:
    """Cells after the columns; 0 if there are hardly any."""
    room = width - MARGIN - sum(head.width + GAP for head in columns) - 1
    return room if room >= SOME else 0


def fitting(columns: Sequence[Heading[T]], width: int, rest: int = 0, rest_rank: int = 0) -> list[Heading[T]]:
    """The columns that fit, in order, with `rest` cells left after them while columns above `rest_rank` can go instead; at last the
    widest ones are narrowed.
    """
    shown, full = list(columns), list(columns)
    while (over := MARGIN + sum(head.width + GAP for head in shown) + rest - width) > 0:
        wide = max(range(len(shown)), key=lambda i: shown[i].width - shown[i].least if shown[i].least else 0)
        if 0 < shown[wide].least < shown[wide].width:
            shown[wide] = replace(shown[wide], width=shown[wide].width - 1)
            continue
        last = max(range(len(shown)), key=lambda i: shown[i].rank)
        if rest and shown[last].rank <= rest_rank:
            rest = 0
            continue
        if not shown[last].rank:
            widest = max(range(len(shown)), key=lambda i: (shown[i].width > NARROW, bool(shown[i].names), shown[i].width))
            if shown[widest].width <= NARROW:
                break
            shown[widest] = replace(shown[widest], width=shown[widest].width - 1)
            continue
        del shown[last], full[last]
    for _ in range(-over):  # narrowed columns have what others left
        narrowed = max(range(len(shown)), key=lambda i: full[i].width - shown[i].width)
        if shown[narrowed].width < full[narrowed].width:
            shown[narrowed] = replace(shown[narrowed], width=shown[narrowed].width + 1)
    return shown


def sort_value(text: str) -> tuple[float, str]:
    """What the text of a cell is sorted by: its number in one unit, else the text with its numbers in order (LID 9 before LID 10)."""
    found = re.fullmatch(r"(\d[\d,]*(?:\.\d+)?)(?: (\w+)(?: \d+ s)?)?", text)
    if found is None or (found[2] or "") not in UNITS:
        return -1.0, re.sub(r"0x[0-9a-f]+|\d+", lambda part: part[0] if part[0][:2] == "0x" else part[0].zfill(20), text)
    return float(found[1].replace(",", "")) * UNITS[found[2] or ""], ""
