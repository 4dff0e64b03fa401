"""Findings and the progress bar share a terminal: what stands on it in the end is what a pipe gets, line by line."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ibdissect.cli import console
from tests import commands
from tests.conftest import REPO

BAR = "━"
"""What only the bar draws."""
STEP = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\r|\n|[^\x1b\r\n]+")


def drawn(text: str) -> list[str]:
    """The lines of a terminal, wide and high enough for all, on which a text was written."""
    lines, row, column = [""], 0, 0
    for step in STEP.finditer(text):
        word = step[0]
        if word == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif word == "\r":
            column = 0
        elif step[2] == "K":
            lines[row] = ""
        elif step[2] == "A":
            row = max(0, row - int(step[1] or 1))
        elif step[2] is None:
            lines[row] = lines[row].ljust(column)[:column] + word + lines[row][column + len(word) :]
            column += len(word)
    return [line.rstrip() for line in lines]


def on_terminal(*words: str, cwd: Path = REPO) -> list[str]:
    """The lines that a command leaves on a terminal of its own."""
    master, slave = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": "1", "COLUMNS": "400"}
    command = [sys.executable, "-m", "ibdissect", *words]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=cwd, env=env):
        os.close(slave)
        parts = []
        try:
            while part := os.read(master, 1 << 16):
                parts.append(part)
        except OSError:  # the last process that had the terminal is gone
            pass
    os.close(master)
    text = b"".join(parts).decode()
    assert BAR in text, "no bar was drawn: the test shows nothing"
    return [line for line in drawn(text) if line]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captures")
    for name in ("pkey-lab.pcap", "opensm-first-sweep.pcap"):
        for number in (1, 2):
            shutil.copy(REPO / "captures" / name, folder / f"{number}-{name}")
    (folder / "cut.pcap").write_bytes((REPO / "captures/pkey-lab.pcap").read_bytes()[:3000])
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("lint",), ("lint", "--jobs", "2"), ("lint", "--format", "markdown"), ("stats", "1-pkey-lab.pcap"), ("stats",),
        ("stats", "--jobs", "2"),
        ("stats", "--format", "json"), ("fabric", "1-pkey-lab.pcap"), ("sql", "1-pkey-lab.pcap", "select count(*) from packets"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_terminal_has_what_a_pipe_gets(words: tuple[str, ...], folder: Path) -> None:
    if words[0] == "sql":
        pytest.importorskip("duckdb")
    paths = [] if any(word.endswith(".pcap") for word in words) else ["."]
    piped = commands.run(*words, *paths, cwd=folder, text=True)
    lines = on_terminal(*words, *paths, cwd=folder)
    assert sorted(lines) == sorted(line.rstrip() for line in (piped.stdout + piped.stderr).splitlines() if line.strip())
    assert not any(BAR in line for line in lines)


@pytest.mark.slow
def test_rows_on_a_terminal_have_no_bar_among_them(folder: Path) -> None:
    words = ("export", "1-pkey-lab.pcap", "--output", "-", "--format", "csv")
    with pytest.raises(AssertionError, match="no bar was drawn"):
        on_terminal(*words, cwd=folder)


def test_the_terminal_of_these_tests_shows_what_is_glued() -> None:
    assert drawn("━━ 0 %a.pcap:1: error\r\n") == ["━━ 0 %a.pcap:1: error", ""]
    assert drawn("━━ 0 %\r\x1b[2Ka.pcap:1: error\r\n") == ["a.pcap:1: error", ""]
    assert drawn("ab\r\n\x1b[1A\x1b[2Kc") == ["c", ""]


def test_commands_print_past_no_bar() -> None:
    """All of them by `echo`: what else writes text on standard output or standard error would be glued to the bar."""
    printing = re.compile(r"click\.s?echo\(|\bprint\(|sys\.std(?:out|err)\.write\(")
    found = {(path.name, line.strip()) for path in (REPO / "ibdissect/cli").glob("*.py") for line in path.read_text().splitlines()
             if printing.search(line)}  # fmt: skip
    assert {name for name, _ in found} <= {"console.py", "__init__.py", "show_formats.py", "browser.py"}, found


def test_a_bar_is_taken_away_and_drawn_again(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Bar:
        said = ""

        def stop(self) -> None:
            self.said += f"stop{capsys.readouterr().out} "

        def start(self) -> None:
            self.said += f"start after {capsys.readouterr().out}"

    bar = Bar()
    monkeypatch.setattr(console, "_drawn", [bar])
    with console.lifted():
        console.echo("a")
        console.echo("b")
    assert bar.said == "stop start after a\nb\n" and console._drawn == [bar]
    console.echo("", nl=False)  # says nothing, and so leaves the bar where it is
    assert bar.said == "stop start after a\nb\n"
