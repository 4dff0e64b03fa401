"""Does a finding name the lines that it rests on, and is it an info when they need not be true?"""

from __future__ import annotations

import pytest

from ibdissect.fabric.file_lines import KnownFile, doubtful, line_number
from ibdissect.lint.file_evidence import COLLECTED_NS, STALE_NS, lower_if_untrusted, untrusted, with_lines
from ibdissect.lint.finding import Related, Severity
from ibdissect.lint.rule import Hit
from tests.report.test_formats import finding

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


@pytest.mark.parametrize(("later_ns", "doubted"), [(-1, True), (0, True), (COLLECTED_NS, True), (COLLECTED_NS + 1, False)])
def test_files_of_one_day_are_doubted_together(later_ns: int, doubted: bool) -> None:
    """A file whose line the traffic refutes takes all along that are not more than a day newer."""
    files = [KnownFile("old", NOW), KnownFile("other", NOW + later_ns)]
    assert untrusted(files, [line_number(0, 3)]) == ({"old", "other"} if doubted else {"old"})
    assert untrusted(files, []) == set()


def test_a_finding_on_an_untrusted_file_is_an_info_and_says_why() -> None:
    """Only the lines of that file are doubted; a finding without one stays as it is."""
    found = finding()
    found.related = (Related(0, "one", "old", 1), Related(0, "two", "new", 2))
    severity = found.severity
    assert not lower_if_untrusted(found, {"other"}) and found.severity == severity
    assert lower_if_untrusted(found, {"old"}) and found.severity == Severity.INFO != severity
    assert [one.why for one in found.related] == ["one; in doubt, as traffic refutes a file of that time", "two"]
