"""To whom does the capture show answers? Of the others it may show one direction only, and what they miss proves nothing."""

from __future__ import annotations

import numpy as np

from ibdissect.dropped import Dropped
from ibdissect.table.locate import u16
from ibdissect.table.table import ChunkTable, gather

from .asked import DIRECTED, Asked
from .transactions import Request

MAX_ADDRESSES = 65536
_PLACES = (("ip4", 16, 4), ("ip6", 24, 16), ("grh", 24, 16))
"""Header, offset of the destination, size."""


class Heard:
    """Receivers of management answers. `of` every chunk in order, by whoever asks first."""

    def __init__(self) -> None:
        self._of: ChunkTable | None = None
        self.lids = np.zeros(1 << 16, np.bool_)
        """By LID."""
        self.addresses: set[bytes] = set()
        """IP addresses and GIDs."""
        self.dropped = Dropped("addresses that are answered")
        self.directed = False
        """Answers by directed routes, which name no receiver."""

    def of(self, table: ChunkTable, asked: Asked) -> Heard:
        """Take in a chunk; `asked` is of the same one."""
        if self._of is table:
            return self
        self._of = table
        answers = np.flatnonzero(~asked.asks)
        directed = asked.mgmt_class[answers] == DIRECTED
        self.directed |= bool(directed.any())
        rows, data = asked.rows[answers[~directed]], table.chunk.data
        lrh = table.located.at("lrh")[rows]
        self.lids[u16(data, lrh[lrh >= 0] + 2)] = True
        rows = rows[lrh < 0]
        for name, offset, size in _PLACES if len(rows) else ():
            if name in table.located.start:
                at = table.located.start[name][rows]
                # With indices, which nobody wants here: without them np.unique loads numpy.ma (10 ms).
                found = np.unique(gather(data, at[at >= 0] + offset, size), axis=0, return_index=True)[0]
                fresh = [address for address in map(bytes, found) if address not in self.addresses]
                room = max(0, MAX_ADDRESSES - len(self.addresses))
                self.addresses.update(fresh[:room])
                if len(fresh) > room:
                    self.dropped.add(table.chunk.first + int(rows[0]), int(table.chunk.time_ns[rows[0]]), len(fresh) - room)
        return self

    def hears(self, request: Request) -> bool:
        """Whether an answer to this request would be in the capture. LID 0 is no address: such a sender is given credit."""
        if request.route is not None:
            return self.directed
        if isinstance(request.source, int):
            return bool(self.lids[request.source]) or request.source == 0
        return request.source in self.addresses
