"""RMPP headers that are wrong by themselves, and transfers that are incomplete or inconsistent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ibdissect.bounded import KeptDict
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.identity import Code, Frame
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, LEARNT, WARNING, Context, Hit, Rule, Seen, fault, on_end, on_event
from ibdissect.mad.rmpp import (
    AGAIN_NS,
    SEGMENT_BYTES,
    AcknowledgedBeyond,
    SegmentAlone,
    SegmentMissing,
    SegmentRepeated,
    TransferEvent,
    TransferLengthDisagrees,
    WindowBehind,
)
from ibdissect.mad.transactions import Transactions
from ibdissect.rules.MAD.header_fields import IN_USE
from ibdissect.rules.shared.askers import Askers
from ibdissect.rules.shared.mad_conditions import BY_SA, request_text
from ibdissect.rules.shared.not_seen import lowered_severity, warm
from ibdissect.rules.shared.packet_flows import PACKET_FLOW
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.mad import MAD, RMPP
from ibdissect.wire.numbers import ABORT, ACK, DATA, STOP, TABLE_RESPONSES

ABANDONED_NS = 10_000_000_000
"""Five times the longest response time that managers use (2.2 s)."""
MAX_WAITING = 4096
ABORT_CODES = frozenset(range(118, 128))
OWN_CODES = frozenset(range(128, 256))
"""RMPPStatus that a class (up to 191) or a manufacturer defines for its STOP and ABORT."""
IMPOSSIBLE_SEGMENT = (RMPP.data1 == 0) | ((RMPP.first == 1) & (RMPP.data1 != 1)) | ((RMPP.first == 0) & (RMPP.data1 == 1))


def of_transfer(event: TransferEvent, **arguments: object) -> Hit:
    """A finding about a transfer."""
    return fault(
        event, {"ends": event.transfer.ends, "segment": event.segment, **arguments}, RMPP.segment_number, event.segment, evidence=LEARNT,
        proof=[(event.transfer.first.frame, "first segment seen")] if event.transfer.first.frame != event.frame else (),
    )  # fmt: skip


class SegmentOrphan(Rule):
    """A segment of a multi-packet transfer appears without the beginning.

    Segments were lost, or the sender is faulty; the data of this transfer cannot be read in full.

    Look for lost packets before it, then at the sender.

    The capture has run for ten seconds. An `info` where the capture may have missed the beginning: in ERF captures whose traffic does not
    show that nothing is missing; where packets are missing within ten seconds, or an acknowledgement of this segment shows it; where later
    segments of the transfer are missing, too; and where the capture shows no request of the receiver, by its LID, with its answer: it may
    show one direction only. Silent if the first segment comes later: the sender went back, or the capture changed the order.
    """

    code, name, severity = "TXN011", "orphan-rmpp-segment", WARNING
    reference = "IBA 13.6.2; kernel core/mad_rmpp.c"
    message = "{ends}: segment {segment} of a transfer that was not seen to begin"
    example = "segment 5 of a SubnAdmGetTableResp alone, in the eleventh second"

    needs = (CaptureLoss, Askers)

    def __init__(self) -> None:
        self.begun = KeptDict[Frame, None](MAX_WAITING, "transfers whose first segment came late")
        """By the segment seen first."""
        self.holed = KeptDict[Frame, None](MAX_WAITING, "transfers that lack more than their beginning")
        """By the segment seen first."""

    @on_event(SegmentAlone)
    def alone(self, event: SegmentAlone, context: Context) -> Iterator[Hit]:
        if warm(event, context):
            hit = of_transfer(event)
            hit.arguments["receiver"] = event.transfer.first.destination
            yield hit

    @on_event(SegmentMissing)
    def missing(self, event: SegmentMissing, _context: Context) -> None:
        if event.transfer.first.number > 1:
            self.holed.keep(Frame(event.transfer.first.frame), None, event.frame, event.time_ns)

    @on_event(SegmentRepeated)
    def begins(self, event: SegmentRepeated, _context: Context) -> None:
        first = event.transfer.first
        if event.segment == 1 < first.number:
            self.begun.keep(Frame(first.frame), None, event.frame, event.time_ns)

    def stands(self, hit: Hit, context: Context) -> bool:
        return hit.frame not in self.begun

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        if self.begun.dropped.count or self.holed.dropped.count or hit.frame in self.holed:
            return INFO
        return lowered_severity(context, hit.time_ns) if context.get(Askers).shows(hit.arguments["receiver"]) else INFO


class SegmentGap(Rule):
    """A segment of a multi-packet transfer was skipped.

    The receiver does not acknowledge what follows, so the sender has to repeat from there; if it does not, the transfer is aborted.

    Look for drops between the sender and the capture; a window that is too large for the receiver has the same effect.

    The sender goes back: it sends what is missing and was not acknowledged, then again what followed the gap. Otherwise the capture must
    show that it misses nothing: by its traffic in ERF, and where no acknowledgement of the transfer is seen (the capture shows one
    direction, or ends); elsewhere a packet missing within ten seconds silences the rule, and so does an acknowledgement of the skipped
    segment. A segment that arrives late and alone was recorded out of order; segments that come again
    within half a millisecond are copies of a second mirror. An `info` where answers were recorded before requests, or the capture misses
    other packets within ten seconds.
    """

    code, name, severity = "TXN012", "rmpp-gap", ERROR
    reference = "IBA 13.6.3; python-rdma RMPP"
    message = "{ends}: segment {segment} came where {expected} was due"
    example = "segments 1, 3, 2 and 3 of a SubnAdmGetTableResp"

    needs = (CaptureLoss, Transactions)

    def __init__(self) -> None:
        self.waiting = KeptDict[Frame, SegmentMissing](MAX_WAITING, "gaps in transfers")
        """Gaps that the capture may have caused, by frame, until the sender goes back to them."""
        self.filled: dict[Frame, set[Code]] = {}
        """Segments of those gaps that arrived late: the sender went back, or the capture changed the order."""
        self.resent = KeptDict[Frame, None](MAX_WAITING, self.waiting.dropped)
        """Gaps after which the sender went back."""

    @on_event(SegmentMissing)
    def missing(self, event: SegmentMissing, _context: Context) -> Iterator[Hit]:
        self.waiting.keep(Frame(event.frame), event, event.frame, event.time_ns)
        yield of_transfer(event, expected=event.expected)

    @on_event(SegmentRepeated)
    def repeated(self, event: SegmentRepeated, _context: Context) -> None:
        gaps = [(frame, gap) for frame, gap in self.waiting.items() if gap.transfer is event.transfer]
        for frame, gap in gaps:
            filled = self.filled.get(frame, set())
            if gap.expected <= event.segment < gap.segment and event.segment not in filled:
                if event.transfer.acknowledged >= event.segment:  # it had arrived: only the capture missed it
                    del self.waiting[frame]
                    self.filled.pop(frame, None)
                else:
                    self.filled[frame] = {*filled, event.segment}
                return
        for frame, gap in gaps:
            if event.time_ns - gap.time_ns <= AGAIN_NS and (event.segment < gap.expected or frame in self.filled):
                del self.waiting[frame]
                self.filled.pop(frame, None)
            elif event.segment >= gap.segment and frame in self.filled:
                del self.waiting[frame], self.filled[frame]
                self.resent.keep(frame, None, frame, gap.time_ns)

    def stands(self, hit: Hit, context: Context) -> bool:
        """If the sender went back to the gap, or the capture misses nothing."""
        frame, gap = Frame(hit.frame), self.waiting.get(Frame(hit.frame))
        if gap is None or frame in self.filled:
            return frame in self.resent
        loss = context.get(CaptureLoss)
        return loss.complete() if not gap.transfer.acknowledged else loss.proves_silence(hit.time_ns)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        loss = context.get(CaptureLoss)
        return INFO if loss.disorderly() or (hit.frame in self.resent and loss.near(hit.time_ns)) else None


class TransferLength(Rule):
    """The length of a transfer differs from what its first segment announced, or its last segment claims more than fits into a MAD.

    The receiver aborts with status 119 (inconsistent last and PayloadLength), or reads records that are not there.

    Correct the sender: the first segment holds the length of the whole transfer with class headers, the last one its own.

    All segments of the transfer; a last segment of more than 220 bytes alone proves it, also if it is the only one.
    """

    code, name, severity = "TXN013", "rmpp-length-wrong", ERROR
    reference = "IBA 13.6.2.1; kernel core/mad_rmpp.c"
    when = (RMPP.payload_length > SEGMENT_BYTES) & (RMPP.last == 1) & (RMPP.rmpp_type == DATA) & (MAD.base_version == 1) & IN_USE
    flow = (*PACKET_FLOW, MAD.transaction_id)
    message = f"PayloadLength {{payload_length}} in the last segment of a transfer; a segment has {SEGMENT_BYTES} bytes"
    example = "a transfer of two segments that announces 300 bytes and ends with 10"

    @on_event(TransferLengthDisagrees)
    def disagrees(self, event: TransferLengthDisagrees, _context: Context) -> Iterator[Hit]:
        hit = of_transfer(event, found=event.found, claimed=event.transfer.announced)
        hit.message = "{ends}: the transfer has {found:byte}, its first segment announced {claimed}"
        yield hit


class WindowTooSmall(Rule):
    """An acknowledgement shrinks the window below what it acknowledges.

    The sender aborts with status 122 (NewWindowLast too small).

    Correct the receiver of the transfer.

    One acknowledgement is enough. No rule reports a sender that goes on beyond the window: a later acknowledgement, which the capture
    missed, may have moved it.
    """

    code, name, severity = "TXN017", "rmpp-newwindow-behind", WARNING
    reference = "IBA 13.6.2.3; Wireshark RMPP status"
    message = "{ends}: segment {segment} acknowledged, new window ends with {window}"
    example = "an ACK with SegmentNumber 5 and NewWindowLast 1"

    @on_event(WindowBehind)
    def behind(self, event: WindowBehind, _context: Context) -> Iterator[Hit]:
        yield of_transfer(event, window=event.window)


class AcknowledgedTooMuch(Rule):
    """An acknowledgement names a segment behind the last one of its transfer.

    The sender aborts with status 123 (segment number too big). The receiver counts wrongly, or answers another transfer.

    Correct the receiver of the transfer.

    The last segment of the transfer, and the acknowledgement. An `info` where the capture misses packets within ten seconds or changes
    their order: it may have missed another transfer of the same number.
    """

    code, name, severity = "TXN022", "rmpp-ack-too-far", ERROR
    reference = "IBA 13.6.2.3; kernel core/mad_rmpp.c"
    message = "{ends}: segment {segment} acknowledged, the last one is {last}"
    example = "a transfer of two segments, and an ACK of segment 5"
    needs = (CaptureLoss,)

    @on_event(AcknowledgedBeyond)
    def beyond(self, event: AcknowledgedBeyond, _context: Context) -> Iterator[Hit]:
        yield of_transfer(event, last=event.transfer.last)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        loss = context.get(CaptureLoss)
        return INFO if loss.disorderly() or loss.near(hit.time_ns) else None


class TableWithoutRMPP(Rule):
    """A table is answered without RMPP.

    A table is a transfer of RMPP, even if it has one segment: without the header, the requester cannot tell how many records there are.

    Correct the responder.

    One answer with status 0; a refusal needs no header.
    """

    code, name, severity = "TXN023", "table-without-rmpp", WARNING
    reference = "IBA 13.6.1, 15.4.5; kernel core/sa_query.c"
    when = (RMPP.active == 0) & MAD.method.isin(TABLE_RESPONSES) & (MAD.status == 0) & (MAD.base_version == 1) & BY_SA
    on, at = RMPP, RMPP.rmpp_flags
    flow = (*PACKET_FLOW, MAD.attribute_id)
    message = "{what} without an RMPP header in use"
    example = "a SubnAdmGetTableResp with status 0 and RMPPFlags 0"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        return {"what": request_text(seen)}


class TransferAbandoned(Rule):
    """A multi-packet transfer stopped before its last segment.

    The requester never gets its table, and starts over when its timer expires.

    Look at the last acknowledgement: if there is none, the receiver is gone; otherwise the sender is.

    The beginning of the transfer, and ten seconds without another segment.
    """

    code, name, severity = "TXN020", "rmpp-abandoned", INFO
    reference = "IBA 13.6.3"
    needs = (CaptureLoss, Transactions)
    message = "{ends}: nothing followed segment {segment}"
    example = "segment 1 of a table with several, and ten seconds of silence"

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        for transfer in context.get(Transactions).transfers.open.values():
            if context.get(Scopes).goes_on(transfer.first.frame, transfer.last_ns) >= ABANDONED_NS:
                first, about = transfer.first, {"ends": transfer.ends, "segment": transfer.next - 1}
                yield fault(first, about, RMPP.segment_number, evidence=LEARNT)


class RMPPAbort(Rule):
    """One end of an RMPP transfer aborted it.

    The table or request is lost, and the requester has to start again. The status says why.

    Read the status: 118 and 126 point to loss or a slow receiver, 119-124 to a faulty implementation, 125 to different versions.
    """

    code, name, severity = "TXN014", "rmpp-aborted", INFO
    reference = "IBA 13.6.2.4; python-rdma"
    when = RMPP.rmpp_status.isin(ABORT_CODES) & (RMPP.rmpp_type == ABORT) & IN_USE
    message = "the transfer is aborted: {rmpp_status!t}"
    example = "an ABORT with status 126 (too many retries)"


class RMPPStop(Rule):
    """The receiver of an RMPP transfer stopped it for lack of resources.

    The transfer ends without its data. A subnet administrator that runs out of memory answers nobody in full.

    Ask again later or for less; check memory and load of the end that sent the STOP.
    """

    code, name, severity = "TXN015", "rmpp-stopped", WARNING
    reference = "IBA 13.6.2.5; kernel core/mad_rmpp.c"
    when = (RMPP.rmpp_type == STOP) & IN_USE
    message = "the receiver stops the transfer: {rmpp_status!t}"
    example = "a STOP with status 1 (resources exhausted)"


class RMPPStatus(Rule):
    """An RMPP status is undefined, or appears in a segment that must not have one.

    DATA and ACK carry status 0, a STOP 1 (no resources), an ABORT 118 to 127; a receiver aborts on anything else with 124 (illegal status).

    Correct the sender of the segment.

    One packet. From 128 on, a class or a manufacturer defines what a STOP or ABORT means: those are not judged.
    """

    code, name, severity = "TXN016", "rmpp-status-invalid", ERROR
    explains = ("TXN015",)
    reference = "IBA 13.6.2.1; kernel ib_mad.h"
    when = (
        ((RMPP.rmpp_status != 0) & (RMPP.rmpp_type.isin({DATA, ACK}) | ~RMPP.rmpp_status.isin({1, *ABORT_CODES, *OWN_CODES})))
        | ((RMPP.rmpp_type == ABORT) & ~RMPP.rmpp_status.isin(ABORT_CODES | OWN_CODES))
        | ((RMPP.rmpp_type == STOP) & ~RMPP.rmpp_status.isin({1, *OWN_CODES}))
    ) & IN_USE
    message = "RMPP status {rmpp_status!t} in a segment of type {rmpp_type!t}, which must not have it"
    example = "a DATA segment with status 1"


class RMPPHeader(Rule):
    """The header of an RMPP packet contradicts itself.

    The receiver aborts the transfer: with status 121 (unsupported type), or 120 (First and segment number do not fit).

    Correct the sender.

    One packet: a type above 4, a DATA segment with number 0, segment 1 without First, or First in another segment. Other versions of RMPP
    are not judged.
    """

    code, name, severity = "TXN021", "rmpp-header-wrong", ERROR
    reference = "IBA 13.6.2.1, 13.6.2.3"
    when = ((RMPP.rmpp_type > ABORT) | ((RMPP.rmpp_type == DATA) & IMPOSSIBLE_SEGMENT)) & (RMPP.rmpp_version == 1) & IN_USE
    message = "RMPP type {rmpp_type!t}, segment {data1}, flags {rmpp_flags!t}: no such packet exists"
    example = "a DATA segment 3 with the First flag"
