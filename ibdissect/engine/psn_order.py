# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""The order of packets in one stream: the requests, or the responses, of one service from one host to a queue pair of another.

What rules ask of PSNs, MSNs and messages, from packet to packet. `requester_responder` tells why a connection was slow; here each packet
counts, and nothing waits: an event is told with its packet.
"""

from __future__ import annotations

from typing import Any

from ibdissect.wire.opcodes import UC

from . import psn_gaps
from .opcode_parts import READ

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import ACKNOWLEDGE, PSNS, READ_FIRST, READ_REQUEST, distance, i64
    from cython.cimports.ibdissect.engine.packet_fields import Packet
else:
    from .common import distance, i64
    from .packet_fields import Packet
    from .packet_kinds import ACKNOWLEDGE, PSNS, READ_FIRST, READ_REQUEST

LENGTH_WRONG, ORDER_WRONG, SIZE_CHANGED, REPEATED = "LengthWrong", "OrderWrong", "SizeChanged", "Repeated"
EXHAUSTED, WRAPPED, MSN_FELL, MSN_JUMPED = "Exhausted", "Wrapped", "MsnFell", "MsnJumped"
MAX_ORDERS = 50_000
"""Streams that are followed: the first ones of a capture."""
MAX_WAYS = 16
"""Streams of one lane: of each service requests and responses, and those of hosts behind a router, whose GIDs differ."""
MAX_NOT_READY = 64
"""Packets of a stream for which RNR NAKs are counted; of further ones nobody knows how many there are."""
_NO_OPCODE = cython.declare(cython.int, 0xFF)  # before the first packet seen; no transport uses it
_UNKNOWN_PART = cython.declare(cython.int, 4)
_READ = cython.declare(cython.int, READ)
_STARTS_WRITE = cython.declare(cython.int, 16)
_FAR = cython.declare(cython.longlong, psn_gaps.FAR)
_TIMEOUT_NS = cython.declare(cython.longlong, 1_000_000)
_WRONG = cython.declare(cython.int, 2)
_RETRIES = cython.declare(cython.longlong, 7)  # the retry counter has three bits
_UC = cython.declare(cython.int, UC)
_LEAST_MTU = cython.declare(cython.longlong, 256)
_LARGEST_MTU = cython.declare(cython.longlong, 4096)


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def _is_mtu(size: i64) -> cython.bint:
    return _LEAST_MTU <= size <= _LARGEST_MTU and not size & (size - 1)


@cython.final
@cython.cclass
class Order:
    """State of one stream between two packets; -1 means unknown.

    `high`: of requests the next PSN never seen, of responses the last PSN answered; `lowest`: the lowest PSN of requests; `cursor`: the PSN
    after that of the last packet. `sent`: payload bytes of the open message, `dma_length`: those that it announced. `open_...`: the last
    READ, while its number of packets is unknown; `read_...`: the last READ. `message_...`: what the last packet and the first one of its
    message told. `waited`: the first repetition of `retry_psn` came a timeout later; `sealed`: the first packet had a right ICRC, so a
    wrong one later means damage; `first_msn`: the MSN of the first packet, if that acknowledges; `largest`: the longest payload. `unsized`:
    packets whose payload no header tells, which `bytes` lacks; `unread`: acknowledgements whose AETH is cut off, so that they may be NAKs.
    `run`: frames of the last event about repetitions, `wrong` what the last one about a length tells. `ends` names the stream.
    `not_ready`: of responses, how many RNR NAKs there are by PSN, None for none.
    For `message_places`: `latest`, the PSN of the last packet; of requests, as places, `place` of the last one, `newest`, `earliest`, and
    `reach`, the end of what was asked for.
    """

    def __init__(self, told: psn_gaps.Told, lane: Any, p: Packet, answers: cython.bint) -> None:
        self.told, self.lane, self.number, self.next, self.back, self.ends = told, lane, told.count, None, None, None
        self.gids, self.facing, self.service, self.response, self.dest_qp = p.gids, p.facing, p.opcode & 0xE0, answers, p.qpn
        self.first_frame, self.first_ns, self.first_psn, self.first_msn, self.first_opcode = p.frame, p.time, p.psn, p.msn, p.opcode
        self.sealed, self.waited = p.bad_icrc != _WRONG, False
        self.last_opcode, self.last_open = _NO_OPCODE, _UNKNOWN_PART
        self.high = self.cursor = self.lowest = self.sent = self.dma_length = self.msn = self.msn_psn = self.allowed = -1
        self.mtu = self.msn_frame = self.last_frame = self.last_ns = 0
        self.packets = self.bytes = self.unsized = self.unread = self.largest_frame = self.message_kind = 0
        self.largest = self.message_psn = self.message_size = self.read_psn = self.open_psn = self.retry_psn = -1
        self.message_frame = self.read_length = self.read_frame = self.read_ns = self.open_length = self.open_va = 0
        self.tries = self.retry_frame = self.retry_ns = self.run_window = self.wrong_window = 0
        self.gap_count = self.missing = self.repeated = self.restarts = self.middle_restarts = self.repeated_reads = self.filled = 0
        self.rnr = self.repeated_responses = self.missing_responses = 0
        self.latest = self.newest = -1
        self.place = self.earliest = self.reach = 0
        nothing: Any = None
        self.gaps = self.naks = self.not_ready = self.run = self.wrong = nothing

    def take(self, p: Packet, back: Order | None) -> cython.int:
        """The next packet. `back`: the stream the other way, None if it is not known.

        Skips packets with a wrong ICRC unless they are in step.
        """
        self.tally(p)
        self.message_part(p)
        if p.bad_icrc == _WRONG and self.sealed and not self.in_step(p):
            return 0
        if not self.response:
            return self.ask(p, back)
        self.answer(p, back is None)
        if back is not None and p.syndrome >= 0 and (p.syndrome >> 5 == 1 or p.syndrome >> 5 == 3):
            back.requested(p)
        elif back is not None and back.tries and p.psn == back.retry_psn and READ_FIRST <= p.op < ACKNOWLEDGE:
            back.tries = 0  # a requester that drops READ responses asks again without a timeout
        return 0

    def tally(self, p: Packet) -> cython.int:
        """Count a packet, and remember the latest READ."""
        self.packets += 1
        if p.length < 0:
            self.unsized += 1
        else:
            self.bytes += p.length
            if p.length > self.largest:
                self.largest, self.largest_frame = p.length, p.frame
        if p.op == ACKNOWLEDGE and p.syndrome < 0:
            self.unread += 1
        elif p.op == READ_REQUEST:
            self.read_psn, self.read_length, self.read_frame, self.read_ns = p.psn, p.dma if p.has_reth else -1, p.frame, p.time
        return 0

    def message_part(self, p: Packet) -> cython.int:
        """Is a packet that is neither the first nor the last of its message as long as the first one?"""
        goes_on: cython.int = p.parts & 3
        leaves_open: cython.int = p.parts >> 2 & 3
        if goes_on and goes_on == self.message_kind and p.psn == (self.message_psn + 1) & (PSNS - 1):
            if leaves_open and p.length != self.message_size and p.bad_icrc != _WRONG and _is_mtu(p.length) and _is_mtu(self.message_size):
                self.tell(SIZE_CHANGED, p, [p.opcode, p.length, self.message_size, self.message_frame])
        else:
            self.message_size, self.message_frame = p.length, p.frame
        self.message_psn, self.message_kind = p.psn, leaves_open
        return 0

    def tell(self, kind: str, p: Packet, values: Any) -> cython.int:
        """Something happened."""
        self.told.events.append([kind, self, p.frame, p.time, p.psn, values])
        return 0

    def in_step(self, p: Packet) -> cython.bint:
        """Whether a packet properly follows the previous one, as in clean traffic."""
        if self.high < 0:
            return True
        goes_on: cython.int = p.parts & 3
        step: i64 = (p.psn - self.cursor) & (PSNS - 1)
        if step and (step >= _FAR or not self.response or goes_on):
            return False
        if (self.last_open != _UNKNOWN_PART and self.last_open != goes_on) or p.syndrome >= 0x20:
            return False
        if p.msn < 0 or self.msn < 0:
            return True
        return (p.msn - self.msn) & (PSNS - 1) <= ((p.psn - self.msn_psn) & (PSNS - 1)) + 1

    # -- requests

    def ask(self, p: Packet, back: Order | None) -> cython.int:
        """A request."""
        psn: i64 = p.psn
        if not self.mtu and back is not None:
            self.mtu = back.mtu
        if self.high < 0 or abs(distance(psn, self.cursor)) > _FAR:
            return self.begin(p)
        if self.open_psn >= 0:
            self.settle_read(p)
        more: i64 = distance(psn, self.high)
        step: i64 = distance(psn, self.cursor)
        if step and back is not None and back.msn_frame < p.frame:
            back.msn = -1  # another connection may have these queue pairs now, and count its messages from the start
        if more > 0:
            self.gap_count += 1
            self.missing += more
            self.skip(self.high, more, p)
        elif more < 0:
            self.again(p, step, back is not None and back.high >= 0)
        if step:
            self.sent = self.dma_length = -1
        elif self.last_open != _UNKNOWN_PART and self.last_open != p.parts & 3:
            self.tell(ORDER_WRONG, p, [p.opcode, self.last_opcode])
        self.message(p, False)
        self.cursor = self.after(p, more >= 0)
        if distance(self.cursor, self.high) > 0:
            self.high = self.cursor
        self.last_opcode, self.last_open, self.last_frame, self.last_ns = p.opcode, p.parts >> 2 & 3, p.frame, p.time
        return 0

    def begin(self, p: Packet) -> cython.int:
        """Start with the first packet of a connection."""
        if self.service != _UC:  # UC never retransmits: its gaps stay
            self.forget()
        self.tries, self.retry_psn, self.lowest = 0, -1, p.psn
        self.sent = self.dma_length = -1
        self.open_psn, self.mtu = -1, 0
        if not p.parts & 3:
            self.message(p, True)
        self.high = self.cursor = self.after(p, True)
        self.last_opcode, self.last_open, self.last_frame, self.last_ns = p.opcode, p.parts >> 2 & 3, p.frame, p.time
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def after(self, p: Packet, fresh: cython.bint) -> i64:
        """The PSN after a request, which uses one, or one per READ response; `fresh`: it was not sent before."""
        used: i64 = 1
        if p.op == READ_REQUEST and self.mtu and p.has_reth:
            used = max(1, (p.dma + self.mtu - 1) // self.mtu)
        elif p.op == READ_REQUEST and fresh and (not p.has_reth or p.dma > _LEAST_MTU):
            self.open_psn, self.open_length, self.open_va = p.psn, p.dma if p.has_reth else -1, p.va
        if fresh and p.psn + used >= PSNS:
            self.tell(WRAPPED, p, [])
        return (p.psn + used) & (PSNS - 1)

    def settle_read(self, p: Packet) -> cython.int:
        """How many PSNs did the last READ use, where no path MTU was known? This packet's PSN may tell.

        As many as fit before this packet: what is not certainly sent again was not sent before, and what may be a response is not missing.
        """
        start: i64 = self.open_psn
        length: i64 = self.open_length
        step: i64 = distance(p.psn, start)
        used: i64 = 1
        count: i64
        mtu: i64
        self.open_psn = -1
        if distance(self.high, start) != 1:
            return 0
        if step <= 0 and (length < 0 or not self.mtu):
            self.open_psn = start
            return 0
        if length < 0:
            used = step  # its RETH is cut off
        elif self.mtu:
            used = max(1, (length + self.mtu - 1) // self.mtu)
        else:
            for mtu in (256, 512, 1024, 2048, 4096):
                count = (length + mtu - 1) // mtu
                if used < count <= step:
                    used = count
            if used < step and p.op == READ_REQUEST and p.has_reth and 0 < p.dma < length and p.va == self.open_va + length - p.dma:
                for mtu in (256, 512, 1024, 2048, 4096):
                    if length - p.dma == step * mtu:  # this packet requests the rest of the same READ
                        self.mtu, used = mtu, (length + mtu - 1) // mtu
        self.high = self.cursor = (start + used) & (PSNS - 1)
        if used == step:
            self.last_opcode, self.last_open = _NO_OPCODE, _UNKNOWN_PART
        return 0

    def again(self, p: Packet, step: i64, known: cython.bint) -> cython.int:
        """A packet with a PSN below the highest: retransmitted or late. `known`: the stream the other way is, and not by NAKs alone."""
        middle: cython.bint = step != 0 and step != -1 and p.parts & 3 != 0
        self.restarts += step != 0
        self.middle_restarts += middle
        if self.fill(p):
            self.filled += 1
            return 0
        if self.overtaken(p):
            return 0
        if self.gaps:
            psn_gaps.went_back(self.gaps, p.psn, p.time)
        read: cython.bint = p.op == READ_REQUEST
        self.repeated += 1
        self.repeated_reads += read
        if step == 0 and self.run_window == self.told.window:
            self.run.append(p.frame)  # the packets before it were sent again, too
        else:
            self.run, self.run_window = [p.frame], self.told.window
            self.tell(REPEATED, p, [middle, read, self.run])
        return self.try_again(p, step, known)

    def overtaken(self, p: Packet) -> cython.bint:
        """Whether packets that were sent later are recorded before this one: its PSN is the lowest so far, and the stream is younger than
        any timer.
        """
        more: i64 = distance(self.lowest, p.psn)
        if more <= 0 or p.time - self.first_ns >= _TIMEOUT_NS:
            return False
        self.lowest = p.psn
        if more > 1:
            self.skip((p.psn + 1) & (PSNS - 1), more - 1, p)
        return True

    def try_again(self, p: Packet, step: i64, known: cython.bint) -> cython.int:
        """How often was a packet sent after a timeout? Told when that is once too often."""
        if p.psn != self.retry_psn:
            if step != 0:
                self.waited = p.time - self.last_ns >= _TIMEOUT_NS
                self.retry_psn, self.tries, self.retry_frame, self.retry_ns = p.psn, 1, p.frame, p.time
        elif p.time - self.retry_ns >= _TIMEOUT_NS:
            self.tries += 1
            self.retry_ns, self.waited = p.time, True
            if self.allowed < 0:
                self.allowed = self.retries()
            if self.tries == self.allowed + 1:
                self.tell(EXHAUSTED, p, [self.tries + 1, self.allowed, self.retry_frame, known])
        return 0

    def retries(self) -> int:
        """How many repetitions are allowed. A REQ says how often its receiver may retry (IBA 12.7.38), and nothing of its sender."""
        setup = self.lane.setup
        if setup is None or setup.rep is None or self.lane.side != 1:
            return int(_RETRIES)
        count = setup.agreed["retry_count"]
        return int(_RETRIES) if count is None else int(count)

    def requested(self, p: Packet) -> cython.int:
        """The responder asks for a packet again (NAK or RNR NAK): the next try follows no timeout, and its gap is marked."""
        self.tries = 0
        if self.gaps:
            psn_gaps.asked_for(self.gaps, p.psn, p.time)
        return 0

    def message(self, p: Packet, first: cython.bint) -> cython.int:
        """Add a packet to the payload size of its message, and check it against DMALen at the end; `first`: of a connection."""
        goes_on: cython.int = p.parts & 3
        leaves_open: cython.int = p.parts >> 2 & 3
        if not goes_on:
            self.sent = 0 if leaves_open or p.parts & _STARTS_WRITE else -1
            self.dma_length = p.dma if p.parts & _STARTS_WRITE and p.has_reth else -1
        if p.length < 0 or self.sent < 0:
            self.sent = -1
            return 0
        self.sent += p.length
        if leaves_open:
            if _is_mtu(p.length):
                self.mtu = p.length
            return 0
        if goes_on and 0 < self.dma_length != self.sent and not first:
            if self.wrong_window == self.told.window:
                self.wrong[2] += 1  # the first of a window tells of all
            else:
                self.wrong, self.wrong_window = [self.dma_length, self.sent, 1], self.told.window
                self.tell(LENGTH_WRONG, p, self.wrong)
        self.sent = self.dma_length = -1
        return 0

    # -- gaps

    def skip(self, start: i64, count: i64, p: Packet) -> cython.int:
        """PSNs were skipped."""
        if self.gaps is None:
            self.gaps = []
        self.gaps.append(psn_gaps.Gap(start, count, p.frame, p.time, self.last_frame))
        psn_gaps.added(self.gaps, self.told.gaps, 1, p.frame, p.time)
        return 0

    def fill(self, p: Packet) -> cython.bint:
        """Whether a packet was skipped and comes now."""
        return bool(self.gaps) and psn_gaps.filled(self.gaps, self.told.gaps, p.psn, p.frame, p.time)

    def forget(self) -> None:
        """Forget all gaps."""
        if self.gaps:
            self.told.gaps.count -= len(self.gaps)
            self.gaps = None

    # -- responses

    def answer(self, p: Packet, alone: cython.bint) -> cython.int:
        """A response. `alone`: which stream it answers is not known."""
        psn: i64 = p.psn
        if p.syndrome < 0 and p.op == ACKNOWLEDGE:
            return 0  # its AETH is cut off: it may be a NAK
        if self.high >= 0 and abs(distance(psn, self.high)) > _FAR:
            self.high = self.msn = -1
            self.last_opcode, self.last_open = _NO_OPCODE, _UNKNOWN_PART
            self.forget()
        kind: cython.int = p.syndrome >> 5 if p.syndrome >= 0 else 0
        if kind == 1:
            self.rnr += 1
            if self.not_ready is None:
                self.not_ready = {}
            if len(self.not_ready) < MAX_NOT_READY or psn in self.not_ready:
                self.not_ready[psn] = self.not_ready.get(psn, 0) + 1
            return 0
        if kind == 3:
            if self.naks is None:
                self.naks = {}
            code: cython.int = p.syndrome & 0x1F
            self.naks[code] = self.naks.get(code, 0) + 1
            return 0
        more: i64 = distance(psn, self.high) if self.high >= 0 else 1
        in_turn: cython.bint = self.cursor == (self.high + 1) & (PSNS - 1)
        between: i64 = distance(psn, self.cursor) if self.cursor >= 0 else 0
        if p.parts & 3 == _READ and 0 < between <= _FAR:
            self.missing_responses += between
            self.msn = -1
            if in_turn:
                self.skip(self.cursor, between, p)
        if more <= 0 and self.fill(p):
            self.filled += 1
            if in_turn:
                return 0  # it came late; the next one follows those before it
        elif self.high >= 0 and more <= 0:
            self.repeated_responses += 1
            if p.msn >= 0 and p.msn != self.msn and distance(p.msn, self.msn) < 0:
                self.msn = -1  # an answer was overtaken, or another connection has these queue pairs now
        elif p.msn >= 0:
            self.count_msn(p, alone)
        if p.parts >> 2 & 3 and _is_mtu(p.length):
            self.mtu = p.length
        if self.high < 0 or more > 0:
            self.high = psn
        self.cursor = (psn + 1) & (PSNS - 1)
        self.last_opcode, self.last_open, self.last_frame, self.last_ns = p.opcode, p.parts >> 2 & 3, p.frame, p.time
        return 0

    def count_msn(self, p: Packet, alone: cython.bint) -> cython.int:
        """The MSN of a response that is the first for its PSN."""
        if self.msn >= 0:
            more: i64 = distance(p.msn, self.msn)
            between: i64 = distance(p.psn, self.msn_psn)
            if more < 0 and not (alone and between > 1):  # else another connection may have these queue pairs since the PSNs between
                self.tell(MSN_FELL, p, [p.msn, self.msn, self.msn_frame])
            elif more > between + 1:
                self.tell(MSN_JUMPED, p, [p.msn, self.msn, self.msn_frame, between])
        self.msn, self.msn_psn, self.msn_frame = p.msn, p.psn, p.frame
        return 0

    def faces(self, other: Order) -> cython.bint:
        """Whether it may be between the same ports as a stream the other way: not if the GIDs of both differ."""
        return not self.gids or not other.gids or self.gids == other.facing

    def tried_again(self, psn: int) -> bool:
        """Whether the requester sent a PSN again after a timeout; a copy that the network or a mirror made is no try."""
        return bool(self.retry_psn == psn and self.waited)
