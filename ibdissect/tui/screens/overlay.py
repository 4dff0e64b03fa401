"""What do the screens over the main one share? A title, contents, and a line of keys; Escape closes them."""

from __future__ import annotations

from typing import TypeVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

T = TypeVar("T")


class Overlay(Screen[T | None]):
    """Returns what was chosen, None when it was left. The first part that takes keys has the focus."""

    BINDINGS = [Binding("escape,q", "dismiss(None)", "back")]
    keys = ""
    """Keys and what they do, except Escape."""

    def __init__(self, title: str, *shown: Widget) -> None:
        super().__init__()
        self.heading, self.shown = title, shown

    def content(self) -> ComposeResult:
        """The widgets between title and keys."""
        yield from self.shown

    def compose(self) -> ComposeResult:
        yield Static(f" {self.heading}", classes="screen-title", markup=False)
        yield from self.content()
        yield Static(f" {self.keys} · Esc back", classes="screen-keys", markup=False)
