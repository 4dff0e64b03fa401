"""The screen shows broken frames, one after the other, without an error."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ibdissect.tui.app import TuiApp
from tests.tui import made
from tests.tui.conftest import seldom_drawn as seldom_drawn
from tests.tui.made import until

from .container import pcapng
from .mutate import mutated
from .strategies import starts

pytestmark = pytest.mark.slow

FRAMES = 40
SIZE = (100, 20)


async def test_scrolling_through_broken_frames(tmp_path: Path) -> None:
    rnd, every = random.Random(11), starts()
    path = tmp_path / "broken.pcapng"
    path.write_bytes(pcapng([mutated(rnd, rnd.choice(every), every) for _ in range(FRAMES)]))
    app: TuiApp = made.app_on(path)
    shown = set()
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.study.finished and app.main.tree_pane.lines)
        for row in range(FRAMES):
            app.main.packets.select(row)
            app.main.packets.tell()
            await until(pilot, lambda row=row: app.main.tree_pane.frame_tree and app.main.tree_pane.frame_tree.frame == row + 1)  # type: ignore[misc]
            tree = app.main.tree_pane.frame_tree
            assert tree is not None and bytes(app.main.bytes_pane.data) == tree.data
            shown.add(tree.frame)
            if row % 20 == 0:
                app.main.tree_pane.focus()
                await pilot.press("asterisk", "end", "tab", "end", "home")
                app.main.packets.focus()
            for pane in (app.main.packets, app.main.tree_pane, app.main.bytes_pane):
                for line in range(pane.size.height):
                    text = "".join(segment.text for segment in pane.render_line(line))
                    assert text.isprintable() and len(text) >= 1
        app.main.packets.focus()
        await pilot.press("f", "escape")
    assert shown == set(range(1, FRAMES + 1))
