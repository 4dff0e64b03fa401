"""Bars and lines are as long as their numbers say."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ibdissect.lint.finding import Finding, Severity
from ibdissect.report import Run, render
from tests import shown
from tests.cli.followed import here
from tests.craft import interfaces_pcapng, rc, smp
from tests.pictures.looks import portrait

from .pages import Page, safe
from .test_formats import finding, report

pytest.importorskip("jinja2")
START = 1_700_000_000_000_000_000


def test_bars(tmp_path: Path) -> None:
    """Thirty SENDs and ten WRITEs; and 17 partitions, of which the last are summed up."""
    frames = [rc(0x04 if i < 30 else 0x0A, bytes(4), bth={"psn": i, "p_key": 0x8001 + i % 17}) for i in range(40)]
    (tmp_path / "x.pcapng").write_bytes(interfaces_pcapng([(0, frame) for frame in frames]))
    with portrait(tmp_path / "x.pcapng") as found:
        tables = shown.report(found)
    kinds = [(row["name"], row["frames"], row["share"], row["bar"].count('width="160.0"')) for row in tables["Packets by OpCode"]]
    assert kinds == [("RC SEND Only", "30", "75.0%", 1), ("RC RDMA WRITE Only", "10", "25.0%", 0)]
    assert 'width="53.3"' in tables["Packets by OpCode"][1]["bar"]
    partitions = tables["Packets by partition"]
    assert partitions[-1]["name"] == "5 others" and sum(int(row["frames"]) for row in partitions) == 40 and len(partitions) == 13


def at(time_ns: int, level: Severity = Severity.ERROR) -> Finding:
    return replace(finding(severity=level), time_ns=time_ns)


def drawn(page: Page) -> list[tuple[str, float, float, float]]:
    """The bars of the findings over time: severity, left edge, top and bottom."""
    pieces = [one for one in page.all("rect", class_="fill") if "x" in one]
    return [(one["class"].split()[1], float(one["x"]), float(one["y"]), float(one["y"]) + float(one["height"])) for one in pieces]


def test_findings_over_time_are_stacked() -> None:
    found = [at(0), at(0, Severity.INFO), at(10_000_000_000, Severity.WARNING)]
    page = safe(render("html", [report(*found, last_ns=10_000_000_000)], Run()))
    assert drawn(page) == [("info", 1, 85, 150), ("error", 1, 20, 85), ("warning", 751, 85, 150)]
    rows = re.findall(r'<th scope="row">([\d.]+ s)</th>((?:<td class="n">\d+</td>)+)', page.source)
    assert [(when, re.findall(r">(\d+)<", cells)) for when, cells in rows] == [("0.000 s", ["1", "0", "1"]), ("9.868 s", ["0", "1", "0"])]
    assert not page.all("polygon")


@pytest.mark.slow
def test_packets_stand_behind_the_findings_of_their_time(tmp_path: Path) -> None:
    """One in the first millisecond, two in the second."""
    frames = [smp(1, 0x10, modifier=7, slid=3, dlid=5 + i) for i in range(3)]
    times = [START, START + 1_100_000, START + 1_200_000]
    (tmp_path / "x.pcapng").write_bytes(interfaces_pcapng([(0, frame) for frame in frames], times=times))
    page = safe(here("report", str(tmp_path / "x.pcapng"))[1])
    (packets,) = page.all("polygon", class_="packets")
    assert packets["points"] == "0,150 0.0,85.0 380.0,85.0 380.0,20.0 760.0,20.0 760,150"


def test_findings_outside_the_time_count_at_its_ends() -> None:
    page = safe(render("html", [report(at(-5), at(99), first_ns=1, last_ns=11)], Run()))
    assert [left for _, left, *_ in drawn(page)] == [1, 751]
