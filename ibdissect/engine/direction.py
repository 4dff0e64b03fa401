# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""The state of one direction of a connection, and where its time went. The steps of `requester_responder` change it."""

from __future__ import annotations

from array import array
from typing import Any

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import (  # isort: skip
        ACKNOWLEDGE, BUSY, GROUP_NS, IDLE, MAX_PAUSES, PAUSE_NS, PSNS, RECOVERY, RING, TRANSFERRING, UNKNOWN_SPAN, WAITING, i64,
    )  # fmt: skip
    from cython.cimports.ibdissect.engine.answer_times import Gaps
    from cython.cimports.ibdissect.engine.packet_fields import Packet
    from cython.cimports.ibdissect.engine.waiting_packets import Path, Waits, wider
else:
    from .answer_times import Gaps
    from .common import i64
    from .packet_fields import Packet
    from .packet_kinds import (  # isort: skip
        ACKNOWLEDGE, BUSY, GROUP_NS, IDLE, MAX_PAUSES, PAUSE_NS, PSNS, RECOVERY, RING, TRANSFERRING, UNKNOWN_SPAN, WAITING,
    )  # fmt: skip
    from .waiting_packets import Path, Waits, wider

_NOTHING = cython.declare(cython.longlong[::1], memoryview(array("q")))  # one for all that are empty
NOWHERE = cython.declare(cython.longlong, -(1 << 60))
_LONGEST = cython.declare(cython.longlong, 1 << 53)  # 104 days: no sum overflows where clocks jump


