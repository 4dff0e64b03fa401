"""The packets of several capture points are written and queried as a table."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.commands import run

POINTS = ("client", "tap", "server")


@pytest.fixture
def captures(repo: Path) -> list[str]:
    return [str(repo / f"docs/examples/lost/{name}.pcap") for name in POINTS]


def test_every_sighting_with_its_verdict(captures: list[str], tmp_path: Path) -> None:
    assert run("export", *captures, "--points", "--output", str(tmp_path / "x.csv")).returncode == 0
    rows = list(csv.DictReader((tmp_path / "x.csv").open()))
    assert [sum(row["point"] == name for row in rows) for name in POINTS] == [209, 206, 206]
    lost = [(row["point"], row["frame_number"], row["before"], row["proof"], row["certain"]) for row in rows if row["verdict"] == "lost"]
    assert lost == [
        ("client", "25", "server", "absent", "true"), ("tap", "25", "server", "absent", "true"), ("client", "84", "tap", "absent", "true"),
        ("client", "161", "server", "absent", "true"), ("tap", "158", "server", "absent", "true"),
    ]  # fmt: skip
    first = rows[:3]
    assert [row["point"] for row in first] == list(POINTS) and len({row["packet"] for row in first}) == 1
    assert [(row["changed"], row["delay"]) for row in first] == [("", ""), ("ttl", "0.000000714"), ("", "0.000000985")]


def test_query(captures: list[str]) -> None:
    query = "select point, count(*) from sightings where verdict = 'lost' group by point order by point"
    assert run("sql", "--points", *captures, query, "--format", "csv").stdout.decode().splitlines()[1:] == ['"client",3', '"tap",2']


@pytest.mark.parametrize("option", [("--messages",), ("-e", "frame.number"), ("--first",)])
def test_other_columns_are_refused(captures: list[str], option: tuple[str, ...]) -> None:
    found = run("export", *captures, "--points", *option, "--output", "x.csv")
    assert found.returncode == 2 and "does nothing with --" in found.stderr.decode()
