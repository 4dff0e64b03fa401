"""The time chart counts what there is, zooms, and makes filters of its brush."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.tui import drawn
from tests.tui.made import SIZE, app_on_points, opens, running, shows, text, until


async def test_chart(repo: Path, tmp_path: Path) -> None:
    shutil.copy(repo / "captures/rxe-rping.pcap", tmp_path / "x.pcap")
    async with running(tmp_path / "x.pcap", display_filter="infiniband.aeth") as (app, pilot):
        screen = await opens(pilot, "T")
        await until(pilot, lambda: screen.chart.frames == 125)
        await pilot.pause(0.1)
        view = screen.view
        assert [sum(counts) for counts in view.counts] == [125, 60] and "infiniband.aeth" in drawn.text(app)
        await pilot.press("end", "plus")
        assert view.shown[1] - view.shown[0] == view.chart.span // 2 and not view.whole
        await pilot.press("0", "b")
        assert sum(view.counts[0]) > 5000
        await pilot.press("home", "space", "end")
        wanted = view.selected
        await pilot.press("enter")
        await until(pilot, lambda: "frame.time_relative" in app.filtering.text and not app.filtering.busy)
        assert wanted == (0, view.chart.span) and app.filtering.text.startswith("(infiniband.aeth) && ")
        assert len(app.main.packets.rows) == 60


async def test_curves_and_the_frame_at_the_cursor(repo: Path, tmp_path: Path) -> None:
    shutil.copy(repo / "captures/rxe-rping.pcap", tmp_path / "x.pcap")
    async with running(tmp_path / "x.pcap") as (app, pilot):
        screen = await opens(pilot, "T")
        await until(pilot, lambda: screen.chart.frames == 125)
        await pilot.press("a", *"cm.req", "enter")
        await until(pilot, lambda: len(screen.chart.series) == 2 and screen.chart.frames == 125)
        await pilot.pause(0.1)
        assert [sum(counts) for counts in screen.view.counts] == [125, 1]
        await pilot.press("d", "end", "g")
        await until(pilot, lambda: app.main.packets.frame == 125)


async def test_several_points(repo: Path, tmp_path: Path) -> None:
    """The merged list with the point, the way of a packet in its tree, what was lost, and the delays."""
    app = app_on_points([repo / f"docs/examples/lost/{name}.pcap" for name in ("client", "tap", "server")], tmp_path / "x.pcapng")
    assert app.model.numbers is not None and app.model.delays is not None
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.study.finished and app.main.tree_pane.lines)
        app.jump(74)
        await shows(pilot, 74)
        assert sorted(app.model.findings.codes(1, 621)) == [74, 248, 477] and not app.study.repeated
        assert " tap " in text(app, app.main.packets.cursor - app.main.packets.scroll_offset.y)
        assert app.main.tree_pane.frame_tree is not None
        journey = app.main.tree_pane.frame_tree.layers[0]
        assert [(line.label, line.text.split()[0]) for line in journey.children] == [("client", "frame"), ("verdict", "lost")]
        there = int(app.model.numbers["client"][24])
        assert journey.children[0].text.startswith(f"frame 25 · No. {there}  -") and there != 25
        app.main.tree_pane.reveal_node(journey.children[0])
        app.main.tree_pane.focus()
        await pilot.press("enter")
        await shows(pilot, there)
        assert app.main.tree_pane.frame_tree.layers[0].children[0].text.startswith("frame 25 · No. 74  +")
        app.jumping.step(back=True)
        await shows(pilot, 74)
        await until(pilot, lambda: "Journey  packet 25" in drawn.text(app) and "lost after tap, before server" in drawn.text(app))
        screen = await opens(pilot, "T")
        await until(pilot, lambda: screen.chart.frames == 621)
        await pilot.press("b", "b")
        assert max(screen.view.counts[0]) == app.model.delays.max() and "since the point before" in drawn.text(app)
