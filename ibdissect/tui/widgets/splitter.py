"""A thin rule between two panes that can be dragged."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.widget import Widget

from ..messages import Sized

LEAST = 3
"""Cells that a pane keeps."""


class Splitter(Widget):
    """Drags the size of the pane `target`, which lies after it (below, right)."""

    def __init__(self, target: str, *, vertical: bool = False) -> None:
        super().__init__(id=f"split-{target}", classes="vertical" if vertical else "")
        self.target, self.vertical = target, vertical
        self._dragging = False

    def render(self) -> Text:
        rule = "\n".join("│" * self.size.height) if self.vertical else "─" * self.size.width
        return Text(rule, no_wrap=True)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        self.capture_mouse()
        self._dragging = True
        self.add_class("dragging")

    def on_mouse_up(self, event: events.MouseUp) -> None:
        event.stop()
        self.release_mouse()
        if self._dragging:
            pane, parent = self.screen.query_one(f"#{self.target}"), self.parent
            assert isinstance(parent, Widget)
            parts, whole = (pane.size.width, parent.size.width) if self.vertical else (pane.size.height, parent.size.height)
            self.post_message(Sized(f"size {self.target}", round(100 * parts / max(whole, 1))))
        self._dragging = False
        self.remove_class("dragging")

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if not self._dragging:
            return
        pane = self.screen.query_one(f"#{self.target}")
        region, parent = pane.region, pane.parent
        assert isinstance(parent, Widget)
        at, end = (event.screen_x, region.right) if self.vertical else (event.screen_y, region.bottom)
        room = (parent.size.width if self.vertical else parent.size.height) - 2 * LEAST
        size = int(max(LEAST, min(end - at - 1, room)))
        if self.vertical:
            pane.styles.width = size
        else:
            pane.styles.height = size
