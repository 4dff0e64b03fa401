"""The fabric is walked by keys and clicks, and its facts and changes lead to their frames."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import craft
from tests.screen_model.test_fabric_view import FRAMES, edit, manager, routed
from tests.subnet.made import p_keys, port_info
from tests.tui import made
from tests.tui.made import focused, leaves, opens, running, until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "fabric.pcap"
    made.write_bytes(craft.erf_pcap(FRAMES))
    return made


async def test_keys_of_the_fabric_screen(path: Path) -> None:
    async with running(path) as (app, pilot):
        await opens(pilot, "b")
        tree = focused(app)
        assert tree.lines[1][1].text == "manager host", "managers are open at the start"
        lines = tree.count()
        await pilot.press("enter")
        assert tree.count() == lines - 1
        await pilot.press("right", "down", "left")
        assert tree.cursor == 0, "left leads to what an entry belongs to"
        await leaves(pilot, "down", "enter")
        assert app.main.packets.frame == 4


async def test_clicks_in_the_fabric_screen(path: Path) -> None:
    async with running(path) as (app, pilot):
        screen = await opens(pilot, "b")
        tree, details = focused(app), screen.details
        lines = tree.count()
        await pilot.click(tree, offset=(5, 0))
        await until(pilot, lambda: tree.count() == lines - 1)
        await pilot.click(tree, offset=(5, 0))
        await until(pilot, lambda: tree.count() == lines)
        await pilot.click(tree, offset=(8, 1))
        await until(pilot, lambda: tree.cursor == 1 and details.items and details.items[0][1] == "manager host")


async def test_sizes_of_panes_are_remembered_and_facts_are_sorted(path: Path) -> None:
    sizes = {}
    for run in range(2):
        async with running(path) as (app, pilot):
            details = (await opens(pilot, "b")).details
            await pilot.pause()
            if not run:
                for pane, offset in (("fabric-side", (-12, 0)), ("details", (0, -6))):
                    at = app.screen.query_one(f"#split-{pane}").region
                    await pilot.mouse_down(offset=(at.x, at.y))
                    await pilot.hover(offset=(at.x + offset[0], at.y + offset[1]))
                    await pilot.mouse_up(offset=(at.x + offset[0], at.y + offset[1]))
                    await pilot.pause()
            sizes[run] = [app.screen.query_one(f"#{pane}").size for pane in ("fabric-side", "details")]
            details.focus()
            await pilot.press("o")
            assert [label for label, _, _ in map(details.items.__getitem__, details.order)] == sorted(one[0] for one in details.items)
            await pilot.press("o", "o")
            frames = [details.items[at][2] for at in details.order]
            assert details.sorted_by == 2 and frames == sorted(frames, reverse=True)
    assert app.memory.by_kind("size").keys() == {"fabric-side", "details"}
    assert all(abs(a - b) <= 1 for one, other in zip(*sizes.values(), strict=True) for a, b in zip(one, other, strict=True))


async def test_without_management_nothing_is_claimed(tmp_path: Path) -> None:
    made = tmp_path / "data.pcap"
    made.write_bytes(craft.erf_pcap([craft.rc(0x04, bytes(8))]))
    async with running(made) as (app, pilot):
        screen = await opens(pilot, "b")
        tree = focused(app)
        await pilot.press("left", "right", "enter")
        assert app.screen is screen and tree.count() == 0 and "No subnet management seen" in tree.render_line(0).text


async def test_fabric(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        screen = await opens(pilot, "b")
        tree = focused(app)
        drawn = "".join(segment.text for i in range(tree.count()) for segment in tree.parts(i, 60))
        assert "\x1b" not in drawn and "\x07" not in drawn and "[red]" in drawn
        place = next(i for i, (_, entry) in enumerate(tree.lines) if entry.kind in ("ca", "switch"))
        await pilot.press(*["down"] * place, "right", "down")
        details = screen.details
        assert any(label == "P_Key" for label, _, _ in details.items)
        await pilot.press("left", "left", "tab")
        assert details.has_focus
        await leaves(pilot, "enter")
        assert app.main.packets.frame in (1, 2, 4)


async def test_a_route_from_one_port_to_another(tmp_path: Path) -> None:
    path = tmp_path / "routed.pcap"
    lft = bytes([255, 1, 255, 255, 255, 3]).ljust(64, b"\xff")
    path.write_bytes(craft.erf_pcap([*FRAMES, craft.smp(0x81, 0x19, lft, path=[1])]))
    async with running(path) as (_, pilot):
        screen = await opens(pilot, "b")
        places = {entry.text: i for i, (_, entry) in enumerate(screen.known.lines) if entry.kind == "ca"}
        screen.known.select(places["manager host"])
        await pilot.press("r")
        (other,) = (place for name, place in places.items() if name != "manager host")
        screen.known.select(other)
        shown = [(text, frame) for label, text, frame in screen.details.items if label == "Route"]
        assert [frame for _, frame in shown] == [0, 11] and shown[0][0].startswith("manager host port 1 → ")
        assert len(screen.map.route) == 3 and screen.map.selected == screen.map.route[-1]
        await pilot.press("m")
        assert not screen.map.display
        screen.known.select(places["manager host"])
        await pilot.press("r")
        assert screen.start is None


async def test_a_handover_an_edit_and_a_new_lid(tmp_path: Path) -> None:
    path = tmp_path / "fabric.pcap"
    lid, unwritten = routed(0x15, port_info(6), 1, 3, modifier=1), routed(0x16, p_keys(0xFFFF, 0x777), 1, 3)
    path.write_bytes(craft.erf_pcap([*FRAMES, manager(2), *edit(p_keys(0xFFFF, 0x4321), 1, 3), lid, unwritten, manager(3)]))
    async with running(path) as (app, pilot):
        await opens(pilot, "b")
        await opens(pilot, "t")
        table = focused(app)
        found = [(one.frame, one.what, one.text) for one in table.items]
        assert found == [
            (4, "Manager", "master, priority 7"), (11, "Manager", "standby, priority 7"), (12, "P_Keys", "uncertain"),
            (13, "P_Keys", "+0x4321 -0x1234"), (14, "LID", "5 (LMC 0) → 6 (LMC 0)"),
            (15, "P_Keys", "uncertain"),  # nobody wrote it: the route may be another host's, to another port
            (16, "Manager", "master, priority 7"),
        ]  # fmt: skip
        axis = table.rest(table.items[1], 20)[0]
        assert axis.count("○") == 2 and axis.index("●") < axis.rindex("○") == 19, "of the same manager"
        await pilot.press("o", "o", "o", "end")
        assert table.chosen is not None and table.chosen.what == "P_Keys"
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.main)
        assert app.main.packets.frame == 15, "the last of them"
