"""The sample captures are as documented, and linting them gives the documented findings."""

from __future__ import annotations

import json
import re
import runpy
from collections import Counter
from pathlib import Path

import pytest

import ibdissect
from ibdissect.capture.opening import open_capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.lint.linter import Linter
from ibdissect.rules import load
from tests.cases import few
from tests.decode.made import tables_of

EXPECTED: dict[str, dict[int, set[str]]] = {
    "opensm-first-sweep.pcap": {},
    "mkey-enforced.pcap.gz": {1082: {"MKY002"}, 1121: {"MKY002"}, 1160: {"MKY001"}},
    "rxe-rping.pcap": {},
    "rxe-nak-bad-rkey.pcap": {5: {"CNX011"}, 12: {"CNX011"}, 19: {"CNX011"}},
    "rxe-atomic-write.pcap": {},
    "managers.pcap.gz": {},
    "sa-clients.pcap.gz": {},
    "two-subnets.pcapng.gz": {},
    "slow-lab.pcap": {82: {"CM012"}, 441: {"CNX005"}},
    "pkey-lab.pcap": {31: {"PKY001"}, 32: {"PKY001", "PKY021"}, 33: {"PKY003", "PKY004"}},
    "pkey-lab-full.pcap": {
        1: {"PKY001"},
        5: {"PKY003", "PKY004"},
        78: {"PKY001"},
        80: {"PKY001", "PKY021"},
        84: {"PKY001"},
        85: {"PKY001", "PKY021"},
        86: {"PKY001"},
        88: {"PKY001"},
        89: {"PKY001"},
        90: {"PKY001", "PKY021"},
        94: {"PKY005"},
        98: {"PKY001"},
        101: {"PKY003"},
        115: {"PKY001"},
        116: {"PKY001"},
        117: {"PKY002"},
        122: {"PKY017", "PKY020"},
        123: {"PKY004"},
        125: {"PKY003"},
        126: {"PKY003"},
        127: {"PKY001"},
    },
}
"""Errors by frame; every other frame is free of errors."""
ANSWERED = {106: "PKY001", 135: "PKY003", 136: "PKY004"}
"""Infos, although the truth of the laboratory says error: the very packets were answered, so they were not dropped, or are the answer."""


@few("name", sorted(EXPECTED), fast=(1, 2, 4, 5, 6, 7, 8, 9, 10))
def test_errors_of_a_sample(repo: Path, name: str) -> None:
    linter = Linter(load())
    reader = open_capture(str(repo / "captures" / name))
    for chunk in reader.chunks():
        linter.feed(ChunkTable(chunk))
    errors: dict[int, set[str]] = {}
    for finding in linter.finish():
        if finding.severity == "error":
            errors.setdefault(finding.frame, set()).add(finding.code)
    assert errors == EXPECTED[name]


@pytest.mark.slow
def test_the_laboratory_capture_is_what_its_script_makes(repo: Path) -> None:
    made = runpy.run_path(str(repo / "captures/pkey_lab.py"))["capture"]()
    assert made == (repo / "captures/pkey-lab.pcap").read_bytes()


@pytest.mark.slow
def test_the_laboratory_of_connections_is_what_its_script_makes_and_says(repo: Path) -> None:
    made = runpy.run_path(str(repo / "captures/slow_lab.py"))
    assert made["everything"]().pcap() == (repo / "captures/slow-lab.pcap").read_bytes()
    with ibdissect.open(str(repo / "captures/slow-lab.pcap")) as capture:
        found = Counter((one.ends[1].address, one.cause) for one in capture.connections())
    said = re.findall(r"^\| (10\.0\.0\.\d).* \| (\S+) \|$", made["__doc__"], re.M)
    assert set(found) == set(said) and len(said) == 5 and found["10.0.0.3", "slow-by-rnr"] == 2


@pytest.fixture
def full_laboratory(repo: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, str]:
    """The large laboratory capture and its truth, rebuilt."""
    monkeypatch.syspath_prepend(str(repo / "captures"))
    made: tuple[bytes, str] = runpy.run_path(str(repo / "captures/pkey_lab_full.py"))["build"]()
    return made


@pytest.mark.slow
def test_the_full_laboratory_capture_is_what_its_script_makes(repo: Path, full_laboratory: tuple[bytes, str]) -> None:
    capture, truth = full_laboratory
    assert capture == (repo / "captures/pkey-lab-full.pcap").read_bytes()
    assert truth == (repo / "captures/pkey-lab-full.json").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("window", [1 << 20, 3000])
def test_all_rules_find_the_truth_of_the_full_laboratory_and_nothing_else(repo: Path, window: int) -> None:
    linter = Linter(load(), max_findings=None)
    for table in tables_of(str(repo / "captures/pkey-lab-full.pcap"), window):
        linter.feed(table)
    truth = json.loads((repo / "captures/pkey-lab-full.json").read_text())["findings"]
    expected = sorted((one["frame"], one["code"], one["count"]) for one in truth)
    found = sorted((finding.frame, finding.code, finding.count) for finding in linter.finish())
    if window < 1 << 20:  # PKY013 looks for a trap's packet only in the chunk of the trap
        found, expected = ([one for one in them if one[1] != "PKY013"] for them in (found, expected))
    assert found == expected
    assert len({code for _, code, _ in expected}) > 12


def test_the_full_laboratory_in_errors(repo: Path) -> None:
    """EXPECTED lists the same errors as the truth."""
    truth = json.loads((repo / "captures/pkey-lab-full.json").read_text())["findings"]
    severity = {rule.code: rule.severity for rule in load()}
    errors: dict[int, set[str]] = {}
    for one in truth:
        if severity[one["code"]] == "error":
            errors.setdefault(one["frame"], set()).add(one["code"])
    for frame, code in ANSWERED.items():
        errors[frame].discard(code)
    assert {frame: codes for frame, codes in errors.items() if codes} == EXPECTED["pkey-lab-full.pcap"]


def test_every_sample_has_its_provenance(repo: Path) -> None:
    page = (repo / "captures/README.md").read_text()
    files = {path.name for path in (repo / "captures").iterdir() if ".pcap" in path.name}
    assert files == set(EXPECTED) and all(f"| {name} |" in page for name in files)
