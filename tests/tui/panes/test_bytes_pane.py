"""Are masked bytes hidden, and can the text of bytes be clicked?"""

from __future__ import annotations

from pathlib import Path

from ibdissect.tui.panes.bytes_pane import BytesPane
from tests.tui import made
from tests.tui.made import running, shows, until


async def test_masked_bytes_are_not_shown(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.jump(7)
        await shows(pilot, 7)
        pane = app.query_one(BytesPane)
        drawn = "".join(segment.text for i in range(pane.count()) for segment in pane.parts(i, 90))
        assert "** ** ** **" in drawn and "01 23 45 67" not in drawn
        await pilot.press("y")
        assert all("01234567" not in entry[0].replace(" ", "") for entry in app.screen.entries)  # type: ignore[attr-defined]


async def test_text_of_bytes_can_be_clicked(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        pane = app.query_one(BytesPane)
        line = pane.render_line(0).text
        start = len(line.rstrip()) - pane.per_line
        await pilot.click("#bytes", offset=(start + 3, 1))
        await until(pilot, lambda: pane.byte == pane.per_line + 3)
