"""How is a table walked and sorted? A list whose columns follow the width of the screen; `o` sorts by one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.message import Message

from .cells import fit
from .line_list import LineList
from .table_columns import GAP, MARGIN, Heading, fitting, room_behind, sort_value, titles


class HeadedList(LineList):
    """A subclass says which columns there are, what stands in each cell, and what in the room behind them."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("o", "sort(1)", "sort"), Binding("O", "sort(-1)", "sort")]
    behind = ""
    """Title of what stands behind the columns."""
    least_behind = 0
    """Cells it has at least, while other columns can be left out."""
    columns: Sequence[Heading] = ()
    order: Sequence[int] | None = None
    """Numbers of the rows as they are sorted; None: as they came."""
    sorted_by = -1
    """Place of the column they are sorted by."""

    class Sorted(Message):
        """The titles above the table are others."""

    def cell(self, index: int, key: str) -> tuple[str, str]:
        """Text of a cell, and the name of its ink (empty: plain)."""
        raise NotImplementedError

    def rest(self, index: int, room: int) -> Segment:
        """What stands behind the columns, in at most so many cells."""
        raise NotImplementedError

    @property
    def chosen(self) -> int:
        """Number of the row at the cursor."""
        return self.cursor if self.order is None else self.order[self.cursor]

    def action_sort(self, step: int) -> None:
        """Sort by the next or previous column, the highest number first; behind the last one, as the rows came."""
        chosen = self.chosen if self.count() else 0
        self.sorted_by = (self.sorted_by + 1 + step) % (len(self.columns) + 1) - 1
        head = self.columns[self.sorted_by] if self.sorted_by >= 0 else None
        rows = range(self.count())
        self.order = sorted(rows, key=lambda row: sort_value(self.cell(row, head.key)[0]), reverse=head.align == "right") if head else None
        self.renew()
        self.select(chosen if self.order is None or not self.order else self.order.index(chosen), tell=False, center=True)
        self.post_message(self.Sorted())

    @property
    def title_line(self) -> str:
        """The line above the table."""
        marked = list(self.columns)
        if self.sorted_by >= 0:
            head = marked[self.sorted_by]
            sign = "▾" if head.align == "right" else "▴"
            marked[self.sorted_by] = replace(head, title=f"{head.title[: head.width - 1]}{sign}", rank=0)
        return titles(self._fitting(marked, self.line_width), self.behind)

    def parts(self, index: int, width: int) -> list[Segment]:
        marked = [replace(head, rank=0) if place == self.sorted_by else head for place, head in enumerate(self.columns)]
        columns, index = self._fitting(marked, width), index if self.order is None else self.order[index]
        segments = [Segment(" " * MARGIN)]
        for head in columns:
            text, ink = self.cell(index, head.key)
            segments += [Segment(fit(text, head.width, head.align), self.ink(ink) if ink else None), Segment(" " * GAP)]
        return [*segments, self.rest(index, max(room_behind(columns, width) - 1, 0))]

    def _fitting(self, columns: Sequence[Heading], width: int) -> list[Heading]:
        return fitting(columns, width, self.least_behind)
