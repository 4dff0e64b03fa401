"""Kept frames of earlier windows that a late finding can still describe, for captures that can be read only once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ibdissect.bounded import BoundedDict
from ibdissect.capture.chunk import Chunk
from ibdissect.capture.windows import SLACK
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.mads import Mads

MAX_FRAMES = 16384
"""Frames that are kept; sentences about earlier ones lack their ends."""
KEPT_BYTES = 640
"""Of each frame: a management datagram and the headers before it."""


class PassedFrames:
    """The beginnings of the last management datagrams, and of other frames that somebody asked for. Feed tables in order."""

    def __init__(self) -> None:
        self.kept = BoundedDict[int, tuple[bytes, tuple[int, ...]]](MAX_FRAMES)
        """By frame: its first bytes, and how many of them are an ERF header, its length, time, link type, interface."""

    def feed(self, table: ChunkTable, frames: Iterable[int]) -> None:
        """Keep the datagrams of a table, and those of `frames` that are in it."""
        chunk = table.chunk
        others = [frame - chunk.first for frame in frames if 0 <= frame - chunk.first < len(chunk)]
        rows = np.union1d(table.once(Mads).rows, np.array(others, np.int64))[-MAX_FRAMES:]
        begin = np.where(chunk.pseudo[rows] >= 0, chunk.pseudo[rows], chunk.offset[rows])
        lead, stop = chunk.offset[rows] - begin, np.minimum(chunk.caplen[rows], KEPT_BYTES) + chunk.offset[rows]
        columns = lead, chunk.length[rows], chunk.time_ns[rows], chunk.link[rows], chunk.interface[rows]
        values = zip(*(column.tolist() for column in columns), strict=True)
        for row, first, end, of_row in zip(rows.tolist(), begin.tolist(), stop.tolist(), values, strict=True):
            self.kept.put(chunk.first + row, (chunk.data[first:end].tobytes(), of_row))

    def chunk(self, frames: Iterable[int]) -> tuple[Chunk, Int]:
        """Those of `frames` that are kept, and their numbers: row i of the chunk is frame number i."""
        found = sorted({frame for frame in frames if frame in self.kept})
        pieces, values = [self.kept[frame][0] for frame in found], [self.kept[frame][1] for frame in found]
        sizes = np.array([len(piece) for piece in pieces], np.int64)
        lead, length, time_ns, link, interface = np.array(values, np.int64).reshape(-1, 5).T
        begin, data = np.cumsum(sizes) - sizes, np.frombuffer(b"".join([*pieces, bytes(SLACK)]), np.uint8)
        chunk = Chunk(
            first=found[0] if found else 1, base=0, data=data, offset=begin + lead, caplen=sizes - lead, length=length, time_ns=time_ns,
            link=link.astype(np.uint16), interface=interface.astype(np.uint16), pseudo=np.where(lead > 0, begin, -1),
        )  # fmt: skip
        return chunk, np.array(found, np.int64)
