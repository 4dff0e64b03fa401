"""The packets of a capture that count: each one once, and only those that are InfiniBand or RoCE."""

from __future__ import annotations

import numpy as np

from . import not_roce
from .chunk_table import ChunkTable
from .ecn_marks_of_copies import remarked
from .mirror_copies import Copies


class Distinct:
    """The packets of a capture without the copies of a mirror, and without datagrams to the port of RoCE that are something else.

    The linter, the screen and `stats` count the same packets. Feed chunks in order.
    """

    def __init__(self) -> None:
        self._copies = Copies()
        self.copies = 0
        """Copies left out so far."""

    def of(self, table: ChunkTable) -> ChunkTable:
        """The table of a chunk with only the packets that count: itself if all do. The given table is not changed."""
        found, others = self._copies.find(table), not_roce.find(table)
        copies = found.rows
        self.copies += len(copies)
        if not len(copies) and not len(others):
            return table
        keep = np.ones(len(table), np.bool_)
        keep[copies] = keep[others] = False
        made = table.only_rows(keep)
        made.remarked = remarked(table, copies, found.marks)
        return made
