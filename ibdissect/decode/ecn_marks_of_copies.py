"""Congestion marks (ECN) that only a copy of a packet shows: one that was captured behind the switch that set them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.engine.datagram_copies import BECN, FECN
from ibdissect.wire.headers import BTH

if TYPE_CHECKING:
    from .chunk_table import ChunkTable
    from .locate import Bool, Int


class Remarked(Record, frozen=True, eq=False):
    """Copies that are left out of a chunk's table, and show marks that none before them did. They count as those of the packet."""

    table: ChunkTable
    """The chunk with these copies alone."""
    marks: npt.NDArray[np.uint8]
    """The marks that each row shows first, FECN, BECN and CE; 0 for all others."""

    @property
    def marked_first(self) -> ChunkTable:
        """The chunk with the copies of packets whose BTH bore no mark before, and does now."""
        loc = self.table.located
        rows = np.flatnonzero(self.marks)
        shown, new = np.zeros((2, len(self.marks)), np.uint8)
        shown[rows] = loc.front.part(rows, loc.start["bth"][rows] + BTH.fecn.bit // 8, 1)[:, 0] & np.uint8(FECN | BECN)
        new[rows] = self.marks[rows] & np.uint8(FECN | BECN)
        return self.table.only_rows((new > 0) & (new == shown))

    def only(self, rows: Bool) -> Remarked | None:
        """Those of some rows; None if there are none."""
        return remarked(self.table, np.flatnonzero(rows), self.marks[rows].astype(np.int64))


def remarked(table: ChunkTable, rows: Int, marks: Int) -> Remarked | None:
    """The copies among rows of a table, in which they still are, that show marks first; None if there are none."""
    if not marks.any():
        return None
    found = np.zeros(len(table), np.uint8)
    found[rows] = marks
    return Remarked(table.only_rows(found > 0), found)
