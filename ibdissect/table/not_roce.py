"""Which UDP datagrams to the port of RoCE are something else?"""

from __future__ import annotations

import numpy as np

from ibdissect.wire.headers import BTH
from ibdissect.wire.numbers import BASE

from .bits import value_at
from .crcs import icrc_sums
from .locate import Int
from .table import ChunkTable


def leave_out(table: ChunkTable) -> Int:
    """Rows of other datagrams, int64[k]. Their headers are removed from the table, so that nobody takes them for packets.

    RoCE has one partition, and senders clear the version and the reserved bits of the BTH. A datagram that violates both and has a wrong
    ICRC is not RoCE: damage seldom changes both, and a faulty sender computes the ICRC of what it sends.
    """
    located, data = table.located, table.chunk.data
    rows = np.flatnonzero((located.at("bth") >= 0) & (located.at("udp") >= 0)) if "udp" in located.start else np.empty(0, np.int64)
    at = located.at("bth")[rows]
    odd = value_at(data, at, BTH.p_key) & BASE != BASE
    if not odd.any():
        return rows[:0]
    rows, at = rows[odd], at[odd]
    rows = rows[np.any([value_at(data, at, field) for field in (BTH.tver, BTH.reserved6, BTH.reserved7)], axis=0)]
    sums = icrc_sums(table, rows)
    rows = np.setdiff1d(rows, sums.rows[(sums.stored == sums.wanted) | (sums.stored == 0)])
    if rows.size:
        table.leave_out(rows)
    return rows
