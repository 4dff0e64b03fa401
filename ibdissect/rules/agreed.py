"""Packets of a connection that differ from what its two sides agreed on (PKY, BTH)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from ibdissect.dropped import Dropped
from ibdissect.fabric.partitions import BASE
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related, Span
from ibdissect.lint.rule import ERROR, Hit, Rule, on_chunk
from ibdissect.table.locate import Bool, Int
from ibdissect.table.table import ChunkTable
from ibdissect.wire.spec import Field
from ibdissect.wire.transport import BTH

from .cm_pairs import MAX_PAIRS, CmPairs, End, Pair
from .pkey_columns import Native, distinct

SERVICES = {0: "RC", 1: "UC"}
SERVICE_SHIFT = 5
"""The high three bits of an OpCode are the transport service; 0 RC, 1 UC."""


class _Agreed(Rule):
    """What the rules share: packets from one end of a connection to the other, one finding per direction and value."""

    field: ClassVar[Field[int]]

    def value(self, native: Native, index: Int) -> Int:
        """What is compared, below 2**16."""
        raise NotImplementedError

    def wrong(self, pair: Pair, end: End, value: int) -> bool:
        """Whether packets to `end` differ from the agreement."""
        raise NotImplementedError

    @on_chunk
    def chunk(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        pairs: CmPairs = context.get(CmPairs)
        pairs.take(table)
        native: Native = context.get(Native).of(table)
        index = pairs.candidates(native)
        if not len(index):
            return
        index = index[(native.opcode[index] >> SERVICE_SHIFT) < len(SERVICES)]
        ways = native.dlid[index] << 40 | native.dest_qp[index] << 16 | self.value(native, index)
        for way in distinct(ways):
            end, seen = (way >> 40, way >> 16 & 0xFFFFFF), way & 0xFFFF
            for pair in pairs.by_end.get(end, ()):
                if self.wrong(pair, end, seen):
                    yield from self.found(table, native, index[ways == way], pair, end, seen)

    def found(self, table: ChunkTable, native: Native, index: Int, pair: Pair, end: End, value: int) -> Iterator[Hit]:
        """The finding about those of the packets that belong to the connection."""
        mine = index[of_pair(table, native, index, pair, end)]
        if not len(mine):
            return
        row = int(native.rows[mine[0]])
        low, high = self.field.span
        frame, start = table.chunk.first + row, int(table.located.at("bth")[row] - table.chunk.offset[row])
        yield Hit(
            frame=frame,
            time_ns=int(table.chunk.time_ns[row]),
            arguments={"slid": pair.far(end)[0], "dlid": end[0], "qp": end[1], "seen": value, "agreed": pair.p_key,
                       "service": SERVICES.get(value, "?"), "asked": SERVICES.get(pair.service, "?")},
            spans=(Span(frame, start + low, high - low),),
            field=self.field,
            value=int(native.opcode[mine[0]]) if self.field is BTH.opcode else value,
            related=(Related(pair.req_frame, "REQ of the connection"), Related(pair.rep_frame, "REP of the connection")),
            evidence=Evidence.LEARNT,
            count=len(mine),
            key=(end, pair.req_frame, value),
        )  # fmt: skip


def of_pair(table: ChunkTable, native: Native, index: Int, pair: Pair, end: End) -> Bool:
    """Which of the packets to `end` were sent by the other end while the connection lasted."""
    frames = native.rows[index] + table.chunk.first
    mine: Bool = (frames > pair.rep_frame) & (frames < pair.ended) & (native.slid[index] == pair.far(end)[0])
    return mine


class OtherPartition(_Agreed):
    """A packet of a connection is in another partition than the connection was set up in.

    ## Why it matters
    Both queue pairs were bound to one P_Key when they were set up, and each accepts that one only. The receiver drops the
    packet and counts a P_Key violation; the connection dies of retries.

    ## What to do
    Look whether the subnet manager moved entries in the sender's P_Key table: queue pairs hold an index, not the key. Only
    connections whose REQ and REP are in the capture are judged, as long as they last.
    """

    code, name, severity = "PKY005", "pkey-connection-mismatch", ERROR
    reference = "IBA 10.9, 12.6.5; seed002 (RC, UC, UD)"
    message = "P_Key 0x{seen:04x} from LID {slid} to QP 0x{qp:x} of LID {dlid}; the connection was set up with 0x{agreed:04x}"
    example = "REQ with Partition Key 0x8001 and its REP, then a SEND of the connection with P_Key 0x8002"
    field = BTH.p_key

    def value(self, native: Native, index: Int) -> Int:
        return native.p_key[index]

    def wrong(self, pair: Pair, end: End, value: int) -> bool:
        return bool(pair.p_key & BASE) and (pair.p_key ^ value) & BASE != 0


class OtherService(_Agreed):
    """A packet of a connection is of another transport service than the connection was set up for.

    ## Why it matters
    A queue pair knows one service; it drops all packets of another one. RC data to a UC queue pair is never acknowledged.

    ## What to do
    Compare the queue pair types that both programs create with the TransportServiceType of the REQ. Only the first packets of
    a direction are judged: later ones may belong to a queue pair that got the same number.
    """

    code, name, severity = "BTH018", "opcode-header-vs-service", ERROR
    reference = "IBA 9.2.1, 12.6.5; seed004 CMREQ"
    message = "{service} packet from LID {slid} to QP 0x{qp:x} of LID {dlid}; the connection was set up for {asked}"
    example = "REQ for UC and its REP, then an RC packet of the connection"
    field = BTH.opcode

    def __init__(self) -> None:
        self.right: set[tuple[End, int]] = set()
        """Directions, by end and REQ, that were of the agreed service in an earlier chunk."""
        self._now: set[tuple[End, int]] = set()
        self.dropped = Dropped("directions of connections")

    def value(self, native: Native, index: Int) -> Int:
        service: Int = native.opcode[index] >> SERVICE_SHIFT
        return service

    def wrong(self, pair: Pair, end: End, value: int) -> bool:
        if pair.service == value:
            self._now.add((end, pair.req_frame))
        return pair.service in SERVICES and pair.service != value and (end, pair.req_frame) not in self.right

    def found(self, table: ChunkTable, native: Native, index: Int, pair: Pair, end: End, value: int) -> Iterator[Hit]:
        there = (native.dlid == end[0]) & (native.dest_qp == end[1]) & (native.opcode >> SERVICE_SHIFT == pair.service)
        agreed = np.flatnonzero(there)
        agreed = agreed[of_pair(table, native, agreed, pair, end)]
        if len(agreed):
            index = index[index < agreed[0]]
        yield from super().found(table, native, index, pair, end, value)

    @on_chunk
    def follow(self, table: ChunkTable, context: Context) -> None:
        """What is of the agreed service now counts from the next chunk on; `chunk` goes before `follow`."""
        if len(self.right) < MAX_PAIRS:
            self.right |= self._now
        elif not self._now <= self.right:
            self.dropped.add(table.chunk.first, int(table.chunk.time_ns[0]), len(self._now - self.right))
        self._now = set()
