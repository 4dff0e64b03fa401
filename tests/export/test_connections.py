"""Connections are written and queried as a table."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import ibdissect
from tests.commands import run

pytestmark = pytest.mark.slow


def test_a_file(repo: Path, tmp_path: Path) -> None:
    capture, file = str(repo / "captures/rxe-nak-bad-rkey.pcap"), tmp_path / "connections.csv"
    done = run("export", capture, "--connections", "--output", str(file), text=True)
    assert done.returncode == 0 and "3 connections written" in done.stderr
    rows = list(csv.DictReader(file.open()))
    assert [(row["connection"], row["cause"], row["first_frame"], row["proof_frame"], row["decisive_frame"]) for row in rows] == [
        ("1", "remote-access-error", "1", "4", "5"), ("2", "remote-access-error", "8", "11", "12"),
        ("3", "remote-access-error", "15", "18", "19"),
    ]  # fmt: skip


@pytest.mark.parametrize(("chosen", "numbers"), [("--frames=8-15", ["2", "3"]), ("--frames=9-14", []), ("-Yframe.number == 1", ["1"])])
def test_rows_are_chosen_by_the_first_frame(chosen: str, numbers: list[str], repo: Path) -> None:
    capture = str(repo / "captures/rxe-nak-bad-rkey.pcap")
    out = run("export", capture, "--connections", "--output", "-", chosen, text=True).stdout
    assert [row["connection"] for row in csv.DictReader(out.splitlines())] == numbers


def test_all_columns_in_sql_without_quotes(repo: Path) -> None:
    capture = str(repo / "captures/rxe-rping.pcap")
    with ibdissect.open(capture) as opened:
        names = opened.connection_table().schema().names
    query = f"select {', '.join(names)} from connections order by connection"
    (row,) = json.loads(run("sql", capture, query, "--format", "json", text=True).stdout)
    (said,) = json.loads(run("diagnose", capture, "--format", "json", text=True).stdout)["connections"]
    assert [*row] == names
    counts = said["counts"]
    assert (row["why"], row["bytes"], row["messages"]) == (said["why"], counts["payload_bytes"], counts["messages"])
    assert [each["start_ns"] for each in row["episodes"]] == [each["start_ns"] for each in said["episodes"]]


def test_one_file_holds_one_table(repo: Path) -> None:
    done = run("export", str(repo / "captures/rxe-rping.pcap"), "--connections", "--messages", "--output", "-", text=True)
    assert done.returncode == 2 and "--messages" in done.stderr
