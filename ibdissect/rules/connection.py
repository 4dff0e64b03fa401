"""What connections do that their messages did not agree on (CM)."""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.flow.connections import Connection, Connections, Rejected, RejectedAlone, Replied, Requested
from ibdissect.flow.recovery import distance
from ibdissect.flow.reliable import Streams
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related
from ibdissect.lint.rule import INFO, WARNING, Hit, Rule, on_end, on_event
from ibdissect.lint.setting import Setting
from ibdissect.wire.cm import DREQ, REJ, REP, REQ
from ibdissect.wire.cm_names import REJ_REASONS
from ibdissect.wire.transport import BTH

WARM_UP_NS = 60_000_000_000
"""CM gives up within a minute; what belongs to the time in front of the capture is over by then."""
SECOND = 1_000_000_000
INVALID_SERVICE = 8
LOST_AT_MOST = 1 << 10
"""A first packet so little behind the agreed PSN is taken for the first that the capture has."""
SERVICES = {0: "RC", 1: "UC"}


def timeout_ns(code: int) -> int:
    """4.096 us * 2^code (IBA 12.7.4)."""
    return 4096 << code


class RejectAlone(Rule):
    """A connection was rejected whose request the capture does not show.

    ## Why it matters
    The REQ was lost or took another way, or a side answers messages of a connection that it has forgotten. The first minute
    of a capture is not judged.

    ## What to do
    Look at the reason: 4 (invalid communication id) means that the two sides disagree about the connection.
    """

    code, name, severity = "CM003", "cm-unexpected-rej", INFO
    reference = "IBA 12.6.7; kernel core/cm.c"
    message = "REJ from {sender} to {receiver}, reason {reason}, without its REQ"
    example = "a REJ alone, in the second minute of a capture"

    @on_event(RejectedAlone)
    def alone(self, event: RejectedAlone, context: Context) -> Iterator[Hit]:
        if event.time_ns - context.get(Connections).first_ns >= WARM_UP_NS:
            yield Hit(
                frame=event.frame, time_ns=event.time_ns, evidence=Evidence.LEARNT, field=REJ.reason, value=event.reason,
                arguments={"sender": event.sender, "receiver": event.receiver, "reason": event.reason},
                key=(event.sender, event.receiver),
            )  # fmt: skip


class TooManyRequests(Rule):
    """A REQ or REP was sent more often than the connection's Max CM Retries.

    ## Why it matters
    The other side does not answer, or its answers are lost; who repeats beyond the limit does not keep its own word.

    ## What to do
    Check that the other side is alive and listens on QP1, then the CM of the sender.
    """

    code, name, severity = "CM005", "cm-retransmit-count", WARNING
    reference = "IBA 12.7.27, 12.9.8.7; seed004 REQ"
    message = "{ends}: {what} number {sent}, Max CM Retries is {allowed}"
    example = "three REQs with the same communication id and Max CM Retries 1"

    @on_event(Requested)
    def requested(self, event: Requested, _context: Context) -> Iterator[Hit]:
        if event.connection.reqs == event.connection.max_cm_retries + 2:
            yield self._hit(event, "REQ", event.connection.reqs)

    @on_event(Replied)
    def replied(self, event: Replied, _context: Context) -> Iterator[Hit]:
        if event.connection.reps == event.connection.max_cm_retries + 2:
            yield self._hit(event, "REP", event.connection.reps)

    @staticmethod
    def _hit(event: Requested | Replied, what: str, sent: int) -> Hit:
        connection = event.connection
        return Hit(
            frame=event.frame, time_ns=event.time_ns, evidence=Evidence.LEARNT, related=(Related(connection.req_frame, "first REQ"),),
            arguments={"ends": connection.text, "what": what, "sent": sent, "allowed": connection.max_cm_retries},
            field=REQ.max_cm_retries,
        )  # fmt: skip


