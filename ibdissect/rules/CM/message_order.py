"""Messages of connection management that are missing, late, repeated or from the wrong side."""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.bounded import BoundedDict
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.cm_connections import Connections
from ibdissect.decode.connection_events import Confirmed, ConnectionSetUp, Disconnecting, RejectedAlone, Replied, Requested
from ibdissect.decode.history import SECOND_NS
from ibdissect.decode.identity import QueuePairId
from ibdissect.diagnosis.connection import Connection as Story
from ibdissect.lint.finding import Severity, value_of
from ibdissect.lint.rule import ERROR, INFO, LEARNT, WARNING, Context, Hit, Moment, Rule, fault, on_end, on_event
from ibdissect.lint.setting import Setting
from ibdissect.rules.shared.not_seen import QuotingRule, SameOwnersRule, warm
from ibdissect.rules.shared.story_rule import RefusedRule
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.cm import DREQ, REJ, REP, REQ, RTU
from ibdissect.wire.cm_names import REJ_INVALID_SERVICE_ID
from ibdissect.wire.convert import timeout_ns

WARM_UP_NS = 60_000_000_000
"""CM gives up within a minute, so exchanges that began before the capture are over by then."""
MAX_ENDED = 16384
"""Queue pairs that were disconnected lately: only what ended within a TimeWait matters."""
BEHIND = "which has rejected the REQ"
WRONG_SIDE = "which sent the REQ", "which did not send the REQ"
"""Of a REP, and of an RTU."""


class RejectAlone(Rule):
    """A connection was rejected, but the capture does not show its request.

    The REQ was lost or took another path, or one side answers messages of a connection that it has forgotten.

    Look at the reason: 4 (invalid communication id) means that the two sides disagree about the connection.

    A REJ without its REQ. The first minute of a capture is not judged.
    """

    code, name, severity = "CM003", "cm-unexpected-rej", INFO
    reference = "IBA 12.6.7; kernel core/cm.c"
    needs = (Scopes,)
    message = "REJ from {sender} to {receiver}, reason {reason!t}, of a connection whose REQ is not in the capture"
    example = "a REJ alone, in the second minute of a capture"

    @on_event(RejectedAlone)
    def alone(self, event: RejectedAlone, context: Context) -> Iterator[Hit]:
        if warm(event, context, WARM_UP_NS):
            yield fault(
                event, {"sender": str(event.sender), "receiver": str(event.receiver), "reason": value_of(REJ.reason, event.reason)},
                REJ.reason, event.reason, evidence=LEARNT, key=(event.sender, event.receiver),
            )  # fmt: skip


class TooManyRequests(QuotingRule):
    """A REQ or REP was sent more often than the connection's Max CM Retries.

    The other side does not answer, or its answers are lost; a sender that repeats beyond the limit breaks its own promise.

    Check that the other side is alive and listens on QP1, then look at the sender's CM.

    The REQs of a connection, or its REPs, of which each repeated REQ may ask for one more; those within fifty milliseconds of another are
    the copies of a second mirror. Silent if they are a minute apart, or a REQ has another PSN: that is another try with the same id. An
    `info` after an MRA, and for a REP if the first one stands before the first REQ: the capture begins in between, and lacks a REQ; also
    where the capture misses packets meanwhile, perhaps REQs, or a LID of the two was given to another port. REPs to REQs of which the
    capture lacks each, and shows no sign of that, are accused: compare with a capture at the sender of the REQs.
    """

    code, name, severity = "CM005", "cm-retransmit-count", WARNING
    reference = "IBA 12.7.27, 12.9.8.7; python-rdma REQ"
    message = "{ends}: {what} sent {sent} times, Max CM Retries is {allowed}"
    example = "three REQs with the same communication id and Max CM Retries 1"

    @on_event(Requested, Replied)
    def sent(self, event: Requested | Replied, _context: Context) -> Iterator[Hit]:
        connection = event.connection
        asks = isinstance(event, Requested)
        what, sent = ("REQ", connection.requests) if asks else ("REP", connection.replies)
        allowed = connection.max_cm_retries + (0 if asks else max(connection.requests.count - 1, 0))
        begun = 0 < connection.rep_frame < connection.req_frame  # by a REQ that the capture lacks
        apart = event.time_ns - connection.reqs[0][1] > WARM_UP_NS * (sent.count - 1)
        if sent.count == allowed + 2 and sent.frame == event.frame and not apart:
            yield fault(
                event, {"ends": connection.text, "what": what, "sent": sent.count, "allowed": connection.max_cm_retries},
                REQ.max_cm_retries, proof=[(connection.req_frame, "first REQ")], severity=INFO if connection.mra_frame or begun else None,
            )  # fmt: skip

    def outdated(self, hit: Hit, context: Context, shown: int) -> bool:
        """A REQ that the capture lacks may have asked for one more REP."""
        lacks = hit.arguments["what"] == "REP" and self.lost(context.get(CaptureLoss), shown, hit.frame)
        return lacks or SameOwnersRule.outdated(self, hit, context, shown)


