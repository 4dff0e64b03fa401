"""Rights that a sandboxed command no longer has. Each case runs in a process of its own, which stays confined to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import run
from tests.craft import erf_pcap, smp

TRIED = """
import resource, socket, sys
from ibdissect.cli.common_options import CommonOptions
from ibdissect.cli.sandbox import confine
confine(CommonOptions(), [sys.argv[1] + "/report.json"], network=len(sys.argv) > 3)
def attempt(what, *given):
    try:
        what(*given)
        return "done"
    except OSError as error:
        return error.strerror
known, other = sys.argv[2] + "/known", sys.argv[2] + "/other"
print(attempt(open, sys.argv[1] + "/report.json", "w"), attempt(open, other, "w"), attempt(open, known, "a"), attempt(open, known),
      attempt(open, "/dev/null", "w"), attempt(socket.socket().bind, ("127.0.0.1", 0)), *resource.getrlimit(resource.RLIMIT_CORE), sep=", ")
"""
NO = "Permission denied"


@pytest.mark.parametrize("network", [False, True])
def test_what_a_sandboxed_process_can_do(network: bool, repo: Path, tmp_path: Path) -> None:
    inside, outside, temporary = (tmp_path / name for name in ("inside", "outside", "temporary"))
    for folder in (inside, outside, temporary):
        folder.mkdir()
    (outside / "known").touch()
    words = [sys.executable, "-c", TRIED, str(inside), str(outside), *["network"] * network]
    env = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(words, cwd=repo, env=env, capture_output=True, text=True, timeout=60, check=True)
    if "cannot withhold" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.stdout == f"done, {NO}, {NO}, done, done, {'done' if network else NO}, 0, 0\n"
    assert not (outside / "other").exists()


def test_lint_in_a_sandbox_finds_the_same(tmp_path: Path) -> None:
    (tmp_path / "bad.pcap").write_bytes(erf_pcap([smp(1, 0x10, modifier=1)]))
    words = ("lint", "bad.pcap", "--format", "json", "--output", "report.json", "--cache", "seen")
    reports = []
    for more in ((), ("--sandbox",), ("--sandbox", "--jobs", "2")):
        done = run(*words, *more, cwd=tmp_path)
        assert done.returncode == 1, done.stderr
        reports.append((tmp_path / "report.json").read_bytes())
    assert reports[0] == reports[1] == reports[2]
