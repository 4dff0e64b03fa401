"""Messages of connection management that are wrong by themselves, and packets that contradict what they agreed on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from ibdissect.bounded import BoundedDict
from ibdissect.decode import ChunkTable
from ibdissect.decode.addresses import End, ends_of
from ibdissect.decode.cm_connections import Connections
from ibdissect.decode.connection_events import ConnectionSetUp
from ibdissect.decode.identity import QueuePairId
from ibdissect.decode.locate import GOES_ON
from ibdissect.diagnosis.diagnosis_for_rules import Stories
from ibdissect.engine.psn_gaps import FAR, distance
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, LEARNT, WARNING, Context, Hit, Moment, Rule, fault, on_chunk, on_end, on_event
from ibdissect.rules.shared.connection_rule import JUDGED, QUIET_NS
from ibdissect.rules.shared.not_seen import QuotingRule
from ibdissect.transport.events import Repeated
from ibdissect.transport.psn_streams import Stream, Streams
from ibdissect.wire.cm import REJ, REQ
from ibdissect.wire.headers import AETH, BTH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import SEND

PACKET_NS = 100
"""A queue pair sends no faster than that: ten million packets a second."""
LOST_AT_MOST = 1 << 10
"""A first packet this close after the agreed PSN may only be the first one in the capture."""
KEPT, MAX_ENDS = 8, 65536
"""Answers remembered per queue pair, and queue pairs."""
PSN_NAK = 0x60
"""Syndrome of a NAK with a PSN sequence error."""
FIRST_RNR = 0x20
"""Syndromes below it acknowledge."""
LATE_COPY_NS = 500_000
"""A slow mirror's copy comes within this time; it is no try of its own."""
ENOUGH = 2
"""A requester that goes back to its first packet this often has no earlier one."""


def agreed(context: Context) -> Iterator[tuple[Stream, ConnectionSetUp, int, str]]:
    """Streams of connections whose set-up the capture shows: stream, connection, the PSN announced, and in which message.

    A stream begins between the REP of its connection and its end, since streams begin anew with each connection. None whose first packet
    was recorded in front of the REP, as where records of one direction come late.
    """
    streams = context.get(Streams)
    for connection in _set_up(context):
        for way, psn, what in zip(ways(connection)[:2], (connection.passive_psn, connection.active_psn), ("REP", "REQ"), strict=True):
            stream = _stream(streams, connection, way)
            if stream is not None and not _begun_early(streams, connection, way, psn):
                yield stream, connection, psn, what


def _set_up(context: Context) -> Iterator[ConnectionSetUp]:
    """Connections whose set-up the capture shows, of services that are judged."""
    return (one for one in context.get(Connections).all if one.service in JUDGED and one.rep_frame)


def ways(connection: ConnectionSetUp) -> list[tuple[End, End, int]]:
    """Source, destination and its queue pair in both directions: of the primary path first, then of alternate paths."""
    (active, one), (passive, other) = connection.sides
    found = [(active, passive, other), (passive, active, one)]
    for near, far in connection.alternates if connection.in_subnet else ():
        there, back = active.at(near), passive.at(far)
        found += [(there, back, other), (back, there, one)]
    return found


def _stream(streams: Streams, connection: ConnectionSetUp, way: tuple[End, End, int]) -> Stream | None:
    """The first stream of a connection that goes one way."""
    found = streams.requests(connection.service, *way)
    return next((one for one in found if connection.lasts(one.first_frame)), None)


def _begun_early(streams: Streams, connection: ConnectionSetUp, way: tuple[End, End, int], psn: int) -> bool:
    """Whether a packet with the PSN announced was recorded between REQ and REP."""
    found = streams.requests(connection.service, *way)
    return any(connection.req_frame < one.first_frame < connection.rep_frame and one.first_psn == psn for one in found)


