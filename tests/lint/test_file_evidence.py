"""A finding names the lines of subnet files that it rests on, and is an info when they need not be true."""

from __future__ import annotations

import pytest

from ibdissect.lint.file_evidence import lower_if_untrusted, untrusted, with_lines
from ibdissect.lint.finding import Related, Severity
from ibdissect.subnet.file_lines import KnownFile, doubtful, line_number
from ibdissect.words import Hit
from tests.report.test_formats import finding

COLLECTED_NS, STALE_NS = 86_400 * 10**9, 7 * 86_400 * 10**9

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


@pytest.mark.parametrize(
    ("time_ns", "exact", "stale"),
    [
        (NOW - STALE_NS, False, False), (NOW - STALE_NS - 1, False, True), (NOW - STALE_NS - 1, True, True), (NOW + STALE_NS, True, False),
        (NOW + STALE_NS + 1, True, True), (NOW + STALE_NS + 1, False, False), (1, False, True), (0, True, False), (0, False, False),
    ],
)  # fmt: skip
def test_how_old_a_file_may_be(time_ns: int, exact: bool, stale: bool) -> None:
    """A week, before or after; a time of 0 is unknown, and the file system's may be that of a copy."""
    hit = Hit(frame=3, time_ns=NOW, arguments={}, related=(Related(line_number(0, 12), "says so"),))
    found = with_lines(hit, [KnownFile("pkeys", time_ns, exact=exact)])
    assert (found.severity is Severity.INFO) is stale and ("may be stale" in found.related[0].why) is stale


def test_only_negative_numbers_are_lines() -> None:
    """The whole capture has frame 0."""
    files = [KnownFile("a", NOW), KnownFile("b", NOW)]
    frames = Hit(frame=3, time_ns=NOW, arguments={}, related=(Related(0, "all"), Related(1, "one")))
    assert with_lines(frames, files) is frames and with_lines(frames, []) is frames
    line = Hit(frame=3, time_ns=NOW, arguments={}, related=(Related(0, "all"), Related(line_number(1, 0), "file")))
    assert with_lines(line, []) is line
    assert with_lines(line, files).related == (Related(0, "all"), Related(0, "file", "b", 0))


def test_the_newest_refuted_file_counts() -> None:
    files = [
        KnownFile("old", NOW),
        KnownFile("new", NOW + 5 * COLLECTED_NS),
        KnownFile("between", NOW + 3 * COLLECTED_NS),
        KnownFile("later", NOW + 7 * COLLECTED_NS),
    ]
    assert untrusted(files, [line_number(1, 3), line_number(0, 2)]) == {"old", "new", "between"}
