"""The statistics are drawn."""

from __future__ import annotations

from pathlib import Path

from ibdissect.tui.screens.prompt import Prompt
from ibdissect.tui.screens.statistics import CountBars, KindTable, Plot, StatisticsScreen
from ibdissect.tui.widgets.plots import MARKS
from tests.screen_model.made import TOTAL
from tests.tui import made
from tests.tui.made import running, until


async def test_statistics(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, StatisticsScreen))
        assert sum(app.screen.query(Plot).first().values) == TOTAL
        assert "at most 1 in 1 ms" in app.screen.query(Plot).first().render().plain
        drawn = "".join(bars.render().plain for bars in app.screen.query(CountBars))
        assert "RC SEND Only" in drawn and "PM" in drawn and "LID 3" in drawn
        plot = app.screen.query(Plot).first()
        assert "▲" in plot.render().plain
        plot.marks = [rank for rank in sorted(MARKS) for _ in range(plot.size.width)]
        text = plot.render()
        colors = [span.style for span in text.spans if text.plain[span.start] == "▲"]
        assert list(dict.fromkeys(colors)) == [plot.ink(MARKS[rank]) for rank in sorted(MARKS)], "red for errors only"
        await pilot.press("tab", "o", "O")
        kinds = app.screen.query_one(KindTable)
        assert kinds.has_focus and "Request" in kinds.head and kinds.sorted_by == -1
        await pilot.press("enter")
        await until(pilot, lambda: app.filtering.text)
        assert "infiniband.mad.attributeid ==" in app.filtering.text and 0 < len(app.main.packets.rows) < TOTAL
        assert app.main.packets.has_focus


async def test_search_and_sorting_find_a_table_by_themselves(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, StatisticsScreen))
        await pilot.press("o")
        kinds = app.screen.query_one(KindTable)
        assert kinds.has_focus and kinds.sorted_by == 0
        app.screen.set_focus(None)
        await pilot.press("slash")
        await until(pilot, lambda: isinstance(app.screen, Prompt))
        await pilot.press(*"PM", "enter")
        await until(pilot, lambda: isinstance(app.screen, StatisticsScreen) and kinds.sought == "PM")
