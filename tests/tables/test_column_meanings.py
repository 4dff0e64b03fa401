"""Each column of each table has its meaning written down."""

from __future__ import annotations

from pathlib import Path

import pytest

import ibdissect
from ibdissect.export import sightings
from ibdissect.tables.column_meanings import MEANS


def test_each_column_is_defined(repo: Path) -> None:
    pytest.importorskip("pyarrow")
    with ibdissect.open(str(repo / "captures/pkey-lab.pcap")) as opened:
        tables = {
            "connections": opened.connection_table(), "findings": opened.findings(), "messages": opened.messages(),
            "records": opened.records(), "requests": opened.requests(),
        }  # fmt: skip
        columns = {name: table.schema().names for name, table in tables.items()} | {"sightings": sightings.SCHEMA.names}
    assert {name: list(meanings) for name, meanings in MEANS.items()} == columns, "in their order, and no more"
    assert all(text for meanings in MEANS.values() for text in meanings.values())