class ReplyLate(Rule):
    """A REP came later than the REQ allowed.

    The requester repeats the REQ meanwhile, and finally gives up. Slow applications should send an MRA first.

    Accept connections faster, or raise the CM response timeout of the requester.

    The last REQ and the first REP. Silent after an MRA.
    """

    code, name, severity = "CM006", "cm-rep-late", INFO
    reference = "IBA 12.7.4, 12.9.8.7; python-rdma REQ"
    message = "{ends}: REP after {milliseconds} ms, the REQ allowed {allowed} ms"
    example = "a REQ with a response timeout of 4.2 s, and a REP ten seconds later"

    @on_event(Replied)
    def replied(self, event: Replied, _context: Context) -> Iterator[Hit]:
        connection = event.connection
        took, allowed = event.time_ns - connection.last_req, timeout_ns(connection.response_timeout + 1)
        if connection.reps == 1 and not connection.mra_frame and took > allowed:
            yield fault(
                event, {"ends": connection.text, "milliseconds": round(took / 1_000_000), "allowed": round(allowed / 1_000_000)},
                REP.remote_communication_id, proof=[(connection.req_frame, "REQ")],
            )  # fmt: skip


class NoListener(RefusedRule):
    """A connection was refused because nobody listens on its service.

    The service id (for RDMA-CM: the port) of the REQ has no listener at this node.

    Start the service, or correct the address or port.

    The REQ, and its REJ with reason 8. An `info` if a later REQ of the asker to that service is accepted (IPoIB's connected mode is one
    service, whichever queue pair its id names), or one that is not captured, or may be beyond those that are remembered (CAP016), or if the
    host that was asked connects to the same service of the asker. Refusals with other reasons are CNX001.
    """

    code, name, severity = "CM012", "cm-serviceid-invalid-rej", ERROR
    reference = "IBA 12.6.7.2; kernel ib_cm.h"
    message = "{ends}: nobody listens to the service of the REQ (Invalid Service ID)"
    example = "a REQ, and a REJ with reason 8"

    def concerns(self, one: Story) -> bool:
        return super().concerns(one) and one.set_up.reason == REJ_INVALID_SERVICE_ID


RESPONSE_TIMEOUTS = 2
"""A side that has not answered after so many response timeouts does not answer: the timeout leaves out the time on the way."""


class DisconnectUnanswered(Rule):
    """A DREQ was never answered.

    The other side may still believe that it is connected; its queue pair stays allocated until a timer expires.

    Check whether the other side is alive, or forgot the connection.

    The REQ and the DREQ, messages of both sides of the connection, and no DREP for ten seconds, or for twice the response timeout that the
    REQ tells if that is longer. Silent if both sides send a DREQ: then neither believes so. An `info` where the capture may have missed the
    DREP, or the DREQ was not sent again: the sender has its answer, which takes another link.
    """

    code, name, severity = "CM017", "cm-drep-missing", WARNING
    reference = "IBA 12.6.11, 12.6.12; python-rdma"
    needs = (CaptureLoss, Connections)
    message = "{ends}: the DREQ was not answered with a DREP"
    example = "REQ, REP, RTU, the DREQ twice, and ten seconds of silence"
    patience = Setting(10.0, "seconds that the capture must go on after the DREQ, even if the REQ's response timeout is shorter", 0.0)

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        connections, loss = context.get(Connections), context.get(CaptureLoss)
        for connection in connections.all:
            patience = max(self.patience * SECOND_NS, RESPONSE_TIMEOUTS * timeout_ns(connection.response_timeout))
            waited = context.get(Scopes).goes_on(connection.dreq_frame, connection.dreq_ns) >= patience
            both = len({side for _, _, side in connection.dreqs}) > 1
            if connection.both_speak and connection.dreq_frame and not connection.drep_frame and waited and not both:
                certain = connection.asked_to_end > 1 and loss.proves_silence(connection.dreq_ns)
                yield fault(
                    Moment(connection.dreq_frame, connection.dreqs[0][1]), {"ends": connection.text}, DREQ.remote_communication_id,
                    proof=[(connection.req_frame, "REQ")], severity=None if certain else INFO,
                )  # fmt: skip