@cython.cclass
class Direction:
    """The state of one direction. `una`: the first position that is not acknowledged; `front`: the one after the last that was sent.

    `held`: ranges in `holes` and `unanswered`; `listed`: they changed since they were counted. `fits`, `misfits`: answers to what was asked
    before, and packets that no queue pair of this direction sends: the answer to what was not asked, a request after a fatal NAK.
    `far_back`: a message went back to the first PSN, or beyond what is remembered, of all that was acknowledged; `renewed`: MSNs did, too;
    `woken`: when it sent again after a silence. `anew`: what is sent again now came soon behind one, so that another connection may have
    the queue pair. Since then
    there were `anew_messages` messages, and `doubtful` of its packets have other bytes than before.
    """

    def __init__(self, path: Path, reliable: bool = True) -> None:
        self.path, self.reliable = path, reliable
        self.una = self.front = 0
        self.recover = self.rnr = self.round_next = self.open_pos = self.last_ack = self.answered = NOWHERE
        self.state = IDLE
        self.started = self.half_sent = self.asked = self.in_round = self.unasked = self.listed = False
        self.mtu = self.agreed_mtu = self.timer = self.since = self.wrong_wanted = 0
        self.requests = self.answers = self.messages = self.payload = self.again = self.naks = self.rnr_naks = self.unread = 0
        self.marks = self.mark_groups = self.mark_time = self.mark_frame = self.mark_last = self.missed = self.dropped = 0
        self.forgotten = self.held = 0
        self.transferring = self.rnr_wait = self.loss_recovery = self.timeout = self.idle = 0
        self.pauses = self.paused = self.pause_frame = self.open_dma = self.msg_frame = self.last_frame = self.first_frame = 0
        self.last_request = self.last_answer = self.last_request_time = self.last_answer_time = 0
        self.tries = self.last_try = self.last_try_end = self.last_try_time = self.rounds = self.first_try_time = self.longest_wait = 0
        self.rnr_time = self.rnr_frame = self.rnr_first = self.rnr_count = self.rnr_code = self.rnr_sent = 0
        self.hurried = self.hurried_first = self.hurried_frame = self.tried = self.tried_time = 0
        self.nak_code = self.fatal_frame = self.fatal_request = self.fatal_size = self.fatal_reads = self.fatal_nth = 0
        self.reorder_proof = self.loss_proof = self.same_acks = self.same_frame = self.same_first = 0
        self.last_msn = self.largest = -1
        self.fits = self.misfits = self.begun = self.woken = 0
        self.far_back = self.renewed = self.anew = False
        self.doubtful = self.doubtful_first = self.doubtful_before = self.anew_messages = 0
        self.reused = self.reused_first = self.reused_before = self.reused_frame = 0
        self.wrong_frame = self.wrong_request = self.wrong_size = 0
        self.losses = self.timeouts = self.rnrs = self.loss_first = self.loss_last = 0
        self.timeout_first = self.timeout_last = self.rnr_begin = self.rnr_last = 0
        self.gaps = Gaps()
        self.open, self.reads = Waits(), Waits()
        none: list[Any] = []
        asked: dict[int, bool] = {}
        self.holes, self.unanswered, self.episodes, self.late, self.nakked = none, none[:], none[:], none[:], asked
        self.sent = self.quiet = _NOTHING

    @cython.cfunc
    @cython.exceptval(-9223372036854775807)
    def unwrap(self, psn: cython.int) -> i64:
        """The position of a PSN: the nearest one to those sent last."""
        d: i64 = (psn - self.front) & (PSNS - 1)
        return self.front + (d - PSNS if d >= PSNS >> 1 else d)

    def spend(self, now: i64, request: cython.bint) -> cython.int:
        """The time since the packet before belongs to the state after it; `unasked` makes it a time-out's."""
        if self.since:
            gap: i64 = min(max(0, now - self.since), _LONGEST)
            if self.unasked:
                self.timeout += gap
            elif self.state == IDLE:
                self.idle += gap
                if gap >= PAUSE_NS:
                    self.pauses += 1
                    self.paused += gap
                    self.pause_frame = self.last_frame
                    if self.pauses <= MAX_PAUSES:
                        if 2 * self.pauses > len(self.quiet):
                            self.quiet = wider(self.quiet, 0, 2)
                        self.quiet[2 * self.pauses - 2], self.quiet[2 * self.pauses - 1] = self.since, now
            elif self.state == RECOVERY:
                self.loss_recovery += gap
            elif self.state == WAITING:
                self.rnr_wait += gap
            elif self.state == BUSY and not request:
                if self.gaps.add(self.path.room, gap, self.path.trip):
                    self.forgotten += 1
                    self.transferring += gap
            else:
                self.transferring += gap
        self.since = now
        self.unasked = False
        return 0

    def judge(self) -> cython.int:
        """The state after a packet."""
        if self.rnr != NOWHERE:
            self.state = WAITING
        elif self.una < self.recover:
            self.state = RECOVERY
        elif self.una < self.front and self.reliable:
            self.state = BUSY
        else:
            self.state = TRANSFERRING if self.half_sent else IDLE
        return 0

    def account(self) -> cython.int:
        """What its lists hold is taken from the room that all directions share."""
        if self.listed:
            now: i64 = len(self.holes) + len(self.unanswered)
            self.path.room.entries -= now - self.held
            self.held, self.listed = now, False
        return 0

    def mark(self, p: Packet) -> cython.int:
        """Count a mark of congestion."""
        if p.marked:
            self.marks += 1
            if not self.mark_groups or p.time - self.mark_time > GROUP_NS:
                self.mark_groups += 1
                self.mark_time = p.time
            self.mark_last = p.frame
            self.mark_frame = self.mark_frame or p.frame
        return 0

    def strange(self, p: Packet, pos: i64) -> cython.bint:
        """Whether an ACK is of a READ, or the first response of none."""
        n: i64
        for n in range(min(self.reads.count, RING)):
            at: i64 = self.reads.value(n, 0)
            if p.op != ACKNOWLEDGE and at == pos:
                return False
            if p.op == ACKNOWLEDGE and at <= pos < at + self.reads.value(n, 1) and self.reads.value(n, 1) != UNKNOWN_SPAN:
                return True
        return p.op != ACKNOWLEDGE and self.reads.count <= RING

    def idle_times(self) -> object:
        """When the first pauses of the application began and ended, one after the other."""
        return list(self.quiet[: 2 * min(self.pauses, MAX_PAUSES)])
