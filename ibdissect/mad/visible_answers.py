"""Senders whose management answers the capture shows. For others a missing answer proves nothing: it may show one direction only."""

from __future__ import annotations

import numpy as np

from ibdissect.bounded import Dropped, KeptDict
from ibdissect.capture.gather import gather, u16
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.addresses import ENDS, LID_SIZE, NETWORK_SIZE, End, by_header
from ibdissect.decode.identity import AddressNumber
from ibdissect.wire.numbers import DIRECTED, LID_COUNT

from .datagrams import Queries, number_of
from .request_outcomes import Request

MAX_ADDRESSES = 65536
MAX_PAIRS = 32768
"""Requesters, each with an agent that answers it; of further pairs that is unknown."""


class _Ends:
    """Ends of all networks, and the latest frame of each, bounded: LIDs of the first network as an array, as most are."""

    def __init__(self, dropped: Dropped) -> None:
        self._lids: Int = np.zeros(LID_COUNT, np.int64)
        self._others = KeptDict[End, int](MAX_ADDRESSES, dropped)
        self.dropped = dropped

    def take(self, table: ChunkTable, rows: Int, at: Int, size: int) -> None:
        """Take the addresses at some offsets, one of each row; rows ascend."""
        networks = table.networks[rows].astype(np.int64) if table.networks is not None else np.zeros(len(rows), np.int64)
        if size == LID_SIZE:
            first = networks == 0
            self._lids[u16(table.chunk.data, at[first])] = table.chunk.first + rows[first]
            rows, at, networks = rows[~first], at[~first], networks[~first]
        if not len(rows):
            return
        numbers = networks.astype(">u4").view(np.uint8).reshape(-1, 4)[:, -NETWORK_SIZE:]
        named = np.concatenate((gather(table.chunk.data, at, size), numbers), axis=1)[::-1]
        ends, latest = np.unique(named, axis=0, return_index=True)
        for end, row in zip(map(bytes, ends), rows[::-1][latest].tolist(), strict=True):
            known, frame = End(end if any(end[-NETWORK_SIZE:]) else end[:-NETWORK_SIZE]), table.chunk.first + row
            self._others.keep(known, frame, frame, int(table.chunk.time_ns[row]))

    def latest(self, end: End) -> int:
        """The latest frame with an end; 0: none, as far as is remembered."""
        return int(self._lids[end.lid]) if end.lid is not None and not end.network else self._others.get(end, 0)

    def __contains__(self, end: End) -> bool:
        return self.latest(end) > 0


class VisibleAnswers:
    """Senders and receivers of management answers. One per capture; feed chunks in order."""

    def __init__(self) -> None:
        self.dropped = Dropped("addresses that are answered")
        self.receivers, self.senders = _Ends(self.dropped), _Ends(self.dropped)
        self.pairs = KeptDict[tuple[AddressNumber, AddressNumber], None](MAX_PAIRS, "pairs of requesters and agents")
        """Requesters, and who answered them."""
        self.directed: Int = np.zeros(1 << 16, np.int64)
        """The latest frame of each network with an answer by directed route, which has no receiver address, int64[65536]; 0: none."""

    def feed(self, table: ChunkTable) -> tuple[()]:
        """Process a chunk; emits no events."""
        asked = table.once(Queries)
        answers = np.flatnonzero(~asked.asks)
        directed = asked.mgmt_class[answers] == DIRECTED
        routed = asked.rows[answers[directed]]
        networks: Int = table.networks[routed] if table.networks is not None else np.zeros(len(routed), np.int64)
        self.directed[networks] = routed + table.chunk.first
        answers = answers[~directed]
        rows = asked.rows[answers]
        for pair in {*zip(asked.destination[answers].tolist(), asked.source[answers].tolist(), strict=True)} - self.pairs.keys():
            self.pairs.keep(pair, None, table.chunk.first + int(rows[0]), int(table.chunk.time_ns[rows[0]]))
        for header, index, at in by_header(table, rows, ENDS):
            self.receivers.take(table, rows[index], at + header.destination, header.size)
            if header.size == LID_SIZE:
                self.senders.take(table, rows[index], at + header.source, header.size)
        return ()

    def shows(self, requester: AddressNumber, agent: AddressNumber) -> bool:
        """Whether the capture shows an answer of an agent to a requester, as far as is remembered: answers take one of several links."""
        return (requester, agent) in self.pairs

    def shows_none_to(self, request: Request) -> bool:
        """Whether the capture shows no answer of the agent that a request went to, to its sender; false for directed routes."""
        return request.route is None and not self.shows(number_of(request.source), number_of(request.target))

    def both_go_on(self, request: Request) -> int:
        """The latest frame by which the capture shows answers of the agent that a request went to, and answers to its sender; 0: none."""
        if request.route is not None:
            return int(self.directed[request.source.network])
        heard = self.receivers.latest(request.source)
        return min(heard, self.senders.latest(request.target)) if request.target.lid is not None else heard

    def would_show(self, request: Request) -> bool:
        """Whether an answer to this request would be in the capture; true for LID 0, which is not an address."""
        if request.route is not None:
            return bool(self.directed[request.source.network])
        return request.source.lid == 0 or request.source in self.receivers
