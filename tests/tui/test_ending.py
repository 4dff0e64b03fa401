"""A screen ends within two seconds, at whatever moment its terminal goes away or a signal comes."""

from __future__ import annotations

import fcntl
import os
import pty
import random
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.tui import made

pytestmark = pytest.mark.slow

PATIENCE = 20.0
"""Seconds granted; 2 are promised, but the machine that runs tests may be busy."""


@contextmanager
def screen(folder: Path, *, size: tuple[int, int] = (24, 80), reading: bool = True) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A screen on a terminal of its own; what it draws is read away, unless the terminal is to be stuck."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    command = [sys.executable, "-m", "ibdissect", "tui", str(made.capture(folder))]
    env = {**os.environ, "TERM": "xterm-256color", "XDG_STATE_HOME": str(folder)}
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
    os.close(slave)

    def drain() -> None:
        try:
            while os.read(master, 65536):
                pass
        except OSError:
            pass

    if reading:
        threading.Thread(target=drain, daemon=True).start()
    try:
        yield process, master
    finally:
        process.kill()
        process.wait()


def ends(process: subprocess.Popen[bytes]) -> float:
    """Seconds until the process is over."""
    start = time.monotonic()
    process.wait(PATIENCE)
    return time.monotonic() - start


def moments(count: int) -> list[float]:
    rnd = random.Random(18)
    return [rnd.uniform(0, 4) for _ in range(count)]


@pytest.mark.parametrize("moment", [*moments(4), *(pytest.param(at, marks=pytest.mark.thorough) for at in moments(50)[4:])])
def test_a_terminal_that_goes_away_ends_its_screen(tmp_path: Path, moment: float) -> None:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "ibdissect", "tui", str(made.capture(tmp_path))]
    env = {**os.environ, "TERM": "xterm-256color", "XDG_STATE_HOME": str(tmp_path)}
    # Without a session of its own no SIGHUP comes: only the hangup of the terminal tells. Ignored as under nohup, one must still end it.
    nohup = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env)
    finally:
        signal.signal(signal.SIGHUP, nohup)
    os.close(slave)
    try:
        time.sleep(moment)
        os.close(master)
        ends(process)
    finally:
        process.kill()
        process.wait()


def test_a_screen_whose_server_dies_ends_before_it_has_loaded_textual(tmp_path: Path) -> None:
    """That takes seconds on a busy machine; here it takes a minute."""
    (tmp_path / "textual.py").write_text("import time\nopen('loading', 'w').close()\ntime.sleep(60)\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver"}
    command = [sys.executable, "-m", "ibdissect", "tui", str(made.capture(tmp_path))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=tmp_path)
    try:
        while not (tmp_path / "loading").exists():
            assert process.poll() is None
            time.sleep(0.05)
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        ends(process)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGHUP])
def test_a_screen_whose_terminal_is_stuck_ends_at_a_signal(tmp_path: Path, name: signal.Signals) -> None:
    with screen(tmp_path, reading=False) as (process, _):
        time.sleep(4)
        process.send_signal(name)
        ends(process)


def test_bytes_that_are_no_text_do_not_stop_the_keyboard(tmp_path: Path) -> None:
    with screen(tmp_path) as (process, master):
        time.sleep(5)
        os.write(master, b"\xff")
        time.sleep(0.5)
        os.write(master, b"q")
        ends(process)
        assert process.returncode == 0


def test_a_huge_terminal_is_drawn_within_bounds(tmp_path: Path) -> None:
    with screen(tmp_path, size=(65000, 65000)) as (process, master):
        time.sleep(6)
        pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        assert process.poll() is None and pages * os.sysconf("SC_PAGE_SIZE") < 400 << 20
        os.write(master, b"q")
        ends(process)
