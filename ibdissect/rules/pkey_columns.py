"""The columns of native packets that the P_Key rules compare, and distinct values without sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.table.distinct import common
from ibdissect.table.locate import Int
from ibdissect.table.table import ChunkTable
from ibdissect.wire.link import LRH
from ibdissect.wire.transport import BTH

FIRST_OTHER_OPCODE = 0x80
"""Congestion notifications, XRC and makers' own OpCodes: which P_Key table entry guards them is not in the sources."""
SLOTS = LIDS = 1 << 16
FEW = 256
_SPREAD = 0x9E3779B97F4A7C15
"""Odd multiplier that mixes high bits down (Knuth's multiplicative hashing)."""


class Native:
    """LRH and BTH of a chunk's native packets side by side; one for all rules that ask in turn."""

    def __init__(self) -> None:
        self._of: ChunkTable | None = None
        self.rows: Int = np.empty(0, np.int64)
        """Row of the chunk, int64[n], as all other columns."""
        self.slid = self.dlid = self.dest_qp = self.p_key = self.opcode = self.rows
        self.vl = self.sl = self.rows.astype(np.uint8)
        self.slids = self.dlids = self.rows
        """The distinct ones, ascending."""

    def of(self, table: ChunkTable) -> Native:
        """The columns of a chunk."""
        if self._of is not table:
            self._of = table
            link, transport = table.occurrences(LRH).rows, table.occurrences(BTH).rows
            if np.array_equal(link, transport):
                self.rows = link
                at_link = at_transport = None
            else:
                self.rows, at_link, at_transport = common(link, transport)
            self.slid, self.dlid = (_some(table.values(field), at_link).astype(np.int64) for field in (LRH.slid, LRH.dlid))
            self.vl, self.sl = (_some(table.values(field), at_link) for field in (LRH.vl, LRH.sl))
            self.dest_qp, self.p_key, self.opcode = (
                _some(table.values(field), at_transport).astype(np.int64) for field in (BTH.destqp, BTH.p_key, BTH.opcode)
            )
            self.slids, self.dlids = lids_of(self.slid), lids_of(self.dlid)
        return self


def _some(values: npt.NDArray[Any], index: Int | None) -> npt.NDArray[Any]:
    return values if index is None else values.take(index)


def lids_of(values: Int) -> Int:
    """The LIDs that occur, ascending."""
    if len(values) < FEW:
        return np.array(sorted(set(values.tolist())), np.int64)
    there = np.zeros(LIDS, np.bool_)
    there[values] = True
    return np.flatnonzero(there)


def slot(values: Int) -> Int:
    """A place below SLOTS for each value; the same for the same value."""
    place: Int = ((values.astype(np.uint64) * np.uint64(_SPREAD)) >> np.uint64(48)).astype(np.int64)
    return place


def distinct(values: Int) -> list[int]:
    """The values that occur, sorted; sorts only what shares a slot with another value."""
    place = slot(values)
    holder = np.full(SLOTS, -1, np.int64)
    holder[place] = values
    crowded = values[holder[place] != values]
    return sorted({*holder[np.bincount(place, minlength=SLOTS) > 0].tolist(), *crowded.tolist()})
