"""The key R shows a reassembled transfer with its records, also from a frame in its middle and where segments are missing."""

from __future__ import annotations

from pathlib import Path

from tests.mad.test_rmpp_records import ABORT, FIRST, LAST, MIDDLE
from tests.screen_model.made import written
from tests.screen_model.test_related_frames import OTHER
from tests.tui.made import focused, leaves, opens, running, shows, told, until


async def test_records_open_close_and_lead_to_their_frames(tmp_path: Path) -> None:
    async with running(written(tmp_path, OTHER, FIRST, MIDDLE, LAST)) as (app, pilot):
        app.jump(3)
        await shows(pilot, 3)
        screen = await opens(pilot, "R")
        assert "5 records in 3 segments" in screen.heading
        tree = focused(app)
        assert [depth for depth, _ in tree.lines].count(0) == 5
        opened_first = tree.count()
        drawn = ["".join(segment.text for segment in tree.parts(i, 100)) for i in range(tree.count())]
        assert "▾ NodeRecord[0]" in drawn[0] and "LID 1" in drawn[0] and any("▸ NodeRecord[4]" in line for line in drawn)
        await pilot.press("left")
        assert tree.count() == 5, "the first one is open at the start"
        await pilot.press("right", "down", "left")
        assert tree.cursor == 0 and tree.count() == opened_first, "from a field left leads to its record"
        await pilot.press("asterisk")
        assert tree.count() > 5 * 10
        await leaves(pilot, "left", "end", "enter")
        assert app.main.packets.frame == 4, "the last record begins in the last segment"


async def test_records_open_by_clicks(tmp_path: Path) -> None:
    async with running(written(tmp_path, FIRST, MIDDLE, LAST)) as (app, pilot):
        await opens(pilot, "R")
        tree = focused(app)
        before = tree.count()
        await pilot.click(tree, offset=(5, 0))
        await until(pilot, lambda: tree.count() == 5 < before)
        await pilot.click(tree, offset=(5, 2))
        await until(pilot, lambda: tree.cursor == 2 and tree.count() > 5)


async def test_what_has_no_transfer_says_so(tmp_path: Path) -> None:
    async with running(written(tmp_path, OTHER, FIRST, LAST, ABORT)) as (app, pilot):
        await pilot.press("R")
        await until(pilot, lambda: told(app, "belongs to no RMPP transfer"))
        assert app.screen is app.main
        app.jump(2)
        await shows(pilot, 2)
        screen = await opens(pilot, "R")
        assert "missing segments 2, aborted" in screen.heading and focused(app).count() > 1


async def test_reassembled_transfer(shared: Path) -> None:
    async with running(shared / "captures/opensm/31-saquery-rmpp-ft36.pcap") as (app, pilot):
        app.history.path = app.memory.path = None
        app.filtering.apply("infiniband.rmpp.rmpptype == 1 && infiniband.rmpp.segmentnumber == 3")
        await until(pilot, lambda: len(app.main.packets.rows) and not app.filtering.busy)
        screen = await opens(pilot, "R")
        tree = focused(app)
        assert "segments" in screen.heading and len(tree.records) > 3
        closed = tree.count()
        drawn = "".join(segment.text for i in range(4) for segment in tree.parts(i, 100))
        assert "[0]" in drawn and "LID" in drawn
        await pilot.press("left")
        assert tree.count() == len(tree.records) < closed
        await pilot.press("right", "down", "left")
        assert tree.cursor == 0
        await pilot.press("asterisk")
        assert tree.count() > closed
        await pilot.press("left", "end")
        frame = tree.frames[id(tree.item)]
        await leaves(pilot, "enter")
        assert app.main.packets.frame == frame
        app.jump(1)
        await pilot.press("R")
        await until(pilot, lambda: told(app, "no RMPP transfer"))
