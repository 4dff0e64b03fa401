"""The start screen of `ibdissect` without arguments: captures to open, and what else it can do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.segment import Segment
from textual.binding import Binding

from ibdissect.capture.file_names import ENDINGS
from ibdissect.screen_model.saved_state import FilterHistory, Profile, state_folder
from ibdissect.wire.text import printable

from .keys.captures import path_prompt
from .screens.overlay import Overlay
from .themes import ThemedApp
from .widgets.cells import line_of
from .widgets.line_list import LineList

MOST = 12
"""Captures of each kind."""
COMMANDS = (
    ("lint CAPTURE", "what is wrong in it, with the frames that prove it"), ("diagnose CAPTURE", "why connections failed or were slow"),
    ("show CAPTURE", "its frames as text, JSON or columns"), ("fabric CAPTURE", "the subnet as learnt from it"),
    ("--help", "all commands"),
)  # fmt: skip


class StartEntry(NamedTuple):
    """A line of the start screen."""

    text: str
    note: str = ""
    path: str | None = None
    """What Enter opens; empty: it asks for a path; None: nothing, it is to be read."""


def entries(recent: Sequence[str], folder: str) -> Iterator[StartEntry]:
    """A path to be typed, captures opened before (the latest first), those of a folder, commands for the shell."""
    yield StartEntry("Open a capture …", "o; Tab completes its path", "")
    there = [path for path in reversed(recent) if os.path.isfile(path)][:MOST]
    if there:
        yield StartEntry("")
        yield StartEntry("Opened before", "")
    for path in there:
        yield StartEntry(os.path.basename(path), os.path.dirname(path), path)
    try:
        with os.scandir(folder) as found:
            here = sorted(one.path for one in found if one.name.lower().endswith(ENDINGS) and one.is_file())
    except OSError:
        here = []
    if here:
        yield StartEntry("")
        more = f", the first {MOST} of {len(here)}" if len(here) > MOST else ""
        yield StartEntry(f"In this folder{more}", folder)
    for path in here[:MOST]:
        yield StartEntry(os.path.basename(path), f"{os.path.getsize(path):,} bytes", path)
    yield StartEntry("")
    yield StartEntry("In the shell")
    for words, what in COMMANDS:
        yield StartEntry(f"ibdissect {words}", what)


class StartList(LineList):
    """The lines; Enter or a double click opens a capture."""

    def __init__(self, lines: list[StartEntry]) -> None:
        super().__init__(id="start")
        self.lines = lines

    def on_mount(self) -> None:
        self.renew()

    def parts(self, index: int, width: int) -> list[Segment]:
        one: StartEntry = self.lines[index]
        heading = one.path is None and not one.text.startswith("ibdissect")
        start = " " if heading else "   "
        ink = self.ink("dim" if heading else "accent" if one.path == "" else "strong")
        return line_of(((start + printable(one.text).ljust(24), ink), (f"  {printable(one.note)}", self.ink("dim"))), width)

    def choose(self) -> None:
        screen = self.screen
        assert isinstance(screen, StartScreen)
        path = self.lines[self.cursor].path
        if path == "":
            screen.action_ask()
        elif path:
            screen.dismiss(path)


class StartScreen(Overlay[str]):
    """Returns the path of the capture that was chosen."""

    BINDINGS = [Binding("o,ctrl+o", "ask", "open a capture by its path"), Binding("ctrl+c", "dismiss(None)", show=False)]
    keys = "Enter opens · o a path · ? keys · q quit"

    def __init__(self, recent: Sequence[str], folder: str) -> None:
        super().__init__("ibdissect   captures of InfiniBand and RoCE", StartList([*entries(recent, folder)]))
        self.recent = recent

    def action_ask(self) -> None:
        def done(answer: tuple[str, str] | None) -> None:
            if answer is not None:
                self.dismiss(os.path.expanduser(answer[1]))

        self.app.push_screen(path_prompt(self.recent), done)


class StartApp(ThemedApp):
    """`run` it: returns the path of the capture to open, None to end."""

    def __init__(self) -> None:
        super().__init__()
        folder = state_folder()
        self.recent = FilterHistory(folder / "recent" if folder is not None else None, "recent").texts
        self.shown = StartScreen(self.recent, os.getcwd())

    def on_mount(self) -> None:
        wanted = Profile().last().look.get("theme", "")
        self.theme = wanted if wanted in self.available_themes else "ibdissect-dark"
        self.take_palette()
        self.push_screen(self.shown, lambda path: self.exit(path))
