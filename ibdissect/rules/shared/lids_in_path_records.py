"""LIDs that the SA's PathRecords name. What subnet administration gives out, somebody has, and switches lead to it."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.conditions import occurrences_where
from ibdissect.rules.shared.mad_conditions import SA_ANSWER
from ibdissect.wire.numbers import LID_COUNT
from ibdissect.wire.sa_paths import PathRecord


class NamedByPaths:
    """The LIDs at the ends of paths in good answers. One per capture; asked at its end."""

    @cached_property
    def latest(self) -> Int:
        """The last frame with such a path, by LID; 0: none."""
        return np.zeros(LID_COUNT, np.int64)

    def take(self, table: ChunkTable) -> None:
        """Process a chunk. Call it by `table.once`."""
        found = table.occurrences(PathRecord)
        if not len(found):
            return
        good = occurrences_where(SA_ANSWER, table, PathRecord)
        for lid in (PathRecord.dlid, PathRecord.slid):
            self.latest[table.values(lid)[good]] = found.rows[good] + table.chunk.first  # ascending: the last one stays

    def since(self, lid: int, frame: int) -> bool:
        """Whether a path named a LID after a frame, which showed that nobody has it or that it is out of reach."""
        return bool(self.latest[lid] > frame)
