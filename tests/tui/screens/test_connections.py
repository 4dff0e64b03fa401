"""The view of connections says what failed and why, and leads to the frames."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

import ibdissect
from ibdissect.tui.app import TuiApp
from tests.craft import interfaces_pcapng
from tests.tui import drawn, made
from tests.tui.made import focused, leaves, opens, running, shows, told, until


@pytest.fixture
def slow(repo: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(repo / "captures/slow-lab.pcap", tmp_path / "x.pcap"))


async def opened(app: TuiApp, pilot: Pilot[None]) -> tuple[Any, Any]:
    """The table of the screen of connections, and what that says of one."""
    screen = await opens(pilot, "W")
    await until(pilot, lambda: screen.of_one.lines)
    return focused(app), screen.of_one


async def laddered(app: TuiApp, pilot: Pilot[None]) -> Any:
    """The lines of the ladder of the connection that is selected."""
    await pilot.press("L")
    await until(pilot, lambda: app.focused is not None and app.focused.id == "ladder" and focused(app).lines)
    return focused(app)


async def test_the_worst_comes_first(slow: Path) -> None:
    async with running(slow) as (app, pilot):
        table, _ = await opened(app, pilot)
        assert [one.cause for one in table.items] == ["path-mtu", "refused", "slow-by-timeout", *["slow-by-rnr"] * 2, *["healthy"] * 3]
        said = drawn.text(app)
        assert "8: 2 failed, 3 slow, 3 healthy" in said and "2 connections wait for receive buffers at 10.0.0.3" in said
        assert "packets above a size vanish" in said and "TTTT" in said and "RRRR" in said
        await pilot.press("down", "down")
        await until(pilot, lambda: "10.0.0.1 waited four times until its timer ran out" in drawn.text(app))


async def test_enter_shows_the_frames_of_a_connection(slow: Path) -> None:
    async with running(slow) as (app, pilot):
        table, _ = await opened(app, pilot)
        one = table.items[1]
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.main.packets.rows.frames(0, 9) == [one.first_frame, one.last_frame])
        await shows(pilot, one.evidence[0] or 0)


async def test_a_proof_leads_to_its_frame(slow: Path) -> None:
    async with running(slow) as (app, pilot):
        table, said = await opened(app, pilot)
        await pilot.press("tab")
        await until(pilot, lambda: said.has_focus)
        assert said.lines[said.cursor].frame == table.items[0].evidence[0], "the first line that leads to frames"
        await pilot.press("home", "enter")  # on a line that leads nowhere
        assert app.screen is not app.main and told(app, "only lines with ▸")
        at = [line.frame for line in said.lines if line.leads].index(table.items[0].evidence[1])
        await pilot.press(*["down"] * (at + 1), "enter")  # lines that lead nowhere are skipped
        await shows(pilot, table.items[0].evidence[1] or 0)


@pytest.mark.parametrize("click", [False, True])
async def test_a_part_of_the_time_leads_to_its_frames(click: bool, slow: Path) -> None:
    async with running(slow) as (app, pilot):
        table, said = await opened(app, pilot)
        await pilot.press("down", "down")
        if click:
            await pilot.click(table, offset=(table.line_width - 5, 3), times=2)
        else:
            said.focus()
            await pilot.press("end", "home")
            at = [line.part for line in said.lines if line.leads].index("timeout")
            await pilot.press(*["down"] * (at + 1), "enter")
        await until(pilot, lambda: len(app.main.packets.rows) == 8)
        assert table.items[2].evidence[1] in app.main.packets.rows.frames(0, 9)


async def test_a_double_click_beside_the_bar_shows_all_its_frames(slow: Path) -> None:
    async with running(slow) as (app, pilot):
        table, _ = await opened(app, pilot)
        await pilot.click(table, offset=(8, 3), times=2)
        await until(pilot, lambda: len(app.main.packets.rows) == 73)


async def test_a_shared_cause_leads_to_its_first_connection(slow: Path) -> None:
    async with running(slow) as (app, pilot):
        table, said = await opened(app, pilot)
        shared = app.screen.shared  # type: ignore[attr-defined]
        shared.lay_out(60)
        assert len(shared.lines) > len(shared.said) and all(len(line) < 58 for line, _ in shared.lines), "wrapped, not cut"
        shared.focus()
        await pilot.press("enter")
        await until(pilot, lambda: table.has_focus and table.cursor == 3)
        assert said.one is table.items[3]


async def test_the_ladder_of_a_connection_has_its_stalls(slow: Path) -> None:
    async with running(slow) as (app, pilot):
        await opened(app, pilot)
        await pilot.press("down", "down")
        ladder = await laddered(app, pilot)
        waits = [each for each in ladder.stalls.values() if each.kind == "timeout"]
        assert len(waits) == 4 and {each.lines for each in waits} == {8} and "17 ms waiting for a time-out" in drawn.text(app)
        assert sum("┊" in line for _, line, _ in ladder.lines) == sum(each.lines for each in ladder.stalls.values())


async def test_a_capture_without_connections(tmp_path: Path) -> None:
    (tmp_path / "x.pcap").write_bytes(made.capture(tmp_path).read_bytes()[:24])
    app = made.app_on(tmp_path / "x.pcap")
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.study.finished)
        await opens(pilot, "W")
        assert "No connections" in drawn.text(app)
        await leaves(pilot, "enter", "L", "tab", "W")


async def test_before_the_end_it_says_of_how_many_frames(slow: Path) -> None:
    async with running(slow) as (app, pilot):
        app.study.finished = False
        await opened(app, pilot)
        assert "8 of the first 506 frames: 2 failed" in drawn.text(app)
        app.study.finished = True


async def test_one_direction_is_said_above(slow: Path, tmp_path: Path) -> None:
    data, path = slow.read_bytes(), tmp_path / "one.pcap"
    at, kept = 24, [data[:24]]
    while at < len(data):
        end = at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        if data[at + 16 + 26 : at + 16 + 30] == bytes([10, 0, 0, 1]):
            kept.append(data[at:end])
        at = end
    path.write_bytes(b"".join(kept))
    async with running(path) as (app, pilot):
        await opened(app, pilot)
        assert "note: this capture holds one direction only of 9 of 9 connections: what is sent to 10.0.0.1" in drawn.text(app)


async def test_merged_points_are_named_and_lead_to_their_own_frames(slow: Path, tmp_path: Path) -> None:
    frames = []
    with ibdissect.open(str(slow)) as capture:
        for frame in capture:
            frames += [(frame.time_ns, 0, frame.data), (frame.time_ns + 40_000, 1, frame.data)]
    frames.sort(key=lambda one: one[0])
    path = tmp_path / "merged.pcapng"
    path.write_bytes(interfaces_pcapng([(point, data) for _, point, data in frames], link=1, times=[time for time, *_ in frames]))
    async with running(path) as (app, pilot):
        table, _ = await opened(app, pilot)
        said = drawn.text(app)
        assert "Point" in said and "interfac" in said and len(table.items) == 15
        await pilot.press("enter")
        await until(pilot, lambda: "frame.interface_id == " in app.filtering.text and app.main.packets.frame)
        shown = app.filtering.text
        await opened(app, pilot)
        assert shown and (await laddered(app, pilot)).stalls  # copies of the other point would fill them
