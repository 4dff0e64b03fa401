"""Which packets use another transport service than their connection agreed on?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.dropped import Dropped
from ibdissect.lint.rule import ERROR, Context, Hit, on_chunk
from ibdissect.rules.shared.connection_rule import SERVICE_SHIFT, SERVICES, AgreedRule, of_pair
from ibdissect.table.connection_events import Connection, QueuePair
from ibdissect.table.connections import MAX_CONNECTIONS
from ibdissect.table.locate import Int
from ibdissect.table.native_packets import Native
from ibdissect.table.table import ChunkTable
from ibdissect.wire.transport import BTH


class OtherService(AgreedRule):
    """A packet uses another transport service than its connection was set up for.

    A queue pair supports one service; it drops all packets of another. RC data to a UC queue pair is never acknowledged.

    Compare the queue pair types that both programs create with the TransportServiceType of the REQ.

    The first packets of a direction, after REQ and REP. Silent once the direction used the right service: the queue pair number may have
    been reused since.
    """

    code, name, severity = "BTH018", "opcode-header-vs-service", ERROR
    explains = ("BTH014",)
    reference = "IBA 9.2.1, 12.6.5; python-rdma CMREQ"
    message = "{service} packet from LID {slid} to QP 0x{qp:x} of LID {dlid}; the connection was set up for {asked}"
    example = "REQ for UC and its REP, then an RC packet of the connection"
    field = BTH.opcode

    def __init__(self) -> None:
        self.right: set[tuple[QueuePair, int]] = set()
        """Directions, by end and REQ, that used the agreed service in an earlier chunk."""
        self._now: set[tuple[QueuePair, int]] = set()
        self.dropped = Dropped("directions of connections")

    def value(self, native: Native, index: Int) -> Int:
        return native.opcode[index] >> SERVICE_SHIFT

    def wrong(self, pair: Connection, end: QueuePair, value: int) -> bool:
        if pair.service == value:
            self._now.add((end, pair.req_frame))
        return pair.service in SERVICES and pair.service != value and (end, pair.req_frame) not in self.right

    def found(self, table: ChunkTable, native: Native, index: Int, pair: Connection, end: QueuePair, value: int) -> Iterator[Hit]:
        there = (native.dlid == end[0]) & (native.dest_qp == end[1]) & (native.opcode >> SERVICE_SHIFT == pair.service)
        agreed = np.flatnonzero(there)
        agreed = agreed[of_pair(table, native, agreed, pair, end)]
        if len(agreed):
            index = index[index < agreed[0]]
        yield from super().found(table, native, index, pair, end, value)

    @on_chunk
    def follow(self, table: ChunkTable, context: Context) -> None:
        """Directions that use the agreed service now count from the next chunk on; `chunk` runs before `follow`."""
        if len(self.right) < MAX_CONNECTIONS:
            self.right |= self._now
        elif not self._now <= self.right:
            self.dropped.add(table.chunk.first, int(table.chunk.time_ns[0]), len(self._now - self.right))
        self._now = set()
