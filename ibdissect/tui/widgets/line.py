"""One line of text that is computed whenever it is drawn."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text
from textual.widget import Widget


class Line(Widget):
    """`draw` is given the width in cells; `refresh` draws again."""

    def __init__(self, draw: Callable[[int], str | Text], *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.draw = draw

    def render(self) -> Text:
        return Text.assemble(self.draw(self.size.width), no_wrap=True, overflow="crop")
