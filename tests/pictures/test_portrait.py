"""A report knows of a capture what `lint` says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.lint.finding import CaptureReport
from ibdissect.pictures.portrait import read
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.rules import load
from tests.cases import few
from tests.screen_model import made

from .looks import portrait


def same_as_lint(path: Path) -> None:
    wanted = check(str(path), CheckOptions(rules=load(), max_findings=None))
    with portrait(path) as found:
        found.name_nodes(None)
        report = found.report
    names = "path frames checked infiniband undecoded first_ns last_ns link_types status by_rule counts"
    for name in names.split():
        assert getattr(report, name) == getattr(wanted, name), name

    def facts(report: CaptureReport) -> list[object]:
        return sorted((one.frame, one.code, one.message, one.context, one.count, one.capture, one.stable) for one in report.findings)

    assert facts(report) == facts(wanted)


@few("name", ["pkey-lab.pcap", "rxe-nak-bad-rkey.pcap", "opensm-first-sweep.pcap"], fast=(2,))
def test_a_portrait_says_what_lint_says(name: str, repo: Path) -> None:
    same_as_lint(repo / "captures" / name)


@pytest.mark.slow
def test_every_packet_of_a_finding_counts_over_time(repo: Path) -> None:
    with portrait(repo / "captures/pkey-lab.pcap") as found:
        parts = found.over_time(37)
        frames, ranks = found.model.findings.ranks()
    assert sum(sum(part.values()) for part in parts) == len(frames) > len(found.report.findings)
    assert sum(part["info"] for part in parts) == (ranks == 1).sum() == 1
    busy = [i for i, part in enumerate(parts) if any(part.values())]
    assert min(busy) >= 29 and len(busy) > 2  # frames 31 to 36 of 37 that follow each other at equal distances


def test_a_damaged_capture(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    path.write_bytes(path.read_bytes()[:-7])
    same_as_lint(path)
    with portrait(path) as found:
        assert found.report.status == "truncated"


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with read(str(tmp_path / "none.pcap"), CheckOptions(rules=load())) as found:
        assert isinstance(found, CaptureReport) and found.status == "unreadable" and "none.pcap" in (found.error or "")


def test_progress_is_reported(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    path = made.capture(tmp_path)
    with read(str(path), CheckOptions(rules=load()), progress=lambda frames, at: told.append((frames, at))):
        pass
    assert told[-1] == (made.TOTAL, path.stat().st_size)
