"""Panes by size of the screen, the way of Tab round them, and the words of an empty capture."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Label

from tests.screen_model.made import written
from tests.tui import made
from tests.tui.made import asks, running, shows, until


@pytest.mark.parametrize(
    ("panes", "size", "shown"),
    [
        ({}, (120, 40), {"tree": True, "bytes": True, "findings": True}),
        ({}, (80, 24), {"tree": True, "bytes": False, "findings": False}),
        ({"bytes": True}, (80, 24), {"tree": False, "bytes": True, "findings": False}),
        ({"findings": True}, (80, 24), {"tree": False, "bytes": False, "findings": True}),
        ({"bytes": False, "findings": False}, (250, 80), {"tree": True, "bytes": False, "findings": False}),
    ],
)
def test_panes(tmp_path: Path, panes: dict[str, bool], size: tuple[int, int], shown: dict[str, bool]) -> None:
    layout = made.app_on(made.capture(tmp_path)).main.layout_
    layout.wanted = panes
    assert layout.shown(*size) == shown


async def test_sizes(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path), (80, 24)) as (app, pilot):
        app.jump(3)
        await shows(pilot, 3)
        for size in ((80, 24), (100, 30), (120, 36), (200, 50), (250, 80), (40, 10)):
            await pilot.resize_terminal(*size)
            small = size[0] < 100
            await until(pilot, lambda size=size: app.screen.size == size and app.query_one("#byte-side").display == (size[0] >= 100))
            if small:
                await pilot.press("x")
                assert app.main.bytes_pane.has_focus and not app.main.tree_pane.display
                await pilot.press("x", "F")
                assert app.main.findings_pane.has_focus and not app.main.tree_pane.display
                await pilot.press("F")
                app.main.layout_.wanted.clear()
            for strip in app.main.packets.render_lines(app.main.packets.size.region):
                assert strip.cell_length <= size[0]


async def test_tab_goes_round_the_panes(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        seen = []
        for _ in range(4):
            await pilot.press("tab")
            seen.append(app.focused.id if app.focused is not None else None)
        assert seen == ["tree", "bytes", "findings", "packets"]
        await pilot.press("shift+tab")
        assert app.main.findings_pane.has_focus


async def test_an_empty_capture(tmp_path: Path) -> None:
    app = made.app_on(written(tmp_path))
    async with app.run_test(size=made.SIZE) as pilot:
        await until(pilot, lambda: app.study.finished)
        await until(pilot, lambda: "The capture holds no frames." in app.main.packets.render_line(1).text)
        await pilot.press("down", "enter", "c", "r", "R", "m", "e", "f", "left", "a")
        await pilot.pause()
        assert app.main.packets.frame == 0 and app.main.packets.count() == 0 and app.model.error in (None, "")


async def test_remarks_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while, and when the next key is pressed; what stands comes back, what belongs to work stays."""
    async with running(made.capture(tmp_path), (80, 24)) as (app, pilot):
        bar = app.main.key_bar
        after = bar.set_timer
        monkeypatch.setattr(bar, "set_timer", lambda _, call: after(0.05, call))
        bar.stand("held")
        bar.say("done")
        assert "done" in bar.render().plain and "held" not in bar.render().plain
        await until(pilot, lambda: not bar.note)
        assert "held" in bar.render().plain
        monkeypatch.setattr(bar, "set_timer", lambda _, call: after(60, call))
        app.note("a note over the list")
        bar.say("about the last key")
        await pilot.press("i")
        assert bar.note != "about the last key" and not app._notifications
        bar.say("working…", stays=True)
        await pilot.press("m", "down", "m")
        app.main.key_bar.say("working…", stays=True)
        bar.say_no_more()
        assert bar.note == "working…"
        await pilot.press("w")  # more kinds than one line has room for
        await until(pilot, lambda: asks(app))
        kinds = app.screen.query_one("#prompt-kinds", Label)
        lines = str(kinds.content).split("\n")
        assert kinds.size.height == len(lines) == 4 and max(map(len, lines)) <= kinds.size.width
