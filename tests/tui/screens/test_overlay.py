"""Screens over the main one open with the focus in their first part, say how they are left, and leave."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from ibdissect.tui.screens.conversations import ConversationScreen
from ibdissect.tui.screens.overlay import Overlay
from tests.tui import drawn, made
from tests.tui.made import running, until

LEAVE = "? keys · Esc back"


async def test_screens_open_and_leave(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        for key, leave in product("sCSbT", ("escape", "q", "again")):
            await pilot.press(key)
            await until(pilot, lambda: isinstance(app.screen, Overlay))
            await pilot.pause()
            assert app.focused is not None and app.focused.can_focus and "· Esc back" in drawn.text(app), key
            assert isinstance(app.screen, Overlay) and app.screen.key_line(80).endswith(f"· {LEAVE}")
            await pilot.press(key if leave == "again" else leave)
            assert app.screen is app.main and app.main.packets.has_focus, key


def test_the_line_of_keys_is_never_cut() -> None:
    """What has no room is left out; how to leave stays."""
    screen = ConversationScreen.__new__(ConversationScreen)
    full = f" {ConversationScreen.keys} · {LEAVE}"
    assert screen.key_line(200) == full and screen.key_line(len(full)) == full
    for width in (len(full) - 1, 60, 45):
        line = screen.key_line(width)
        assert len(line) <= width and line.endswith(f" · {LEAVE}") and "? keys" in LEAVE and line.startswith(" Enter")
