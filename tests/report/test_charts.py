"""Bars and lines are as long as their numbers say."""

from __future__ import annotations

from dataclasses import replace

from ibdissect.lint.finding import Severity
from ibdissect.report.charts import bars, polyline, steps, time_line

from .test_formats import finding


def test_bars() -> None:
    made = bars("t", [("a", 30), ("b", 10)])
    assert [(one.label, one.count, one.width, one.share) for one in made.bars] == [("a", 30, 160, "75.0%"), ("b", 10, 160 / 3, "25.0%")]
    many = bars("t", [(str(i), 1) for i in range(17)]).bars
    assert many[-1].label == "5 others" and sum(one.count for one in many) == 17
    assert bars("t", []).bars == []


def test_findings_over_time_are_stacked() -> None:
    found = [replace(finding(severity=level), time_ns=time) for level, time in
             ((Severity.ERROR, 0), (Severity.INFO, 0), (Severity.WARNING, 10_000_000_000))]  # fmt: skip
    line = time_line(steps(found, 0, 10_000_000_000), 0, 10_000_000_000, [1, 2])
    assert line.most == 2 and line.seconds == 10
    assert [(piece.level, piece.x < 10, piece.y + piece.height) for piece in line.pieces] == [
        ("info", True, 150), ("error", True, line.pieces[0].y), ("warning", False, 150)
    ]  # fmt: skip
    assert line.rows[0] == ("0.000 s", 1, 0, 1) and len(line.rows) == 2
    assert line.packets == "0,150 0.0,85.0 380.0,85.0 380.0,20.0 760.0,20.0 760,150"
    assert time_line(steps(found, 0, 0), 0, 0).packets == ""


def test_findings_outside_the_time_count_at_its_ends() -> None:
    line = time_line(steps([replace(finding(), time_ns=-5), replace(finding(), time_ns=99)], 0, 10), 0, 10)
    assert [piece.x for piece in line.pieces] == [1, 751]


def test_polyline() -> None:
    assert polyline((0, 2), 10, 11) == "0.0,11.0 10.0,1.0" and polyline((), 10, 10) == ""