class ReusedTooSoon(Rule):
    """A queue pair is reused while packets of its last connection may still be under way.

    A late packet of the old connection may be taken for one of the new connection. The TimeWait state after a DREQ prevents that;
    connection managers that observe it refuse such a REQ as stale (reason 10).

    Let the application destroy the queue pair and create a new one, or check the connection manager of its node.

    Two connections of one queue pair, the second requested or accepted sooner after the first one's DREQ than the Local ACK Timeout in its
    REQ, which is about the time in TimeWait. Only an `info`, as senders round that timeout up.
    """

    code, name, severity = "CM018", "cm-reuse-timewait", INFO
    reference = "IBA 12.9.8.1, 12.7.34; Linux core/cm.c cm_enter_timewait"
    message = "{ends}: QP 0x{qpn:06x} of {end} is used again {milliseconds} ms after the DREQ, TimeWait is {allowed} ms"
    example = "REQ with Local ACK Timeout 18, REP, RTU, DREQ, DREP, and at once another REQ with the same queue pair"

    def __init__(self) -> None:
        self.ended = BoundedDict[QueuePairId, tuple[ConnectionSetUp, int, int]](MAX_ENDED, "queue pairs that were disconnected")
        """Set-up, frame and time of the latest DREQ, by port and queue pair."""

    @on_event(Disconnecting)
    def disconnecting(self, event: Disconnecting, _context: Context) -> None:
        one = event.connection
        for side in one.sides:
            self.ended.put(QueuePairId(*side), (one, event.frame, event.time_ns), event.frame, event.time_ns)

    @on_event(Requested, Replied)
    def used(self, event: Requested | Replied, _context: Context) -> Iterator[Hit]:
        new, asks = event.connection, isinstance(event, Requested)
        mine = end, qpn = QueuePairId(*new.sides[not asks])
        old, frame, dreq_ns = self.ended.get(mine, (new, 0, 0))
        took, allowed = event.time_ns - dreq_ns, timeout_ns(old.ack_timeout)
        if qpn and old is not new and 0 <= took < allowed:  # 0: not said
            del self.ended[mine]
            yield fault(
                event, {
                    "ends": new.text, "qpn": qpn, "end": str(end), "milliseconds": round(took / 1_000_000),
                    "allowed": round(allowed / 1_000_000),
                },
                REQ.local_qpn if asks else REP.local_qpn, qpn, proof=[(old.req_frame, "REQ of the last connection"), (frame, "its DREQ")],
            )  # fmt: skip


class WrongTurn(SameOwnersRule):
    """A connection management message comes from the wrong side, or after its own sender rejected the connection.

    The receiver drops it, or answers that it does not know the connection; the two sides disagree about its state.

    Look at the sender's connection manager.

    The messages of the connection. After a rejection silent if the request was sent again, or if the capture may have missed one: in ERF
    captures unless the traffic shows that nothing is missing, in others if packets are missing within ten seconds. From the wrong side an
    `info` where the capture may have missed the other side's own REQ, also in its first minute: two sides may ask each other (peer to
    peer); also where a LID of the two was given to another port meanwhile. A REP that stands in front of its REQ, as where clocks of two
    interfaces differ, is taken for that of an earlier REQ with the same id: then the REQ follows within milliseconds.
    """

    code, name, severity = "CM004", "cm-wrong-side", WARNING
    reference = "IBA 12.9.7; Linux core/cm.c states"
    message = "{ends}: {what} from {sender}, {why}"
    example = "a REQ of LID 1 to LID 2, and a REP for it from LID 1"
    needs = (CaptureLoss, Connections)

    def stands(self, hit: Hit, context: Context) -> bool:
        """A REQ that the capture missed would explain a REP after the rejection."""
        return hit.arguments["why"] != BEHIND or context.get(CaptureLoss).proves_silence(hit.time_ns)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO where the receiver's own REQ, which the capture missed, would explain a message from the wrong side."""
        begins = not warm(hit, context, WARM_UP_NS)
        missed = hit.arguments["why"] in WRONG_SIDE and (begins or not context.get(CaptureLoss).proves_silence(hit.time_ns))
        return INFO if missed else super().severity_at_end(hit, context)

    @on_event(Replied, Confirmed)
    def answered(self, event: Replied | Confirmed, _context: Context) -> Iterator[Hit]:
        connection, reply = event.connection, isinstance(event, Replied)
        proof = [(connection.req_frame, "REQ")]
        if event.sender == (connection.active if reply else connection.passive) and connection.active != connection.passive:
            why = WRONG_SIDE[not reply]
        elif connection.rejected_by == event.sender and connection.reps == 1 and (connection.tries == 1 if reply else connection.rej_frame):
            why = BEHIND if reply else "which has rejected the REP"
        else:
            return
        if connection.rej_frame:
            proof.append((connection.rej_frame, "REJ"))
        what, at = ("REP", REP.local_communication_id) if reply else ("RTU", RTU.local_communication_id)
        yield fault(event, {"ends": connection.text, "what": what, "sender": str(event.sender), "why": why}, at, proof=proof)
