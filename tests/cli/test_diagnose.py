"""Does `diagnose` tell the same of a file, a pipe and a set, and what is its exit status?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests import commands
from tests.diagnosis.lab import Lab
from tests.diagnosis.test_causes import exhausted, slow_rnr


def written(path: Path, *makes: object) -> Path:
    lab = Lab()
    for make in makes:
        make(lab)  # type: ignore[operator]
    path.write_bytes(lab.pcap())
    return path


def test_the_exit_status_says_whether_a_connection_failed(tmp_path: Path) -> None:
    good = written(tmp_path / "good.pcap", slow_rnr)
    bad = written(tmp_path / "bad.pcap", exhausted)
    done = commands.run("diagnose", str(good), text=True)
    assert done.returncode == 0 and "slow-by-rnr" in done.stdout
    done = commands.run("diagnose", str(good), str(bad), text=True)
    assert done.returncode == 1 and done.stdout.index("slow-by-rnr") < done.stdout.index("retries-exhausted")
    assert commands.run("diagnose", str(tmp_path / "none.pcap"), text=True).returncode == 2


def test_json_of_a_pipe_and_of_a_set_is_that_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pcap", exhausted)
    whole = json.loads(commands.run("diagnose", "--format", "json", str(path), text=True).stdout)
    assert whole["schema"] == 1 and [(one["path"], one["frames"]) for one in whole["captures"]] == [(str(path), 24)]
    piped = subprocess.run(
        [sys.executable, "-m", "ibdissect", "diagnose", "--format", "json", "-"], input=path.read_bytes(), capture_output=True, check=False
    )
    assert json.loads(piped.stdout)["connections"] == whole["connections"]
    data = path.read_bytes()
    at, parts = 24, []
    while at < len(data):
        end = at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        parts.append(data[at:end])
        at = end
    names = []
    for i in range(0, len(parts), 7):
        name = tmp_path / f"part_{i:05}_2026010100000{i // 7}.pcap"
        name.write_bytes(data[:24] + b"".join(parts[i : i + 7]))
        names.append(str(name))
    done = commands.run("diagnose", "--format", "json", "--set", *names, text=True)
    assert json.loads(done.stdout)["connections"] == whole["connections"], done.stderr


def test_filters_are_refused(tmp_path: Path) -> None:
    done = commands.run("diagnose", "-Y", "bth", str(written(tmp_path / "a.pcap", exhausted)), text=True)
    assert done.returncode == 2 and "a connection is followed in all frames" in done.stderr
