"""Does a finding name the lines that it rests on, and is it an info when they need not be true?"""

from __future__ import annotations

import pytest

from ibdissect.fabric.file_lines import KnownFile, doubtful, line_number
from ibdissect.lint.file_evidence import STALE_NS, with_lines
from ibdissect.lint.finding import Related, Severity
from ibdissect.lint.rule import Hit

NOW = 2 * STALE_NS


@pytest.mark.parametrize(
    ("file", "doubt", "severity", "why"),
    [
        (KnownFile("pkeys", NOW), False, None, "says so"),
        (KnownFile("pkeys", NOW - STALE_NS - 1), False, Severity.INFO, "says so; as of 1970-01-07, may be stale"),
        (KnownFile("pkeys", NOW - STALE_NS - 1, lasting=True), False, None, "says so"),
        (KnownFile("pkeys", 0), False, None, "says so"),
        (KnownFile("pkeys", NOW), True, Severity.INFO, "says so; in doubt, as the files do not say enough"),
    ],
)
def test_evidence(file: KnownFile, doubt: bool, severity: Severity | None, why: str) -> None:
    line = line_number(0, 12)
    hit = Hit(frame=3, time_ns=NOW, arguments={}, related=(Related(2, "a frame"), Related(doubtful(line) if doubt else line, "says so")))
    found = with_lines(hit, [file])
    assert found.severity is severity
    assert found.related == (Related(2, "a frame"), Related(0, why, "pkeys", 12))
    assert found.related[1].place == "pkeys:12"
