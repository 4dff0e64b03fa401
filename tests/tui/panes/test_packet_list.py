"""The list is walked by keys, mouse and wheel, and follows a file that grows."""

from __future__ import annotations

import json
from pathlib import Path

from textual import events

from ibdissect.tui.app import TuiApp
from tests.screen_model.made import TOTAL
from tests.tui import drawn, made
from tests.tui.made import running, shows, text, until


async def test_moving(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await shows(pilot, 1)
        await pilot.press("down", "down")
        await shows(pilot, 3)
        await pilot.press("up")
        await shows(pilot, 2)
        await pilot.press("end")
        await shows(pilot, TOTAL)
        await pilot.press("pageup")
        assert app.main.packets.frame < TOTAL - 5
        await pilot.press("home")
        await shows(pilot, 1)
        await pilot.press("pagedown")
        assert app.main.packets.frame > 5


def _wheel(app: TuiApp) -> object:
    from textual import events

    return events.MouseScrollDown(app.main.packets, 5, 5, 0, 1, 0, False, False, False)


async def test_mouse(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path, repeat=5)) as (app, pilot):
        await pilot.click("#packets", offset=(20, 6))
        await shows(pilot, 6)
        app.main.packets.post_message(_wheel(app))
        await until(pilot, lambda: app.main.packets.scroll_offset.y == 3)
        assert app.main.packets.frame == 6
        await pilot.click("#bytes", offset=(8, 0))
        await until(pilot, lambda: app.main.bytes_pane.byte == 0)
        await pilot.click("#findings", offset=(5, 0))
        finding = app.main.findings_pane.finding
        assert finding is not None
        await shows(pilot, finding.frame)
        detail = app.query_one("#detail")
        before, splitter = detail.size.height, app.query_one("#split-detail")
        await pilot.mouse_down(splitter)
        await pilot.hover("#packets", offset=(10, 4))
        await pilot.mouse_up("#packets", offset=(10, 4))
        await pilot.pause()
        assert detail.size.height > before
        await pilot.click("#keys", offset=(2, 0))
        assert app.main.filter_bar.input.has_focus


async def test_the_wheel_goes_both_ways(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path, repeat=5)) as (app, pilot):
        for kind, wanted in ((events.MouseScrollDown, 3), (events.MouseScrollDown, 6), (events.MouseScrollUp, 3), (events.MouseScrollUp, 0),
                             (events.MouseScrollUp, 0)):  # fmt: skip
            app.main.packets.post_message(kind(app.main.packets, 5, 5, 0, 1, 0, False, False, False))
            await until(pilot, lambda wanted=wanted: app.main.packets.scroll_offset.y == wanted)
        assert app.main.packets.frame == 1


async def test_hostile_text_stays_text(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path, name="[red]x.pcap")) as (app, pilot):
        app.jump(4)
        await shows(pilot, 4)
        await pilot.press("tab", "asterisk")
        tree = app.main.tree_pane
        said = "".join(segment.text for i in range(tree.count()) for segment in tree.parts(i, 200)) + drawn.text(app)
        assert "\\x1b[31mhost" in said and "[red]x.pcap" in said
        assert not any(character in said for character in "\x1b\x07\u202e")


async def test_damage_and_repeats_are_shown(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    async with running(path) as (app, pilot):
        assert "cut-off at byte" in drawn.text(app)
        await pilot.pause(0.2)
        assert "[repeated PSN]" in text(app, 19)
        assert app.main.packets.line(20) is not None


async def test_growing_file_is_followed(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    app = made.app_on(path, follow=True)
    async with app.run_test(size=made.SIZE) as pilot:
        await until(pilot, lambda: app.model.index.frames > 3)
        before = app.model.index.frames
        assert before < TOTAL
        await pilot.press("end")
        await pilot.pause(0.25)
        with path.open("ab") as file:
            file.write(whole[len(whole) // 2 :])
        await until(pilot, lambda: app.model.index.frames == TOTAL)
        await until(pilot, lambda: app.main.packets.frame == TOTAL)  # the cursor was at the end and stays there
        await until(pilot, lambda: app.study.done == TOTAL)
        assert "following" in drawn.text(app)


async def test_a_row_shows_no_name_that_a_filter_does_not_find(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        packets, model = app.main.packets, app.model
        await until(pilot, lambda: app.study.names is not None)
        lines = packets.names.of_packets(model.lines(range(1, model.index.frames + 1)))
        named = {("src", line.source) for line in lines} | {("dst", line.destination) for line in lines}
        named = {(side, name) for side, name in named if not name.startswith("LID ") and ":" not in name}
        assert named
        for side, name in named:
            matcher, error = model.filter(f"ibdissect.{side}.node == {json.dumps(name)} && ibdissect.node == {json.dumps(name)}")
            assert matcher is not None, error
            frames = [line.frame for line in lines if name == (line.source if side == "src" else line.destination)]
            assert model.matching(matcher, frames) == set(frames)
