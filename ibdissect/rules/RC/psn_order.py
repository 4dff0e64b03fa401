"""The order of a connection's packets by PSN and MSN: losses, repetitions, missing answers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.history import SECOND_NS
from ibdissect.engine.psn_gaps import Gap, distance
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, LEARNT, WARNING, Context, DeferredHit, Hit, Moment, Rule, fault, on_end, on_event
from ibdissect.lint.setting import Setting
from ibdissect.rules.shared.packet_flows import KNOWN_HEADERS, PacketRule
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.transport.events import LengthWrong, MsnFell, MsnJumped, OrderWrong, Repeated, StreamEvent, Wrapped
from ibdissect.transport.lost_requests import gaps, open_reads
from ibdissect.transport.psn_streams import Stream, Streams
from ibdissect.wire.convert import LATEST_NS, timeout_ns
from ibdissect.wire.headers import AETH, BTH, PSNS, RNR
from ibdissect.wire.opcodes import OPCODES
from ibdissect.wire.text import counted

USUAL_TIMEOUT = 14
"""Local ACK Timeout that most applications choose: 67 ms, after which a requester may take four times as long."""
PATIENCE = LATEST_NS / SECOND_NS
"""What is unfinished so shortly before the capture ends may still be under way: the requester's timer has not run out."""

MANY_GAPS, USUAL_PART = 8, 5
"""A network that loses every fifth packet in so many places is hardly in use."""


def of_stream(
    event: StreamEvent, proof: tuple[int, str] | None = None, count: int = 1, frames: tuple[int, ...] = (), **arguments: object
) -> Hit:  # fmt: skip
    """One finding per stream, at its first frame."""
    return fault(
        event, {"ends": event.ends.text, "psn": event.psn, **arguments}, BTH.psn, event.psn, proof=(proof,) if proof else (),
        evidence=LEARNT, count=count, frames=frames, key=event.ends,
    )  # fmt: skip


def of_gap(stream: Stream, gap: Gap, psn: int, *proof: tuple[int, str], severity: Severity | None = None) -> Hit:
    """One finding per stream that misses packets."""
    return fault(
        gap, {"ends": stream.ends.text, "missing": counted(gap.count, "packet"), "psn": psn}, BTH.psn, psn, proof=proof, evidence=LEARNT,
        key=stream.ends, severity=severity,
    )  # fmt: skip


class SilenceRule(Rule):
    """Base of rules about packets that never came."""

    evidence = (
        "The capture goes on for ten seconds and shows that it misses nothing: in ERF by its traffic (a thousand packets that follow "
        "each other or were answered), elsewhere no packet is missing within ten seconds. An `info` where nothing at all was recorded "
        "for more than a second afterwards, as between two recordings, where the connection was ended (DREQ) before the requester's "
        "timer, and where the requester goes on for ten seconds without a repetition: its answers came another way."
    )
    needs = (CaptureLoss, Streams)

    @staticmethod
    def silent(context: Context, frame: int, since_ns: int, patience: float) -> bool:
        """Whether the capture goes on for `patience` seconds after a time where a frame was captured, and misses nothing."""
        goes_on = context.get(Scopes).goes_on(frame, since_ns) >= patience * SECOND_NS
        return goes_on and context.get(CaptureLoss).proves_silence(since_ns)

    @staticmethod
    def lowered(context: Context, stream: Stream, frame: int, time_ns: int) -> Severity | None:
        """INFO if recording may have stopped within a second of a packet, or nobody waits for the rest of the connection."""
        over = _ended(stream, time_ns) or _goes_on(stream, time_ns)
        return INFO if context.get(CaptureLoss).stopped(frame, time_ns + SECOND_NS) or over else None


def _ended(stream: Stream, time_ns: int) -> bool:
    """Whether a connection was ended so soon after a packet that the requester's timer had not run out."""
    setup = stream.lane.setup
    if setup is None:
        return False
    timer = min(4 * timeout_ns(setup.agreed["ack_timeout"] or USUAL_TIMEOUT), SECOND_NS)
    return any(0 <= ended - time_ns <= timer for _, ended, _ in setup.dreqs)


def _left(stream: Stream, time_ns: int) -> Severity | None:
    """INFO if a requester that has tries left ended the connection (DREQ) after a packet: it waited for nothing."""
    setup = stream.lane.setup
    return INFO if setup is not None and setup.agreed["retry_count"] and any(ended >= time_ns for _, ended, _ in setup.dreqs) else None


