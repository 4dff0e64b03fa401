"""Base of rules that compare packets with what their connection agreed on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.addresses import End
from ibdissect.decode.cm_connections import Connections
from ibdissect.decode.connection_events import ConnectionSetUp, QueuePair
from ibdissect.decode.equal_rows import distinct_values
from ibdissect.decode.identity import Code, ConnectionId
from ibdissect.decode.last_packets import LastPackets
from ibdissect.decode.native_packets import Native
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import INFO, Context, Hit, Seen, fault, on_chunk
from ibdissect.rules.shared.not_seen import QuotingRule
from ibdissect.subnet.visible_managers import CONFIGURED_NS
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.headers import GRH, LRH
from ibdissect.wire.opcodes import SERVICES
from ibdissect.wire.spec import Field

JUDGED = ("RC", "UC")
"""Transport services whose packets are compared with what the connection agreed on."""
QUIET_NS = CONFIGURED_NS
"""A connection of which nothing is seen for so long may have ended unseen: hosts crash, and DREQs are lost."""
MAX_OTHER = 4096
"""Connections with values that were not agreed; how long a further one was silent is unknown: an info."""
PREFIX_BYTES = 8
"""The first half of a GID: ports have several, for the subnet and for any."""
SERVICE_SHIFT = 5
"""The high three bits of an OpCode are the transport service."""


class AgreedRule(QuotingRule):
    """Base of rules about packets from one end of a connection to the other: one finding per direction and value."""

    evidence = (
        "A packet between the REP of its connection and the connection's end. Silent for connections whose REQ and REP are not "
        "in the capture, an `info` where the capture misses packets meanwhile, or shows none of the connection for half an hour, or where "
        "a LID of the two was given to another port."
    )
    needs: ClassVar[tuple[type[Any], ...]] = (Connections, LastPackets)
    field: ClassVar[Field[int]]

    def __init__(self) -> None:
        self.quiet = KeptDict[tuple[ConnectionId, Code], int](MAX_OTHER, "connections with values that were not agreed")
        """For how long a connection was silent before the first packet with such a value."""

    def value(self, native: Native, index: Int) -> Int:
        """The compared value, below 2**16."""
        raise NotImplementedError

    def wrong(self, pair: ConnectionSetUp, end: QueuePair, value: int) -> bool:
        """Whether packets to `end` differ from the agreement."""
        raise NotImplementedError

    @on_chunk
    def chunk(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        connections = context.get(Connections)
        native = table.once(Native)
        index = connections.candidates(native)
        if not len(index):
            return
        index = index[(native.opcode[index] >> SERVICE_SHIFT) < len(JUDGED)]
        ways = native.dlid[index] << 40 | native.dest_qp[index] << 16 | self.value(native, index)
        for way in distinct_values(ways):
            end, seen = (way >> 40, way >> 16 & 0xFFFFFF), way & 0xFFFF
            for pair in connections.by_queue_pair.get(end, ()):
                if self.wrong(pair, end, seen):
                    for hit in self.found(table, native, index[ways == way], pair, end, seen):
                        first = ConnectionId(pair.req_frame), Code(seen)
                        if first not in self.quiet:
                            quiet = hit.time_ns - context.get(LastPackets).of(pair, hit.frame)
                            self.quiet.keep(first, quiet, hit.frame, hit.time_ns)
                        hit.arguments["quiet"] = self.quiet.get(first, QUIET_NS + 1)
                        yield hit

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """Also INFO if the connection was silent for long: it may have ended unseen."""
        age = context.get(CaptureLoss).nanoseconds_between(min(one.frame for one in hit.related), hit.frame)
        return INFO if min(age, hit.arguments.get("quiet", 0)) > QUIET_NS else super().severity_at_end(hit, context)

    def found(self, table: ChunkTable, native: Native, index: Int, pair: ConnectionSetUp, end: QueuePair, value: int) -> Iterator[Hit]:
        """The finding about the packets that belong to the connection."""
        mine = index[of_pair(table, native, index, pair, end)]
        if not len(mine):
            return
        seen = Seen(table, int(native.rows[mine[0]]))
        yield fault(
            seen, {
                "slid": seen.value(LRH.slid), "dlid": end[0], "qp": end[1], "seen": value, "agreed": pair.p_key,
                "service": SERVICES.get(value << SERVICE_SHIFT, "?"), "asked": pair.service,
            },
            self.field, seen.value(self.field), rows=native.rows[mine], key=(end, pair.req_frame, value),
            proof=[(pair.req_frame, "REQ of the connection"), (pair.rep_frame, "REP of the connection")],
        )  # fmt: skip


def of_pair(table: ChunkTable, native: Native, index: Int, pair: ConnectionSetUp, end: QueuePair) -> Bool:
    """Which of the packets to `end` were sent by the other end, in the network of the connection and while it lasted."""
    rows = native.rows[index]
    frames = rows + table.chunk.first
    sender = np.isin(native.slid[index], pair.far_lids(end))
    networks = table.networks[rows] if table.networks is not None else 0
    mine: Bool = (frames > pair.since(end)) & (frames < pair.ended) & sender & (networks == pair.active.network)
    return mine & ~_of_others(table, rows, *(pair.ends[::-1] if pair.is_active(end) else pair.ends))


def _of_others(table: ChunkTable, rows: Int, sender: End, receiver: End) -> Bool:
    """Packets whose GRH names another port than the set-up did: virtual ports share a LID, and number their queue pairs alike."""
    other = np.zeros(len(rows), np.bool_)
    for gid, end in ((GRH.sgid, sender), (GRH.dgid, receiver)):
        if end.gid:
            guid, own = table.values_at(gid, rows)[:, PREFIX_BYTES:], np.frombuffer(end.gid, np.uint8)[PREFIX_BYTES:]
            other |= guid.any(axis=1) & (guid != own).any(axis=1)
    return other
