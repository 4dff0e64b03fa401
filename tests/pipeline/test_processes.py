"""A crashed process loses only its own capture, and reports are in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from ibdissect.lint.finding import CaptureReport
from ibdissect.pipeline.capture_report import killed
from ibdissect.pipeline.ordered_pool import spread
from ibdissect.pipeline.processes import Processes
from tests.pipeline.dying import checked

pytestmark = pytest.mark.slow


def in_processes(paths: list[str]) -> Iterator[CaptureReport]:
    return spread(paths, Processes(checked, 2), killed)


@pytest.fixture(params=["alone", "beside a thread"], autouse=True)
def thread(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes start in another way if a thread runs, such as that of a progress bar; earlier tests may have left some."""
    monkeypatch.setattr(threading, "active_count", lambda: 1 if request.param == "alone" else 2)


def test_reports_come_in_order() -> None:
    paths = [f"{'x' * (i % 7)}{i}" for i in range(50)]
    assert [report.path for report in in_processes(paths)] == paths


@pytest.mark.parametrize("at", [0, 3, 39])
def test_a_process_that_dies_costs_its_own_capture_only(at: int) -> None:
    paths = [f"p{i}" for i in range(40)]
    paths[at] = "kill"
    reports = list(in_processes(paths))
    assert [report.path for report in reports] == paths
    assert [report.path for report in reports if report.error is not None] == ["kill"]
    assert "died" in str(reports[at].error) and reports[at].status == "unreadable"


def test_several_that_die() -> None:
    paths = ["a", "kill1", "b", "kill2", "kill3", "c"]
    assert [report.error is None for report in in_processes(paths)] == [True, False, True, False, False, True]


def test_a_bug_is_not_hidden() -> None:
    with pytest.raises(KeyError):
        list(in_processes(["a", "raise", "b"]))