def _goes_on(stream: Stream, time_ns: int) -> bool:
    """Whether a requester sends on for longer than any timer after a packet, and repeats nothing."""
    return bool(stream.last_ns - time_ns >= PATIENCE * SECOND_NS and stream.retry_ns < time_ns)


class RequestsLost(SilenceRule):
    """Requests of a connection were lost, and nobody recovered them.

    The responder neither acknowledged them nor asked for them, and the requester did not repeat them: data is missing until a timer
    expires.

    Look for drops between the capture and the responder, and check whether the responder is alive.
    """

    code, name, severity = "RC001", "psn-gap", WARNING
    evidence = (
        f"{SilenceRule.evidence} Requests that only the capture missed look the same if the responder died at that moment and nothing "
        "else shows the loss."
    )
    reference = "IBA 9.7.5.1.2; python-rdma BTH.PSN"
    message = "{ends}: {missing} missing from PSN {psn} on, neither asked for again nor acknowledged"
    example = "SENDs with PSN 1, 2 and 4, acknowledged up to 2, and ten seconds of silence"
    patience = Setting(PATIENCE, "seconds that the capture must go on after the gap", 0.0)

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        for stream, gap, unseen in gaps(context.get(Streams)):
            if not gap.requested and not unseen and self.silent(context, gap.frame, gap.time_ns, self.patience):
                yield of_gap(stream, gap, gap.start, severity=self.lowered(context, stream, gap.frame, gap.time_ns))


class RequestsRepeated(Rule):
    """Requests were sent again.

    Something was lost in either direction, or an answer came after the requester's timer. Repetitions cost bandwidth, the timeout before
    them much more.

    Nothing, if they are few; if there are many, look for NAKs (RC004), drops and bad ICRCs, and compare the Local ACK Timeout with the
    response times.

    A request with a PSN that was already sent. A late packet that fills a gap is not one, nor are packets below the first PSN of the
    capture that come within a millisecond: the network spreads them over several paths. UC never repeats: its message says so.
    """

    code, name, severity = "RC002", "psn-duplicate", INFO
    reference = "IBA 9.7.5.1.1, 9.7.6.1; python-rdma BTH.PSN"
    message = "{ends}: PSN {psn} was sent before"
    example = "two SENDs with the same PSN"

    @on_event(Repeated)
    def repeated(self, event: Repeated, _context: Context) -> Iterator[Hit]:
        hit = of_stream(event, frames=tuple(event.frames))
        if event.ends.service == "UC":
            hit.message = "{ends}: PSN {psn} was seen before; UC never repeats, so the packet was duplicated or the connection restarted"
        yield hit


class Wrap(Rule):
    """The packet sequence numbers of a connection wrapped around.

    Nothing is wrong: 24 bits last for 16.8 million packets, or less if the first PSN was random. Tools that compare PSNs as numbers fail
    here.

    Nothing; look here first if another tool reports loss at this frame.

    One request whose packets reach PSN 0xffffff.
    """

    code, name, severity = "RC003", "psn-wrap", INFO
    is_note = True
    reference = "IBA 9.7.2; python-rdma BTH.PSN"
    message = "{ends}: the PSN wraps from 0xffffff to 0"
    example = "a SEND with PSN 0xffffff and one with PSN 0"

    @on_event(Wrapped)
    def wrapped(self, event: Wrapped, _context: Context) -> Iterator[Hit]:
        yield of_stream(event)


class ReceiverNotReady(PacketRule):
    """A responder had no receive buffer (RNR NAK).

    The requester waits for the time in the NAK and tries again; throughput falls to one message per timer. When the RNR retry count is used
    up (7: never), the connection ends.

    Post receives earlier or more of them, use a shared receive queue, or shorten the minimum RNR timer.
    """

    code, name, severity = "RC007", "rnr-nak", INFO
    reference = "IBA 9.7.5.2.8; Wireshark AETH timers"
    when = (AETH.syndrome_opcode == RNR) & (AETH.reserved == 0) & KNOWN_HEADERS
    at = AETH.syndrome
    message = "RNR NAK for PSN {BTH.psn}: no receive is posted; the sender is to wait {timer!t}"
    example = "an Acknowledge with syndrome 0x2e (wait 1.28 ms)"