class StartingPSN(QuotingRule):
    """A connection does not begin with the agreed PSN.

    Each side starts with the PSN that its peer announced: in the REP for the requester's packets, in the REQ for the responder's. The
    receiver drops any other, and the connection ends after the retries.

    Check how the application moves its queue pair to RTS: send and receive PSN may be swapped.

    REQ and REP before the first packet. If its PSN is at most 1024 above the agreed one, the capture may have missed packets. Then an
    acknowledgement must count it as the first message (MSN 1), or the responder must ask for the agreed PSN and the requester go back to
    its own first one twice. Silent if the responder's first answer counts more messages than the capture shows, or a packet with the agreed
    PSN is recorded in front of the REP. An `info` if the PSN is above the agreed one and no answer tells, where the capture misses packets
    since the REQ, where the first packet comes half an hour after the REP, or so long after it that all packets in between may have taken
    another path and no answer tells.
    """

    code, name, severity = "CM008", "cm-psn-mismatch", WARNING
    reference = "IBA 12.7.31, 9.7.7.1; python-rdma REQ, REP"
    needs = (Connections, Streams)
    message = "{ends}: begins with PSN {psn}, the {what} said {wanted}"
    example = "a REQ with starting PSN 100, a REP with 200, and a SEND of the requester with PSN 100"

    def __init__(self) -> None:
        self.answers = BoundedDict[tuple[End, QueuePairId], list[tuple[int, int, bool]]](
            MAX_ENDS, "queue pairs with first acknowledgements"
        )
        """Frame and PSN of acknowledgements with MSN 1, and of NAKs for a PSN (True), by source, and destination with its queue pair."""
        self.restarts = Counter[Stream]()
        """How often streams went back to their first packet."""
        self.latest: dict[Stream, int] = {}
        """When they did so last."""
        self.earlier: set[Stream] = set()
        """Streams that went back to before their first packet."""

    @on_event(Repeated)
    def repeated(self, event: Repeated, context: Context) -> None:
        stream = context.get(Streams).all[event.slot]
        back = distance(event.psn, stream.first_psn)
        if back < 0:
            self.earlier.add(stream)
        elif back == 0:
            if event.time_ns - self.latest.get(stream, 0) > LATE_COPY_NS:
                self.restarts[stream] += 1
            self.latest[stream] = event.time_ns

    @on_chunk
    def look(self, table: ChunkTable, _context: Context) -> None:
        """Answers that show which packet a responder accepted, or expects, as its first: there are few."""
        rows = table.occurrences(AETH).rows
        if not len(rows):
            return
        syndrome = table.values(AETH.syndrome)
        index = np.flatnonzero((syndrome == PSN_NAK) | ((table.values(AETH.msn) == 1) & (syndrome < FIRST_RNR)))
        rows, refused = rows[index], (syndrome[index] == PSN_NAK).tolist()
        columns = (table.values_at(field, rows).tolist() for field in (BTH.destqp, BTH.psn))
        for (source, destination), row, qpn, psn, nak in zip(ends_of(table, rows), rows.tolist(), *columns, refused, strict=True):
            frame = table.chunk.first + row
            way = source, QueuePairId(destination, qpn)
            latest = self.answers.get(way, [])[1 - KEPT :]
            self.answers.put(way, [*latest, (frame, psn, nak)], frame, int(table.chunk.time_ns[row]))

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        streams = context.get(Streams)
        for stream, connection, psn, what in agreed(context):
            found, first = stream.first_psn, stream.first_frame
            proof: tuple[tuple[int, str], ...] | None = ()
            if 0 <= distance(found, psn) <= LOST_AT_MOST:
                proof = self._proof(stream, connection, psn) if found != psn else None
            counted = self._counted(stream, streams)
            if proof is not None and not counted > 0:
                frames = ((connection.req_frame, "REQ"), (connection.rep_frame, "REP"), *proof)
                assert connection.rep is not None
                late = stream.first_ns - connection.rep[1]
                begun = counted == 0 or self._proof(stream, connection, psn) is not None
                unseen = (not begun and ((found - psn) & 0xFFFFFF) * PACKET_NS < late) or late > QUIET_NS
                distant = distance(found, psn) > LOST_AT_MOST and counted < 0
                yield fault(
                    Moment(first, stream.first_ns),
                    {"ends": stream.ends.text, "psn": found, "what": what, "wanted": psn, "lids": stream.ends.lids},
                    BTH.psn, found, proof=frames, evidence=LEARNT, severity=INFO if unseen or distant else None,
                )  # fmt: skip

    @staticmethod
    def _counted(stream: Stream, streams: Streams) -> int:
        """How many messages the first answer counts that come before the first packet in the capture, perhaps 0; -1: no answer."""
        peer = streams.other(stream)
        if peer is None or peer.first_msn < 0:
            return -1
        return int(max(0, peer.first_msn - distance(peer.first_psn, stream.first_psn) - 1))

    def _proof(self, stream: Stream, connection: ConnectionSetUp, psn: int) -> tuple[tuple[int, str], ...] | None:
        """The proof that the first packet in the capture is the connection's first; None if there is none."""
        ends, found, first, opcode = stream.ends, stream.first_psn, stream.first_frame, stream.first_opcode
        qpn = connection.active_qpn if ends.dest_qp == connection.passive_qpn else connection.passive_qpn
        for frame, answered, nak in self.answers.get((ends.destination, QueuePairId(ends.source, qpn)), ()):
            if frame <= first:
                continue
            if nak and answered == psn and self.restarts[stream] >= ENOUGH and stream not in self.earlier:
                return ((frame, "the responder waits for the agreed PSN, which is never sent"),)
            if not nak and 0 <= distance(answered, found) <= FAR and not GOES_ON[opcode]:
                return ((frame, "the responder counts its first message"),)
        return None


