"""Which connections go into a table?"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ibdissect.session.capture import Capture
from ibdissect.session.connections import batches as batches_of


def batches(opened: Capture) -> Iterator[pa.RecordBatch]:
    """The connections whose first frame is selected, as record batches of `session.connections.SCHEMA`."""
    found = opened.connections()
    chosen = enumerate(found, 1)
    if opened.selection is None or not found:
        return batches_of(chosen)
    firsts = {one.first_frame for one in found}
    selected = {frame for table, rows in opened.selected() for frame in (table.chunk.first + rows).tolist() if frame in firsts}
    return batches_of((number, one) for number, one in chosen if one.first_frame in selected)
