"""Findings as a table, for Arrow and all that reads it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from ibdissect.lint.finding import Finding
from ibdissect.report.json import finding_object
from ibdissect.wire.text import counted, printable

from .arrow import TIME, in_batches
from .capture_table import Tabular, table_html

_SPAN = pa.struct([("frame", pa.int64()), ("offset", pa.int64()), ("length", pa.int64())])
_RELATED = pa.struct([("frame", pa.int64()), ("why", pa.string())])

SCHEMA = pa.schema([
    ("code", pa.string()), ("name", pa.string()), ("severity", pa.string()), ("capture", pa.string()), ("frame", pa.int64()),
    ("time", TIME), ("message", pa.string()), ("field", pa.string()), ("value", pa.string()), ("spans", pa.list_(_SPAN)),
    ("related", pa.list_(_RELATED)), ("evidence", pa.string()), ("count", pa.int64()), ("reference", pa.string()),
    ("file", pa.string()), ("file_frame", pa.int64()),
])  # fmt: skip
"""The keys of `lint --format json`, with `time` instead of `time_ns`, and `value` as text. `file` and `file_frame`: only of a set."""


class FindingsTable(Tabular):
    """Findings as rows, from which Arrow, polars, DuckDB and pandas read."""

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = findings

    def __len__(self) -> int:
        return len(self.findings)

    def schema(self) -> pa.Schema:
        """The columns: the keys of `lint --format json`, with `time` instead of `time_ns`."""
        return SCHEMA

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, some at a time."""
        return batches(self.findings)

    def __repr__(self) -> str:
        return f"<FindingsTable: {counted(len(self), 'finding')}>"

    def _repr_html_(self) -> str:
        rows = ((each.severity.value, each.code, str(each.frame), each.message) for each in self.findings)
        return table_html(("severity", "code", "frame", "message"), rows, counted(len(self), "finding"))


def batches(findings: Iterable[Finding]) -> Iterator[pa.RecordBatch]:
    """Findings as record batches of SCHEMA."""
    return in_batches(([row.get(name) for name in SCHEMA.names] for row in map(_row, findings)), SCHEMA)


def _row(finding: Finding) -> dict[str, Any]:
    row = finding_object(finding)
    row["time"] = row.pop("time_ns")
    row |= {key: printable(row[key]) for key in ("capture", "file") if key in row}  # a path need not be valid UTF-8
    value = row["value"]
    row["value"] = value if value is None or isinstance(value, str) else json.dumps(value)
    return row
