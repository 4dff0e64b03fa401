"""Can help and palette be read?"""

from __future__ import annotations

from pathlib import Path

from textual import events

from ibdissect.tui.screens.choice import Choice
from ibdissect.tui.screens.page import PageScreen, view_page
from tests.tui import made
from tests.tui.made import running, shows, until


async def test_help_and_palette(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("question_mark")
        assert isinstance(app.screen, PageScreen) and "go to a frame number" in app.screen.body.plain
        assert "docs/numbers.md" in app.screen.body.plain
        await pilot.press("pagedown", "escape", "ctrl+p")
        await pilot.pause(0.1)
        assert type(app.screen).__name__ == "CommandPalette"
        await pilot.press("escape")
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert {"Statistics", "Fabric", "Next finding", "Theme"} <= titles


def test_the_page_of_a_view_says_where_numbers_are_defined() -> None:
    assert view_page("Statistics", "Esc back", ()).body.plain.endswith("docs/numbers.md")


async def test_keys_typed_right_behind_g_are_not_lost(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        for key in ("g", "2", "7", "enter"):
            app.post_message(events.Key(key, key if key.isdigit() or key == "g" else None))
        await shows(pilot, 27)


async def test_values_that_an_explanation_names_lead_to_their_frames(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("f", "e", "v")
        await until(pilot, lambda: isinstance(app.screen, Choice))
        assert isinstance(app.screen, Choice)
        assert {"Frames of LID 3", "Frames of LID 5"} <= {title for _, title, _ in app.screen.entries}, app.screen.entries
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.main and app.filtering.text)
