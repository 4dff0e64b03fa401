"""Shells complete commands, files, rule codes and filter names. Tested in real shells with the Tab key."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import commands

pytestmark = pytest.mark.slow

REPO = Path(__file__).resolve().parents[2]
START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}
PREPARE = {
    "bash": 'eval "$(_IBDISSECT_COMPLETE=bash_source ibdissect)"; bind "set bell-style none"',
    "zsh": 'autoload -U compinit; compinit -u -d "$PWD/dump"; eval "$(_IBDISSECT_COMPLETE=zsh_source ibdissect)"',
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A folder with a capture, and `ibdissect` on the PATH."""
    program = tmp_path / "bin" / "ibdissect"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ibdissect "$@"\n')
    program.chmod(0o755)
    (tmp_path / "capture-of-today.pcap").write_bytes(b"")
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PYTHONPATH": str(REPO), "TERM": "dumb", "HOME": str(tmp_path), "PS1": "> ", "HISTFILE": ""}


class Terminal:
    """A shell behind a pseudo terminal."""

    def __init__(self, shell: str, environment: dict[str, str], cwd: Path) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            START[shell], stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=cwd, start_new_session=True
        )
        os.close(slave)

    def close(self) -> None:
        """End the shell."""
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def type(self, text: str, wanted: str) -> str:
        """Type a text; return the output up to `wanted`."""
        os.write(self.master, text.encode())
        read, deadline = "", time.monotonic() + 30
        while wanted not in read and time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.2)[0]:
                read += os.read(self.master, 65536).decode(errors="replace")
        return read


@pytest.mark.parametrize("shell", sorted(START))
def test_a_tab_completes(shell: str, environment: dict[str, str], tmp_path: Path) -> None:
    """Commands, files and filter names in one shell of each kind; what else is offered, `test_offers` asks without a shell."""
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    terminal = Terminal(shell, environment, tmp_path)
    try:
        terminal.type(PREPARE[shell] + "; echo ready$((1+1))\n", "ready2")
        for typed, rest in (
            ("ibdissect annot", "ate"), ("ibdissect lint capture-o", "f-today.pcap"), ("ibdissect capture-o", "f-today.pcap"),
            ("ibdissect lint --select PKY001,limited-to", "-limited"), ("ibdissect show -Y infiniband.bth.opc", "ode"),
        ):  # fmt: skip
            assert rest in terminal.type(f"{typed}\t", rest), typed
            terminal.type("\x15echo clear$((1+1))\n", "clear2")
    finally:
        terminal.close()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("lint --write-b", "plain,--write-baseline"), ("show capture-o", "file,capture-o"),
        ("diff capture-of-today.pcap capture-o", "file,capture-o"), ("fabric --subnet capture-o", "file,capture-o"),
        ("fields infiniband.deth.q", "plain,infiniband.deth.q_key"), ("nosuch x", "file,x"),
    ],
)  # fmt: skip
def test_offers(words: str, offered: str, environment: dict[str, str], tmp_path: Path) -> None:
    asked = {"_IBDISSECT_COMPLETE": "bash_complete", "COMP_WORDS": f"ibdissect {words}", "COMP_CWORD": str(words.count(" ") + 1)}
    done = commands.run(env=environment | asked, cwd=tmp_path, text=True)
    assert done.returncode == 0 and not done.stderr
    assert offered in done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [("ibdissect annot", "annotate"), ("ibdissect lint --fail-on w", "warning"), ("ibdissect rules PKY00", "PKY001"),
     ("ibdissect show -e infiniband.deth.q", "infiniband.deth.q_key"), ("ibdissect lint capture-o", "capture-of-today.pcap")],
)  # fmt: skip
def test_fish_completes(environment: dict[str, str], tmp_path: Path, typed: str, completed: str) -> None:
    script = f"_IBDISSECT_COMPLETE=fish_source ibdissect | source; complete -C '{typed}'"
    done = subprocess.run(["fish", "-c", script], capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=60, check=False)
    assert completed in [line.split("\t")[0] for line in done.stdout.splitlines()], done.stderr


def test_help_says_how() -> None:
    done = commands.run("--help", text=True)
    assert all(f"_IBDISSECT_COMPLETE={shell}_source" in done.stdout for shell in ("bash", "zsh", "fish"))
