"""Each column of each table has its meaning written down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ibdissect
from tests.commands import NEEDS_DUCKDB, run

pytestmark = NEEDS_DUCKDB


def shown(*words: str) -> dict[str, list[str]]:
    """The columns of each table, in order."""
    found: dict[str, list[str]] = {}
    for line in run("sql", *words, "show tables", "--format", "jsonl", text=True).stdout.splitlines():
        one = json.loads(line)
        assert one["means"], one
        found.setdefault(one["name"], []).append(one["column"])
    return found


@pytest.mark.slow
def test_each_column_is_defined(repo: Path) -> None:
    """As `show tables` says: in the order of the table, and no more."""
    lab, lost = str(repo / "captures/pkey-lab.pcap"), [str(repo / f"docs/examples/lost/{name}.pcap") for name in ("client", "server")]
    said, of_points = shown(lab), shown("--points", *lost)
    with ibdissect.open(lab) as opened:
        tables = {
            "connections": opened.connection_table(), "findings": opened.findings(), "messages": opened.messages(),
            "records": opened.records(), "requests": opened.requests(),
        }  # fmt: skip
        assert {name: said[name] for name in tables} == {name: table.schema().names for name, table in tables.items()}
    header = run("export", "--points", *lost, "--output", "-", "--format", "csv", text=True).stdout.partition("\n")[0]
    assert of_points["sightings"] == header.replace('"', "").split(",")
