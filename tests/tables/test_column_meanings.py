"""Each column of each table has its meaning written down."""

from __future__ import annotations

from ibdissect.export import sightings
from ibdissect.tables import connections, findings, messages, records, requests
from ibdissect.tables.column_meanings import MEANS


def test_each_column_is_defined() -> None:
    tables = {
        "connections": connections, "findings": findings, "messages": messages, "records": records, "requests": requests,
        "sightings": sightings,
    }  # fmt: skip
    for name, of in tables.items():
        assert list(MEANS[name]) == of.SCHEMA.names, name  # in their order, and no more
        assert all(MEANS[name].values())
    assert tables.keys() == MEANS.keys()
