"""The titles above the packet list."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget


class ColumnHeader(Widget):
    """One quiet line."""

    def __init__(self) -> None:
        super().__init__(id="columns")
        self.title_line = ""

    def show(self, titles: str) -> None:
        """Show other titles."""
        self.title_line = titles
        self.refresh()

    def render(self) -> Text:
        return Text(self.title_line, no_wrap=True, overflow="crop")
