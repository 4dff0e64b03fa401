"""Tries of a packet beyond what its connection allows, and the RNR NAKs that ask for further ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode import ChunkTable
from ibdissect.decode.addresses import End, ends_of
from ibdissect.decode.bit_fields import value_at
from ibdissect.decode.equal_rows import by_value, mix
from ibdissect.decode.identity import Index
from ibdissect.decode.native_packets import Native
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, Context, Hit, on_chunk, on_event
from ibdissect.rules.RC.psn_order import of_stream
from ibdissect.rules.shared.not_seen import QuotingRule
from ibdissect.transport.events import Exhausted
from ibdissect.transport.psn_streams import Streams
from ibdissect.wire.headers import AETH, BTH, RNR
from ibdissect.wire.opcodes import ACKNOWLEDGE, OPERATION

MAX_NOT_READY = 65536
"""Ports that acknowledge, and packets whose RNR NAKs are counted; of further ones nobody knows, and the finding is an info."""


class RetriesExhausted(QuotingRule):
    """A packet was sent more often than its connection's retry counter allows.

    After as many timeouts as the REQ's Retry Count, a connection has to end; one that goes on hides a dead path.

    Look at the responder, which does not answer, and at the requester's driver, which does not give up.

    Repetitions of one packet a millisecond or more apart, without a NAK in between, or the data of a READ: a requester that drops it (a
    page fault, for example) asks again. Without the REQ in the capture, seven retries are
    allowed, since the counter has three bits. The capture must show the other direction: of this connection, or packets of the responder
    that belong to others. RoCE is not judged: adapters with adaptive retransmission start with short timers and limit the time, not the
    number of tries. An `info` where a LID of the two was given to another port meanwhile, where the capture misses packets meanwhile, and
    where it shows no acknowledgement of the responder's port at all: somebody filtered them. The same where the responder sent as many RNR
    NAKs for this packet as there are repetitions, be it at other times: clocks of two capture points differ.
    """

    code, name, severity = "RC019", "retry-exhausted", ERROR
    needs = (Streams,)
    reference = "IBA 9.9.2.1.1, 12.7.38; python-rdma REQ.RetryCount; NVIDIA Adaptive Retransmission (roce_adp_retrans_en)"
    message = "{ends}: PSN {psn} was sent {sent} times, {allowed} repetitions are allowed"
    example = "a SEND that is sent nine times, 100 ms apart, without a NAK in between"

    def __init__(self) -> None:
        self.acknowledging = KeptDict[End, None](MAX_NOT_READY, "ports that acknowledge")
        """Ports whose acknowledgements the capture shows."""
        self.not_ready = KeptDict[tuple[End, End, Index], int](MAX_NOT_READY, "packets with RNR NAKs")
        """RNR NAKs by who sends them to whom, and the PSN they name."""

    @on_chunk
    def look(self, table: ChunkTable, _context: Context) -> None:
        """Note who acknowledges, and what is to be sent again once there is a receive buffer."""
        native = table.once(Native)
        found = np.flatnonzero(native.opcode & OPERATION == ACKNOWLEDGE)
        rows, way = native.rows[found], native.slid[found] << 16 | native.dlid[found]
        if table.networks is not None:
            way |= table.networks[rows].astype(np.int64) << 32
        first = rows[[mine[0] for _, mine in by_value(way)]] if len(rows) else rows
        for row, (source, _) in zip(first.tolist(), ends_of(table, first), strict=True):
            self.acknowledging.keep(source, None, table.chunk.first + row, int(table.chunk.time_ns[row]))
        bth, data = table.located.at("bth")[rows], table.chunk.data
        whole = np.flatnonzero(bth + BTH.size + AETH.size <= table.located.limit[rows])
        syndrome = value_at(data, bth[whole] + BTH.size, AETH.syndrome)
        some = whole[syndrome >> 5 == RNR]
        psn = value_at(data, bth[some], BTH.psn)
        alike = [mine for _, mine in by_value(mix([way[some], psn]))] if len(some) else []
        one_each = rows[some[[mine[0] for mine in alike]]] if alike else rows[:0]
        for (source, destination), mine in zip(ends_of(table, one_each), alike, strict=True):
            row = int(rows[some[mine[0]]])
            key = source, destination, int(psn[mine[0]])
            self.not_ready.keep(key, self.not_ready.get(key, 0) + len(mine), table.chunk.first + row, int(table.chunk.time_ns[row]))

    @on_event(Exhausted)
    def exhausted(self, event: Exhausted, context: Context) -> Iterator[Hit]:
        if context.table.located.at("lrh")[event.frame - context.table.chunk.first] >= 0:
            yield of_stream(event, (event.first, "first repetition"), sent=event.sent, allowed=event.allowed, of=event.ends)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO where each repetition may follow an RNR NAK that was recorded before or after it, or that was filtered out."""
        ends = hit.arguments["of"]
        asked = self.not_ready.get((ends.destination, ends.source, hit.arguments["psn"]), 0)
        repeated = asked >= hit.arguments["sent"] - 1 or self.not_ready.dropped.count > 0
        if repeated or ends.destination not in self.acknowledging:
            return INFO
        return super().severity_at_end(hit, context)
