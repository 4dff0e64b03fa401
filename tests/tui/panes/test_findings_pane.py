"""Findings are walked, grouped and clicked."""

from __future__ import annotations

from pathlib import Path

from tests.tui import made
from tests.tui.made import leaves, opens, running, shows, until


async def test_findings(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        first = app.model.findings.frames()[0]
        await pilot.press("end", "f")
        await shows(pilot, first)
        pane = app.main.findings_pane
        pane.focus()
        await pilot.press("end", "enter")
        assert pane.finding is not None
        await shows(pilot, pane.finding.frame)
        lines = pane.count()
        for width, room in ((78, 34), (110, 52)):
            drawn = "".join(part.text for part in pane.parts(0, width))
            assert len(drawn.partition(" frame ")[2].split(maxsplit=1)[1]) >= room, "what it says has most of the line"
        await pilot.press("o")
        assert pane.grouped and pane.count() == len(app.model.findings.rules())
        await pilot.press("home", "right")
        opened = pane.count()
        assert opened > len(app.model.findings.rules())
        await pilot.press("left")
        assert pane.count() < opened
        await pilot.press("o")
        page = await opens(pilot, "e")
        assert pane.count() == lines and pane.finding.code in page.heading.plain
        await leaves(pilot, "escape")
        await pilot.press("F")
        assert not pane.display
        await pilot.press("F")
        assert pane.display and pane.has_focus


async def test_groups_of_findings_open_by_a_click_and_lead_to_frames(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        pane = app.main.findings_pane
        pane.focus()
        await pilot.press("o", "home")
        closed = pane.count()
        await pilot.click("#findings", offset=(5, 0))
        await until(pilot, lambda: pane.count() > closed)
        first = app.model.findings.finding(int(pane.lines[1]))
        await pilot.click("#findings", offset=(5, 1))
        await shows(pilot, first.frame)
        await pilot.press("up")
        assert pane.finding == first, "a group stands for its first finding"
        await pilot.press("enter")
        await until(pilot, lambda: pane.count() == closed)
        assert first.code in (await opens(pilot, "e")).heading.plain
