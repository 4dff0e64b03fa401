"""What do findings look like as a table?"""

from __future__ import annotations

import json
from collections.abc import Iterable

import pyarrow as pa

from ibdissect.lint.finding import Finding
from ibdissect.report.json import finding_object
from ibdissect.session.arrow import TIME
from ibdissect.wire.text import printable

_SPAN = pa.struct([("frame", pa.int64()), ("offset", pa.int64()), ("length", pa.int64())])
_RELATED = pa.struct([("frame", pa.int64()), ("why", pa.string())])

SCHEMA = pa.schema([
    ("code", pa.string()), ("name", pa.string()), ("severity", pa.string()), ("capture", pa.string()), ("frame", pa.int64()),
    ("time", TIME), ("message", pa.string()), ("field", pa.string()), ("value", pa.string()), ("spans", pa.list_(_SPAN)),
    ("related", pa.list_(_RELATED)), ("evidence", pa.string()), ("count", pa.int64()), ("reference", pa.string()),
])  # fmt: skip
"""The keys of `lint --format json`, with `time` instead of `time_ns`, and `value` as text."""

BATCH = 4096


def batches(findings: Iterable[Finding]) -> Iterable[pa.RecordBatch]:
    """Findings as record batches of SCHEMA."""
    rows = []
    for finding in findings:
        row = finding_object(finding)
        row["time"] = row.pop("time_ns")
        row["capture"] = printable(row["capture"])  # a path need not be valid UTF-8
        value = row["value"]
        row["value"] = value if value is None or isinstance(value, str) else json.dumps(value)
        rows.append(row)
        if len(rows) == BATCH:
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
