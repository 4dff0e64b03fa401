"""A small window to choose the columns of the packet list."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label, SelectionList
from textual.widgets.selection_list import Selection

from .columns import Column


class ColumnChoice(ModalScreen[list[str] | None]):
    """Returns the keys of the columns wanted, None for Escape."""

    BINDINGS = [Binding("escape,q", "dismiss(None)", "back"), Binding("enter", "done", "done", priority=True)]

    def __init__(self, columns: Sequence[Column], shown: Sequence[str]) -> None:
        super().__init__()
        self.columns, self.shown = columns, set(shown)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label("Columns", classes="heading")
            yield SelectionList[str](
                *(Selection(column.field or column.title, column.key, column.key in self.shown) for column in self.columns)
            )
            yield Label("space changes, Enter takes; + on a field of the tree adds it as a column", classes="hint", markup=False)

    def action_done(self) -> None:
        self.dismiss(list(self.query_one(SelectionList).selected))
