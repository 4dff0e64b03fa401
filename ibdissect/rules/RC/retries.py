"""Tries of a packet beyond what its connection allows, and the RNR NAKs that ask for further ones."""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.decode.addresses import End
from ibdissect.engine.psn_order import MAX_NOT_READY
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, Context, Hit, on_event
from ibdissect.rules.RC.psn_order import of_stream
from ibdissect.rules.shared.not_seen import QuotingRule
from ibdissect.transport.events import Exhausted
from ibdissect.transport.psn_streams import Streams


class RetriesExhausted(QuotingRule):
    """A packet was sent more often than its connection's retry counter allows.

    After as many timeouts as the REQ's Retry Count, a connection has to end; one that goes on hides a dead path.

    Look at the responder, which does not answer, and at the requester's driver, which does not give up.

    Repetitions of one packet a millisecond or more apart, without a NAK in between, or the data of a READ: a requester that drops it (a
    page fault, for example) asks again. Without the REQ in the capture, seven retries are allowed, since the counter has three bits. The
    capture must show the other direction: of this connection, or packets of the responder that belong to others. RoCE is not judged:
    adapters with adaptive retransmission start with short timers and limit the time, not the number of tries. An `info` where a LID of the
    two was given to another port meanwhile, where the capture misses packets meanwhile, and where it shows no acknowledgement from or to
    the responder's port at all: somebody filtered them. The same where the responder sent as many RNR NAKs for this packet as there are
    repetitions, be it at other times: clocks of two capture points differ.
    """

    code, name, severity = "RC019", "retry-exhausted", ERROR
    needs = (Streams,)
    reference = "IBA 9.9.2.1.1, 12.7.38; python-rdma REQ.RetryCount; NVIDIA Adaptive Retransmission (roce_adp_retrans_en)"
    message = "{ends}: PSN {psn} was sent {sent} times, {allowed} repetitions are allowed"
    example = "a SEND that is sent nine times, 100 ms apart, without a NAK in between"

    def __init__(self) -> None:
        self._acknowledging = 0, set[End]()
        """Who acknowledges, and whom, of how many ways of streams."""

    @on_event(Exhausted)
    def exhausted(self, event: Exhausted, context: Context) -> Iterator[Hit]:
        if context.table.located.at("lrh")[event.frame - context.table.chunk.first] >= 0:
            yield of_stream(event, (event.first, "first repetition"), sent=event.sent, allowed=event.allowed, slot=event.slot)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO where each repetition may follow an RNR NAK that was recorded before or after it, or that was filtered out."""
        streams = context.get(Streams)
        stream = streams.all[hit.arguments["slot"]]
        if self._acknowledging[0] != len(streams.between):
            self._acknowledging = len(streams.between), {end for _, *ends, response in streams.between if response for end in ends}
        if stream.ends.destination not in self._acknowledging[1]:
            return INFO
        answers = streams.other(stream)
        asked = answers.not_ready or {} if answers is not None else {}
        psn = hit.arguments["psn"]
        if asked.get(psn, 0) >= hit.arguments["sent"] - 1 or (len(asked) == MAX_NOT_READY and psn not in asked):
            return INFO
        return super().severity_at_end(hit, context)
