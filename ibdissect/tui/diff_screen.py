"""The changes that `ibdissect diff --tui` shows, one line each, in the colours of the main screen."""

from __future__ import annotations

import textwrap

from rich.segment import Segment
from textual import events

from ibdissect.wire.text import printable

from .screens.overlay import Overlay
from .themes import ThemedApp
from .widgets.cells import line_of
from .widgets.line_list import LineList

INKS = {"+": "good", "-": "error", "~": "warning"}


class Changes(LineList):
    """Lines that begin with `+`, `-` or `~`."""

    empty = "Nothing changed."

    def __init__(self, lines: list[str]) -> None:
        super().__init__(id="changes")
        self.lines = self.changes = lines

    def on_mount(self) -> None:
        self.renew()

    def on_resize(self, _: events.Resize) -> None:
        self.call_after_refresh(self.lay_out)

    def lay_out(self) -> None:
        """Wrap for the width there is; a further line of a change has its sign, too, for what is searched and copied."""
        room = max(self.line_width - 3, 20)
        wrapped = ((line[:1], textwrap.wrap(printable(line[1:].strip()), room, subsequent_indent="    ") or [""]) for line in self.changes)
        self.lines = [sign + ("  " if i and sign else " ") + text for sign, texts in wrapped for i, text in enumerate(texts)]
        self.renew()

    def parts(self, index: int, width: int) -> list[Segment]:
        text = self.lines[index]
        return line_of(((f" {text[:1]}", self.ink(INKS[text[:1]])), (printable(text[1:]), None)), width)


class ChangesScreen(Overlay[None]):
    keys = "↑ ↓ PgUp PgDn · / search · q quit"


class ChangesApp(ThemedApp):
    """What changed between two descriptions of a subnet; `run` it."""

    def __init__(self, title: str, lines: list[str]) -> None:
        super().__init__()
        self.shown = ChangesScreen(title, Changes(lines))

    def on_mount(self) -> None:
        self.theme = "ibdissect-dark"
        self.push_screen(self.shown, lambda _: self.exit())
