"""Layers open and close, and tree and bytes follow each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.screen_model.made import TOTAL
from tests.tui import drawn, made
from tests.tui.made import SIZE, app_on, running, shows, until


async def test_bytes_and_tree_follow_each_other(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        pane, tree = app.main.bytes_pane, app.main.tree_pane
        pane.focus()
        await pilot.press("home", "right", "right")
        assert pane.byte == 2 and tree.node is not None and tree.node.name == "infiniband.lrh.dlid" and pane.span == (2, 4)
        await pilot.press("left")
        assert tree.node.name == "infiniband.lrh.dlid" or tree.node.bits < 8  # a field of some bits of byte 1
        tree.focus()
        sl = next(i for i, (_, line) in enumerate(tree.lines) if line.node is not None and line.node.name == "infiniband.lrh.sl")
        tree.select(sl)
        await pilot.pause()
        assert pane.span == (1, 2) and pane.bits == (8, 12)
        drawn = [(segment.text, segment.style.bgcolor) for segment in pane.parts(0, 60) if segment.style is not None]
        bits, span = pane.ink("bits").bgcolor, pane.ink("span").bgcolor
        assert [ink for _, ink in drawn if ink in (bits, span)][:2] == [bits, span]  # high nibble doubly, low one once
        assert "bits 0-3" in app.main.bit_line.render().plain
        pane.focus()
        await pilot.press("down", "up", "end", "pageup", "home")
        assert pane.byte == 0


async def test_findings_appear_in_the_open_tree(tmp_path: Path) -> None:
    app = app_on(made.capture(tmp_path))
    study, go_on = app.study.run, threading.Event()

    def late(news: Callable[[], None]) -> None:
        go_on.wait(10)
        study(news)

    app.study.run = late  # type: ignore[method-assign]
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.main.packets.count() == TOTAL)
        app.jump(3)
        await shows(pilot, 3)
        assert "PKY003" not in drawn.text(app)
        go_on.set()
        tree = app.main.tree_pane
        await until(pilot, lambda: any(finding.code == "PKY003" for _, line in tree.lines if line.node for finding in line.findings))


async def test_tree_opens_and_closes(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        tree = app.main.tree_pane
        tree.focus()
        place = next(i for i, (_, line) in enumerate(tree.lines) if line.node is not None and line.node.label == "LRH")
        tree.select(place)
        closed = tree.count()
        await pilot.press("right")
        assert tree.count() > closed and tree.cursor == place
        await pilot.press("down", "left")
        assert tree.cursor == place
        await pilot.press("left")
        assert tree.count() == closed
        await pilot.press("enter", "asterisk")
        assert tree.count() > closed + 8
        await pilot.press("home", "down")
        before = tree.node
        app.jump(4)
        await shows(pilot, 4)
        assert before is not None and tree.node is not None and tree.node.label == before.label


async def test_layers_open_by_a_click_on_their_arrow(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        tree = app.main.tree_pane
        lines = len(tree.lines)
        place = next(i for i, (_, line) in enumerate(tree.lines) if line.node is not None and line.node.children)
        assert place < tree.size.height
        await pilot.click("#tree", offset=(1, place))
        await until(pilot, lambda: len(tree.lines) > lines)
        await pilot.click("#tree", offset=(20, place))
        await pilot.pause()
        assert len(tree.lines) > lines and tree.cursor == place, "beside the arrow a click selects"
        await pilot.click("#tree", offset=(1, place))
        await until(pilot, lambda: len(tree.lines) == lines)


async def test_layers_that_matter_are_open_and_what_the_user_opens_is_remembered(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    async with running(path) as (app, pilot):
        tree = app.main.tree_pane

        def is_open(label: str) -> bool:
            return next(tree.is_open(line) for _, line in tree.lines if line.node is not None and line.path == label)

        assert is_open("NodeInfo") and not is_open("BTH") and not is_open("MAD")
        app.jump(3)
        await shows(pilot, 3)
        assert is_open("BTH") and not is_open("LRH"), "data"
        app.jump(1)
        await shows(pilot, 1)
        tree.focus()
        tree.select(next(i for i, (_, line) in enumerate(tree.lines) if line.path == "MAD"))
        await pilot.press("right")
        assert is_open("MAD")
    async with running(path) as (app, _):
        tree = app.main.tree_pane
        assert is_open("MAD") and not is_open("BTH"), "remembered in the profile"


async def test_a_proof_opens_at_the_field_that_proves(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        finding = next(one for one in app.model.findings.of_frame(3) if one.code == "PKY003")
        app.explain(finding)
        await until(pilot, lambda: app.screen is not app.main)
        page: Any = app.screen
        assert "P_KeyTable P_Key: 0xffff, 0x1234" in dict(page.frames)[2]
        page.dismiss(2)
        await shows(pilot, 2)
        node = app.main.tree_pane.node
        assert node is not None and node.name == "infiniband.p_keytable.p_key" and not {"BTH"} & app.main.tree_pane._revealed
