"""The application starts, shows every frame in every theme, tells what failed, and ends."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from textual import events

from tests.conftest import REPO
from tests.screen_model.made import TOTAL
from tests.tui import made
from tests.tui.made import running, shows, text, until


async def test_themes(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        for theme in ("ibdissect-dark", "ibdissect-light", "ibdissect-contrast", "textual-light", "nord"):
            app.theme = theme
            await pilot.pause()
            assert "SubnGetResp" in text(app, 0)
            cursor, quiet = app.main.packets.ink("cursor"), app.main.packets.ink("cursor-quiet")
            assert cursor.bgcolor is not None and quiet.bgcolor is not None and cursor.bgcolor != quiet.bgcolor, theme


async def test_a_failing_thread_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made.capture(tmp_path)
    app = made.app_on(path)

    def broken(_: object) -> None:
        raise ArithmeticError("[bold]no[/bold]")

    monkeypatch.setattr(app.study, "run", broken)
    async with app.run_test(size=made.SIZE) as pilot:
        await until(pilot, lambda: app.model.error)
        assert app.model.error == "study ended: ArithmeticError: [bold]no[/bold]"
        await until(pilot, lambda: app.main.packets.count() == TOTAL)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_quit(tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is as before: whoever else looks at threads that fail, as pytest does, still learns of them."""

    def hook(_: threading.ExceptHookArgs) -> None: ...

    monkeypatch.setattr(threading, "excepthook", hook)
    app = made.app_on(made.capture(tmp_path))
    async with app.run_test(size=made.SIZE) as pilot:
        await pilot.press(key)
        await asyncio.sleep(0.05)
    assert app.return_code == 0 and app.model.stopped and threading.excepthook is hook


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_quit_before_there_is_a_screen(tmp_path: Path, key: str) -> None:
    """At a cold start Textual has the first keys before the first screen."""
    app = made.app_on(made.capture(tmp_path))
    await app.on_event(events.Paste("text"))
    await app.on_event(events.Key(key, None))
    async with app.run_test(size=made.SIZE):
        await asyncio.sleep(0.1)
    assert app.return_code == 0 and app.model.stopped


async def test_an_input_may_be_mounted_before_there_is_a_screen(tmp_path: Path) -> None:
    app = made.app_on(made.capture(tmp_path))
    app.clear_selection()  # Textual's own raises an error, with a traceback on the terminal
    async with app.run_test(size=made.SIZE):
        app.clear_selection()
        app.exit()


@pytest.mark.parametrize("name", ["pkey-lab.pcap", "opensm-first-sweep.pcap", "rxe-rping.pcap", "mkey-enforced.pcap.gz"])
async def test_every_frame_of_the_samples_can_be_visited(name: str) -> None:
    app = made.app_on(REPO / "captures" / name)
    app.history.path = Path("/nonexistent/history")
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.study.finished)
        total = app.model.index.frames
        for frame in range(1, total + 1, max(total // 8, 1)):
            app.jump(frame)
            await shows(pilot, frame)
            for byte in range(0, len(app.main.bytes_pane.data), 37):
                app.main.tree_pane.reveal(byte)
