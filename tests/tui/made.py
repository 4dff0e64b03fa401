"""The application on a small capture, and what tests wait for."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any  # a screen of any class: tests ask it for what it shows

from textual.css.query import NoMatches
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widgets import Input

from ibdissect.cli.common_options import CommonOptions
from ibdissect.cli.points import MergedCapture
from ibdissect.lint.rule import REGISTRY
from ibdissect.pipeline.check import CheckOptions
from ibdissect.rules import load
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.saved_state import FilterHistory, Profile
from ibdissect.tui.app import TuiApp
from ibdissect.tui.screens.choice import Choice
from tests.screen_model.made import capture as capture
from tests.screen_model.made import frames as frames
from tests.tui import drawn

SIZE = (120, 40)
Running = tuple[TuiApp, Pilot[None]]


def app_on(
    path: Path, *, follow: bool = False, show_keys: bool = False, display_filter: str = "", fields: tuple[str, ...] = ()
) -> TuiApp:  # fmt: skip
    """The application on a capture, with a history of its own. `fields`: columns that a plugin wants."""
    model = CaptureModel(str(path), follow=follow, show_keys=show_keys)
    history, memory = FilterHistory(path.parent / "history"), Profile(path.parent / "screen.json")
    return TuiApp([model], lambda: CheckOptions(rules=load()), history=history, memory=memory, display_filter=display_filter, fields=fields)


def app_on_points(captures: Sequence[Path], path: Path) -> TuiApp:
    """The application on what several points captured, merged in a file: with one rule, that about losses between points."""
    merged = MergedCapture([*map(str, captures)], CommonOptions())
    shutil.copy(merged.file.name, path)
    merged.file.close()
    app = app_on(path)
    merged.tell(app.model)
    app.main.recall()
    app.study.load = lambda: CheckOptions(rules=[REGISTRY["PTS001"]], policy=merged.known)
    return app


async def until(pilot: Pilot[None], true: Callable[[], object]) -> None:
    """Wait for what a thread does, or for the widgets of a screen that opens; fails after ten seconds."""
    for _ in range(400):
        with suppress(NoMatches):
            if true():
                await pilot.pause()
                return
        await pilot.pause(0.025)
    raise AssertionError("nothing came of it")


@asynccontextmanager
async def running(path: Path, size: tuple[int, int] = SIZE, display_filter: str = "") -> AsyncIterator[Running]:
    app = app_on(path, display_filter=display_filter)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.study.finished and app.main.tree_pane.lines)
        await pilot.pause(0.15)
        app.main.packets.render_lines(Region(0, 0, *app.main.packets.size))
        await pilot.pause()  # columns are as wide as what was drawn first
        yield app, pilot
        drawn.segments(app)


async def shows(pilot: Pilot[None], frame: int) -> None:
    """Wait until list and tree are on a frame."""
    app = pilot.app
    assert isinstance(app, TuiApp)
    packets, tree = app.main.packets, app.main.tree_pane
    await until(pilot, lambda: packets.frame == frame and tree.frame_tree and tree.frame_tree.frame == frame)


def text(app: TuiApp, line: int) -> str:
    """A line of the packet list as it is drawn."""
    return "".join(segment.text for segment in app.main.packets.render_line(line + 1))


async def type_text(pilot: Pilot[None], what: str) -> None:
    names = {" ": "space", "_": "underscore", ".": "full_stop", "=": "equals_sign"}
    await pilot.press(*(names.get(character, character) for character in what))


async def opens(pilot: Pilot[None], *keys: str) -> Any:
    """The screen or window that the last of some keys opens, when a part of it has the focus."""
    before = pilot.app.screen
    await pilot.press(*keys)
    await until(pilot, lambda: pilot.app.screen is not before and pilot.app.focused is not None)
    return pilot.app.screen


async def leaves(pilot: Pilot[None], *keys: str) -> None:
    """Press keys of which the last leads back to the packet list."""
    await pilot.press(*keys)
    app = pilot.app
    assert isinstance(app, TuiApp)
    await until(pilot, lambda: app.screen is app.main)


def asks(app: TuiApp) -> Any:
    """The line of a window that asks for one, as soon as keys are written into it; None if no line is asked for."""
    line, window = app.focused, app.screen
    return line if window is not app.main and isinstance(line, Input) and window.early is None else None  # type: ignore[attr-defined]


def offered(app: TuiApp) -> list[tuple[str, str, str]]:
    """What a small window offers: answer, title and preview of each entry; nothing if there is no such window."""
    return app.screen.entries if isinstance(app.screen, Choice) else []


def told(app: TuiApp, what: str) -> bool:
    """Whether a message over the screen has told something."""
    return any(what in note.message for note in app._notifications)


def focused(app: TuiApp) -> Any:
    """The part of the screen in front that keys are for."""
    return app.focused
