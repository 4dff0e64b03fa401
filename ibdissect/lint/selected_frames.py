"""Which frames are reported, if only some of a capture are selected?"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from ibdissect.table.table import ChunkTable


class SelectedFrames:
    """The selected frames of all chunks so far, one bit each; without a selection all frames are reported."""

    def __init__(self) -> None:
        self.chunks: list[tuple[int, int, npt.NDArray[np.uint8]]] = []
        """First frame, length and bits of each chunk with only some frames selected."""

    def choose(self, table: ChunkTable, selected: npt.NDArray[np.bool_]) -> None:
        """Report only these frames of a chunk, bool[n]; chunks come in order."""
        self.chunks.append((table.chunk.first, len(selected), np.packbits(selected)))

    def __contains__(self, frame: int) -> bool:
        """Whether to report a frame, also one of an earlier chunk; frames of other chunks are reported."""
        i = bisect_right(self.chunks, frame, key=lambda chunk: chunk[0]) - 1 if self.chunks else -1
        if i < 0:
            return True
        first, count, bits = self.chunks[i]
        row = frame - first
        return row >= count or bool(bits[row >> 3] >> (7 - (row & 7)) & 1)
