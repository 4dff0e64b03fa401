"""Which management requests does a chunk hold, who asks whom, and is an answer among them? Columns, no Python step per datagram."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ibdissect.table.distinct import U64
from ibdissect.table.locate import Bool, Int
from ibdissect.table.table import ChunkTable
from ibdissect.wire.mad import RESPONSE_OF

from .datagrams import Datagrams, Ends

TRAP, CM_CLASS, DIRECTED = 0x05, 0x07, 0x81
DATA = 1
RESPONSE_BIT = 0x80
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
        mads = table.once(Datagrams)
        answers = mads.method >= RESPONSE_BIT
        keep = np.flatnonzero((mads.mgmt_class != CM_CLASS) & (answers | ASKS[mads.method]) & ~(mads.rmpp & (mads.rmpp_type != DATA)))
        self.rows = mads.rows[keep]
        self.at = table.located.at("mad")[self.rows]
        self.mgmt_class, self.method, self.asks = mads.mgmt_class[keep], mads.method[keep], ~answers[keep]
        self.transaction, self.attribute, self.modifier = mads.transaction[keep], mads.attribute[keep], mads.modifier[keep]
        self.source, self.destination = (_numbers(ends.take(keep)) for ends in (mads.source, mads.destination))
        return self


def _numbers(ends: Ends) -> U64:
    """Addresses as one number each: LID or IPv4 address, else a hash; 0 where there is none."""
    wide = np.flatnonzero(ends.size == 16)
    if not len(wide):
        return ends.low
    numbers = ends.low.copy()
    numbers[wide] = mixed(np.stack([ends.high[wide], ends.low[wide]], axis=1).astype(">u8").view(np.uint8))
    return numbers


def mixed(block: npt.NDArray[np.uint8]) -> U64:
    """A hash of each row of bytes, uint64[n]; the row length is a multiple of 8."""
    words = np.ascontiguousarray(block).view(np.uint64)
    value = np.zeros(len(block), np.uint64)
    for word in words.T:
        value = (value ^ (value >> np.uint64(29)) ^ word) * _MIX
    return value ^ (value >> np.uint64(32))


def digest(block: npt.NDArray[np.uint8]) -> U64:
    """The same of long rows, in fewer steps."""
    words = np.ascontiguousarray(block).view(np.uint64)
    value = words ^ (words >> np.uint64(29))
    value *= _MIX * (np.arange(words.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1))
    value ^= value >> np.uint64(32)
    total: U64 = value.sum(axis=1) * _MIX
    return total ^ (total >> np.uint64(32))
