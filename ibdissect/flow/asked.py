"""Which management requests does a chunk hold, who asks whom, and is an answer among them? Columns, no Python step per datagram."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ibdissect.table.locate import Bool, Int
from ibdissect.table.table import ChunkTable, extract, gather
from ibdissect.wire.mad import MAD, RESPONSE_OF, RMPP_CLASSES

from .columns import U64

TRAP, CM_CLASS, DIRECTED = 0x05, 0x07, 0x81
DATA = 1
RESPONSE_BIT = 0x80
_HEAD = 28
"""Common header and the RMPP bytes up to its flags."""
_PLACES = (("ip4", 12, 16, 4), ("ip6", 8, 24, 16), ("grh", 8, 24, 16), ("lrh", 6, 2, 2))
"""Header, offset of source and destination, size; a later one that is present counts."""
_MIX = np.uint64(0x9E3779B97F4A7C15)


def _methods() -> Bool:
    asks = np.zeros(256, np.bool_)
    asks[[method for method in RESPONSE_OF if method != TRAP]] = True
    return asks


ASKS = _methods()
"""Methods that must be answered, bool[256]."""


class Asked:
    """Requests and answers of a chunk, but for traps, connection management and RMPP acknowledgements; frame order, one length."""

    def __init__(self) -> None:
        self._of: ChunkTable | None = None
        none = np.empty(0, np.int64)
        self.rows: Int = none
        self.at: Int = none
        """Where the MAD starts in the chunk's data."""
        self.asks: Bool = none.astype(np.bool_)
        """False for answers."""
        self.mgmt_class = self.method = none.astype(np.uint8)
        self.attribute: npt.NDArray[np.uint16] = none.astype(np.uint16)
        self.modifier: npt.NDArray[np.uint32] = none.astype(np.uint32)
        self.transaction: U64 = none.astype(np.uint64)
        self.source: U64 = self.transaction
        """LID, or a hash of GID or IP address."""
        self.destination: U64 = self.transaction

    def of(self, table: ChunkTable) -> Asked:
        """The columns of a chunk, worked out once for all rules that ask in turn."""
        if self._of is table:
            return self
        self._of = table
        loc, data = table.located, table.chunk.data
        mad = loc.start.get("mad")
        rows = np.flatnonzero(mad >= 0) if mad is not None else np.empty(0, np.int64)
        if mad is not None and len(rows):
            at = mad[rows]
            fits = at + _HEAD <= loc.payload_end[rows]
            rows, at = rows[fits], at[fits]
            head = gather(data, at, _HEAD)
            mgmt_class, method = head[:, 1], head[:, 3]
            rmpp = np.isin(mgmt_class, list(RMPP_CLASSES)) & (head[:, 26] & 1 == 1) & (head[:, 24] == 1)
            answers = (method & RESPONSE_BIT) != 0
            keep = (head[:, 0] == 1) & (mgmt_class != CM_CLASS) & (answers | ASKS[method]) & ~(rmpp & (head[:, 25] != DATA))
            rows, head = rows[keep], head[keep]
            self.at = at[keep]
        else:
            self.at, head = rows, np.zeros((0, _HEAD), np.uint8)
        self.rows = rows
        self.mgmt_class, self.method = head[:, 1], head[:, 3]
        self.asks = (self.method & RESPONSE_BIT) == 0
        self.transaction, self.attribute, self.modifier = (
            extract(head, field.bit, field.bits) for field in (MAD.transaction_id, MAD.attribute_id, MAD.attribute_modifier)
        )
        self.source, self.destination = _ends(table, rows)
        return self


def _ends(table: ChunkTable, rows: Int) -> tuple[U64, U64]:
    """Source and destination of each row as numbers; 0 where there is none."""
    near, far = np.zeros(len(rows), np.uint64), np.zeros(len(rows), np.uint64)
    for name, source, destination, size in _PLACES:
        if name not in table.located.start or not len(rows):
            continue
        start = table.located.start[name][rows]
        index = np.flatnonzero(start >= 0)
        for column, offset in ((near, source), (far, destination)):
            found = gather(table.chunk.data, start[index] + offset, size)
            column[index] = extract(found, 0, size * 8) if size < 16 else mixed(found)
    return near, far


def mixed(block: npt.NDArray[np.uint8]) -> U64:
    """A hash of each row of bytes, uint64[n]; the row length is a multiple of 8."""
    words = np.ascontiguousarray(block).view(np.uint64)
    value = np.zeros(len(block), np.uint64)
    for word in words.T:
        value = (value ^ (value >> np.uint64(29)) ^ word) * _MIX
    return value ^ (value >> np.uint64(32))
