"""How does a stream recover from losses and repetitions? Packet by packet, only for streams that are not clean."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct as Record
from msgspec import field
from msgspec.structs import replace

from ibdissect.bounded import Dropped
from ibdissect.wire.headers import ACK, NAK, RNR
from ibdissect.wire.opcodes import ACKNOWLEDGE, OPERATION, READ_REQUEST

from .events import Exhausted, LengthWrong, MsnFell, MsnJumped, OrderWrong, Repeated, StreamEnds, StreamEvent, Wrapped
from .stream_packets import GOES_ON, LEAVES_OPEN, READ, STARTS_WRITE, UNKNOWN

PSNS = 1 << 24
FAR = 1 << 16
"""A PSN that is farther away than this belongs to a new connection: no sender has so many packets in flight."""
MAX_GAPS, MAX_ALL_GAPS = 64, 131072
"""Gaps remembered per stream, and of all streams together; the stream's oldest is evicted first."""
MTUS = (256, 512, 1024, 2048, 4096)
MAX_RETRIES = 7
"""The retry counter has three bits."""
SHORTEST_TIMEOUT_NS = 1_000_000
"""Copies that follow faster were duplicated in the network, not retransmitted."""


def distance(a: int, b: int) -> int:
    """How far PSN (or MSN) `a` is ahead of `b`; negative if it is behind."""
    return ((a - b + (PSNS >> 1)) & (PSNS - 1)) - (PSNS >> 1)


class Packet(Record):
    """One packet, as input of the state machine."""

    frame: int
    time_ns: int
    psn: int
    opcode: int
    length: int
    dma_length: int
    syndrome: int
    msn: int


class Gap(Record):
    """A gap: PSNs that were skipped and have not arrived so far."""

    start: int
    count: int
    frame: int
    """The packet after the gap."""
    time_ns: int
    before: int
    """Frame of the packet before the gap."""
    requested: bool = False
    """The responder requested these PSNs (NAK sequence error)."""
    requested_ns: int = 0
    """Time of its latest request."""
    passed: bool = False
    """The requester repeated a later PSN, which it does only after these, or went back before them and so sends them again: the capture
    missed them."""


class GapTotal(Record):
    """How many gaps all streams together remember, and how many were evicted."""

    dropped: Dropped = field(default_factory=lambda: Dropped("gaps of one stream"))
    count: int = 0


class Counts(Record):
    """Counts of errors in a stream, for statistics."""

    gaps: int = 0
    missing: int = 0
    repeated: int = 0
    restarts: int = 0
    middle_restarts: int = 0
    repeated_reads: int = 0
    filled: int = 0
    naks: dict[int, int] = field(default_factory=dict)
    rnr: int = 0
    repeated_responses: int = 0
    missing_responses: int = 0


