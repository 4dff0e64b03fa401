"""What stands on the screen: every widget of it, as it is drawn."""

from __future__ import annotations

from rich.segment import Segment
from textual.app import App
from textual.geometry import Region
from textual.widget import Widget


def segments(app: App[None]) -> list[Segment]:
    """All pieces of text that the widgets of the top screen draw, whatever lies over them."""
    found: list[Segment] = []
    for widget in app.screen.walk_children(Widget):
        if widget.display and widget.size.area:
            for strip in widget.render_lines(Region(0, 0, *widget.size)):
                found += [*strip, Segment("\n")]
    return found


def text(app: App[None]) -> str:
    """The text of all widgets of the top screen, a line for each of theirs."""
    return "".join(segment.text for segment in segments(app))
