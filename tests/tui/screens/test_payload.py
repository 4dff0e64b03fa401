"""The key R shows and saves what two queue pairs said."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.tui import drawn
from tests.tui.made import focused, opens, running, shows, until


async def test_payload(repo: Path, tmp_path: Path) -> None:
    shutil.copy(repo / "captures/rxe-rping.pcap", tmp_path / "x.pcap")
    async with running(tmp_path / "x.pcap") as (app, pilot):
        app.jump(6)
        await shows(pilot, 6)
        await opens(pilot, "R")
        await until(pilot, lambda: focused(app).lines)
        assert "72 64 6d 61 2d 70 69 6e" in drawn.text(app) and "READ 100 bytes, frames 6-7" in drawn.text(app)
        await pilot.press("x")
        assert "rdma-ping-0: ABC" in drawn.text(app)
        await pilot.press("x", "w", *str(tmp_path / "said.bin"), "enter")
        await until(pilot, (tmp_path / "said.bin").exists)
        saved = (tmp_path / "said.bin").read_bytes()
        assert saved.count(b"rdma-ping-") == 20 and len(saved) == 40 * 16 + 20 * 100
        await pilot.press("enter")
        await shows(pilot, 6)
