"""Each fault that readers of the rules once missed is found, or the table says why not."""

from __future__ import annotations

import csv
from collections import defaultdict

import pytest

from tests.conftest import REFERENCE, SHARED
from tests.rules.test_rules import lint

with open(REFERENCE / "misses.csv", newline="", encoding="utf-8") as _file:
    ROWS = list(csv.DictReader(_file))
FOLDER = SHARED / "truth" / "misses"


def test_every_capture_is_listed() -> None:
    if not FOLDER.exists():
        pytest.skip("needs ../shared")
    assert {path.stem for path in FOLDER.glob("*.pcap")} == {row["capture"] for row in ROWS}


def test_what_is_not_found_is_explained() -> None:
    assert all(row["code"] or len(row["why"]) > 40 for row in ROWS)
    assert sum(not row["code"] for row in ROWS) <= 2, "find more, not fewer"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({row["capture"] for row in ROWS}))
def test_found(name: str) -> None:
    path = FOLDER / f"{name}.pcap"
    if not path.exists():
        pytest.skip("needs ../shared")
    found = defaultdict[int, dict[str, str]](dict)
    for one in lint(path.read_bytes()):
        found[one.frame][one.code] = str(one.severity)
    for row in (row for row in ROWS if row["capture"] == name):
        codes = found[int(row["frame"])]
        if row["code"]:
            assert (codes.get(row["code"]) == "info") == row["why"].startswith("an info") and row["code"] in codes, row
        else:
            assert not {code for code, severity in codes.items() if severity != "info"}, f"it is found by now: {row}"
