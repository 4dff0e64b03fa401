"""What a command does with the configuration that it finds: the settings that `lint --show-settings` prints."""

from __future__ import annotations

import io
import tomllib
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from ibdissect.cli import run
from tests.conftest import REPO

LAB = str(REPO / "captures/pkey-lab.pcap")


def here(*words: str, cwd: Path | None = None) -> tuple[int, str, str]:
    """Status, output and messages of a command that runs in this process: a hundredth of the time."""
    out, err = io.StringIO(), io.StringIO()
    with chdir(cwd or Path.cwd()), redirect_stdout(out), redirect_stderr(err):
        status = run(list(words))
    return status, out.getvalue(), err.getvalue()


def followed(*words: str, cwd: Path | None = None) -> dict[str, Any]:
    """The settings, with what the comments say below `#`."""
    status, out, err = here("lint", LAB, "--show-settings", *words, cwd=cwd)
    assert status == 0, err
    return tomllib.loads(out) | {"#": [line[2:] for line in out.splitlines() if line[:1] == "#"]}


def refused(*words: str, cwd: Path | None = None) -> str:
    """What is said of settings that are wrong."""
    status, out, err = here("lint", LAB, "--show-settings", *words, cwd=cwd)
    assert status == 2 and not out, (out, err)
    return err
