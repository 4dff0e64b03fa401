"""Which connection management answers exceed the time announced in an MRA?"""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.bounded import BoundedDict
from ibdissect.dropped import Dropped
from ibdissect.flow.capture_loss import CaptureLoss
from ibdissect.lint.rule import WARNING, Context, Hit, Rule, fault, on_end, on_event
from ibdissect.lint.setting import Setting
from ibdissect.rules.CM.exchange import timeout_ns
from ibdissect.rules.shared.silence import SECOND
from ibdissect.table.connection_events import Connection, ConnectionEvent, PathAnswered, Rejected, Replied
from ibdissect.table.connections import MAX_CONNECTIONS, Connections
from ibdissect.wire.cm import MRA

OF_REQ, OF_LAP = 0, 2
"""MessageMRAed."""


class PatienceExceeded(Rule):
    """One side asked for more time (MRA) and did not answer within it.

    The other side gives up when the ServiceTimeout of the MRA is over: the connection fails although both are alive.

    Look at what the application does before it accepts; give the MRA a longer ServiceTimeout.

    Packets of both sides, and the answer is late or never comes. Silence counts only where the capture shows that it misses
    nothing: in ERF by its traffic, elsewhere no packet is missing within ten seconds. Silent where the clock of the capture was set
    back, as then it may have been set forward, too.
    """

    code, name, severity = "TXN010", "mra-timer-exceeded", WARNING
    reference = "IBA 12.6.6, 12.9.8.7; python-rdma MRA"
    message = "{ends}: MRA for {allowed} ms, {what} after {milliseconds} ms"
    example = "a REQ, an MRA with ServiceTimeout 18 (1.07 s), and the REP four seconds later"
    needs = (CaptureLoss, Connections)
    patience = Setting(1.0, "seconds that an answer may be later than the MRA says", 0.0)

    def __init__(self) -> None:
        self.dropped = Dropped("answers behind MRAs")
        self.judged = BoundedDict[int, None](MAX_CONNECTIONS, self.dropped)
        """Frames of MRAs that were followed by an answer, oldest first."""
        self.late: list[Hit] = []
        """Findings that wait until it is known whether the clock was set."""

    @on_event(Replied, Rejected, PathAnswered)
    def answered(self, event: ConnectionEvent, _context: Context) -> None:
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
            if len(self.late) < MAX_CONNECTIONS:
                self.late += self._late(connection, event.frame, event.time_ns, what)

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        connections, loss = context.get(Connections), context.get(CaptureLoss)
        if loss.set_back:
            return
        yield from self.late
        for connection in connections.all:
            waits = connection.mra_of == OF_REQ and not connection.reps and not connection.rej_frame
            waits |= connection.mra_of == OF_LAP and not connection.apr_frame and connection.mra_frame > connection.lap_frame
            waits &= connections.both_speak(connection) and not connection.dreq_frame
            if connection.mra_frame and waits and loss.proves_silence(connection.mra_ns):
                yield from self._late(connection, connection.mra_frame, connections.last_ns, "nothing")

    def _late(self, connection: Connection, frame: int, time_ns: int, what: str) -> Iterator[Hit]:
        allowed, took = timeout_ns(connection.mra_timeout), time_ns - connection.mra_ns
        if took > allowed + self.patience * SECOND:
            yield fault(
                frame, time_ns, {"ends": connection.text, "allowed": allowed // 10**6, "what": what, "milliseconds": took // 10**6},
                MRA.service_timeout, connection.mra_timeout, proof=[(connection.req_frame, "REQ"), (connection.mra_frame, "MRA")],
            )  # fmt: skip
