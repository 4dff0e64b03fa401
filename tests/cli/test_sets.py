"""Commands read a set as the one capture that it was cut from."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ibdissect
from ibdissect.errors import CaptureError
from tests.commands import NEEDS_DUCKDB, run

HEADER = 24


def records(data: bytes) -> Iterator[bytes]:
    """The records of a little-endian pcap."""
    at = HEADER
    while at < len(data):
        stop = at + 16 + struct.unpack_from("<I", data, at + 8)[0]
        yield data[at:stop]
        at = stop


def cut(data: bytes, places: list[int], folder: Path) -> list[str]:
    """A pcap cut in front of some frames (from 0) into files named as dumpcap does."""
    every = list(records(data))
    files = []
    for number, (start, stop) in enumerate(zip([0, *places], [*places, len(every)], strict=True)):
        path = folder / f"cap_{number:05}_2026112112{number:04}.pcap"
        path.write_bytes(data[:HEADER] + b"".join(every[start:stop]))
        files.append(str(path))
    return files


def report_of(report: str) -> dict[str, Any]:
    """A report of lint as JSON, with the frames of a set named as in the whole capture."""
    result: dict[str, Any] = json.loads(report)
    (capture,) = result["captures"]
    firsts = {Path(member["path"]).name: member["first"] for member in capture.pop("members", ())}
    capture["path"] = ""
    for finding in result["findings"]:
        finding["capture"] = ""
        if file := finding.pop("file", None):
            assert firsts[Path(file).name] + finding.pop("file_frame") - 1 == finding["frame"]
        finding["message"] = re.sub(r"(cap_\w+\.pcap):(\d+)", lambda m: f"frame {firsts[m[1]] + int(m[2]) - 1}", finding["message"])
        for other in finding["related"]:
            if file := other.pop("file", None):
                assert firsts[Path(file).name] + other.pop("line") - 1 == other["frame"]
    return result


def compare(capture: Path, places: list[list[int]], folder: Path) -> None:
    whole = report_of(run("lint", str(capture), "--format", "json", text=True).stdout)
    for chosen in places:
        inside = folder / "-".join(map(str, chosen))
        inside.mkdir()
        cut(capture.read_bytes(), chosen, inside)
        assert report_of(run("lint", "--set", str(inside), "--format", "json", text=True).stdout) == whole, chosen


@pytest.mark.slow
def test_a_cut_makes_no_difference(repo: Path, tmp_path: Path) -> None:
    compare(repo / "captures/pkey-lab.pcap", [[12], [1, 20, 30]], tmp_path)


@pytest.mark.slow
def test_cuts_at_several_places(repo: Path, tmp_path: Path) -> None:
    compare(repo / "captures/rxe-nak-bad-rkey.pcap", [[5], [9, 10]], tmp_path)
    compare(repo / "captures/pkey-lab.pcap", [[at] for at in range(3, 37, 6)], tmp_path)


@pytest.mark.thorough
def test_cuts_at_every_boundary(repo: Path, tmp_path: Path) -> None:
    compare(repo / "captures/pkey-lab.pcap", [[at] for at in range(1, 37)] + [list(range(1, 37))], tmp_path)


@pytest.fixture
def ring(repo: Path, tmp_path: Path) -> list[str]:
    return cut((repo / "captures/pkey-lab.pcap").read_bytes(), [12, 24], tmp_path)


def test_lint_offers_what_it_recognizes(ring: list[str], tmp_path: Path) -> None:
    offered = run("lint", str(tmp_path), text=True)
    assert f"these 3 files look like one ring buffer: --set checks {tmp_path}/cap_*.pcap as one capture" in offered.stderr
    assert "in 3 captures" in offered.stdout
    taken = run("lint", "--set", str(tmp_path), "--format", "full", text=True)
    assert "--set" not in taken.stderr and "37 frames in 1 capture" in taken.stdout and taken.returncode == 1
    assert f"{ring[2]}:7: " in taken.stdout and f"see {ring[2]}:7 (" in taken.stdout


@pytest.mark.slow
def test_two_rings_are_two_captures(ring: list[str], tmp_path: Path) -> None:
    for file in ring:
        Path(file.replace("cap_", "other_")).write_bytes(Path(file).read_bytes())
    found = run("lint", "--set", str(tmp_path), "--jobs", "2", "--format", "json", text=True)
    assert [Path(one["path"]).name for one in json.loads(found.stdout)["captures"]] == ["cap_*.pcap", "other_*.pcap"]
    refused = run("stats", "--set", str(tmp_path), text=True)
    assert refused.returncode == 2 and "2 captures by their names" in refused.stderr


def test_reports_name_the_files(ring: list[str], tmp_path: Path) -> None:
    formats = ("text", "junit", "sarif", "github", "jsonl", "gitlab", "markdown")
    files = [f"--output-file={format_}={tmp_path / format_}" for format_ in formats]
    assert run("lint", "--set", *ring, *files, text=True).returncode == 1
    for format_ in formats:
        said = re.sub(r"T\d\d:\d\d:\d\d", "", (tmp_path / format_).read_text(encoding="utf-8"))  # "at 11:31" is no frame 31
        assert Path(ring[2]).name in said.replace("\\", "") and ":31" not in said, format_


@pytest.mark.slow
def test_a_missing_member(ring: list[str]) -> None:
    Path(ring[1]).unlink()
    found = run("lint", "--set", ring[0], ring[2], "--format", "json", text=True)
    result = json.loads(found.stdout)
    (gap,) = [finding for finding in result["findings"] if finding["code"] == "CAP019"]
    assert gap["message"] == f"file 1 is missing between {Path(ring[0]).name} and {Path(ring[2]).name}"
    assert (gap["frame"], gap["file"], gap["file_frame"]) == (12, ring[0], 12) and gap["time_ns"] > 0
    assert result["captures"][0]["status"] == "ok"
    shown = run("show", "--set", ring[0], ring[2], "--count", text=True)
    assert shown.stdout == "25\n" and "file 1 is missing" in shown.stderr


def test_an_unreadable_member(ring: list[str]) -> None:
    Path(ring[1]).write_bytes(b"no capture")
    found = run("lint", "--set", *ring, "--format", "json", text=True)
    assert found.returncode == 2 and f"error: {ring[1]}: not a capture" in found.stderr
    assert json.loads(found.stdout)["captures"][0]["status"] == "failed"
    assert json.loads(found.stdout)["findings"]


def test_time_that_goes_back(ring: list[str], tmp_path: Path) -> None:
    names = [tmp_path / "b.pcap", tmp_path / "a.pcap"]
    for path, file in zip(names, (ring[2], ring[0]), strict=True):
        path.write_bytes(Path(file).read_bytes())
    found = run("lint", "--set", *map(str, names), "--select", "CAP005", "--format", "full", text=True)
    assert f"{names[1]}:1: " in found.stdout and f"see {names[0]}:13 (the packet before it)" in found.stdout


@pytest.mark.parametrize("words", [("stats",), ("fabric",), ("fabric", "--dot"), ("show", "--format", "dump")])
def test_other_commands(words: tuple[str, ...], ring: list[str], repo: Path) -> None:
    whole = run(*words, str(repo / "captures/pkey-lab.pcap"), text=True)
    parts = run(*words, "--set", *ring, text=True)
    firsts = {Path(file).name: first for file, first in zip(ring, (1, 13, 25), strict=True)}
    back = re.sub(r"(cap_\w+\.pcap):(\d+)", lambda m: f"frame {firsts[m[1]] + int(m[2]) - 1}", parts.stdout)
    assert parts.returncode == whole.returncode == 0
    assert back.replace("last seen frame", "last seen") == whole.stdout


def test_frames_as_lines_and_objects(ring: list[str]) -> None:
    lines = run("show", "--set", *ring, "--frames", "12-13", text=True).stdout.splitlines()
    assert [line.split()[0] for line in lines] == [f"{Path(ring[0]).name}:12", f"{Path(ring[1]).name}:1"]
    (found,) = map(json.loads, run("show", "--set", *ring, "--frames", "13", "--format", "jsonl", text=True).stdout.splitlines())
    assert (found["frame"], found["file"], found["file_frame"]) == (13, ring[1], 1)


@pytest.mark.slow
@NEEDS_DUCKDB
def test_tables(ring: list[str], tmp_path: Path) -> None:
    counted = run("sql", "--set", *ring, "select count(*), max(frame_number) from packets", "--format", "csv", text=True)
    assert counted.stdout.splitlines()[1] == "37,37"
    files = run("sql", "--set", *ring, "select distinct file from findings", "--format", "csv", text=True)
    assert files.stdout.splitlines()[1:] == [f'"{ring[2]}"']
    refused = run("export", "--set", *ring, "--output", ring[1], text=True)
    assert refused.returncode == 2 and "is the capture itself" in refused.stderr


def test_refusals(ring: list[str]) -> None:
    cases = ((("show", *ring), "--set reads several files"), (("lint", "--set", "-"), "standard input cannot be part of a set"))
    for words, said in cases:
        refused = run(*words, text=True)
        assert refused.returncode == 2 and said in refused.stderr


def test_python(ring: list[str], repo: Path) -> None:
    with ibdissect.open(ring, set=True) as parts, ibdissect.open(str(repo / "captures/pkey-lab.pcap")) as whole:
        assert [frame.data for frame in parts] == [frame.data for frame in whole]
        assert parts.frame(25).data == whole.frame(25).data and parts.dissect(13).frame == 13
        found = parts.lint()
        assert [finding.frame for finding in found] == [finding.frame for finding in whole.lint()]
        assert {finding.place for finding in found} >= {(ring[2], 7)}
    with pytest.raises(CaptureError, match="set=True"):
        ibdissect.open(ring)
