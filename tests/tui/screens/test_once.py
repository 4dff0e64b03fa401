"""A second Enter, or Escape, that comes when a window is gone does nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import OptionList

from ibdissect.tui.screens.choice import Choice
from tests.tui import made
from tests.tui.made import running, until


@pytest.mark.parametrize(("answers", "wanted"), [("eeee", "b"), ("exe", "b"), ("xxx", None)])
async def test_a_window_is_left_once(answers: str, wanted: str | None, tmp_path: Path) -> None:
    """Enter (e) and Escape (x)."""
    got: list[str | None] = []
    async with running(made.capture(tmp_path)) as (app, pilot):
        choice = Choice("which", [("a", "one", ""), ("b", "two", "")])
        app.push_screen(choice, got.append)
        await until(pilot, lambda: app.screen is choice)
        options = choice.query_one(OptionList)
        await pilot.pause()
        for key in answers:
            if key == "e":
                choice._chosen(OptionList.OptionSelected(options, options.get_option_at_index(1), 1))
            else:
                choice.dismiss(None)
        await until(pilot, lambda: app.screen is app.main and bool(got))
    assert got == [wanted]


@pytest.mark.parametrize("keys", [("space", "enter", "enter", "enter", "enter"), ("o", "enter", "enter", "enter")])
async def test_keys_that_are_typed_fast(tmp_path: Path, keys: tuple[str, ...]) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        for key in keys:
            app.simulate_key(key)
        await pilot.pause(0.2)
        assert app.is_running and app.screen_stack
