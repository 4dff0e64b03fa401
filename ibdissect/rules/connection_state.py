"""Messages of connection management that come too late or from the wrong side (TXN, CM)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ibdissect.dropped import Dropped
from ibdissect.flow.connections import MAX_CONNECTIONS, Confirmed, Connection, ConnectionEvent, Connections, PathAnswered, Rejected, Replied
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related
from ibdissect.lint.rule import WARNING, Hit, Rule, on_end, on_event
from ibdissect.lint.setting import Setting
from ibdissect.wire.cm import MRA, REP, RTU
from ibdissect.wire.spec import Field

from .connection import timeout_ns

SECOND = 1_000_000_000
OF_REQ, OF_LAP = 0, 2
"""MessageMRAed."""


class PatienceExceeded(Rule):
    """A side asked for patience (MRA) and did not answer in the time that it asked for.

    ## Why it matters
    The other side gives up when the ServiceTimeout of the MRA is over: the connection fails although both are alive.

    ## What to do
    Look at what the application does before it accepts; give the MRA a longer ServiceTimeout. Silence is not judged in captures
    of ibdump, which may miss packets, and of one direction.
    """

    code, name, severity = "TXN010", "mra-timer-exceeded", WARNING
    reference = "IBA 12.6.6, 12.9.8.7; seed004 MRA"
    message = "{ends}: MRA for {allowed} ms, {what} after {milliseconds} ms"
    example = "a REQ, an MRA with ServiceTimeout 18 (1.07 s), and the REP four seconds later"
    needs = (Connections,)
    patience = Setting(1.0, "seconds that an answer may be later than the MRA says", 0.0)

    def __init__(self) -> None:
        self.judged: dict[int, None] = {}
        """Frames of MRAs that were followed by an answer, oldest first."""
        self.dropped = Dropped("answers behind MRAs")

    @on_event(Replied, Rejected, PathAnswered)
    def answered(self, event: ConnectionEvent, _context: Context) -> Iterator[Hit]:
        """The first answer behind the MRA counts."""
        connection = event.connection
        if isinstance(event, PathAnswered):
            what, wanted, fresh = "APR", connection.mra_of == OF_LAP, True
        elif isinstance(event, Replied):
            what, wanted, fresh = "REP", connection.mra_of == OF_REQ, connection.reps == 1
        else:
            what, wanted = "REJ", connection.mra_of == OF_REQ and connection.rejected_by == connection.passive
            fresh = not connection.reps
        if connection.mra_frame and wanted and fresh and connection.mra_frame not in self.judged:
            if len(self.judged) >= MAX_CONNECTIONS:
                self.judged.pop(next(iter(self.judged)))
                self.dropped.add(event.frame, event.time_ns)
            self.judged[connection.mra_frame] = None
            yield from self._late(connection, event.frame, event.time_ns, what)

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        connections = context.get(Connections)
        for connection in connections.all:
            waits = connection.mra_of == OF_REQ and not connection.reps and not connection.rej_frame
            waits |= connection.mra_of == OF_LAP and not connection.apr_frame and connection.mra_frame > connection.lap_frame
            heard = {connection.active, connection.passive} <= connections.speakers
            if connection.mra_frame and waits and heard and not connection.unproven and not connection.dreq_frame:
                yield from self._late(connection, connection.mra_frame, connections.last_ns, "nothing")

    def _late(self, connection: Connection, frame: int, time_ns: int, what: str) -> Iterator[Hit]:
        allowed, took = timeout_ns(connection.mra_timeout), time_ns - connection.mra_ns
        if took > allowed + self.patience * SECOND:
            yield Hit(
                frame=frame, time_ns=time_ns, evidence=Evidence.LEARNT, field=MRA.service_timeout, value=connection.mra_timeout,
                related=(Related(connection.req_frame, "REQ"), Related(connection.mra_frame, "MRA")),
                arguments={"ends": connection.text, "allowed": allowed // 10**6, "what": what, "milliseconds": took // 10**6},
            )  # fmt: skip


class WrongTurn(Rule):
    """A message of connection management comes from the wrong side, or behind a rejection by its own sender.

    ## Why it matters
    The receiver drops it, or answers that it does not know the connection; the two sides disagree about its state.

    ## What to do
    Look at the sender's connection manager. A request that was sent again is not judged, nor is one that captures of ibdump may
    have missed.
    """

    code, name, severity = "CM004", "cm-sequence", WARNING
    reference = "IBA 12.9.7; Linux core/cm.c states"
    message = "{ends}: {what} from {sender}, {why}"
    example = "a REQ of LID 1 to LID 2, and a REP for it from LID 1"

    @on_event(Replied)
    def replied(self, event: Replied, _context: Context) -> Iterator[Hit]:
        connection = event.connection
        if event.sender == connection.active != connection.passive:
            yield self._hit(event, "REP", event.sender, "which sent the REQ", REP.local_communication_id)
        elif connection.rejected_by == event.sender and connection.reqs == 1 == connection.reps and not connection.unproven:
            yield self._hit(event, "REP", event.sender, "which has rejected the REQ", REP.local_communication_id)

    @on_event(Confirmed)
    def confirmed(self, event: Confirmed, _context: Context) -> Iterator[Hit]:
        connection = event.connection
        if event.sender == connection.passive != connection.active:
            yield self._hit(event, "RTU", event.sender, "which did not send the REQ", RTU.local_communication_id)
        elif connection.rej_frame and connection.rejected_by == event.sender and connection.reps == 1:
            yield self._hit(event, "RTU", event.sender, "which has rejected the REP", RTU.local_communication_id)

    @staticmethod
    def _hit(event: Replied | Confirmed, what: str, sender: str, why: str, at: Field[Any]) -> Hit:
        connection = event.connection
        related = [Related(connection.req_frame, "REQ")]
        if connection.rej_frame:
            related.append(Related(connection.rej_frame, "REJ"))
        return Hit(
            frame=event.frame, time_ns=event.time_ns, evidence=Evidence.LEARNT, field=at, related=tuple(related),
            arguments={"ends": connection.text, "what": what, "sender": sender, "why": why},
        )  # fmt: skip