class MsnRegression(Rule):
    """The message number of a responder fell.

    The number counts completed messages. A requester that trusts it takes completed messages for open ones, or the other way round.

    Check whether two connections use the same queue pair numbers in this capture; otherwise look at the responder's firmware.

    Two acknowledgements of one connection, the second of a later PSN. An `info` where the times of neighbouring records are not in order,
    and for MSN 1, with which a queue pair begins that was made again. Records in another order whose times rise are accused: then the next
    acknowledgement has the higher MSN again.
    """

    code, name, severity = "RC009", "msn-regression", ERROR
    reference = "IBA 9.7.7.1; python-rdma AETH.MSN"
    message = "{ends}: MSN {msn} with PSN {psn}, after MSN {before} with an earlier PSN"
    example = "acknowledgements of PSN 5 with MSN 3, and of PSN 6 with MSN 2"

    needs = (CaptureLoss,)

    @on_event(MsnFell)
    def fell(self, event: MsnFell, _context: Context) -> Iterator[Hit]:
        yield of_stream(event, (event.before_frame, "the higher MSN"), msn=event.msn, before=event.before)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        anew = hit.arguments["msn"] <= 1
        return INFO if anew or context.get(CaptureLoss).disordered(hit.related[0].frame, hit.frame) else None


class MsnJump(Rule):
    """The message number of a responder rose by more than the number of packets.

    Every message has at least one packet, so the number cannot run ahead of the PSN: an acknowledgement is wrong, or of another connection.

    Check whether two connections use the same queue pair numbers in this capture; otherwise look at the responder's firmware.

    Two acknowledgements of one connection, the second of a later PSN.
    """

    code, name, severity = "RC010", "msn-jump", INFO
    reference = "IBA 9.7.7.1; python-rdma AETH.MSN"
    message = "{ends}: MSN rose from {before} to {msn} over {packets:packet}"
    example = "acknowledgements of PSN 5 with MSN 3, and of PSN 6 with MSN 100"

    @on_event(MsnJumped)
    def jumped(self, event: MsnJumped, _context: Context) -> Iterator[Hit]:
        yield of_stream(event, (event.before_frame, "the lower MSN"), msn=event.msn, before=event.before, packets=event.packets)


class ReadUnanswered(SilenceRule):
    """An RDMA READ did not get all its data.

    The responder did not answer in full: the work request of the requester hangs or failed.

    Check whether the responder's queue pair went to the error state, or whether its answers are lost after the capture point.
    """

    code, name, severity = "RC012", "read-response-missing", WARNING
    evidence = (
        f"{SilenceRule.evidence} An `info`, too, where nothing of the data came and the requester repeats neither the READ nor what came "
        "before it: the data takes another link, or nobody waits for it; and where it ended the connection (DREQ) and may try again."
    )
    reference = "IBA 9.7.5.1.9; python-rdma RETH"
    message = "{ends}: RDMA READ up to PSN {psn} was not answered to its end"
    example = "a READ of 3000 bytes, its first two responses, the READ again, and ten seconds of silence"
    patience = Setting(PATIENCE, "seconds that the capture must go on after the READ", 0.0)

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        for stream, answered in open_reads(context.get(Streams)):
            frame, time_ns, ends, psn = stream.read_frame, stream.read_ns, stream.ends, stream.read_psn
            if self.silent(context, frame, time_ns, self.patience):
                again = stream.tried_again(psn) or (stream.waited and 0 < distance(stream.retry_psn, answered) <= distance(psn, answered))
                unheard = INFO if distance(psn, answered) > 0 else None
                yield fault(
                    Moment(frame, time_ns), {"ends": ends.text, "psn": psn}, BTH.psn, psn, evidence=LEARNT, key=ends,
                    severity=None if again else unheard or _left(stream, time_ns) or self.lowered(context, stream, frame, time_ns),
                )  # fmt: skip


class WriteLength(Rule):
    """The payloads of an RDMA WRITE do not add up to the length that it announced.

    The responder refuses the message with an invalid request NAK, and the connection ends.

    Compare the path MTU that both sides use; look at the sender's driver.

    All packets of the message, with consecutive PSNs.
    """

    code, name, severity = "RC014", "write-length-mismatch", ERROR
    reference = "IBA 9.7.4.1.6; python-rdma RETH.DMALen"
    message = "{ends}: RDMA WRITE of {claimed:byte} (DMALen) carries {found}"
    example = "a WRITE First with DMALen 600 and 256 bytes, and a WRITE Last with 256 bytes"

    @on_event(LengthWrong)
    def wrong(self, event: LengthWrong, _context: Context) -> tuple[DeferredHit]:
        made = partial(of_stream, event, count=event.count, claimed=event.claimed, found=event.found)
        return (DeferredHit(frame=event.frame, key=event.ends, make=made, count=event.count),)


