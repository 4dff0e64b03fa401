"""Small windows that offer a few things to choose from: one of them, or the columns of the packet list."""

from __future__ import annotations

from collections.abc import Sequence

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

from ibdissect.study.packet_columns import Column
from ibdissect.wire.text import printable


class Choice(ModalScreen[str | None]):
    """Returns the key of what was chosen, None for Escape. Entries are (key, what it is, preview)."""

    BINDINGS = [Binding("escape,q", "dismiss(None)", "back")]

    def __init__(self, title: str, entries: list[tuple[str, str, str]]) -> None:
        super().__init__()
        self.heading, self.entries = title, entries

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(self.heading, classes="heading", markup=False)
            wide = max(len(name) for _, name, _ in self.entries)
            options = [
                Option(Text.assemble(name.ljust(wide), ("  " + printable(preview), "dim"), no_wrap=True, overflow="ellipsis"), id=f"c{i}")
                for i, (_, name, preview) in enumerate(self.entries)
            ]
            yield OptionList(*options, compact=True)

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self.entries[event.option_index][0])


class Columns(SelectionList[str]):
    """Check marks that differ in more than their colour."""

    def render_line(self, y: int) -> Strip:
        line, place = super().render_line(y), int(self.scroll_offset.y) + y
        if place >= self.option_count:
            return line
        _left, _button, _right, *rest = line
        sign = "[✓]" if self.get_option_at_index(place).value in self.selected else "[ ]"
        return Strip([Segment(sign, (rest[0].style or Style()) + Style(meta={"option": place})), *rest])


def _label(column: Column) -> Text:
    """The title, and the name of a field by which filters and commands know it."""
    return Text.assemble(column.title.ljust(14), (column.field, "dim"), no_wrap=True, overflow="ellipsis")


class ColumnChoice(ModalScreen[list[str] | None]):
    """Offers those shown first; returns the keys of the columns wanted, None for Escape."""

    BINDINGS = [Binding("escape,q", "dismiss(None)", "back"), Binding("enter", "done", "done", priority=True)]

    def __init__(self, columns: Sequence[Column], shown: Sequence[str]) -> None:
        super().__init__()
        self.shown = set(shown)
        self.columns = sorted(columns, key=lambda column: column.key not in self.shown)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label("Columns of the packet list", classes="heading")
            yield Columns(*(Selection(_label(column), column.key, column.key in self.shown) for column in self.columns))
            yield Label("space changes, Enter takes; + on a field of the tree adds it as a column", classes="hint", markup=False)

    def action_done(self) -> None:
        self.dismiss(list(self.query_one(SelectionList).selected))
