"""Messages as a table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ibdissect.dissect.named_values import MESSAGE_KINDS, MESSAGE_NAMES

from .arrow import BATCH, SECONDS, TIME, decimal
from .capture_table import TableSource

SCHEMA = pa.schema([
    ("kind", pa.string()), ("service", pa.string()), ("source", pa.string()), ("destination", pa.string()), ("dest_qp", pa.int64()),
    ("time", TIME), ("first_frame", pa.int64()), ("last_frame", pa.int64()), ("ack_frame", pa.int64()), ("latency", SECONDS),
    ("bytes", pa.int64()), ("packets", pa.int64()), ("retries", pa.int64()), ("naks", pa.int64()), ("cnps", pa.int64()),
    ("complete", pa.bool_()), ("retry_latency", SECONDS), ("ended", pa.bool_()),
])  # fmt: skip
"""One row per message, in order of the first frame; the columns are the filter names `ibdissect.message.*`, and who sent it to whom."""


def batches(opened: TableSource) -> Iterator[pa.RecordBatch]:
    """The messages whose first frame is selected, as record batches of SCHEMA."""
    table = opened.answers(MESSAGE_NAMES).messages
    assert table is not None
    every = table.columns()
    order = np.argsort(every.first_frame, kind="stable")
    if opened.selection is not None:
        chosen = np.concatenate([np.empty(0, np.int64), *(found.chunk.first + rows for found, rows in opened.selected())])
        order = order[np.isin(every.first_frame[order], chosen)]
    for at in range(0, len(order), BATCH):
        some = every.take(order[at : at + BATCH])
        ends = [table.ends_of(place) for place in some.place.tolist()]
        yield pa.RecordBatch.from_arrays([
            pa.array(np.array(MESSAGE_KINDS, object)[some.kind], pa.string()), pa.array([one.service for one in ends]),
            pa.array([str(one.source) for one in ends]), pa.array([str(one.destination) for one in ends]),
            pa.array([one.dest_qp if one.dest_qp >= 0 else None for one in ends], pa.int64()), pa.array(some.begin_ns).cast(TIME),
            pa.array(some.first_frame), pa.array(some.last_frame), pa.array(some.ack_frame, mask=some.ack_frame == 0),
            decimal(some.latency_ns, some.latency_ns < 0),
            pa.array(some.bytes, mask=some.bytes < 0), pa.array(some.packets), pa.array(some.retries),
            pa.array(some.naks, mask=some.unread & (some.naks == 0)), pa.array(some.cnps),
            pa.array(some.complete, mask=some.unread & ~some.complete), decimal(some.retry_latency_ns, some.retry_latency_ns < 0),
            pa.array(some.ended),
        ], schema=SCHEMA)  # fmt: skip
