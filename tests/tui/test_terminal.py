"""The real program, in a real terminal (tmux), opens, filters, walks findings and leaves the terminal as it was."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import commands
from tests.conftest import REPO
from tests.tui import made

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")]
PROMPT = "back-in-the-shell"


class Terminal:
    """A tmux server of its own with one shell."""

    def __init__(self, folder: Path, size: tuple[int, int]) -> None:
        self.socket = str(folder / "tmux")
        shell = f"env -u COLUMNS -u LINES PS1='{PROMPT} ' HOME={folder} sh"
        self.run("-f", "/dev/null", "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), shell)

    def run(self, *arguments: str) -> str:
        done = subprocess.run(["tmux", "-S", self.socket, *arguments], capture_output=True, text=True, check=True, timeout=20)
        return done.stdout

    def type(self, text: str) -> None:
        self.run("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        self.run("send-keys", *keys)

    def screen(self) -> str:
        return self.run("capture-pane", "-p")

    def wait(self, *texts: str) -> str:
        """The screen, once it shows all the texts."""
        for _ in range(200):
            screen = self.screen()
            if all(text in screen for text in texts):
                return screen
            time.sleep(0.05)
        raise AssertionError(f"{texts} did not come:\n{self.screen()}")


@pytest.fixture(params=[(80, 24), (200, 50)], ids=["80x24", "200x50"])
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path, request.param)
    opened.type(f"cd {REPO}; clear")
    opened.press("Enter")
    opened.wait(PROMPT)
    yield opened
    opened.run("kill-server")


def start(terminal: Terminal, arguments: str, before: str = "") -> None:
    terminal.type(f"clear; {before}{sys.executable} -m ibdissect {arguments}; s=$?; stty -a | grep -o -w -e '-*echo'; echo status $s")
    terminal.press("Enter")


def test_open_filter_walk_findings_and_quit(terminal: Terminal, tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    start(terminal, str(path))
    terminal.wait("made.pcap", "30 frames", "SubnGetResp(Nod", "error")
    terminal.press("/")
    terminal.type("bth.psn == 110")
    terminal.press("Enter")
    screen = terminal.wait("3 of 30 shown", "NAK")
    assert "SubnGetResp" not in screen
    terminal.press("f", "e")
    terminal.wait("Why it matters", "· Esc")
    terminal.press("Escape")
    time.sleep(0.5)  # Escape with a key right behind it would be that key with Alt
    terminal.press("/", "C-u", "Enter")
    terminal.wait("SEND Only QP", "press / and type")
    if "pkey-not-in-dest-ta" not in terminal.screen():  # a small screen has no room for the findings until they are asked for
        terminal.press("F")
    terminal.wait("pkey-not-in-dest-ta")
    terminal.press("q")
    screen = terminal.wait("status 0", PROMPT)
    assert "echo" in screen.splitlines() and "made.pcap  30" not in screen  # the terminal echoes again, the screen is the shell's


def test_pipe(terminal: Terminal, tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    start(terminal, "tui -", before=f"cat {path} | ")
    terminal.wait("standard input", "30 frames", "SubnGetResp(Nod")
    terminal.press("End")
    terminal.wait("Frame 30 ", "PSN 508")
    terminal.press("q")
    assert "echo" in terminal.wait("status 0", PROMPT).splitlines()


def test_killed(terminal: Terminal, tmp_path: Path) -> None:
    start(terminal, str(made.capture(tmp_path)))
    terminal.wait("made.pcap", "30 frames")
    shell = int(terminal.run("display-message", "-p", "#{pane_pid}"))
    children = subprocess.run(["pgrep", "-P", str(shell)], capture_output=True, text=True, check=True).stdout.split()
    os.kill(int(children[0]), signal.SIGTERM)
    assert "echo" in terminal.wait("status 0", PROMPT).splitlines()


def test_a_file_that_is_no_capture_is_refused(terminal: Terminal, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pcap"
    bad.write_text("nothing of the kind")
    start(terminal, f"tui {bad}")
    terminal.wait("status 2", PROMPT)
    assert "not a capture" in terminal.run("capture-pane", "-p", "-J")  # with wrapped lines joined


def test_standard_output_must_be_a_terminal(tmp_path: Path) -> None:
    done = commands.run("tui", str(made.capture(tmp_path)), cwd=REPO, text=True)
    assert done.returncode == 2 and "ibdissect show" in done.stderr and done.stdout == ""
