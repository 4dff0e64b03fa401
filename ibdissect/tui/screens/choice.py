"""Small windows to choose one entry, or the columns of the packet list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Label, OptionList, SelectionList
from textual.widgets.option_list import Option
from textual.widgets.selection_list import Selection

from ibdissect.screen_model.packet_columns import NARROWEST, ListColumn, added
from ibdissect.wire.text import printable

from ..widgets.cells import width_of
from .once import EndsOnce

LEAST, BESIDE = 72, 12
"""Cells of a window, which is wider for long entries where the screen is; and what is beside them: border, padding, scroll bar."""


class PagingFix:
    """Ignores page keys while the options have no size on the screen, where Textual 8 would fail."""

    def _move_page(self: Any, direction: Any) -> None:  # Any: it is a base beside a widget, whose type it does not know
        if self.scrollable_content_region:
            super()._move_page(direction)  # type: ignore[misc]


class WindowOptions(PagingFix, OptionList):
    """Options of a window."""


class Choice(EndsOnce, ModalScreen[str | None]):
    """Returns the key of what was chosen, None for Escape. Entries are (key, what it is, preview)."""

    BINDINGS = [Binding("escape,q", "dismiss(None)", "back")]

    def __init__(self, title: str, entries: list[tuple[str, str, str]]) -> None:
        super().__init__()
        self.heading, self.entries = title, entries

    def compose(self) -> ComposeResult:
        wide = max(len(name) for _, name, _ in self.entries)
        with Vertical(classes="dialog") as dialog:
            longest = wide + 2 + max(width_of(printable(preview)) for *_, preview in self.entries)
            dialog.styles.width = max(LEAST, longest + BESIDE)
            yield Label(self.heading, classes="heading", markup=False)
            options = [
                Option(Text(f"{name.ljust(wide)}  {printable(preview)}", no_wrap=True, overflow="ellipsis"), id=f"c{i}")
                for i, (_, name, preview) in enumerate(self.entries)
            ]
            yield WindowOptions(*options, compact=True)

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self.entries[event.option_index][0])


class CheckedColumns(PagingFix, SelectionList[str]):
    """Columns with check marks that differ not only in colour."""

    def render_line(self, y: int) -> Strip:
        line, place = super().render_line(y), int(self.scroll_offset.y) + y
        if place >= self.option_count:
            return line
        _left, _button, _right, *rest = line
        sign = "[✓]" if self.get_option_at_index(place).value in self.selected else "[ ]"
        return Strip([Segment(sign, (rest[0].style or Style()) + Style(meta={"option": place})), *rest])


class ColumnChoice(EndsOnce, ModalScreen[list[str] | None]):
    """Offers those shown first; returns the keys of the columns wanted, None for Escape. `widths`: what the user chose, changed here."""

    BINDINGS = [
        Binding("escape,q", "dismiss(None)", "back"), Binding("enter", "done", "done", priority=True),
        Binding("left", "widen(-1)", "narrower", priority=True), Binding("right", "widen(1)", "wider", priority=True),
        Binding("less_than_sign", "move(-1)", "further left", priority=True),
        Binding("greater_than_sign", "move(1)", "further right", priority=True),
        Binding("plus,a", "add", "add a field", priority=True),
    ]  # fmt: skip

    def __init__(
        self, columns: Sequence[ListColumn], shown: Sequence[str], given: Mapping[str, int], widths: dict[str, int],
        typed: Callable[[str], str] = lambda text: "", made: Callable[[str], ListColumn] = added,
        complete: Callable[[str], tuple[str, str]] | None = None,
    ) -> None:  # fmt: skip
        """`given`: how wide each column is now. `typed`: the name of the field that a text means, empty for none; `made`: its column;
        `complete`: what Tab makes of a name, and what it says.
        """
        super().__init__()
        self.shown, self.given, self.widths, self.typed, self.made = set(shown), given, widths, typed, made
        self.complete = complete
        order = {key: place for place, key in enumerate(shown)}
        self.columns = sorted(columns, key=lambda column: order.get(column.key, len(order)))

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label("Columns of the packet list", classes="heading")
            yield CheckedColumns(*(Selection(self._label(column), column.key, column.key in self.shown) for column in self.columns))
            yield Label("space shows · ← → width · < > place · + a field · Enter takes", classes="hint", markup=False)

    def _label(self, column: ListColumn) -> Text:
        """The title, the width if it was chosen, and the name of a field by which filters and commands know it."""
        width = str(self.widths.get(column.key, "")).rjust(3)
        room = "no room  " if column.key in self.shown and column.key not in self.given else ""
        return Text(f"{column.title.ljust(14)}{width}  {room}{column.field}", no_wrap=True, overflow="ellipsis")

    def action_widen(self, step: int) -> None:
        """Make the column at the cursor wider or narrower; one that gets too narrow has the width that fits again."""
        offered = self.query_one(CheckedColumns)
        column = self.columns[offered.highlighted or 0]
        cells = self.widths.get(column.key, self.given.get(column.key, column.least)) + step
        self.widths[column.key] = min(cells, self.app.size.width // 2)
        if cells < NARROWEST or column.key == "info":
            del self.widths[column.key]
        offered.replace_option_prompt_at_index(offered.highlighted or 0, self._label(column))

    def _renew(self, at: int) -> None:
        """Show the columns as they are now, with the cursor on one."""
        offered = self.query_one(CheckedColumns)
        chosen = set(offered.selected)
        offered.clear_options()
        offered.add_options([Selection(self._label(column), column.key, column.key in chosen) for column in self.columns])
        offered.highlighted = at

    def action_move(self, step: int) -> None:
        """Put the column at the cursor further left or right."""
        at = self.query_one(CheckedColumns).highlighted or 0
        to = at + step
        if 0 <= to < len(self.columns):
            self.columns[at], self.columns[to] = self.columns[to], self.columns[at]
            self._renew(to)

    def action_add(self) -> None:
        """Ask for a field by its name, and show it in front of the column at the cursor."""
        from .prompt import Prompt  # which needs nothing of this

        def check(_: str, text: str) -> str | None:
            return None if self.typed(text) else "no field that a column can show has this name"

        def done(answer: tuple[str, str] | None) -> None:
            name = self.typed(answer[1]) if answer is not None else ""
            if name:
                there = next((column for column in self.columns if column.key == name), None)
                at, column = self.query_one(CheckedColumns).highlighted or 0, there or self.made(name)
                self.columns = [one for one in self.columns if one is not there]
                self.columns.insert(at, column)
                self._renew(at)
                self.query_one(CheckedColumns).select(name)

        prompt = Prompt("Column of a field (Tab completes)", check, placeholder="infiniband.bth.psn", complete=self.complete)
        self.app.push_screen(prompt, done)

    def action_done(self) -> None:
        chosen = set(self.query_one(SelectionList).selected)
        self.dismiss([column.key for column in self.columns if column.key in chosen])

    @property
    def by_key(self) -> dict[str, ListColumn]:
        """The columns that are offered, those that were typed among them."""
        return {column.key: column for column in self.columns}