class ReplyLate(Rule):
    """A REP came later than the REQ allowed.

    ## Why it matters
    The requester repeats the REQ meanwhile, and gives up when this goes on. Slow applications should send an MRA first.

    ## What to do
    Accept connections faster, or raise the CM response timeout of the requester.
    """

    code, name, severity = "CM006", "cm-response-timeout", INFO
    reference = "IBA 12.7.4, 12.9.8.7; seed004 REQ"
    message = "{ends}: REP after {milliseconds} ms, the REQ allowed {allowed} ms"
    example = "a REQ with a response timeout of 4.2 s, and a REP ten seconds later"

    @on_event(Replied)
    def replied(self, event: Replied, _context: Context) -> Iterator[Hit]:
        connection = event.connection
        took, allowed = event.time_ns - connection.req_ns, timeout_ns(connection.response_timeout + 1)
        if connection.reps == 1 and not connection.mra_frame and took > allowed:
            yield Hit(
                frame=event.frame, time_ns=event.time_ns, evidence=Evidence.LEARNT, related=(Related(connection.req_frame, "REQ"),),
                arguments={"ends": connection.text, "milliseconds": took // 1_000_000, "allowed": allowed // 1_000_000},
                field=REP.remote_communication_id,
            )  # fmt: skip


def agreed(context: Context) -> Iterator[tuple[int, Connection, int, str]]:
    """Streams of connections whose set-up the capture shows: slot, connection, the PSN announced, and in which message."""
    connections, streams = context.get(Connections), context.get(Streams)
    found: dict[int, tuple[Connection, int, str]] = {}
    for connection in connections.all:
        service = SERVICES.get(connection.service)
        if service is None or not connection.rep_frame:
            continue
        for source, destination, qpn, psn, what in (
            (connection.active, connection.passive, connection.passive_qpn, connection.passive_psn, "REP"),
            (connection.passive, connection.active, connection.active_qpn, connection.active_psn, "REQ"),
        ):
            slot = streams.requests_to(service, source, destination, qpn)
            if slot is not None and connection.rep_frame < int(streams.state["first_frame"][slot]):
                found[slot] = connection, psn, what  # the latest connection before the first packet is the one meant
    for slot, (connection, psn, what) in found.items():
        yield slot, connection, psn, what


class StartingPSN(Rule):
    """A connection does not begin with the PSN that was agreed.

    ## Why it matters
    Each side starts with the PSN that its peer announced (in the REP for the requester's packets, in the REQ for the
    responder's). The receiver drops packets with any other, and the connection ends after the retries.

    ## What to do
    Look at how the application moves its queue pair to RTS: send and receive PSN may be swapped.
    """

    code, name, severity = "CM008", "cm-psn-mismatch", WARNING
    reference = "IBA 12.7.31; seed004 REQ, REP"
    needs = (Connections, Streams)
    message = "{ends}: begins with PSN {psn}, the {what} said {wanted}"
    example = "a REQ with starting PSN 100, a REP with 200, and a SEND of the requester with PSN 100"

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        streams = context.get(Streams)
        for slot, connection, psn, what in agreed(context):
            found = int(streams.state["first_psn"][slot])
            if not 0 <= distance(found, psn) <= LOST_AT_MOST:
                yield Hit(
                    frame=int(streams.state["first_frame"][slot]), time_ns=connection.rep_ns, evidence=Evidence.LEARNT, field=BTH.psn,
                    value=found, arguments={"ends": streams.ends[slot].text, "psn": found, "what": what, "wanted": psn},
                    related=(Related(connection.req_frame, "REQ"), Related(connection.rep_frame, "REP")),
                )  # fmt: skip


class AgreedMTU(Rule):
    """Packets of a connection are longer than the path MTU in its REQ.

    ## Why it matters
    Switches and the receiver may drop them; the message never arrives.

    ## What to do
    Set the path MTU of the queue pair to what the REQ says.
    """

    code, name, severity = "CM009", "cm-mtu", WARNING
    reference = "IBA 12.7.14; seed004 REQ"
    needs = (Connections, Streams)
    message = "{ends}: packets with {found} bytes, the REQ said {agreed}"
    example = "a REQ with path MTU 256, and a SEND First with 512 bytes"

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        streams = context.get(Streams)
        for slot, connection, _, _ in agreed(context):
            found = int(streams.state["mtu"][slot])
            if connection.mtu and found > connection.mtu:
                yield Hit(
                    frame=int(streams.state["first_frame"][slot]), time_ns=connection.rep_ns, evidence=Evidence.LEARNT,
                    field=REQ.path_packet_payload_mtu, value=found, related=(Related(connection.req_frame, "REQ"),),
                    arguments={"ends": streams.ends[slot].text, "found": found, "agreed": connection.mtu},
                )  # fmt: skip


class NoListener(Rule):
    """A connection was refused because nobody listens.

    ## Why it matters
    The service id (for RDMA-CM: the port) of the REQ has no listener at this node.

    ## What to do
    Start the service, or correct the address or port.
    """

    code, name, severity = "CM012", "cm-serviceid-invalid-rej", INFO
    reference = "IBA 12.6.7.2; kernel ib_cm.h"
    message = "{ends}: rejected, {reason}"
    example = "a REQ, and a REJ with reason 8"

    @on_event(Rejected)
    def rejected(self, event: Rejected, _context: Context) -> Iterator[Hit]:
        if event.reason == INVALID_SERVICE:
            yield Hit(
                frame=event.frame, time_ns=event.time_ns, evidence=Evidence.LEARNT, field=REJ.reason, value=event.reason,
                arguments={"ends": event.connection.text, "reason": REJ_REASONS[event.reason]},
                related=(Related(event.connection.req_frame, "REQ"),),
            )  # fmt: skip


class DisconnectUnanswered(Rule):
    """A DREQ was never answered.

    ## Why it matters
    The other side may still think that it is connected; its queue pair stays allocated until a timer runs out.

    ## What to do
    Check whether the other side is alive, or forgot the connection.
    """

    code, name, severity = "CM017", "cm-drep-missing", WARNING
    reference = "IBA 12.6.11, 12.6.12; seed004"
    needs = (Connections,)
    message = "{ends}: DREQ without DREP"
    example = "REQ, REP, RTU, DREQ, and ten seconds of silence"
    patience = Setting(10.0, "seconds that the capture must go on after the DREQ", 0.0)

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        connections = context.get(Connections)
        for connection in connections.all:
            heard = {connection.active, connection.passive} <= connections.speakers
            waited = connections.last_ns - connection.dreq_ns >= self.patience * SECOND
            if heard and connection.dreq_frame and not connection.drep_frame and waited:
                yield Hit(
                    frame=connection.dreq_frame, time_ns=connection.dreq_ns, evidence=Evidence.LEARNT, field=DREQ.remote_communication_id,
                    arguments={"ends": connection.text}, related=(Related(connection.req_frame, "REQ"),),
                )  # fmt: skip
