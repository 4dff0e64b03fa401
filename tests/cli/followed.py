"""What a command does with the configuration that it finds: the settings that `lint --show-settings` prints."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from tests.commands import run
from tests.conftest import REPO

LAB = str(REPO / "captures/pkey-lab.pcap")


def followed(*words: str, cwd: Path | None = None) -> dict[str, Any]:
    """The settings, with what the comments say below `#`."""
    done = run("lint", LAB, "--show-settings", *words, cwd=cwd, text=True)
    assert done.returncode == 0, done.stderr
    return tomllib.loads(done.stdout) | {"#": [line[2:] for line in done.stdout.splitlines() if line[:1] == "#"]}


def refused(*words: str, cwd: Path | None = None) -> str:
    """What is said of settings that are wrong."""
    done = run("lint", LAB, "--show-settings", *words, cwd=cwd, text=True)
    assert done.returncode == 2 and not done.stdout, done
    return str(done.stderr)
