"""Which requests carry data that nobody reads, usually left over from earlier packets, and which answers repeat their request?

A Get of subnet management asks by attribute and modifier alone (IBA 14.2.4), a query of the SA with an empty ComponentMask for all records
(IBA 15.4.4). Their data is not an attribute: it is not placed, nothing is learnt from it, and it is hidden like a key. Vendor attributes
may use it. An SA answer that failed has no record (IBA 15.2.2); OpenSM returns the request's. `ChunkTable.shown` has it, to be shown and
selected, but nothing is learnt from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ibdissect.capture.scattered import u16
from ibdissect.wire.mad import BASE_VERSION_IB, BASE_VERSION_OPA, MAD
from ibdissect.wire.numbers import FIRST_VENDOR, GET, GET_TABLE, NO_DATA, RESPONSE_BIT, SA_CLASS, SMP_CLASSES
from ibdissect.wire.sa import SAFormat

from .locate import Bool, Int

if TYPE_CHECKING:
    from .table import ChunkTable

ASKING = SMP_CLASSES | {SA_CLASS}
"""Classes with such requests."""
MASK_AT, MASK_END = SAFormat.component_mask.span


def unread(table: ChunkTable) -> Bool:
    """Rows with such a request, bool[n]. Call as `table.once(unread)`."""
    found = np.zeros(len(table), np.bool_)
    for (mgmt_class, attr_id), rows in table.attributes().items():
        if mgmt_class not in ASKING or attr_id >= FIRST_VENDOR or (mgmt_class, attr_id) not in table.catalog.attributes:
            continue
        at = table.located.at("mad")[rows]
        method = table.chunk.data[at + 3]
        asks = method == GET
        if mgmt_class == SA_CLASS:
            asks = (asks | (method == GET_TABLE)) & (at + MASK_END <= table.located.payload_end[rows])
            rows, at = rows[asks], at[asks]
            asks = ~table.chunk.data[at[:, None] + np.arange(MASK_AT, MASK_END)].any(axis=1)
        found[rows[asks]] = True
    return found


def failed(table: ChunkTable) -> Bool:
    """Rows with an SA answer that failed, bool[n]. Call as `table.once(failed)`."""
    found = np.zeros(len(table), np.bool_)
    for (mgmt_class, _), rows in table.attributes().items():
        if mgmt_class == SA_CLASS:
            at = table.located.at("mad")[rows]
            answers = (table.chunk.data[at + MAD.method.span[0]] & RESPONSE_BIT) != 0
            found[rows] = answers & ((u16(table.chunk.data, at + MAD.status.span[0]) & NO_DATA) != 0)
    return found


def unread_bytes(table: ChunkTable) -> tuple[Int, Int, Int]:
    """Row, start and end of such data, int64[k] each."""
    rows = np.flatnonzero(table.once(unread))
    mad = table.located.at("mad")[rows]
    heads = table.chunk.data[mad].astype(np.int64) << 8 | table.chunk.data[mad + 1]
    at = mad.copy()
    for head in np.unique(heads).tolist():
        at[heads == head] += table.catalog.data_at(head & 0xFF, BASE_VERSION_OPA if head >> 8 == BASE_VERSION_OPA else BASE_VERSION_IB)
    stop = table.located.payload_end[rows]
    there = at < stop
    return rows[there], at[there], stop[there]
