"""What the segments of multi-packet transfers (RMPP) say when they are put together (TXN)."""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.capture.chunk import LINK_ERF
from ibdissect.dropped import Dropped
from ibdissect.flow.rmpp import LengthDisagrees, SegmentAlone, SegmentMissing, SegmentRepeated, TransferEvent, WindowBehind
from ibdissect.flow.transactions import Transactions
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related
from ibdissect.lint.rule import ERROR, INFO, WARNING, Hit, Rule, on_chunk, on_end, on_event
from ibdissect.table.table import ChunkTable
from ibdissect.wire.mad import RMPP

from .transaction import warm

ABANDONED_NS = 10_000_000_000
"""Five times the longest response time that managers use (2.2 s)."""
MAX_HELD = 4096


def of_transfer(event: TransferEvent, **arguments: object) -> Hit:
    """A finding about a transfer."""
    related = (Related(event.transfer.frame, "first segment seen"),) if event.transfer.frame != event.frame else ()
    return Hit(
        frame=event.frame, time_ns=event.time_ns, evidence=Evidence.LEARNT, related=related, field=RMPP.segment_number,
        value=event.segment, arguments={"ends": event.transfer.ends, "segment": event.segment, **arguments},
    )  # fmt: skip


class SegmentOrphan(Rule):
    """A segment of a multi-packet transfer came without the beginning.

    ## Why it matters
    Segments were lost, or the sender made an error; the data of this transfer cannot be read in full. The first ten seconds of
    a capture are not judged.

    ## What to do
    Look for lost packets in front of it, then at the sender.
    """

    code, name, severity = "TXN011", "orphan-rmpp-segment", WARNING
    reference = "IBA 13.6.2; kernel core/mad_rmpp.c"
    message = "{ends}: segment {segment} of a transfer that was not seen to begin"
    example = "segment 5 of a SubnAdmGetTableResp alone, in the eleventh second"

    @on_event(SegmentAlone)
    def alone(self, event: SegmentAlone, context: Context) -> Iterator[Hit]:
        if warm(event.time_ns, context):
            yield of_transfer(event)


class SegmentGap(Rule):
    """A segment of a multi-packet transfer was skipped.

    ## Why it matters
    The receiver does not acknowledge what follows, and the sender has to repeat from there; when it does not, the transfer
    is aborted.

    ## What to do
    Look for drops between the sender and the capture; a window that is too large for the receiver has the same effect. In
    captures of ibdump, which may miss packets, a gap counts when the sender goes back: it sends what is missing, then again what
    came behind the gap.
    """

    code, name, severity = "TXN012", "rmpp-gap", ERROR
    reference = "IBA 13.6.3; seed004 RMPP"
    message = "{ends}: segment {segment} came where {expected} was due"
    example = "segments 1, 3, 2 and 3 of a SubnAdmGetTableResp"

    def __init__(self) -> None:
        self.seen: list[Hit] = []
        """Gaps of this chunk."""
        self.held: dict[int, tuple[SegmentMissing, Hit]] = {}
        """Gaps that ibdump may have made, by frame, until the sender goes back for them."""
        self.filled: set[int] = set()
        """Those of which some segment came late: in order again, or the capture changed the order."""
        self.dropped = Dropped("gaps in transfers")

    @on_event(SegmentMissing)
    def missing(self, event: SegmentMissing, _context: Context) -> None:
        hit = of_transfer(event, expected=event.expected)
        self.seen.append(hit)
        if len(self.held) < MAX_HELD:
            self.held[event.frame] = event, hit
        else:
            self.dropped.add(event.frame, event.time_ns)

    @on_event(SegmentRepeated)
    def repeated(self, event: SegmentRepeated, _context: Context) -> Iterator[Hit]:
        for frame, (gap, hit) in list(self.held.items()):
            if gap.transfer is not event.transfer:
                continue
            if gap.expected <= event.segment < gap.segment:
                self.filled.add(frame)
            elif event.segment >= gap.segment and frame in self.filled:
                del self.held[frame]
                self.filled.discard(frame)
                self.seen = [other for other in self.seen if other is not hit]
                yield hit

    @on_chunk
    def chunk(self, table: ChunkTable, _context: Context) -> Iterator[Hit]:
        """Where the capture misses nothing, every gap is one."""
        for hit in self.seen:
            if table.chunk.link[hit.frame - table.chunk.first] != LINK_ERF:
                self.held.pop(hit.frame, None)
                self.filled.discard(hit.frame)
                yield hit
        self.seen.clear()


class TransferLength(Rule):
    """The last segment of a transfer ends it at another length than the first announced.

    ## Why it matters
    The receiver aborts with status 119 (inconsistent last and PayloadLength), or reads records that are not there.

    ## What to do
    Correct the sender: the first segment holds the length of all, headers of the class included, the last its own.
    """

    code, name, severity = "TXN013", "rmpp-payloadlength", ERROR
    reference = "IBA 13.6.2.1; kernel core/mad_rmpp.c"
    message = "{ends}: the transfer has {found} bytes, its first segment announced {claimed}"
    example = "a transfer of two segments that announces 300 bytes and ends with 10"

    @on_event(LengthDisagrees)
    def disagrees(self, event: LengthDisagrees, _context: Context) -> Iterator[Hit]:
        yield of_transfer(event, found=event.found, claimed=event.transfer.claimed)


class WindowTooSmall(Rule):
    """An acknowledgement takes back the window: it allows fewer segments than it acknowledges.

    ## Why it matters
    The sender aborts with status 122 (NewWindowLast too small).

    ## What to do
    Correct the receiver of the transfer.
    """

    code, name, severity = "TXN017", "rmpp-newwindow-behind", WARNING
    reference = "IBA 13.6.2.3; Wireshark RMPP status"
    message = "{ends}: segment {segment} acknowledged, new window ends with {window}"
    example = "an ACK with SegmentNumber 5 and NewWindowLast 1"

    @on_event(WindowBehind)
    def behind(self, event: WindowBehind, _context: Context) -> Iterator[Hit]:
        yield of_transfer(event, window=event.window)


class TransferAbandoned(Rule):
    """A multi-packet transfer stopped before its last segment.

    ## Why it matters
    The requester never gets its table, and starts over after its timer.

    ## What to do
    Look at the last acknowledgement: without one the receiver is gone, behind one the sender is.
    """

    code, name, severity = "TXN020", "rmpp-abandoned", INFO
    reference = "IBA 13.6.3"
    needs = (Transactions,)
    message = "{ends}: nothing followed segment {segment}"
    example = "segment 1 of a table with several, and ten seconds of silence"

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        transactions = context.get(Transactions)
        for transfer in transactions.transfers.open.values():
            if transactions.last_ns - transfer.last_ns >= ABANDONED_NS:
                yield Hit(
                    frame=transfer.frame, time_ns=transfer.time_ns, evidence=Evidence.LEARNT, field=RMPP.segment_number,
                    arguments={"ends": transfer.ends, "segment": transfer.next - 1},
                )  # fmt: skip