class AgreedMTU(QuotingRule):
    """Packets of a connection are longer than the path MTU in its REQ.

    Switches and the receiver may drop them; the message never arrives.

    Set the path MTU of the queue pair to the value in the REQ.

    REQ and REP before the first packet, and a longer packet of any kind, on the primary path or on an alternate one. An `info` where the
    capture misses packets since the REQ, or where the first packet comes half an hour after the REP.
    """

    code, name, severity = "CM009", "cm-mtu-exceeded", WARNING
    reference = "IBA 12.7.14; python-rdma REQ"
    needs = (Connections, Streams, Stories)
    message = "{ends}: packets with {found:byte} of payload, the path MTU of the REQ is {agreed}"
    example = "a REQ with path MTU 256, and a SEND First with 512 bytes"

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        streams = context.get(Streams)
        for connection in _set_up(context):
            for stream in (_stream(streams, connection, way) for way in ways(connection)):
                if connection.mtu and stream is not None and stream.largest > connection.mtu and connection.lasts(stream.largest_frame):
                    assert connection.rep is not None
                    yield fault(
                        Moment(stream.largest_frame, context.get(Stories).time_of(stream.largest_frame)),
                        {"ends": stream.ends.text, "found": stream.largest, "agreed": connection.mtu, "lids": stream.ends.lids},
                        REQ.path_packet_payload_mtu, stream.largest, proof=[(connection.req_frame, "REQ")],
                        severity=INFO if stream.first_ns - connection.rep[1] > QUIET_NS else None,
                    )  # fmt: skip


REASONS = range(1, 36)
"""Reject reasons of kernel ib_cm.h, which leaves out 34: the standard counts on from there."""
NEWER = range(36, 256)
"""Reasons that a newer standard may define."""


class QPNZero(Rule):
    """A connection request names queue pair 0.

    QP0 belongs to subnet management; no connection can end there. Only XRC (an extended transport type) may omit the number.

    Correct the requester: it sends the request before it has created its queue pair.
    """

    code, name, severity = "CM001", "req-qpn-zero", ERROR
    reference = "IBA 12.6.5, 3.9; python-rdma CMREQ"
    when = (REQ.local_qpn == 0) & (REQ.extended_transport_type == 0) & (MAD.method == SEND)
    message = "REQ with local QPN 0, the queue pair of subnet management"
    example = "a REQ with Local QPN 0 and Extended Transport Type 0"


class RejectReason(Rule):
    """A rejection has a reason that is not defined.

    The requester cannot tell whether to retry, to use another path or to give up. Reasons are 1 to 35.

    Correct the rejecting side; an application's own reason belongs in the private data, with reason 28.

    One REJ is enough. An `info` for reasons from 36 to 255, which a newer standard may define.
    """

    code, name, severity = "CM002", "rej-reason-unknown", WARNING
    reference = "IBA 12.6.7.2; kernel ib_cm.h"
    when = ~REJ.reason.isin(REASONS) & (MAD.method == SEND)
    message = "REJ with reason {reason}, which is not defined"
    example = "a REJ with reason 0"

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        return INFO if int(hit.arguments["reason"]) in NEWER else super().severity_at_end(hit, context)
