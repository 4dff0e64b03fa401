"""The key = shows what changed between two tabs, and says why when it cannot."""

from __future__ import annotations

from pathlib import Path

from tests.tui import drawn, made
from tests.tui.made import opens, told, until
from tests.tui.test_open_capture import two


async def test_two_tabs(tmp_path: Path) -> None:
    app = two(tmp_path)
    async with app.run_test(size=made.SIZE) as pilot:
        await until(pilot, lambda: app.study.finished)
        await opens(pilot, "equals_sign")
        assert "changes from made.pcap to other.pcap" in drawn.text(app) and "traffic" in drawn.text(app)
        await pilot.press("escape")
        (tmp_path / "other.pcap").unlink()
        await pilot.press("equals_sign")
        await until(pilot, lambda: told(app, "other.pcap"))
        app.captures[1].model.live = True
        await pilot.press("equals_sign")
        await until(pilot, lambda: told(app, "cannot be read again"))
        await app.close(app.captures[1])
        await pilot.press("equals_sign")
        await until(pilot, lambda: told(app, "Only one capture"))
