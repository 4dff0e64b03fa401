"""What do the packets of several capture points look like as a table?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ibdissect.points.columns import FIELDS
from ibdissect.points.comparison import Comparison
from ibdissect.points.verdicts import OUTCOMES, WHY, outcomes
from ibdissect.session.arrow import SECONDS, TIME, decimal
from ibdissect.table.rows import Int

SCHEMA = pa.schema([
    ("packet", pa.int64()), ("point", pa.string()), ("frame_number", pa.int64()), ("time", TIME), ("delay", SECONDS),
    ("changed", pa.string()), ("verdict", pa.string()), ("proof", pa.string()), ("certain", pa.bool_()),
    ("before", pa.string()), ("source", pa.string()), ("destination", pa.string()), ("dest_qp", pa.int64()),
    ("psn", pa.int64()), ("opcode", pa.int64()),
])  # fmt: skip
"""One row for each time that a point saw a packet, in order of packets, then of time on the first point's clock. `delay` and `changed`:
since the point before. `verdict` is the packet's, one of OUTCOMES; `proof`, `certain` and `before` (the next point) are those of a loss.
"""
BATCH = 65536


def batches(comparison: Comparison) -> Iterator[pa.RecordBatch]:
    points, journey, packets, known = comparison.points, comparison.journey, comparison.what.packets, comparison.flows.known
    names, point = np.array([one.name for one in points], object), np.repeat(np.arange(len(points)), [len(one) for one in points])
    row, number = np.concatenate([np.arange(len(one)) for one in points]), np.concatenate(comparison.matched.number)
    frame, time = np.concatenate([one.frame for one in points]), np.concatenate(comparison.clocks.times)
    order = np.lexsort((time, number))
    follows = np.concatenate(([False], (np.diff(number[order]) == 0) & (np.diff(point[order]) != 0)))
    of_packet = outcomes(comparison)

    def fields(some: Int) -> npt.NDArray[np.int16]:
        found = np.empty((len(some), len(FIELDS)), np.int16)
        for i, one in enumerate(points):
            mine = point[some] == i
            found[mine] = one.fields[row[some[mine]]]
        return found

    for at in range(0, len(order), BATCH):
        some, second = order[at : at + BATCH], follows[at : at + BATCH]
        earlier = order[np.maximum(np.arange(at, at + len(some)) - 1, 0)]
        here, there = fields(some), fields(earlier)
        differs = (here != there) & (here >= 0) & (there >= 0) & second[:, None]
        packet = number[some]
        flows, lost = [known[flow] for flow in packets.flow[packet].tolist()], journey.lost[packet]
        yield pa.RecordBatch.from_arrays([
            pa.array(packet.astype(np.int64) + 1), pa.array(names[point[some]]), pa.array(frame[some].astype(np.int64)),
            pa.array(time[some]).cast(TIME), decimal(time[some] - time[earlier], ~second),
            pa.array([", ".join(name for name, one in zip(FIELDS, row, strict=True) if one) for row in differs.tolist()]),
            pa.array(np.array(OUTCOMES, object)[of_packet[packet]]), pa.array(np.array(WHY, object)[journey.why[packet]], mask=~lost),
            pa.array(~journey.likely[packet], mask=~lost),
            pa.array(names[journey.before[packet]], mask=~lost | (journey.before[packet] < 0)),
            pa.array([flow.text[0] for flow in flows]), pa.array([flow.text[1] for flow in flows]),
            pa.array([flow.dest_qp for flow in flows]), pa.array(packets.psn[packet].astype(np.int64)),
            pa.array(packets.opcode[packet].astype(np.int64)),
        ], schema=SCHEMA)  # fmt: skip
