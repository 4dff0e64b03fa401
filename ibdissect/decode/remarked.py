"""Which packets bear marks of congestion that only a copy of them shows: one that was captured behind the switch that set them?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

if TYPE_CHECKING:
    from .chunk_table import ChunkTable
    from .locate import Int


class Remarked(Record, frozen=True, eq=False):
    """Copies that are left out of a chunk's table, and show marks that none before them did. They count as those of the packet."""

    table: ChunkTable
    """The chunk with these copies alone."""
    marks: npt.NDArray[np.uint8]
    """The marks that each row shows first, FECN, BECN and CE; 0 for all others."""


def remarked(table: ChunkTable, rows: Int, marks: Int) -> Remarked | None:
    """The copies among rows of a table, in which they still are, that show marks first; None if there are none."""
    if not marks.any():
        return None
    found = np.zeros(len(table), np.uint8)
    found[rows] = marks
    return Remarked(table.only_rows(found > 0), found)
