"""End-to-end credits (AETH) that responders grant."""

from __future__ import annotations

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import KeptDict
from ibdissect.decode import ChunkTable
from ibdissect.decode.addresses import ends_at, sides_hash
from ibdissect.decode.identity import QpNumber, Side
from ibdissect.wire.headers import AETH, BTH

CREDITS = (
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384,
    24576, 32768,
)  # fmt: skip
"""Number of messages by code (IBA 9.7.7.2.4; Linux rdmavt credit_table); code 31 says nothing of credits."""
NO_INFORMATION = 31
MAX_STREAMS = 65536


class CreditCounts(Record):
    """Credits in the acknowledgements of one responder."""

    least: int = CREDITS[-1]
    none: int = 0
    """Acknowledgements with 0 credits, after which the requester may send one message at a time."""


class Credits:
    """Credits of all responders. Feed chunks in order."""

    def __init__(self) -> None:
        self.by_way = KeptDict[tuple[Side, Side, QpNumber], CreditCounts](MAX_STREAMS, "ends of connections with credits")
        """By source and destination of the acknowledgements, and their destination queue pair."""

    def feed(self, table: ChunkTable) -> None:
        found = table.occurrences(AETH)
        if not len(found):
            return
        syndrome = table.values(AETH.syndrome)
        index = np.flatnonzero((syndrome >> 5 == 0) & (syndrome != NO_INFORMATION))
        if not len(index):
            return
        rows, code = found.rows[index], syndrome[index].astype(np.int64)
        queue_pair = table.of_rows(BTH.destqp)[0][rows]
        _, first, which = np.unique(sides_hash(table, rows) ^ queue_pair.astype(np.uint64), return_index=True, return_inverse=True)
        least = np.full(len(first), NO_INFORMATION, np.int64)
        np.minimum.at(least, which.ravel(), code)
        none = np.bincount(which.ravel(), weights=code == 0).astype(np.int64)
        for k, i in enumerate(first.tolist()):
            row = int(rows[i])
            source, destination = map(Side.of, ends_at(table, row))
            way = source, destination, int(queue_pair[i])
            granted = self.by_way.get_or_make(way, CreditCounts, table.chunk.first + row, int(table.chunk.time_ns[row]))
            if granted is not None:
                granted.least = min(granted.least, CREDITS[int(least[k])])
                granted.none += int(none[k])
