"""Which management requests and answers does a chunk contain, and between whom? As columns."""

from __future__ import annotations

import numpy as np

from ibdissect.table.locate import Bool, Int
from ibdissect.table.mads import Mads
from ibdissect.table.rows import U64, mix
from ibdissect.table.table import ChunkTable
from ibdissect.wire.mad import RESPONSE_OF
from ibdissect.wire.numbers import CM_CLASS, DATA, RESPONSE_BIT, TRAP

from .datagrams import Datagrams, Ends

ASKS: Bool = np.isin(np.arange(256), [method for method in RESPONSE_OF if method != TRAP])
"""Methods that require an answer, bool[256]."""


class Queries:
    """Requests and answers of a chunk in frame order, as columns; without traps, connection management and RMPP acknowledgements.

    Get it with `table.once(Queries)`.
    """

    def __init__(self, table: ChunkTable) -> None:
        mads = table.once(Datagrams)
        answers = mads.method >= RESPONSE_BIT
        keep = np.flatnonzero((mads.mgmt_class != CM_CLASS) & (answers | ASKS[mads.method]) & ~(mads.rmpp & (mads.rmpp_type != DATA)))
        self.rows: Int = mads.rows[keep]
        self.at: Int = table.once(Mads).at[keep]
        """Offset of each MAD in the chunk's data."""
        self.asks: Bool = ~answers[keep]
        """True for requests, False for answers."""
        self.mgmt_class, self.method, self.transaction = mads.mgmt_class[keep], mads.method[keep], mads.transaction[keep]
        self.attribute, self.modifier = mads.attribute[keep], mads.modifier[keep]
        self.source, self.destination = (_numbers(ends.take(keep)) for ends in (mads.source, mads.destination))
        """LID, or a hash of GID or IP address."""


def _numbers(ends: Ends) -> U64:
    """One number per address: LID or IPv4 address, otherwise a hash; 0 if there is none."""
    wide = np.flatnonzero(ends.size == 16)
    if not len(wide):
        return ends.low
    numbers = ends.low.copy()
    numbers[wide] = mix([ends.high[wide], ends.low[wide]])
    return numbers
