"""The MADs of a chunk, with the columns of their common headers. Call as `table.once(Mads)`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.capture.gather import gather
from ibdissect.decode.equal_rows import U64
from ibdissect.wire.mad import MAD, RMPP
from ibdissect.wire.numbers import DIRECTED
from ibdissect.wire.sm import SMPDirected
from ibdissect.wire.spec import Field

from .bit_fields import extract
from .chunk_table import ChunkTable
from .locate import Bool, Int

PATH_AT, PATH_SIZE = SMPDirected.initial_path.bit // 8, SMPDirected.initial_path.bits // 8
WORD = 8


class Mads:
    """Columns with one entry per MAD of base version 1 that is long enough for an RMPP header, in frame order."""

    def __init__(self, table: ChunkTable) -> None:
        loc, data = table.located, table.chunk.data
        start = loc.at("mad")
        rows = np.flatnonzero(start >= 0)
        at = start[rows]
        if len(rows):
            fits = (at + MAD.size + RMPP.size <= loc.payload_end[rows]) & (data[at] == 1)
            if not fits.all():
                rows, at = rows[fits], at[fits]
        self.rows: Int = rows
        """Rows of the chunk."""
        self.at: Int = at
        """Where each MAD starts in the chunk's data."""
        self.head: npt.NDArray[np.uint8] = gather(data, at, MAD.size + RMPP.size)
        """Common header and RMPP header, uint8[n, 36]."""
        self.frames: Int = table.chunk.first + rows
        self.times: Int = table.chunk.time_ns[rows]
        self.mgmt_class: npt.NDArray[np.uint8] = self.column(MAD.mgmt_class)
        self.method: npt.NDArray[np.uint8] = self.column(MAD.method)
        self.status: npt.NDArray[np.uint16] = self.column(MAD.status)
        self.transaction: U64 = self.column(MAD.transaction_id)
        self.attribute: npt.NDArray[np.uint16] = self.column(MAD.attribute_id)
        self.modifier: npt.NDArray[np.uint32] = self.column(MAD.attribute_modifier)

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, field: Field[Any], offset: int = 0) -> npt.NDArray[Any]:
        """A column of a header field; `offset` is where its structure starts in the MAD."""
        return extract(self.head, field.bit + offset * 8, field.bits)


class DirectedRoutes:
    """The routes of the directed-route SMPs among the MADs of a chunk. Call as `table.once(DirectedRoutes)`."""

    def __init__(self, table: ChunkTable) -> None:
        mads, data = table.once(Mads), table.chunk.data
        self.index: Int = np.flatnonzero(mads.mgmt_class == DIRECTED)
        """Which MADs they are."""
        at = mads.at[self.index]
        self.complete: Bool = at + PATH_AT + PATH_SIZE <= table.located.payload_end[mads.rows[self.index]]
        """Whether all of InitialPath was captured, bool[k]."""
        hops = np.where(self.complete, np.minimum(mads.column(SMPDirected.hop_count)[self.index], PATH_SIZE - 1), 0)
        size = (int(hops.max(initial=0)) // WORD + 1) * WORD
        some = np.flatnonzero(self.complete)
        self.paths = np.zeros((len(at), size), np.uint8)
        """HopCount, at most 63, and then InitialPath without its unused first byte, padded with zeros: uint8[k, words * WORD]."""
        self.paths[some] = gather(data, at[some] + PATH_AT, size)
        self.paths *= np.arange(size, dtype=np.uint8) <= hops[:, None]
        self.paths[:, 0] = hops
