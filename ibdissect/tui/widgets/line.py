"""One line of text: computed whenever it is drawn, or typed, with invisible characters as escapes."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text
from textual.widget import Widget
from textual.widgets import Input

from ibdissect.wire.text import printable


class DrawnLine(Widget):
    """`draw` is given the width in cells; `refresh` draws again."""

    def __init__(self, draw: Callable[[int], str | Text], *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.draw = draw

    def render(self) -> Text:
        return Text.assemble(self.draw(self.size.width), no_wrap=True, overflow="crop")


class PlainInput(Input):
    """An `Input` draws its value as it is, escape sequences and bidi marks too."""

    def validate_value(self, value: str) -> str:
        """What Textual stores instead of a new value."""
        return printable(value)
