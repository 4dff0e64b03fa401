"""The frame of the screens over the main one: a title, contents, and a line of keys; Escape closes them."""

from __future__ import annotations

from typing import TypeVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from ..widgets.cells import width_of
from ..widgets.line import DrawnLine
from .once import EndsOnce
from .page import view_page

T = TypeVar("T")
LEAVE = "? keys · Esc back"
"""What the line of keys of every view ends with."""


def _declared(node: DOMNode, binding: Binding) -> bool:
    """Whether a class of this program has a key; the toolkit's own keys are named in words of the toolkit."""
    ours = [one for one in type(node).__mro__ if one.__module__.startswith("ibdissect.")]
    keys = {one.action for kind in ours for one in vars(kind).get("BINDINGS", ()) if isinstance(one, Binding) and one.description}
    return bool(binding.description) and binding.action in keys


class Overlay(EndsOnce, Screen[T | None]):
    """Returns what was chosen, None when it was left. The first part that takes keys has the focus."""

    BINDINGS = [Binding("escape,q", "dismiss(None)", "back"), Binding("question_mark,f1", "help", "these keys", show=False)]
    keys = ""
    """Keys and what they do, except Escape."""

    def __init__(self, title: str, *shown: Widget) -> None:
        super().__init__()
        self.heading, self.shown = title, shown

    def content(self) -> ComposeResult:
        """The widgets between title and keys."""
        yield from self.shown

    def title_text(self, text: str) -> None:
        """Change the title."""
        self.query_one(".screen-title", Static).update(f" {text}")

    def action_help(self) -> None:
        """The keys of this view, and of the part that has the focus."""
        found = [one.binding for one in self.active_bindings.values() if one.node is not self.app and _declared(one.node, one.binding)]
        self.app.push_screen(view_page(self.heading.partition("   ")[0], self.keys, found))

    def key_line(self, width: int) -> str:
        """As many of the keys as there is room for; `?`, which shows all, and how to leave are always there."""
        shown = self.keys.split(" · ")
        while len(shown) > 1 and width_of(" · ".join([*shown, LEAVE])) + 1 > width:
            del shown[-1]
        return f" {' · '.join([*shown, LEAVE])}"

    def compose(self) -> ComposeResult:
        yield Static(f" {self.heading}", classes="screen-title", markup=False)
        yield from self.content()
        yield DrawnLine(self.key_line, classes="screen-keys")
