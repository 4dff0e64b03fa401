"""The keys c and r lead to the frames that belong to the selected one."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import REPO
from tests.screen_model.made import written
from tests.screen_model.test_related_frames import FRAMES
from tests.tui.made import running, shows, until

CONVERSATIONS = {1: [1, 5], 3: [3], 2: [2, 4, 6, 7, 8], 8: [2, 4, 6, 7, 8], 10: [10, 11], 12: [12]}
"""Frames of FRAMES, and the frames of the conversation of each."""


async def test_follow_a_conversation(tmp_path: Path) -> None:
    async with running(written(tmp_path, *FRAMES)) as (app, pilot):
        for frame, frames in CONVERSATIONS.items():
            app.jump(frame)
            await shows(pilot, frame)
            await pilot.press("c")
            await until(pilot, lambda frames=frames: app.main.packets.rows.frames(0, 99) == frames and not app.filtering.busy)
            await shows(pilot, frame)
            await pilot.press("c")
            await until(pilot, lambda: len(app.main.packets.rows) == len(FRAMES))
            assert app.filtering.text == "" and app.main.filter_bar.input.value == ""


async def test_following_restores_the_earlier_filter(tmp_path: Path) -> None:
    async with running(written(tmp_path, *FRAMES), display_filter="frame.number < 6") as (app, pilot):
        await until(pilot, lambda: len(app.main.packets.rows) == 5)
        await pilot.press("c")
        await until(pilot, lambda: app.main.packets.rows.frames(0, 9) == [1, 5])
        await pilot.press("c")
        await until(pilot, lambda: app.filtering.text == "frame.number < 6" and len(app.main.packets.rows) == 5)


async def test_jump_between_request_and_answer(tmp_path: Path) -> None:
    async with running(written(tmp_path, *FRAMES)) as (app, pilot):
        await shows(pilot, 1)
        await pilot.press("r")
        await shows(pilot, 5)
        assert "frame 1" in app.main.key_bar.note
        await pilot.press("r")
        await shows(pilot, 1)
        app.jump(9)
        await shows(pilot, 9)
        await pilot.press("r")
        await until(pilot, lambda: any("No request and no answer" in note.message for note in app._notifications))
        assert app.main.packets.frame == 9


async def test_connection_management(tmp_path: Path) -> None:
    async with running(REPO / "captures" / "rxe-rping.pcap") as (app, pilot):
        one = app.study.connections.all[0]
        app.history.path = app.memory.path = None
        app.jump(one.req_frame)
        await shows(pilot, one.req_frame)
        await pilot.press("r")
        await shows(pilot, one.rep_frame)
        await pilot.press("c")
        await until(pilot, lambda: len(app.main.packets.rows) > 20 and not app.filtering.busy)
        frames = set(app.main.packets.rows.frames(0, 10_000))
        assert {one.req_frame, one.rep_frame, one.rtu_frame} <= frames
