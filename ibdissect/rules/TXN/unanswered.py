"""Requests that stay unanswered, answers that do not fit a request, and those that are later than announced in an MRA."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from ibdissect.bounded import BoundedDict, KeptDict
from ibdissect.decode import Bool, ChunkTable
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.cm_connections import MAX_CONNECTIONS, Connections
from ibdissect.decode.conditions import occurrences_where
from ibdissect.decode.connection_events import ConnectionEvent, ConnectionSetUp, PathAnswered, Rejected, Replied
from ibdissect.decode.history import SECOND_NS
from ibdissect.decode.identity import AgentId, Code, Content, Frame, Side
from ibdissect.engine.connection_setups import OF_LAP, OF_REQ
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, LEARNT, WARNING, Context, Hit, Locatable, Moment, Rule, fault, on_chunk, on_end, on_event
from ibdissect.lint.setting import Setting
from ibdissect.mad.request_outcomes import AnsweredAgain, AnsweredMany, RepressAlone, Request, TrapAnswered
from ibdissect.mad.transactions import Transactions
from ibdissect.mad.visible_answers import VisibleAnswers
from ibdissect.rules.shared.answer_patience import OptionalAgents, lifetime_ns
from ibdissect.rules.shared.mad_conditions import DOWN, SMP_SET
from ibdissect.rules.shared.not_seen import PATIENCE_NS, QuotingRule, UnansweredRule, warm
from ibdissect.rules.shared.unanswered_sets import UnansweredSets
from ibdissect.rules.shared.wrong_responder import WrongResponderRule
from ibdissect.subnet import SWITCH, FabricFollower
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.transport.psn_streams import Streams
from ibdissect.wire.cm import MRA
from ibdissect.wire.convert import timeout_ns
from ibdissect.wire.mad import MAD, RESPONSE_OF, method_name
from ibdissect.wire.numbers import GET_RESP
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.text import counted


def _fits() -> Bool:
    fits = np.zeros((256, 256), np.bool_)
    for method, answers in RESPONSE_OF.items():
        fits[method, list(answers)] = True
    return fits


FITS = _fits()
"""Which methods answer which, bool[256, 256]: request, answer."""
TAKES_DOWN = SMP_SET & ((PortInfo.port_state == DOWN) | PortInfo.port_physical_state.between(1, 3))
"""A Set that ends a link: Down, or the physical states Sleep, Polling and Disabled."""
MAX_CUTTING = 16384


class RequestUnanswered(UnansweredRule):
    """A management request was never answered.

    The target is gone, does not support the class, or drops the request silently (as with a wrong M_Key); or requests are lost. The
    requester waits and retries.

    Check whether one target or attribute stands out, whether the node is alive, its keys, and drops on VL15, which switches may discard.

    The capture goes on for a second and shows answers to the same requester. An `info` in ERF captures, if the answer is not due yet by the
    RespTimeValue that the agent announced, or by twice the time that the agent took for another answer, if the capture misses packets
    within ten seconds, if nothing at all was recorded between the only try and the time at which its answer was due, as between two
    recordings, or if the requester repeats no request to an agent whose answers to it the capture never shows: they may take another
    link, and it got them; or if it asks that agent only this once without an answer, both go on for more than a second,
    and it does not repeat the request: the capture lacks the answer; or if the answer was recorded long before the request, as where two
    recordings are merged whose clocks differ; or if the request takes down the port through which it comes, as far as known, and its answer
    may be lost with the link; or if not every node has an agent of that class (vendors', congestion control, SNMP, devices, baseboards),
    and the capture shows no answer of this node in it: tools try. Silent if the answer was recorded just before the request, or an answer
    to the same request less than a second before it, as with two mirrors. Silent, too, if another finding says why the request was dropped
    (keys, partitions, checksums, lengths, LIDs): it lists this as its consequence.
    """

    code, name, severity = "TXN001", "request-unanswered", WARNING
    reference = "IBA 13.4.6; opensm OSM_DEFAULT_TRANS_TIMEOUT"
    needs = (OptionalAgents,)
    message = "{what} to {to} was not answered ({tries})"
    example = "a PerformanceGet, and no answer for a second"
    patience = Setting(PATIENCE_NS / SECOND_NS, "seconds that the capture must go on after the last try", 0.0)

    def __init__(self) -> None:
        self.cutting = KeptDict[Frame, Code](MAX_CUTTING, "Sets that take down a port")
        """Numbers of the ports that Sets take down, by frame."""

    @on_chunk
    def note_cuts(self, table: ChunkTable, _context: Context) -> None:
        """Note the Sets that take down a port."""
        if not len(table.occurrences(PortInfo)):
            return
        rows = table.occurrences(PortInfo).rows[occurrences_where(TAKES_DOWN, table, PortInfo)]
        numbers = table.values_at(MAD.attribute_modifier, rows) & 0xFF
        columns = ((rows + table.chunk.first).tolist(), numbers.tolist(), table.chunk.time_ns[rows].tolist())
        for frame, number, time_ns in zip(*columns, strict=True):
            self.cutting.keep(Frame(frame), number, frame, time_ns)

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        loss, answers = context.get(CaptureLoss), context.get(VisibleAnswers)
        requests = [*self.unanswered(context, self.patience * SECOND_NS)]
        tries = defaultdict[tuple[Side, AgentId, Content], list[int]](list)
        for request in requests:
            tries[self._ways(request)].append(request.tries)
        early = context.get(Transactions).answered_early(requests)
        for request in requests:
            takes, mine = self.may_take(context, request), tries[self._ways(request)]
            due = context.get(Scopes).goes_on(request.last_frame, request.last_ns) >= takes and request.frame not in early
            due &= not (max(mine) == 1 and answers.shows_none_to(request)) and not self._takes_own_link(request, context)
            due &= mine != [1] or not self._has_it(request, context)
            due &= not context.get(OptionalAgents).may_lack(request.mgmt_class, request.target)
            stopped = request.tries == 1 and loss.stopped(request.frame, request.last_ns + max(PATIENCE_NS, takes))
            about = {"what": request.what(context.catalog), "to": request.to, "tries": counted(request.tries, "request")}
            yield fault(
                request, about, MAD.transaction_id,
                proof=[(request.last_frame, "last try")] if request.tries > 1 else (), evidence=LEARNT,
                severity=None if due and not loss.erf and not stopped and loss.proves_silence(request.last_ns) else INFO,
            )  # fmt: skip

    @staticmethod
    def _has_it(request: Request, context: Context) -> bool:
        """Whether the sender of a request has its answer, as it seems: both go on for more than a second, and it does not repeat it."""
        latest = context.get(VisibleAnswers).both_go_on(request)
        return latest > request.frame and context.get(CaptureLoss).nanoseconds_between(request.frame, latest) > SECOND_NS

    def _takes_own_link(self, request: Request, context: Context) -> bool:
        """Whether a request takes down the port through which it comes, as far as known: its answer has no way back."""
        number = self.cutting.get(Frame(request.frame))
        if number is None:
            return False
        subnet, hop = context.get(FabricFollower).subnet, context.get(UnansweredSets).end_of(request)
        if hop is None or hop.node.kind != SWITCH:
            return True
        if request.route is not None:
            return bool(number == hop.entered)
        port, asker = hop.node.ports.get(number), subnet.owner(request.source.lid or 0, request.frame)[0]
        peer = port.facing_at(request.frame)[0] if port is not None else None
        return peer is None or asker is None or peer.node.kind == SWITCH or peer.node is asker.node

    @staticmethod
    def _ways(request: Request) -> tuple[Side, AgentId, Content]:
        return Side.of(request.source), AgentId(Side.of(request.target), request.mgmt_class), Content(request.route or b"")


class AnswerTwice(Rule):
    """A request was answered twice.

    The requester repeated it while the answer was on the way, so its timeout is too short, or the capture shows one packet at two places.

    Compare the response times with the requester's timeout; look for mirrored ports.

    A request and two answers to it.
    """

    code, name, severity = "TXN003", "duplicate-response", INFO
    reference = "IBA 13.4.6.4; kernel core/mad.c"
    message = "{what} is answered again"
    example = "a PerformanceGet and two answers to it"

    @on_event(AnsweredAgain)
    def again(self, event: AnsweredAgain, context: Context) -> Iterator[Hit]:
        request = event.request
        yield fault(
            event, {"what": request.what(context.catalog)}, MAD.transaction_id,
            proof=[(request.frame, "request"), (event.before, "first answer")], key=(request.mgmt_class, request.source, request.target),
        )  # fmt: skip


class AnswerFromElsewhere(WrongResponderRule):
    """The answer comes from a different address than the request went to.

    The requester's stack matches answers by transaction and address: it drops this one and waits until its timer expires.

    Look at the responder: it must swap the LIDs of the request. Redirection requires an answer with status 2 first.
    """

    code, name, severity = "TXN005", "response-tid-mismatch-direction", ERROR
    reference = "IBA 13.5.4"
    message = "{what} went to {to}, the answer comes from {sender}"
    example = "a PerformanceGet to LID 2, answered by LID 9 with the same transaction id"


class AnswerOfOtherMethod(QuotingRule):
    """A request is answered with the wrong method.

    Get and Set are answered with GetResp, GetTable with GetTableResp, Report with ReportResp. The requester takes another method for the
    answer to something else.

    Correct the responder.

    A request and its answer. A GetResp with an error may refuse any request. An `info` where the capture misses packets meanwhile.
    """

    code, name, severity = "TXN006", "response-method-mismatch", WARNING
    reference = "IBA 13.4.5"
    message = "{what} is answered with {answer}"
    example = "a PerformanceGet answered with ReportResp"

    @on_event(AnsweredMany)
    def answered(self, event: AnsweredMany, context: Context) -> Iterator[Hit]:
        # A table may be refused with a plain GetResp.
        wrong = ~FITS[event.request_method, event.method] & ((event.method != GET_RESP) | (event.status == 0))
        for one in event.some(wrong):
            request = one.request
            yield fault(
                one, {"what": request.what(context.catalog), "answer": method_name(request.mgmt_class, one.method)}, MAD.method, one.method,
                proof=[(request.frame, "request")],
            )  # fmt: skip


class TrapWithResponse(QuotingRule):
    """A Trap is answered with a response.

    Only TrapRepress tells a sender that its trap has arrived; it ignores anything else and repeats the trap.

    Correct the manager that sent the answer.

    The trap and the answer with its transaction id. An `info` where the capture misses packets meanwhile.
    """

    code, name, severity = "TXN008", "response-to-trap", ERROR
    reference = "IBA 13.4.9, 14.2.5"
    message = "{answer} to the Trap in frame {trap}: only TrapRepress may answer it"
    example = "a SubnTrap, and a SubnGetResp with its transaction id"

    @on_event(TrapAnswered)
    def answered(self, event: TrapAnswered, _context: Context) -> Iterator[Hit]:
        request = event.request
        yield fault(
            event, {"answer": method_name(request.mgmt_class, event.method), "trap": request.frame}, MAD.method, event.method,
            proof=[(request.frame, "trap")],
        )  # fmt: skip


class RepressWithoutTrap(Rule):
    """A TrapRepress answers a trap that the capture does not show.

    The capture missed packets, or a manager represses a trap that nobody sent.

    Rely less on other findings about missing packets in this capture.

    One TrapRepress without its trap. The first ten seconds of a capture are not judged.
    """

    code, name, severity = "TXN009", "unmatched-trap-repress", INFO
    reference = "IBA 13.4.9"
    needs = (Scopes,)
    message = "TrapRepress to {to} without its Trap"
    example = "a SubnTrapRepress alone, in the eleventh second"

    @on_event(RepressAlone)
    def alone(self, event: RepressAlone, context: Context) -> Iterator[Hit]:
        if warm(event, context):
            about, key = {"to": event.request.to}, (event.request.source, event.request.to)
            yield fault(event, about, MAD.transaction_id, evidence=LEARNT, key=key)


IDLE_NS = 60 * SECOND_NS
"""If nothing was recorded for so long while a connection waited, recording may have stopped."""


class PatienceExceeded(QuotingRule):
    """One side asked for more time (MRA) and did not answer within it.

    The other side gives up when the ServiceTimeout of the MRA is over: the connection fails although both are alive.

    Look at what the application does before it accepts; give the MRA a longer ServiceTimeout.

    Packets of both sides, and the answer is late or never comes. An RTU proves that the REP came, and so do packets of the connection.
    The other side waits for the ServiceTimeout and the way there and back:
    twice the packet lifetime, where PortInfo showed it. An `info` if the connection was set up nevertheless. Silence counts only where the
    capture shows that it misses nothing: in ERF by its traffic, elsewhere no packet is missing within ten seconds; a late answer is an
    `info` where packets are missing. An `info` where nothing at all was recorded for a minute meanwhile, as between two recordings. Silent
    where the capture's clock was set back, as it may have been set forward, too.
    """

    code, name, severity = "TXN010", "mra-timer-exceeded", WARNING
    reference = "IBA 12.6.6, 12.9.8.7; python-rdma MRA"
    message = "{ends}: MRA for {allowed} ms, {what} after {milliseconds} ms"
    example = "a REQ, an MRA with ServiceTimeout 18 (1.07 s), and the REP four seconds later"
    needs = (CaptureLoss, Connections, FabricFollower, Streams)
    patience = Setting(1.0, "seconds that an answer may be later than the MRA says", 0.0)

    def __init__(self) -> None:
        self.judged = BoundedDict[Frame, None](MAX_CONNECTIONS, "answers after MRAs")
        """Frames of MRAs that were followed by an answer, oldest first."""

    @on_event(Replied, Rejected, PathAnswered)
    def answered(self, event: ConnectionEvent, context: Context) -> Iterator[Hit]:
        """Judge the first answer after the MRA."""
        connection = event.connection
        if isinstance(event, PathAnswered):
            what, wanted, fresh = "APR", connection.mra_of == OF_LAP, True
        elif isinstance(event, Replied):
            what, wanted, fresh = "REP", connection.mra_of == OF_REQ, connection.reps == 1
        else:
            what, wanted = "REJ", connection.mra_of == OF_REQ and connection.rejected_by == connection.passive
            fresh = not connection.reps
        if connection.mra_frame and wanted and fresh and connection.mra_frame not in self.judged:
            self.judged.put(connection.mra_frame, None, event.frame, event.time_ns)
            yield from self._late(context, connection, event, event.time_ns, what)

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        connections, loss = context.get(Connections), context.get(CaptureLoss)
        for connection in connections.all:
            waits = connection.mra_of == OF_REQ and not connection.reps and not connection.rej_frame
            waits |= connection.mra_of == OF_LAP and not connection.apr_frame and connection.mra_frame > connection.lap_frame
            waits &= connection.both_speak and not connection.dreq_frame
            waits &= connection.mra_of != OF_REQ or connection.rtu_frame < connection.mra_frame  # an RTU proves that the REP arrived
            waits &= connection.mra_of != OF_REQ or not self._works(context.get(Streams), connection)
            if connection.mra_frame and waits and loss.proves_silence(connection.mra_ns):
                unanswered = Moment(connection.mra_frame, connection.mra_ns)
                until_ns = connection.mra_ns + context.get(Scopes).goes_on(connection.mra_frame, connection.mra_ns)
                yield from self._late(context, connection, unanswered, until_ns, "nothing")

    def stands(self, hit: Hit, context: Context) -> bool:
        return not context.get(CaptureLoss).set_back

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """Also INFO if the connection was set up, or if recording may have stopped meanwhile."""
        connection, until_ns = hit.arguments["connection"], hit.arguments["until_ns"]
        worked = 0 < connection.rep_frame < connection.rtu_frame and connection.mra_of == OF_REQ
        stopped = context.get(CaptureLoss).stopped(connection.mra_frame, until_ns, IDLE_NS)
        return INFO if worked or stopped else super().severity_at_end(hit, context)

    @staticmethod
    def _works(streams: Streams, connection: ConnectionSetUp) -> bool:
        """Whether the passive side sends to the active side's queue pair: then its REP came."""
        return any(
            one.ends.source == connection.passive and one.ends.destination == connection.active and one.last_frame > connection.mra_frame
            for one in streams.to_queue_pair(connection.active_qpn)
        )

    def _late(self, context: Context, connection: ConnectionSetUp, where: Locatable, until_ns: int, what: str) -> Iterator[Hit]:
        allowed, took = timeout_ns(connection.mra_timeout), until_ns - connection.mra_ns
        subnet = context.get(FabricFollower).subnet
        ways = max(2 * lifetime_ns(subnet, end.lid or 0, connection.mra_frame, 0) for end in (connection.active, connection.passive))
        if took > allowed + max(self.patience * SECOND_NS, ways):
            milliseconds = {"allowed": round(allowed / 10**6), "milliseconds": round(took / 10**6)}
            yield fault(
                where, {"ends": connection.text, "what": what, **milliseconds, "connection": connection, "until_ns": until_ns},
                MRA.service_timeout, connection.mra_timeout, proof=[(connection.req_frame, "REQ"), (connection.mra_frame, "MRA")],
            )  # fmt: skip
