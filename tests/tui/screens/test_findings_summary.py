"""The summary explains a rule and filters by it."""

from __future__ import annotations

from pathlib import Path

from ibdissect.tui.screens.findings_summary import SummaryScreen
from ibdissect.tui.screens.page import PageScreen
from tests.tui import made
from tests.tui.made import running, until


async def test_summary_screen(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("S")
        assert isinstance(app.screen, SummaryScreen)
        table = app.screen.table
        place = next(i for i, group in enumerate(table.items) if group.code == "PKY003")
        await pilot.press(*["down"] * place, "enter")
        await until(pilot, lambda: app.main.packets.rows.frames(0, 9) == [3])
        await pilot.press("S")
        assert isinstance(app.screen, SummaryScreen)
        code = app.screen.table.items[1].code
        await pilot.press("down", "e")
        await until(pilot, lambda: isinstance(app.screen, PageScreen))
        assert code in app.screen.heading.plain  # type: ignore[attr-defined]
