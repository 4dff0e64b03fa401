"""Do screens over the main one open with the focus in their first part, say how they are left, and leave?"""

from __future__ import annotations

from itertools import product
from pathlib import Path

from ibdissect.tui.screens.overlay import Overlay
from tests.tui import drawn, made
from tests.tui.made import running, until


async def test_screens_open_and_leave(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        for key, leave in product("sCSbT", ("escape", "q", "again")):
            await pilot.press(key)
            await until(pilot, lambda: isinstance(app.screen, Overlay))
            await pilot.pause()
            assert app.focused is not None and app.focused.can_focus and "· Esc back" in drawn.text(app), key
            assert isinstance(app.screen, Overlay) and len(f" {app.screen.keys} · Esc back") <= 80
            await pilot.press(key if leave == "again" else leave)
            assert app.screen is app.main and app.main.packets.has_focus, key