class OpcodeOrder(Rule):
    """The packets of a message are in an impossible order.

    A message is First, Middle and Last, or Only. Anything else is refused with an invalid request NAK (RC) or dropped (UC). The
    PSNs are consecutive, so nothing was lost in between.

    Look at the sender's driver or firmware.

    Two packets with consecutive PSNs. A queue pair that is made again with the PSN that comes next looks the same where the first packets
    of its new use were recorded in another order: then the MSNs of the answers begin with 1 again.
    """

    code, name, severity = "RC015", "write-sequence-error", ERROR
    reference = "IBA 9.7.4.1.3; Linux rxe_resp.c check_op_seq"
    message = "{ends}: {operation} cannot follow {before}"
    example = "a SEND Only with PSN 1 and a SEND Middle with PSN 2"

    @on_event(OrderWrong)
    def wrong(self, event: OrderWrong, _context: Context) -> Iterator[Hit]:
        yield of_stream(event, operation=OPCODES[event.opcode].operation, before=OPCODES[event.before].operation)


class NakIgnored(SilenceRule):
    """A responder asked for a packet again, and the requester never sent it again.

    A NAK with a PSN sequence error tells the requester where to resume. A requester that does not react has given up: its retry counter was
    used up, or its queue pair is in the error state.

    Look at the requester's completion errors.
    """

    code, name, severity = "RC011", "sequence-error-retry", WARNING
    reference = "IBA 9.7.5.2.4; Linux rxe_comp.c (COMPST_ERROR_RETRY)"
    message = "{ends}: {missing} missing from PSN {psn} on, asked for by a NAK and never sent again"
    example = "SENDs with PSN 1 and 3, a NAK sequence error for 2, and ten seconds of silence"
    patience = Setting(PATIENCE, "seconds that the capture must go on after the NAK", 0.0)

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        for stream, gap, unseen in gaps(context.get(Streams)):
            if gap.requested and not unseen and self.silent(context, gap.frame, gap.requested_ns, self.patience):
                yield of_gap(stream, gap, gap.start, severity=self.lowered(context, stream, gap.frame, gap.requested_ns))


class MessageLost(Rule):
    """Packets of an unreliable connection are missing.

    UC does not repeat: the messages that they belonged to are lost, and nobody is notified.

    Look for drops on the path (congestion, bad ICRCs), or use RC.

    Nobody acknowledges packets of UC, so their loss looks the same whether the network or the capture lost them. A warning if the rest
    of the traffic shows that the capture misses nothing: a thousand packets follow each other or were answered, and they are so many
    that ten would be missing if the capture had lost the same share of them as of UC. Otherwise an `info`; silent in ERF captures whose
    traffic does not show that (ibdump counts no losses). A packet that arrives late was recorded out of order. An `info` where nothing
    came for two seconds, or more packets are missing than came: a program that runs again may use the same queue pairs. The same where more
    than a fifth of a stream is missing in eight gaps or more: the rest took paths that the capture does not show. Silent where the snap
    length cut off headers within ten seconds.
    """

    code, name, severity = "RC021", "uc-message-gap", WARNING
    reference = "IBA 9.8.2.2; python-rdma BTH.PSN"
    needs = (CaptureLoss, Streams)
    message = "{ends}: {missing} missing before PSN {psn}"
    example = "UC SENDs with PSN 1 and 3"

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        loss, streams = context.get(CaptureLoss), context.get(Streams)
        complete = loss.complete()
        if loss.erf and not complete:
            return
        unreliable = [stream for stream in streams.all if stream.ends.service == "UC"]
        gaps = [(stream, gap) for stream in unreliable for gap in stream.gaps or ()]
        missing = sum(gap.count for _, gap in gaps)
        share = missing / max(1, missing + sum(stream.packets for stream in unreliable))
        proved = complete and loss.enough(min(share, 0.01))  # that a card lost nothing does not prove that nobody filtered its file
        for stream, gap in gaps:
            if not loss.cut_near(gap.time_ns):
                before = gap.before, "the packet before the gap"
                anew = gap.count > stream.packets or loss.nanoseconds_between(gap.before, gap.frame) > SECOND_NS
                doubtful = anew or _elsewhere(stream)
                yield of_gap(stream, gap, (gap.start + gap.count) % PSNS, before, severity=None if proved and not doubtful else INFO)


def _elsewhere(stream: Stream) -> bool:
    """Whether so much of a stream is missing, here and there, that it takes other paths, too."""
    missing = stream.missing - stream.filled
    return len(stream.gaps) >= MANY_GAPS and missing * USUAL_PART > missing + stream.packets
