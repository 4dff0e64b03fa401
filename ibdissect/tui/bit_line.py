"""The one line under the bytes that shows the selected field bit by bit."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from .bytes_pane import BytesPane


class BitLine(Widget):
    """Empty for fields of whole bytes."""

    def __init__(self, pane: BytesPane) -> None:
        super().__init__(id="bits")
        self.pane = pane

    def render(self) -> Text:
        return Text.assemble(
            *[(text, style) if style is not None else text for text, style in self.pane.bit_line(self.size.width)],
            no_wrap=True, overflow="crop",
        )  # fmt: skip
