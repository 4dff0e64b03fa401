"""The keys g, Ctrl+F, n and N lead to the frame that is wanted."""

from __future__ import annotations

from pathlib import Path

from textual.widgets import Input

from tests.tui import made
from tests.tui.made import asks, running, shows, type_text, until


async def test_go_to(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path, repeat=40)) as (app, pilot):
        await pilot.press("g")
        await type_text(pilot, "99999")
        await pilot.press("enter")
        assert asks(app), "there is no such frame"
        await pilot.press("backspace", "backspace", "enter")
        await shows(pilot, 999)
        assert app.main.packets.scroll_offset.y > 900
        await pilot.press("g", "escape")
        await shows(pilot, 999)


async def test_find(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("ctrl+f")
        await type_text(pilot, "needle")
        await pilot.press("enter")
        await shows(pilot, 7)
        await pilot.press("ctrl+f", "down")
        app.screen.query_one(Input).value = "xx"
        await pilot.press("enter")
        asks(app).value = "6e656564"
        await pilot.press("enter")
        await until(pilot, lambda: "wrapped around" in app.main.key_bar.note)
        await pilot.press("ctrl+f", "down")
        app.screen.query_one(Input).value = "bth.psn >= 109 && bth.psn <= 110"
        await pilot.press("enter")
        await shows(pilot, 18)
        await pilot.press("n")
        await shows(pilot, 19)
        await pilot.press("N")
        await shows(pilot, 18)


async def test_find_nothing(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("n")
        await type_text(pilot, "nowhere")
        await pilot.press("enter")
        await until(pilot, lambda: "not found" in app.main.key_bar.note)
        assert app.main.packets.frame == 1
