"""The table of packets as several capture points saw them (`points`)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ibdissect.points.comparison import Comparison, TransmissionBlock
from ibdissect.points.packet_identity import FIELDS, HOP
from ibdissect.points.verdicts import OUTCOMES, WHY, outcomes
from ibdissect.tables.arrow import SECONDS, TIME, decimal

SCHEMA = pa.schema([
    ("packet", pa.int64()), ("point", pa.string()), ("frame_number", pa.int64()), ("time", TIME), ("delay", SECONDS),
    ("changed", pa.string()), ("verdict", pa.string()), ("proof", pa.string()), ("certain", pa.bool_()),
    ("before", pa.string()), ("source", pa.string()), ("destination", pa.string()), ("dest_qp", pa.int64()),
    ("psn", pa.int64()), ("opcode", pa.int64()), ("hop", pa.int64()),
])  # fmt: skip
"""One row for each time that a point saw a packet, in order of packets, then of time on the first point's clock. `delay` and `changed`:
since the point before. `verdict` is the packet's, one of OUTCOMES; `proof`, `certain` and `before` (the next point) are those of a loss.
`hop`: the link of its directed route on which an SMP was seen, from 1.
"""


def batches(comparison: Comparison) -> Iterator[pa.RecordBatch]:
    """The rows, block by block."""
    for block in comparison.blocks():
        yield _batch(comparison, block)


def _batch(comparison: Comparison, block: TransmissionBlock) -> pa.RecordBatch:
    packets, repeats, journey, known = block.packets, block.repeats, block.journey, comparison.flows.known
    names = np.array([point.name for point in comparison.points], object)
    packet, point = np.nonzero(block.seen)
    frame = np.concatenate([packets.frame[packet, point], repeats.frame])
    time = np.concatenate([packets.at[packet, point], repeats.time])
    fields = np.concatenate([packets.fields[packet, point], repeats.fields])
    packet, point = np.concatenate([packet, repeats.id]), np.concatenate([point, repeats.point])
    order = np.lexsort((point, time, packet))
    packet, point, frame, time, fields = (column[order] for column in (packet, point, frame, time, fields))
    second = np.concatenate(([False], (np.diff(packet) == 0) & (np.diff(point) != 0)))
    before = np.roll(fields, 1, axis=0)
    differs = (fields != before) & (fields >= 0) & (before >= 0) & second[:, None]
    number, lost = packets.flow[packet].tolist(), journey.lost[packet]
    text = {flow: known[flow].text for flow in set(number)}
    return pa.RecordBatch.from_arrays([
        pa.array(block.first + packet + 1), pa.array(names[point]), pa.array(frame.astype(np.int64)),
        pa.array(time).cast(TIME), decimal(time - np.roll(time, 1), ~second),
        pa.array([", ".join(name for name, one in zip(FIELDS, row, strict=True) if one) for row in differs.tolist()]),
        pa.array(np.array(OUTCOMES, object)[outcomes(block.seen, journey)[packet]]),
        pa.array(np.array(WHY, object)[journey.why[packet]], mask=~lost), pa.array(~journey.likely[packet], mask=~lost),
        pa.array(names[journey.likely_before[packet]], mask=~lost | (journey.likely_before[packet] < 0)),
        pa.array([text[flow][0] for flow in number]), pa.array([text[flow][1] for flow in number]),
        pa.array([known[flow].dest_qp for flow in number]), pa.array(packets.psn[packet].astype(np.int64)),
        pa.array(packets.opcode[packet].astype(np.int64)), pa.array(fields[:, HOP].astype(np.int64) + 1, mask=fields[:, HOP] < 0),
    ], schema=SCHEMA)  # fmt: skip
