"""`diagnose` tells the same of a file, a pipe and a set; its exit status."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import commands
from tests.conftest import SHARED
from tests.diagnosis.lab import Lab
from tests.diagnosis.test_causes import exhausted, slow_rnr
from tests.points.test_connections_at_points import silence


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


def parts_of(data: bytes, folder: Path, each: int) -> list[str]:
    """A pcap as a set of files of `each` records."""
    at, records = 24, []
    while at < len(data):
        end = at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        records.append(data[at:end])
        at = end
    names = []
    for i in range(0, len(records), each):
        name = folder / f"part_{i // each:05}_2026010100{i // each:04}.pcap"
        name.write_bytes(data[:24] + b"".join(records[i : i + each]))
        names.append(str(name))
    return names


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "faults").is_dir(), reason="needs ../shared")
@pytest.mark.parametrize("form", ["json", "text"])
def test_every_byte_of_a_pipe_and_of_a_set_is_that_of_the_file(form: str, tmp_path: Path) -> None:
    """151 connections with all causes; only the name differs."""
    data = gzip.decompress((SHARED / "faults/roce-both/hub.pcap.gz").read_bytes())
    path = tmp_path / "hub.pcap"
    path.write_bytes(data)
    words = ("diagnose", "--format", form, "--all")
    whole = commands.run(*words, str(path), text=True).stdout
    piped = subprocess.run([sys.executable, "-m", "ibdissect", *words, "-"], input=data, capture_output=True, check=False).stdout.decode()
    in_parts = commands.run(*words, "--set", *parts_of(data, tmp_path, 3000), text=True).stdout
    assert len(whole) > 10_000
    for other in (piped, in_parts):
        differ = [pair for pair in zip(whole.splitlines(), other.splitlines(), strict=True) if pair[0] != pair[1]]
        if form == "text":
            assert [(one.split(": ", 1)[1], one == whole.splitlines()[0]) for one, _ in differ] == [(differ[0][1].split(": ", 1)[1], True)]
        else:
            one, two = json.loads(whole), json.loads(other)
            assert json.dumps(one.pop("captures")) != json.dumps(two.pop("captures")) and json.dumps(one) == json.dumps(two)


@pytest.mark.slow
def test_json_of_a_pipe_and_of_a_set_is_that_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pcap", exhausted)
    whole = json.loads(commands.run("diagnose", "--format", "json", str(path), text=True).stdout)
    assert whole["schema"] == 1 and [(one["path"], one["frames"]) for one in whole["captures"]] == [(str(path), 24)]
    piped = subprocess.run(
        [sys.executable, "-m", "ibdissect", "diagnose", "--format", "json", "-"], input=path.read_bytes(), capture_output=True, check=False
    )
    assert json.loads(piped.stdout)["connections"] == whole["connections"]
    names = parts_of(path.read_bytes(), tmp_path, 7)
    done = commands.run("diagnose", "--format", "json", "--set", *names, text=True)
    assert json.loads(done.stdout)["connections"] == whole["connections"], done.stderr


def test_filters_are_refused(tmp_path: Path) -> None:
    done = commands.run("diagnose", "-Y", "bth", str(written(tmp_path / "a.pcap", exhausted)), text=True)
    assert done.returncode == 2 and "a connection is followed in all frames" in done.stderr


@pytest.mark.slow
def test_points_of_the_same_traffic_are_told_as_one(tmp_path: Path) -> None:
    paths = silence(lost=dict.fromkeys(range(8), "server")).write(tmp_path)
    done = commands.run("diagnose", "--points", *paths, text=True)
    assert done.returncode == 1 and "client + tap + server: 1 connection" in done.stdout
    assert "    at client: proved by frames " in done.stdout and "that of tap is 7,200 s behind" in done.stdout
    found = json.loads(commands.run("diagnose", "--points", "--format", "json", *paths, text=True).stdout)
    assert [one["name"] for one in found["captures"]] == ["client", "tap", "server"]
    (one,) = [one for one in found["connections"] if one["cause"] == "retries-exhausted"]
    assert one["capture"] == 0 and one["detail"]["lost_between"] == ["tap", "server"]
    lost = {name: value for name, value in one["lost"][0].items() if name != "first_frame"}
    assert lost == {"to": 1, "after": 1, "before": 2, "packets": 8}
    assert [each["capture"] for each in one["elsewhere"]] == [1, 2]


def test_what_points_refuse(tmp_path: Path) -> None:
    paths = silence().write(tmp_path)
    alone = written(tmp_path / "other.pcap", slow_rnr)
    refused = {"nothing to compare": paths[:1], "shares no packet": [paths[0], str(alone)], "a set is one": ["--set", *paths]}
    for said, words in refused.items():
        done = commands.run("diagnose", "--points", *words, text=True)
        assert done.returncode == 2 and said in done.stderr and not done.stdout
