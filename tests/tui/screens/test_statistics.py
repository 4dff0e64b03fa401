"""The statistics are drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ibdissect.lint.finding import Severity
from tests.screen_model.made import TOTAL
from tests.tui import made
from tests.tui.made import asks, focused, opens, running, until


async def test_statistics(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        screen = await opens(pilot, "s")
        plot: Any = screen.query(".plot").first()
        assert sum(plot.values) == TOTAL and "at most 1 in 1 ms" in plot.render().plain and "▲" in plot.render().plain
        bars = "".join(one.render().plain for one in screen.query(".bars"))
        assert "RC SEND Only" in bars and "PM" in bars and "LID 3" in bars
        worse = sorted(Severity, key=lambda severity: severity.rank)
        plot.marks = [severity.rank for severity in worse for _ in range(plot.size.width)]
        text = plot.render()
        colors = [span.style for span in text.spans if text.plain[span.start] == "▲"]
        assert list(dict.fromkeys(colors)) == [plot.ink(severity.value) for severity in worse], "red for errors only"
        await pilot.press("tab", "o", "O")
        kinds = focused(app)
        assert "Request" in kinds.head and kinds.sorted_by == -1
        await pilot.press("enter")
        await until(pilot, lambda: app.filtering.text)
        assert "infiniband.mad.attributeid ==" in app.filtering.text and 0 < len(app.main.packets.rows) < TOTAL
        assert app.main.packets.has_focus


async def test_search_and_sorting_find_a_table_by_themselves(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        screen = await opens(pilot, "s")
        await pilot.press("o")
        kinds = focused(app)
        assert "Request" in kinds.head and kinds.sorted_by == 0
        screen.set_focus(None)
        await pilot.press("slash")
        await until(pilot, lambda: asks(app))
        await pilot.press(*"PM", "enter")
        await until(pilot, lambda: app.screen is screen and kinds.sought == "PM")