class Stream(Record):
    """State of one stream between two packets; -1 means unknown."""

    slot: int
    ends: StreamEnds
    high: int = -1
    """Requests: the next PSN never seen. Responses: the last PSN answered."""
    cursor: int = -1
    """The PSN after that of the last packet."""
    last_opcode: int = UNKNOWN
    last_frame: int = 0
    last_ns: int = 0
    sent: int = -1
    """Payload bytes of the open message."""
    dma_length: int = -1
    mtu: int = 0
    msn: int = -1
    msn_psn: int = -1
    msn_frame: int = 0
    read: tuple[int, int] = (-1, 0)
    """PSN and DMALen of the last READ, while its number of packets is unknown."""
    gaps: list[Gap] = field(default_factory=list)
    gap_total: GapTotal = field(default_factory=GapTotal)
    """Shared by all streams."""
    tries: int = 0
    retry_psn: int = -1
    retry_frame: int = 0
    retry_ns: int = 0
    waited: bool = False
    """The first repetition of `retry_psn` came after SHORTEST_TIMEOUT_NS or later."""
    retries_allowed: int = MAX_RETRIES
    counts: Counts = field(default_factory=Counts)

    def in_step(self, packet: Packet) -> bool:
        """Whether a packet properly follows the previous one, as in clean traffic."""
        if self.high < 0:
            return True
        goes_on = GOES_ON[packet.opcode]
        step = (packet.psn - self.cursor) & (PSNS - 1)
        if step and (step >= FAR or not self.ends.response or goes_on):
            return False
        if (self.last_opcode != UNKNOWN and LEAVES_OPEN[self.last_opcode] != goes_on) or packet.syndrome >= RNR << 5:
            return False
        more, ahead = (packet.msn - self.msn) & (PSNS - 1), (packet.psn - self.msn_psn) & (PSNS - 1)
        return min(packet.msn, self.msn) < 0 or more <= ahead + 1

    # -- requests

    def request(self, packet: Packet, back: Stream | None, count_tries: bool) -> Iterator[StreamEvent]:
        """Process a request; `back` is the other direction, None if unknown. `count_tries`: check its number of tries."""
        psn, opcode = packet.psn, packet.opcode
        if not self.mtu and back is not None:
            self.mtu = back.mtu
        if self.high < 0 or abs(distance(psn, self.cursor)) > FAR:
            self._begin(packet)
            return
        self._settle_read(packet)
        ahead, step = distance(psn, self.high), distance(psn, self.cursor)
        if step and back is not None and back.msn_frame < packet.frame:
            back.msn = -1  # another connection may have these queue pairs now, and count its messages from the start
        if ahead > 0:
            self.counts.gaps += 1
            self.counts.missing += ahead
            self._gap(self.high, ahead, packet)
        elif ahead < 0:
            yield from self._retransmission(packet, step, count_tries)
        if step == 0:
            if self.last_opcode != UNKNOWN and LEAVES_OPEN[self.last_opcode] != GOES_ON[opcode]:
                yield OrderWrong(packet.frame, packet.time_ns, self.ends, self.slot, psn, opcode, self.last_opcode)
        else:
            self.sent = self.dma_length = -1
        yield from self._message(packet)
        used = self._packets(packet)
        if ahead >= 0 and psn + used >= PSNS:
            yield Wrapped(packet.frame, packet.time_ns, self.ends, self.slot, psn)
        self.cursor = (psn + used) % PSNS
        if distance(self.cursor, self.high) > 0:
            self.high = self.cursor
        self.last_opcode, self.last_frame, self.last_ns = opcode, packet.frame, packet.time_ns

    def _begin(self, packet: Packet) -> None:
        """Start with the first packet of a connection."""
        if self.ends.service != "UC":  # UC never retransmits: its gaps stay
            self.forget()
        self.tries, self.retry_psn = 0, -1
        self.sent = self.dma_length = -1
        self.read, self.mtu = (-1, 0), 0
        if not GOES_ON[packet.opcode]:
            for _ in self._message(packet):
                pass
        self.high = self.cursor = (packet.psn + self._packets(packet)) % PSNS
        self.last_opcode, self.last_frame, self.last_ns = packet.opcode, packet.frame, packet.time_ns

    def _packets(self, packet: Packet) -> int:
        """Number of PSNs that a request uses: one, or one per READ response."""
        if packet.opcode & OPERATION != READ_REQUEST:
            return 1
        if self.mtu and packet.dma_length >= 0:
            return max(1, -(-packet.dma_length // self.mtu))
        if not 0 <= packet.dma_length <= MTUS[0]:
            self.read = (packet.psn, packet.dma_length)
        return 1

    def _settle_read(self, packet: Packet) -> None:
        """Compute the PSNs used by the last READ, once the path MTU is known; this packet's PSN may reveal the MTU."""
        start, length = self.read
        if start < 0:
            return
        self.read = (-1, 0)
        if distance(self.high, start) != 1:
            return
        step = distance(packet.psn, start)
        if length < 0:  # its RETH is cut off: it used as many PSNs as the next request says
            if step > 0:
                self.high = self.cursor = packet.psn
                self.last_opcode = UNKNOWN
            else:
                self.read = (start, length)
            return
        if not self.mtu:
            rest = length - packet.dma_length if packet.opcode & OPERATION == READ_REQUEST else 0
            again = [mtu for mtu in MTUS if 0 < rest == step * mtu]  # this packet requests the rest of the same READ
            if len(again) == 1:
                self.mtu = again[0]
            elif any(-(-length // mtu) == step for mtu in MTUS):  # or packets before it are missing
                self.high = self.cursor = packet.psn
                self.last_opcode = UNKNOWN
                return
        if self.mtu:
            self.high = self.cursor = (start + max(1, -(-length // self.mtu))) % PSNS
        elif step == 0:
            self.read = (start, length)

    def _gap(self, start: int, missing: int, packet: Packet) -> None:
        self.gaps.append(Gap(start, missing, packet.frame, packet.time_ns, self.last_frame))
        self._added(1, packet)

    def _added(self, count: int, packet: Packet) -> None:
        """Count new gaps, and evict the oldest ones if there are too many."""
        self.gap_total.count += count
        while self.gaps and (len(self.gaps) > MAX_GAPS or self.gap_total.count > MAX_ALL_GAPS):
            self.gaps.pop(0)
            self.gap_total.count -= 1
            self.gap_total.dropped.add(packet.frame, packet.time_ns)

    def forget(self) -> None:
        """Forget all gaps."""
        self.gap_total.count -= len(self.gaps)
        self.gaps.clear()

    def _retransmission(self, packet: Packet, step: int, count_tries: bool) -> Iterator[StreamEvent]:
        """Process a packet with a PSN below the highest: retransmitted or late."""
        counts = self.counts
        middle = step not in (0, -1) and bool(GOES_ON[packet.opcode])
        counts.restarts += step != 0
        counts.middle_restarts += middle
        if self._fill(packet):
            counts.filled += 1
            return
        for gap in self.gaps:
            gap.passed |= distance(gap.start, packet.psn) < 0 or packet.time_ns - gap.time_ns >= SHORTEST_TIMEOUT_NS
        read = packet.opcode & OPERATION == READ_REQUEST
        counts.repeated += 1
        counts.repeated_reads += read
        yield Repeated(packet.frame, packet.time_ns, self.ends, self.slot, packet.psn, middle, read, (packet.frame,))
        if packet.psn != self.retry_psn:
            if step != 0:
                self.waited = packet.time_ns - self.last_ns >= SHORTEST_TIMEOUT_NS
                self.retry_psn, self.tries, self.retry_frame, self.retry_ns = packet.psn, 1, packet.frame, packet.time_ns
        elif packet.time_ns - self.retry_ns >= SHORTEST_TIMEOUT_NS:
            self.tries += 1
            self.retry_ns, self.waited = packet.time_ns, True
            if count_tries and self.tries == self.retries_allowed + 1:
                yield Exhausted(
                    packet.frame, packet.time_ns, self.ends, self.slot, packet.psn, self.tries + 1, self.retries_allowed, self.retry_frame
                )  # fmt: skip

    def tried_again(self, psn: int) -> bool:
        """Whether the requester sent a PSN again after a timeout; a copy that the network or a mirror made is no try."""
        return self.retry_psn == psn and self.waited

    def requested(self, psn: int, time_ns: int) -> None:
        """The responder requested `psn` again (NAK or RNR NAK): reset the tries, as this is not a timeout, and mark its gap."""
        self.tries = 0
        for gap in self.gaps:
            if -gap.count < distance(gap.start, psn) <= 0:
                gap.requested, gap.requested_ns = True, time_ns

    def _fill(self, packet: Packet) -> bool:
        """Remove the packet's PSN from its gap, which may leave two; False if it is in none."""
        for i, gap in enumerate(self.gaps):
            at = distance(packet.psn, gap.start)
            if 0 <= at < gap.count:
                rest = replace(gap, start=(packet.psn + 1) % PSNS, count=gap.count - at - 1)
                gap.count = at
                left = [part for part in (gap, rest) if part.count]
                self.gaps[i : i + 1] = left
                self._added(len(left) - 1, packet)
                return True
        return False

    def _message(self, packet: Packet) -> Iterator[StreamEvent]:
        """Add a packet to the payload size of its message, and check it against DMALen at the end."""
        opcode = packet.opcode
        if not GOES_ON[opcode]:
            self.sent = 0 if LEAVES_OPEN[opcode] or STARTS_WRITE[opcode] else -1
            self.dma_length = packet.dma_length if STARTS_WRITE[opcode] else -1
        if packet.length < 0 or self.sent < 0:
            self.sent = -1
            return
        self.sent += packet.length
        if LEAVES_OPEN[opcode]:
            if packet.length in MTUS:
                self.mtu = packet.length
        else:
            if GOES_ON[opcode] and 0 < self.dma_length != self.sent:
                yield LengthWrong(packet.frame, packet.time_ns, self.ends, self.slot, packet.psn, self.dma_length, self.sent, 1)
            self.sent = self.dma_length = -1

    # -- responses

    def response(self, packet: Packet, alone: bool) -> Iterator[StreamEvent]:
        """Process a response; the caller reports NAKs to the other direction. `alone`: which stream that is, is not known."""
        psn, opcode = packet.psn, packet.opcode
        if packet.syndrome < 0 and opcode & OPERATION == ACKNOWLEDGE:
            return  # its AETH is cut off: it may be a NAK
        kind = packet.syndrome >> 5 if packet.syndrome >= 0 else ACK
        if self.high >= 0 and abs(distance(psn, self.high)) > FAR:
            self.high = self.msn = -1
            self.last_opcode = UNKNOWN
            self.forget()
        if kind in (RNR, NAK):
            if kind == RNR:
                self.counts.rnr += 1
            else:
                code = packet.syndrome & 0x1F
                self.counts.naks[code] = self.counts.naks.get(code, 0) + 1
            return
        ahead = distance(psn, self.high) if self.high >= 0 else 1
        in_turn = self.cursor == (self.high + 1) % PSNS
        if GOES_ON[opcode] == READ and self.cursor >= 0 and 0 < distance(psn, self.cursor) <= FAR:
            self.counts.missing_responses += distance(psn, self.cursor)
            self.msn = -1
            if in_turn:
                self._gap(self.cursor, distance(psn, self.cursor), packet)
        if ahead <= 0 and self._fill(packet):
            self.counts.filled += 1
            if in_turn:
                return  # it came late; the next one follows those before it
        elif self.high >= 0 and ahead <= 0:
            self.counts.repeated_responses += 1
            if 0 <= packet.msn != self.msn and distance(packet.msn, self.msn) < 0:
                self.msn = -1  # an answer was overtaken, or another connection has these queue pairs now
        elif packet.msn >= 0:
            if self.msn >= 0:
                more = distance(packet.msn, self.msn)
                if more < 0 and alone and distance(psn, self.msn_psn) > 1:
                    pass  # another connection may have these queue pairs since the PSNs between
                elif more < 0:
                    yield MsnFell(packet.frame, packet.time_ns, self.ends, self.slot, psn, packet.msn, self.msn, self.msn_frame)
                elif more > distance(psn, self.msn_psn) + 1:
                    between = distance(psn, self.msn_psn)
                    yield MsnJumped(packet.frame, packet.time_ns, self.ends, self.slot, psn, packet.msn, self.msn, self.msn_frame, between)
            self.msn, self.msn_psn, self.msn_frame = packet.msn, psn, packet.frame
        if LEAVES_OPEN[opcode] and packet.length in MTUS:
            self.mtu = packet.length
        if self.high < 0 or ahead > 0:
            self.high = psn
        self.cursor, self.last_opcode = (psn + 1) % PSNS, opcode
        self.last_frame, self.last_ns = packet.frame, packet.time_ns
