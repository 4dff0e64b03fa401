"""A small window that offers a few things to choose from."""

from __future__ import annotations

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

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
