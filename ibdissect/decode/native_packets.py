"""The native packets of a chunk: LRH and BTH columns side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.capture.gather import u24
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.decode.equal_rows import common
from ibdissect.decode.locate import EXTENDED_AT, Int
from ibdissect.wire.headers import BTH, DETH, LRH
from ibdissect.wire.numbers import LID_COUNT

BY_P_KEY_TABLE = (np.arange(256) < 0x80) | (np.arange(256) & 0xE0 == 0xA0)
"""OpCodes of services whose queue pairs take their P_Key from the port's table, bool[256]: RC, UC, RD, UD and XRC (kernel core/verbs.c
qp_state_table). The sources do not say it of congestion notifications and vendor OpCodes.
"""
FEW = 256


class Native:
    """LRH and BTH columns of a chunk's native packets. Get it with `table.once(Native)`."""

    def __init__(self, table: ChunkTable) -> None:
        link, transport = table.occurrences(LRH).rows, table.occurrences(BTH).rows
        at_link: Int | None = None
        at_transport: Int | None = None
        self.rows: Int = link
        """Row of the chunk, int64[n]; the other columns have the same length."""
        if not np.array_equal(link, transport):
            self.rows, at_link, at_transport = common(link, transport)
        self.slid, self.dlid = (_some(table.values(field), at_link).astype(np.int64) for field in (LRH.slid, LRH.dlid))
        self.vl, self.sl = (_some(table.values(field), at_link) for field in (LRH.vl, LRH.sl))
        self.dest_qp, self.p_key, self.opcode = (
            _some(table.values(field), at_transport).astype(np.int64) for field in (BTH.destqp, BTH.p_key, BTH.opcode)
        )
        self.slids, self.dlids = lids_of(self.slid), lids_of(self.dlid)
        """Distinct LIDs, ascending."""


def source_qps(table: ChunkTable, rows: Int, opcode: npt.NDArray[Any]) -> Int:
    """Source QPs of datagrams, 0 for packets without."""
    source = np.zeros_like(rows)
    delta = EXTENDED_AT["DETH"][opcode].astype(np.int64)
    at = table.located.at("bth")[rows] + BTH.size + delta + DETH.srcqp.bit // 8
    good = (delta >= 0) & (at + 3 <= table.located.limit[rows])
    source[good] = u24(table.chunk.data, at[good])
    return source


def _some(values: npt.NDArray[Any], index: Int | None) -> npt.NDArray[Any]:
    return values if index is None else values.take(index)


def lids_of(values: Int) -> Int:
    """The distinct LIDs, ascending."""
    if len(values) < FEW:
        return np.array(sorted(set(values.tolist())), np.int64)
    there = np.zeros(LID_COUNT, np.bool_)
    there[values] = True
    return np.flatnonzero(there)
