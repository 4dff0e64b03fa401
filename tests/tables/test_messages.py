"""Are messages written and queried as a table?"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.commands import run


@pytest.mark.slow
def test_tables(repo: Path, tmp_path: Path) -> None:
    capture, file = str(repo / "captures/rxe-nak-bad-rkey.pcap"), tmp_path / "messages.csv"
    assert run("export", capture, "--messages", "--output", str(file), "-Y", "ibdissect.message.naks > 0").returncode == 0
    rows = list(csv.DictReader(file.open()))
    assert [(row["kind"], row["first_frame"], row["complete"], row["latency"]) for row in rows] == [
        ("WRITE", "4", "false", ""), ("READ", "11", "false", ""), ("ATOMIC", "18", "false", ""),
    ]  # fmt: skip
    query = "select kind, naks, dest_qp from messages where service = 'RC' order by first_frame"
    out = run("sql", capture, query, "--format", "csv").stdout.decode()
    assert out.splitlines()[1:] == ['"WRITE",1,85', '"READ",1,86', '"ATOMIC",1,87']
