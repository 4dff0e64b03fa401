"""The summary explains a rule and filters by it."""

from __future__ import annotations

from pathlib import Path

from tests.tui import drawn, made
from tests.tui.made import focused, opens, running, until


async def test_summary_screen(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await opens(pilot, "S")
        table = focused(app)
        place = next(i for i, group in enumerate(table.items) if group.code == "PKY003")
        await pilot.press(*["down"] * place, "enter")
        await until(pilot, lambda: app.main.packets.rows.frames(0, 9) == [3])
        await opens(pilot, "S")
        code = focused(app).items[1].code
        await pilot.press("down", "e")
        await until(pilot, lambda: len(app.screen_stack) == 2 and code in drawn.text(app) and "Why it matters" in drawn.text(app))
        assert code in app.screen.heading.plain  # type: ignore[attr-defined]
