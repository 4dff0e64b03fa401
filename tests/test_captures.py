"""Are the sample captures what their page says, and does linting them show what it promises?"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from ibdissect.capture.opening import open_capture
from ibdissect.lint.engine import Linter
from ibdissect.rules import load
from ibdissect.table.table import ChunkTable

EXPECTED: dict[str, dict[int, set[str]]] = {
    "opensm-first-sweep.pcap": {},
    "mkey-enforced.pcap.gz": {1082: {"MKY002"}, 1121: {"MKY002"}, 1160: {"MKY001"}},
    "rxe-rping.pcap": {},
    "rxe-nak-bad-rkey.pcap": {},
    "rxe-atomic-write.pcap": {},
    "pkey-lab.pcap": {31: {"PKY001"}, 32: {"PKY001", "PKY021"}, 33: {"PKY003", "PKY004"}},
}
"""Errors by frame; every other frame is free of errors."""


@pytest.mark.parametrize("name", sorted(EXPECTED))
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


def test_the_laboratory_is_what_its_script_makes(repo: Path) -> None:
    made = runpy.run_path(str(repo / "captures/pkey_lab.py"))["capture"]()
    assert made == (repo / "captures/pkey-lab.pcap").read_bytes()


def test_every_sample_has_its_provenance(repo: Path) -> None:
    page = (repo / "captures/README.md").read_text()
    files = {path.name for path in (repo / "captures").iterdir() if ".pcap" in path.name}
    assert files == set(EXPECTED) and all(f"| {name} |" in page for name in files)
