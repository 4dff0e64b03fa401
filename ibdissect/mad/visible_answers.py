"""Senders whose management answers the capture shows. For others a missing answer proves nothing: it may show one direction only."""

from __future__ import annotations

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.capture.scattered import gather, u16
from ibdissect.decode import ChunkTable
from ibdissect.decode.addresses import ENDS, LID_SIZE, by_header
from ibdissect.wire.numbers import DIRECTED, LID_COUNT

from .datagrams import Queries
from .request_outcomes import Request

MAX_ADDRESSES = 65536


class VisibleAnswers:
    """Receivers of management answers. One per capture; feed chunks in order."""

    def __init__(self) -> None:
        self.lids = np.zeros(LID_COUNT, np.bool_)
        """Receivers by LID, bool[65536]."""
        self.addresses = KeptDict[bytes, None](MAX_ADDRESSES, "addresses that are answered")
        """Receivers by IP address or GID."""
        self.senders = np.zeros(LID_COUNT, np.bool_)
        """Senders by LID, bool[65536]."""
        self.directed = False
        """Whether there are directed-route answers, which have no receiver address."""

    def feed(self, table: ChunkTable) -> tuple[()]:
        """Process a chunk; emits no events."""
        asked = table.once(Queries)
        answers = np.flatnonzero(~asked.asks)
        directed = asked.mgmt_class[answers] == DIRECTED
        self.directed |= bool(directed.any())
        rows, data = asked.rows[answers[~directed]], table.chunk.data
        for header, _, at in by_header(table, rows, ENDS):
            if header.size == LID_SIZE:
                self.lids[u16(data, at + header.destination)] = True
                self.senders[u16(data, at + header.source)] = True
                continue
            # `return_index` keeps np.unique from importing numpy.ma (10 ms).
            found = np.unique(gather(data, at + header.destination, header.size), axis=0, return_index=True)[0]
            for address in map(bytes, found):
                self.addresses.keep(address, None, table.chunk.first + int(rows[0]), int(table.chunk.time_ns[rows[0]]))
        return ()

    def shows_none_of(self, request: Request) -> bool:
        """Whether the capture certainly shows no answer of the LID that a request went to, to anybody."""
        lid = request.target.lid
        return request.route is None and lid is not None and not self.senders[lid]

    def would_show(self, request: Request) -> bool:
        """Whether an answer to this request would be in the capture; true for LID 0, which is not an address."""
        if request.route is not None:
            return self.directed
        lid = request.source.lid
        if lid is not None:
            return bool(self.lids[lid]) or lid == 0
        return request.source.address in self.addresses
