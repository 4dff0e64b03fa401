"""A sweep is shown port by port, the slowest first, beside the one before, and a port leads to its frames."""

from __future__ import annotations

import re
from pathlib import Path

from tests import craft
from tests.screen_model.made import written
from tests.screen_model.test_sweeps import two_sweeps
from tests.tui import drawn
from tests.tui.made import offered, opens, running, told, until


async def test_sweeps(tmp_path: Path) -> None:
    async with running(two_sweeps(tmp_path)) as (app, pilot):
        screen = await opens(pilot, "E")
        assert (screen.at, screen.other) == (0, -1), "the sweep of the selected frame"
        assert "Sweep 1 of 2" in drawn.text(app) and "slowest" in drawn.text(app) and "201 ms" in drawn.text(app)
        await pilot.press("right")
        assert (screen.at, screen.other) == (1, 0)
        text = drawn.text(app)
        assert "no answer" in text and "201 ms" in text and "in 1" in text and "not asked in this sweep" in text
        page = await opens(pilot, "question_mark")
        assert "later sweep" in page.body.plain
        assert not re.search("Focus Next|Page Left|Scroll|super", page.body.plain), "words of the toolkit"
        await pilot.press("escape", "v")
        assert offered(app)
        await pilot.press("end", "enter")
        assert screen.other == -1
        await pilot.press("V")
        assert [name for _, name, _ in offered(app)] == ["sweep 2", "sweep 1"], "what was not answered, then the slowest"
        line = next(line for line in drawn.text(app).splitlines() if "sweep 1 " in line)
        assert ": 201 ms; " in line and "4 requests to 4 ports in 211 ms" in line, "whole, as there is room"
        await pilot.press("enter")
        assert (screen.at, screen.other) == (1, 0)
        await pilot.press("left", "enter")
        await until(pilot, lambda: app.main.packets.rows.frames(0, 9) == [5, 6, 7])


async def test_without_a_manager(tmp_path: Path) -> None:
    async with running(written(tmp_path, craft.rc(0x04, bytes(4)))) as (app, pilot):
        await pilot.press("E")
        await until(pilot, lambda: told(app, "No subnet manager"))
