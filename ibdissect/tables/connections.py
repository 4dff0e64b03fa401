"""Connections as a table, for Arrow and all that reads it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from typing import Any

import msgspec
import pyarrow as pa

from ibdissect.diagnosis.connection import Connection
from ibdissect.wire.cm_names import service_text
from ibdissect.wire.text import counted

from .arrow import SECONDS, TIME, in_batches
from .capture_table import TableSource, Tabular, table_html

_EPISODE = pa.struct([("kind", pa.string()), ("start_ns", pa.int64()), ("end_ns", pa.int64()), ("retries", pa.int64())])
_INT, _TEXT = pa.int64(), pa.string()

SCHEMA = pa.schema([
    ("connection", _INT), ("transport", _TEXT), ("source", _TEXT), ("source_qp", _INT), ("destination", _TEXT), ("dest_qp", _INT),
    ("requester", _TEXT), ("service", _TEXT), ("first_frame", _INT), ("last_frame", _INT), ("start_time", TIME), ("end_time", TIME),
    ("verdict", _TEXT), ("cause", _TEXT), ("severity", _TEXT), ("blamed", _TEXT), ("since", TIME), ("proof_frame", _INT),
    ("decisive_frame", _INT), ("why", _TEXT), ("advice", _TEXT), ("detail", _TEXT), ("set_up", _TEXT), ("set_up_tries", _INT),
    ("set_up_time", SECONDS), ("reject_reason", _INT), ("outcome", _TEXT), ("outcome_time", TIME), ("directions", _TEXT),
    ("messages", _INT), ("bytes", _INT), ("bits_per_second", pa.float64()), ("round_trip", SECONDS), ("retries", _INT), ("naks", _INT),
    ("rnr_naks", _INT), ("cnps", _INT), ("ce_marks", _INT), ("data_time", SECONDS), ("transferring", SECONDS), ("ack_wait", SECONDS),
    ("rnr_wait", SECONDS), ("loss_recovery", SECONDS), ("timeout", SECONDS), ("idle", SECONDS), ("episodes", pa.list_(_EPISODE)),
    ("unread_answers", _INT),
])  # fmt: skip
"""One row per connection, in the order of first frames; docs/contract.md says what the columns are."""


class ConnectionTable(Tabular):
    """Connections as rows, from which Arrow, polars, DuckDB and pandas read."""

    def __init__(self, connections: Sequence[Connection]) -> None:
        self.connections = connections

    def __len__(self) -> int:
        return len(self.connections)

    def schema(self) -> pa.Schema:
        """The columns: those of `ibdissect export --connections`."""
        return SCHEMA

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, some at a time."""
        return batches(enumerate(self.connections, 1))

    def __repr__(self) -> str:
        return f"<ConnectionTable: {counted(len(self), 'connection')}>"

    def _repr_html_(self) -> str:
        rows = ((one.verdict, one.cause, str(one.ends[0]), str(one.ends[1]), one.why) for one in self.connections)
        return table_html(("verdict", "cause", "source", "destination", "why"), rows, counted(len(self), "connection"))


def batches(connections: Iterable[tuple[int, Connection]]) -> Iterator[pa.RecordBatch]:
    """Connections with their numbers as record batches of SCHEMA."""
    return in_batches(([row.get(name) for name in SCHEMA.names] for row in starmap(_row, connections)), SCHEMA)


def selected(opened: TableSource) -> Iterator[pa.RecordBatch]:
    """The connections whose first frame is selected, as record batches of SCHEMA."""
    found = opened.connections()
    chosen = enumerate(found, 1)
    if opened.selection is None or not found:
        return batches(chosen)
    firsts = {one.first_frame for one in found}
    frames = {frame for table, rows in opened.selected() for frame in (table.chunk.first + rows).tolist() if frame in firsts}
    return batches((number, one) for number, one in chosen if one.first_frame in frames)


def _row(number: int, one: Connection) -> dict[str, Any]:
    """The columns of one connection that are known; times of a length in nanoseconds."""
    (near, far), up, counts, times = one.ends, one.set_up, one.known_counts, one.times
    row = {
        "connection": number, "transport": one.transport, "source": near.address, "source_qp": near.qpn, "destination": far.address,
        "dest_qp": far.qpn, "requester": one.ends[one.requester].address, "first_frame": one.first_frame, "last_frame": one.last_frame,
        "service": service_text(up.service_id) if up.service_id is not None else None, "start_time": one.start_ns, "end_time": one.last_ns,
        "verdict": one.verdict, "cause": one.cause, "severity": one.severity, "why": one.why, "advice": one.advice or None,
        "blamed": one.ends[one.blamed].address if one.blamed is not None else None, "since": one.since_ns,
        "proof_frame": one.evidence[0], "decisive_frame": one.evidence[1], "detail": json.dumps(one.detail) if one.detail else None,
        "set_up": up.state, "set_up_tries": up.tries, "reject_reason": up.reason,
        "set_up_time": None if up.established_ns is None or up.start_ns is None else up.established_ns - up.start_ns,
        "outcome": one.end_state, "outcome_time": one.end_ns, "directions": one.directions, "messages": counts["messages"],
        "bytes": counts["payload_bytes"], "round_trip": one.round_trip_ns, "retries": counts["packets_sent_again"], "naks": counts["naks"],
        "rnr_naks": counts["rnr_naks"], "cnps": counts["cnps"], "ce_marks": counts["ce"], "unread_answers": counts["unread_answers"],
        "episodes": None if counts["unread_answers"] or counts["ce"] is None else [  # what a NAK asked for looks like a time-out
            {"kind": it.kind, "start_ns": it.start_ns, "end_ns": it.end_ns, "retries": it.packets_sent_again} for it in one.episodes
        ],
    }  # fmt: skip
    if times is not None:
        row |= msgspec.structs.asdict(times)
        row |= {"data_time": times.span, "idle": times.idle_by_application}
        row["bits_per_second"] = 8e9 * one.counts.payload_bytes / times.span if times.span else None
    return row
