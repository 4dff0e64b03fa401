"""The menu offers what applies to the selected field and frame, and does it."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import OptionList

from ibdissect.screen_model.value_filters import as_filter
from tests.tui import made
from tests.tui.made import offered, opens, running, shows, told, until

GO = "go "
APPLY = "apply "


@pytest.mark.parametrize("key", ["space", "shift+f10", "f22"])
async def test_the_menu_of_a_field(tmp_path: Path, key: str) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        tree = app.main.tree_pane
        place = next(i for i, (_, line) in enumerate(tree.lines) if line.node and not line.node.children and as_filter(line.node))
        tree.select(place)
        wanted = as_filter(tree.node)
        await pilot.press(key)
        assert offered(app) and app.screen.heading == (tree.node.label if tree.node else "")
        entries = {title: preview for _, title, preview in offered(app)}
        assert entries["Apply as filter"] == wanted and entries["Mark"] == "frame 1"
        assert ("Explain" in entries) == bool(app.model.findings.of_frame(1)) and "Take the mark away" not in entries
        await pilot.press("enter")
        await until(pilot, lambda: app.filtering.text == wanted)


async def test_color_asks_for_the_color_at_once(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        tree = app.main.tree_pane
        tree.select(next(i for i, (_, line) in enumerate(tree.lines) if line.node and not line.node.children and as_filter(line.node)))
        wanted = as_filter(tree.node)
        for colors in ({wanted: "red"}, {}):
            await pilot.press("space")
            place = next(i for i, entry in enumerate(offered(app)) if entry[1] == "Color")
            await pilot.press(*["down"] * place, "enter")
            await pilot.pause()
            if colors:
                assert app.screen.heading == wanted and offered(app)[0][0] == "red"  # type: ignore[attr-defined]
                await pilot.press("enter")
            await until(pilot, lambda: app.screen is app.main)
            assert app.memory.by_kind("color") == colors


@pytest.mark.parametrize("key", ["space", "v"])
async def test_pages_of_a_window_that_is_not_laid_out(tmp_path: Path, key: str) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press(key)
        options = app.screen.query_one(OptionList)
        options.display = False
        await pilot.pause()
        options._clear_caches()
        options.highlighted = 1
        options.action_page_up()
        options.action_page_down()
        assert options.highlighted == 1


async def test_a_click_with_the_right_button(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.click(app.main.packets, offset=(8, 3), button=3)
        await until(pilot, lambda: offered(app))
        assert app.main.packets.cursor == 2
        await pilot.press("escape")
        app.main.packets.rows = type(app.model.rows)()
        await pilot.press("space")
        assert app.screen is app.main, "no frame, no menu"


async def test_a_right_click_is_about_the_cell_that_it_hits(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        packets = app.main.packets
        app.jump(3)
        await shows(pilot, 3)
        at = 4 + sum(packets.given[column.key] + 2 for column in packets.columns[:5])
        await pilot.click(packets, offset=(at + 1, 1 + 7), button=3)
        await until(pilot, lambda: offered(app))
        assert packets.frame == 8
        entries = {title: preview for _, title, preview in offered(app)}
        assert entries["Apply as filter"] == entries["Color"] == "infiniband.bth.p_key == 0xffff" and entries["Mark"] == "frame 8"
        await pilot.press("down", "enter", "enter")
        await until(pilot, lambda: app.filtering.text == "not (infiniband.bth.p_key == 0xffff)")
        assert packets.rows.frames(0, 9) == [3]


async def test_commands_are_about_the_frame_that_is_selected(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, _):
        app.main.tree_pane.reveal(10)
        app.main.packets.select(2)  # the tree follows a moment later
        app.action_command("a")
        assert app.filtering.text == "infiniband.bth.p_key == 0x9999"


async def test_values_of_a_line_lead_to_their_frames(tmp_path: Path) -> None:
    """In every view: what its line names is offered, and the view is left for the frames."""
    async with running(made.capture(tmp_path)) as (app, pilot):
        await opens(pilot, "C")
        await pilot.press("space")
        await until(pilot, lambda: offered(app))
        key = offered(app)[0][0]
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.main)
        assert key == f"{APPLY}{app.filtering.text}" and app.filtering.text
        app.main.findings_pane.focus()
        await pilot.press("end", "space")
        await until(pilot, lambda: offered(app))
        assert app.screen.heading == "Values of this line"  # type: ignore[attr-defined]
        app.screen.dismiss(f"{GO}7")
        await shows(pilot, 7)
        await opens(pilot, "s")
        await pilot.press("tab", "space")
        await until(pilot, lambda: told(app, "names no node"))


async def test_keys_reach_each_cell_of_the_line(tmp_path: Path) -> None:
    """Where the tree's field says no filter, the cells come first; another pane has no cells."""
    async with running(made.capture(tmp_path)) as (app, pilot):
        assert app.main.tree_pane.as_filter is None
        await pilot.press("space")
        assert offered(app)[0][:2] == ("cell ", "A cell of this line")
        await pilot.press("enter")
        await until(pilot, lambda: offered(app) and app.screen.heading == "Cells of frame 1")  # type: ignore[attr-defined]
        cells = [title for _, title, _ in offered(app)]
        assert cells[:4] == ["No.", "Time", "Source", "Destination"]
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: offered(app) and app.screen.heading.startswith("Source: "))  # type: ignore[attr-defined]
        titles = {title for _, title, _ in offered(app)}
        assert {"Apply as filter", "Filter: and, or, not", "Color", "Copy", "Sort the list"} <= titles
        wanted = offered(app)[0][2]
        await pilot.press("enter")
        await until(pilot, lambda: app.filtering.text == wanted)
        await pilot.press("tab", "space")
        assert offered(app) and "cell " not in [key for key, *_ in offered(app)]
