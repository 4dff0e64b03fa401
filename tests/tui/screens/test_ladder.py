"""The ladder shows the conversation of the frame, and leads back to a frame."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.tui import drawn
from tests.tui.made import focused, opens, running, shows, until


async def test_ladder(repo: Path, tmp_path: Path) -> None:
    shutil.copy(repo / "captures/rxe-nak-bad-rkey.pcap", tmp_path / "x.pcap")
    async with running(tmp_path / "x.pcap") as (app, pilot):
        app.jump(11)
        await shows(pilot, 11)
        await opens(pilot, "L")
        ladder = focused(app)
        await until(pilot, lambda: ladder.lines)
        assert "NAK Remote access error" in drawn.text(app) and "◀" in drawn.text(app)
        assert "1 refused" in drawn.text(app)
        await pilot.press("home", "n")
        assert "NAK" in ladder.lines[ladder.cursor][1]
        await pilot.press("n")
        assert any("missing or refused below" in note.message for note in app._notifications)
        await pilot.press("down", "enter")
        await shows(pilot, 12)
