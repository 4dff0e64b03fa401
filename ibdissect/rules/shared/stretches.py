"""Packets of a chunk between two changes of what is known of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise

import numpy as np

from ibdissect.decode import ChunkTable, Int
from ibdissect.lint.rule import Seen


def stretches(table: ChunkTable, rows: Int, changes: Collection[int]) -> Iterator[tuple[Seen, Int]]:
    """Split ascending rows before each frame of a change; yields the first packet of each stretch, and its rows."""
    cuts = np.searchsorted(rows, [frame - table.chunk.first for frame in changes]).tolist() if changes else []
    for start, stop in pairwise(sorted({0, *cuts, len(rows)})):
        yield Seen(table, int(rows[start])), rows[start:stop]
