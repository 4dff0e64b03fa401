"""Are tables sorted by each of their columns, with the chosen row under the cursor?"""

from __future__ import annotations

from pathlib import Path

from ibdissect.tui.screens.findings_summary import RuleTable, SummaryScreen
from tests.tui import made
from tests.tui.made import running, until


async def test_rules_are_sorted_by_each_column(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await until(pilot, lambda: app.study.finished)
        await pilot.press("S")
        assert isinstance(app.screen, SummaryScreen)
        table = app.screen.query_one(RuleTable)
        code = table.groups[0].code
        for head in table.columns:
            await pilot.press("o")
            shown = ["".join(part.text for part in table.parts(row, 200)) for row in range(table.count())]
            assert table.columns[table.sorted_by] is head and len(set(shown)) == len(table.groups) > 2
            assert table.group is not None and table.group.code == code, "the cursor stays on its rule"
        numbers = [table.groups[row].first.frame for row in table.order or ()]
        assert numbers == sorted(numbers, reverse=True) and "▾" in table.title_line
        await pilot.press("o")
        assert table.order is None and table.chosen == 0
        await pilot.press("O", "home", "enter")
        await until(pilot, lambda: app.filtering.text.startswith("ibdissect.code"))
        assert app.filtering.text == f'ibdissect.code == "{max(table.groups, key=lambda group: group.first.frame).code}"'
