"""Packets with another transport service than their connection agreed on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from ibdissect.bounded import Dropped
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.cm_connections import MAX_CONNECTIONS, Connections
from ibdissect.decode.connection_events import ConnectionSetUp, QueuePair
from ibdissect.decode.identity import LaneId, QueuePairId
from ibdissect.decode.native_packets import Native
from ibdissect.lint.rule import ERROR, INFO, Context, Hit, Moment, fault, on_chunk, on_end
from ibdissect.rules.shared.connection_rule import JUDGED, QUIET_NS, SERVICE_SHIFT, AgreedRule, of_pair
from ibdissect.rules.shared.not_seen import lowered_severity
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.transport.psn_streams import Stream, Streams
from ibdissect.wire.headers import BTH
from ibdissect.wire.opcodes import SERVICES


class OtherService(AgreedRule):
    """A packet uses another transport service than its connection was set up for.

    A queue pair supports one service; it drops all packets of another. RC data to a UC queue pair is never acknowledged.

    Compare the queue pair types that both programs create with the TransportServiceType of the REQ.

    The first packets of a direction, after REQ and REP. Silent once the direction used the right service: the queue pair number may have
    been reused since. An `info` where the capture misses packets meanwhile, or shows none of the connection for half an hour.
    """

    code, name, severity = "BTH018", "opcode-header-vs-service", ERROR
    explains = ("BTH014",)
    reference = "IBA 9.2.1, 12.6.5; python-rdma CMREQ"
    message = "{service} packet from LID {slid} to QP 0x{qp:x} of LID {dlid}; the connection was set up for {asked}"
    example = "REQ for UC and its REP, then an RC packet of the connection"
    field = BTH.opcode
    needs = (Streams,)

    def __init__(self) -> None:
        super().__init__()
        self.right: set[tuple[ConnectionSetUp, bool]] = set()
        """Directions (True: to the active side) that used the agreed service in an earlier chunk."""
        self._now: set[tuple[ConnectionSetUp, bool]] = set()
        self.dropped = Dropped("directions of connections")

    def value(self, native: Native, index: Int) -> Int:
        return native.opcode[index] >> SERVICE_SHIFT

    def wrong(self, pair: ConnectionSetUp, end: QueuePair, value: int) -> bool:
        same = pair.service == SERVICES[value << SERVICE_SHIFT]
        direction = pair, pair.is_active(end)
        if same:
            self._now.add(direction)
        return pair.service in JUDGED and not same and direction not in self.right

    def found(self, table: ChunkTable, native: Native, index: Int, pair: ConnectionSetUp, end: QueuePair, value: int) -> Iterator[Hit]:
        there = (native.dlid == end[0]) & (native.dest_qp == end[1]) & (native.opcode >> SERVICE_SHIFT == JUDGED.index(pair.service))
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

    @on_end
    def roce(self, context: Context) -> Iterator[Hit]:
        """RoCE: streams that begin after the REP, and none of the agreed service before them."""
        streams: Streams = context.get(Streams)
        agreed: dict[QueuePairId, list[ConnectionSetUp]] = defaultdict(list)
        for pair in context.get(Connections).all:
            if pair.rep_frame and pair.service in JUDGED and pair.active.lid is None:
                for side in pair.sides:
                    agreed[QueuePairId(*side)].append(pair)
        first: dict[LaneId, Stream] = {}
        for stream in streams.all if agreed else ():
            first.setdefault(stream.ends.lane, stream)
        begun: dict[QueuePairId, list[int]] = defaultdict(list)
        """The first frames of the streams to each queue pair."""
        for lane, stream in first.items():
            begun[QueuePairId(lane.target.end, lane.number)].append(stream.first_frame)
        for lane, stream in first.items():
            target, service, frame = QueuePairId(lane.target.end, lane.number), lane.service, stream.first_frame
            pairs = [pair for pair in agreed.get(target, ()) if pair.rep_frame < frame and lane.source.end in (pair.active, pair.passive)]
            if not pairs:
                continue
            pair = max(pairs, key=lambda one: one.rep_frame)
            right = first.get(lane._replace(service=pair.service))
            agrees = right is not None and pair.rep_frame < right.first_frame <= frame
            if service in JUDGED and frame < pair.ended and not agrees:
                yield _of_stream(context, pair, stream, quiet=not _in_use(pair, begun, frame))


def _in_use(pair: ConnectionSetUp, begun: dict[QueuePairId, list[int]], frame: int) -> bool:
    """Whether either side of a connection began to send to the other between its REP and a frame."""
    return any(pair.rep_frame < one < frame for side in pair.sides for one in begun.get(QueuePairId(*side), ()))


def _of_stream(context: Context, pair: ConnectionSetUp, stream: Stream, *, quiet: bool) -> Hit:
    """The finding about a stream of another service than its connection's; `quiet`: nothing is seen of that between them."""
    ends, where = stream.ends, Moment(stream.first_frame, stream.first_ns)
    source, destination = str(ends.source), str(ends.destination)
    ended = quiet and context.get(CaptureLoss).nanoseconds_between(pair.rep_frame, where.frame) > QUIET_NS
    return fault(
        where, {"service": ends.service, "source": source, "qp": ends.dest_qp, "destination": destination, "asked": pair.service},
        BTH.opcode, stream.first_opcode, key=(ends.destination, ends.dest_qp, pair.req_frame, ends.service),
        proof=[(pair.req_frame, "REQ of the connection"), (pair.rep_frame, "REP of the connection")],
        severity=INFO if ended else lowered_severity(context, where.time_ns),
        message="{service} packet from {source} to QP 0x{qp:x} of {destination}; the connection was set up for {asked}",
    )  # fmt: skip
