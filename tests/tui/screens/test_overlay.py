"""Screens over the main one open with the focus in their first part, say how they are left, and leave."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from tests.tui import drawn, made
from tests.tui.made import opens, running

LEAVE = "? keys · Esc back"


async def test_screens_open_and_leave(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        for key, leave in product("sCSbT", ("escape", "q", "again")):
            screen = await opens(pilot, key)
            await pilot.pause()
            assert app.focused is not None and app.focused.can_focus and "· Esc back" in drawn.text(app), key
            assert screen.key_line(80).endswith(f"· {LEAVE}")
            await pilot.press(key if leave == "again" else leave)
            assert app.screen is app.main and app.main.packets.has_focus, key


async def test_the_line_of_keys_is_never_cut(tmp_path: Path) -> None:
    """What has no room is left out; how to leave stays."""
    async with running(made.capture(tmp_path)) as (_, pilot):
        screen = await opens(pilot, "C")
        full = f" {screen.keys} · {LEAVE}"
        assert screen.key_line(200) == full and screen.key_line(len(full)) == full
        for width in (len(full) - 1, 60, 45):
            line = screen.key_line(width)
            assert len(line) <= width and line.endswith(f" · {LEAVE}") and line.startswith(" Enter")
