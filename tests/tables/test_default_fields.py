"""The fields that tables have without names: each is one that filters know, and those of SQL are its columns in that order."""

from __future__ import annotations

import io
import re

import pytest

import ibdissect
from ibdissect.tables.default_fields import DEFAULT, TABLES
from tests.commands import NEEDS_DUCKDB
from tests.craft import erf_pcap, native

pytestmark = NEEDS_DUCKDB


@pytest.mark.parametrize("table", TABLES)
def test_columns_of_sql(table: str) -> None:
    with ibdissect.open(io.BytesIO(erf_pcap([native()]))) as opened:
        found = opened.sql(f"select * from {table}").schema.names
    assert found == [re.sub(r"^(infiniband|_ws(\.col)?)\.", "", name).replace(".", "_") for name in TABLES[table]]


def test_columns_of_arrow() -> None:
    with ibdissect.open(io.BytesIO(erf_pcap([native()]))) as opened:
        assert opened.table().to_arrow().schema.names == list(DEFAULT)
