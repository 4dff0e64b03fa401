"""Can help and palette be read?"""

from __future__ import annotations

from pathlib import Path

from ibdissect.tui.screens.page import PageScreen
from tests.tui import made
from tests.tui.made import running


async def test_help_and_palette(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("question_mark")
        assert isinstance(app.screen, PageScreen) and "go to a frame number" in app.screen.body.plain
        await pilot.press("pagedown", "escape", "ctrl+p")
        await pilot.pause(0.1)
        assert type(app.screen).__name__ == "CommandPalette"
        await pilot.press("escape")
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert {"Statistics", "Fabric", "Next finding", "Theme"} <= titles
