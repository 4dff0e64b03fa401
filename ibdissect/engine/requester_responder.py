# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""The exact state of a requester and its responder, from packet to packet: one direction of a connection.

PSNs are counted on beyond 24 bits ("positions"). What happens between two packets is decided by the state after the first.
"""

from __future__ import annotations

from array import array

from ibdissect.wire.numbers import RNR_TIMER_US

from .episodes import LOSS, RNR, TIMEOUT, close_episode, count_again, fill, open_episode, skip
from .psn_reuse import believe, differs

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import (  # isort: skip
        ACKNOWLEDGE, ANEW_NS, APART_NS, COMPARE_SWAP, FETCH_ADD, OF_REQUEST, PSNS, READ_FIRST, READ_LAST, READ_MIDDLE, READ_ONLY,
        READ_REQUEST, RING, SEND_FIRST, SEND_MIDDLE, SOON_NS, UNKNOWN_SPAN, WRITE_FIRST, WRITE_MIDDLE, i64,
    )  # fmt: skip
    from cython.cimports.ibdissect.engine.direction import Direction
    from cython.cimports.ibdissect.engine.packet_fields import Packet
    from cython.cimports.ibdissect.engine.waiting_packets import Path, Waits
else:
    from .common import i64
    from .direction import Direction
    from .packet_fields import Packet
    from .packet_kinds import (  # isort: skip
        ACKNOWLEDGE, ANEW_NS, APART_NS, COMPARE_SWAP, FETCH_ADD, OF_REQUEST, PSNS, READ_FIRST, READ_LAST, READ_MIDDLE, READ_ONLY,
        READ_REQUEST, RING, SEND_FIRST, SEND_MIDDLE, SOON_NS, UNKNOWN_SPAN, WRITE_FIRST, WRITE_MIDDLE,
    )  # fmt: skip
    from .waiting_packets import Path, Waits

NOWHERE = cython.declare(cython.longlong, -(1 << 60))
_LOST_IN_A_ROW = cython.declare(cython.longlong, 2)  # answers that were lost behind the capture point, at most
_CANDIDATE = cython.declare(cython.longlong, -(1 << 60) + 1)
_PARTS = cython.declare(cython.longlong, -(1 << 40))  # bytes of a READ of which responses are missing: never as many as asked for


@cython.final
@cython.cclass
class Half(Direction):
    """A direction, and what each of its packets changes."""

    @cython.cfunc
    @cython.exceptval(-1)
    def psns(self, p: Packet) -> i64:
        """How many PSNs a request takes: a READ takes one for each response. Where nothing says how many, the next request will."""
        if p.op != READ_REQUEST:
            return 1
        mtu: i64 = self.mtu or self.agreed_mtu
        if p.has_reth and (mtu or p.dma <= 256):
            return max(1, (p.dma + mtu - 1) // mtu) if mtu else 1
        self.open_pos, self.open_dma = _CANDIDATE, p.dma if p.has_reth else -1
        mtu = self.path.mtu or 1024  # a guess: each connection of a path has its own MTU
        return max(1, (p.dma + mtu - 1) // mtu) if p.has_reth else 1

    def request(self, p: Packet) -> cython.int:
        """A packet of the requester."""
        if not len(self.sent):
            self.sent = memoryview(array("q", bytes(8 * OF_REQUEST * RING)))
        pos: i64 = self.unwrap(p.psn)
        if not self.requests:
            self.begun = pos if self.started else p.psn + PSNS
        if not self.started:
            pos = p.psn + PSNS
            self.started, self.una, self.front = True, pos, pos
        elif not self.requests and not self.open.count and self.answers and pos > self.front:
            self.front = pos
        k: cython.Py_ssize_t = (pos & (RING - 1)) * OF_REQUEST
        i: i64
        if self.open_pos > _CANDIDATE and pos > self.open_pos:  # the READ before ends where this begins
            if pos < self.front or self.open_dma < 0 or pos - self.open_pos <= (self.open_dma + 255) // 256:
                self.front = pos
                self.open.ends(self.open_pos, pos)
                for i in range(self.reads.count):
                    if self.reads.value(i, 0) == self.open_pos:
                        self.reads.put(i, 1, min(self.reads.value(i, 1), pos - self.open_pos))
            self.open_pos = NOWHERE
        n: i64 = self.psns(p)
        if self.open_pos == _CANDIDATE:
            self.open_pos = pos
        end: i64 = pos + n
        again: cython.bint = False
        if self.since and p.time - self.since >= ANEW_NS:
            self.woken = p.time
        if pos < self.front:
            if self.held and fill(self.holes, pos, end):
                self.listed = True
                if pos in self.nakked:
                    self.nakked[pos] = True
                else:
                    self.late = [*self.late, pos] if len(self.late) < 8 else [*self.late[1:], pos]
            elif not self.overtaken(p, pos, end):
                again = True
                self.resent(p, pos, end)
        self.spend(p.time, True)
        follows: cython.bint = self.requests and pos == self.front
        if not again:
            if pos > self.front:
                self.listed = True
                self.forgotten += skip(self.holes, self.front, pos, self.path.room.entries) and self.reliable and self.answers > 0
            if pos >= self.front:
                self.in_round, self.rounds = False, 0
            self.payload += p.size
            self.messages += p.last
            if p.first:
                self.msg_frame = p.frame
            if self.reliable and end <= self.una:  # its answer was recorded before it: it waits for none
                self.took(p.size, p.time)
            elif self.reliable:
                self.open.add(self.path.room, pos, end, p.time, p.frame, p.size, self.msg_frame)
            if self.una == pos:
                self.tries, self.first_try_time = 1, p.time
        self.requests += 1
        if self.fatal_frame and not again and p.time - self.last_answer_time > SOON_NS:
            self.misfits += 1
        self.mark(p)
        if self.hurried == 1 and again and not self.hurries(p):
            self.hurried = 0  # the one before was a copy, or the exception
        if self.rnr != NOWHERE and pos <= self.rnr < end:
            if self.hurries(p):
                if not self.hurried:
                    self.hurried_first = self.rnr_frame
                self.hurried, self.hurried_frame = self.hurried + 1, p.frame
            else:
                self.hurried = max(0, self.hurried - _LOST_IN_A_ROW)  # it heard this one, perhaps not those before
            close_episode(self, p.time)
            self.rnr = NOWHERE
        self.front = max(self.front, end)
        if not self.reliable:
            self.una = self.front
        if (p.op == READ_REQUEST or p.op == COMPARE_SWAP or p.op == FETCH_ADD) and (again or end > self.una):
            # One that is cut off goes until its last response, or the next request.
            span: i64 = UNKNOWN_SPAN if p.op == READ_REQUEST and not p.has_reth else n
            if self.reads.count >= 8 * RING:  # more than can be under way
                self.reads.drop()
            if self.reads.add(self.path.room, pos, span, 0, p.dma if p.has_reth else -1, p.frame, 0):
                self.forgotten += 1
            else:
                self.reads.put(self.reads.count - 1, 6, follows)
                self.reads.put(self.reads.count - 1, 7, self.reads.count)
        if (p.op == SEND_FIRST or p.op == SEND_MIDDLE or p.op == WRITE_FIRST or p.op == WRITE_MIDDLE) and not self.mtu:
            self.mtu = p.size
        self.half_sent = not p.last
        self.anew_messages += p.last
        self.sent[k], self.sent[k + 1], self.sent[k + 2] = pos, cython.cast(i64, p.content), p.frame
        self.judge()
        self.account()
        self.last_frame, self.last_request, self.last_request_time = p.frame, p.frame, p.time
        return 0

    def overtaken(self, p: Packet, pos: i64, end: i64) -> cython.bint:
        """Whether packets that were sent later are recorded before this one, the lowest so far: nothing was acknowledged, asked for or sent
        again yet, and no timer ran out. Some networks spread the packets of a connection over several paths.
        """
        known: cython.bint = self.in_round or self.asked or (self.reliable and self.una != self.begun)
        if pos >= self.begun or known or p.time - self.since >= (self.timer or SOON_NS):
            return False
        self.listed = True
        skip(self.holes, end, self.begun, self.path.room.entries)
        self.begun = self.una = pos
        return True

    def hurries(self, p: Packet) -> cython.bint:
        """Whether a request comes before half the time has passed that the last RNR NAK asked for.

        Where the clocks of two interfaces differ, each NAK may stand before the try that it answers: so a request hurries only if less than
        three quarters of that time have passed since the try before that NAK, too. Where a NAK and what follows it have one time, the clock
        is too coarse to tell.
        """
        wait: i64 = RNR_TIMER_US[self.rnr_code] * 1000
        told: cython.bint = self.rnr_sent > 0 and p.time != self.rnr_time
        return told and 2 * (p.time - self.rnr_time) < wait and 4 * (p.time - self.rnr_sent) < 3 * wait

    def resent(self, p: Packet, pos: i64, end: i64) -> cython.int:
        """A packet whose position was sent before: why?"""
        k: cython.Py_ssize_t = (pos & (RING - 1)) * OF_REQUEST
        done: cython.bint = pos < self.una or (not self.answers and p.first)
        if not self.in_round or (pos < self.round_next and not self.anew):  # a connection that began anew goes on, in whatever order
            far: cython.bint = p.first and (pos <= self.begun or self.front - pos > RING)
            self.far_back = self.far_back or far
            self.anew = (far or not self.agreed_mtu) and p.time - self.woken < ANEW_NS
            self.doubtful = self.anew_messages = 0
        if self.sent[k] == pos and self.sent[k + 1] != cython.cast(i64, p.content) and p.op != READ_REQUEST and done:
            differs(self, p.frame, self.sent[k + 2])
        self.again += 1
        if self.nakked:  # the first repetition since a NAK
            for one, filled in self.nakked.items():
                if filled:  # what it asked for has come: by itself, or was that the repetition?
                    self.reorder_proof += one >= pos
                    self.loss_proof += one < pos
            self.nakked = {}
        if self.in_round and pos >= self.round_next:
            self.round_next = end
        elif self.asked:
            self.asked = False
            if self.recover != NOWHERE and not self.loss_first:
                self.loss_first = p.frame
        else:
            gap: i64 = p.time - self.since
            if gap < (self.timer or SOON_NS):
                self.losses += 1
                open_episode(self, LOSS, p.time, p.time)
                self.loss_last = p.frame
                self.loss_first = self.loss_first or p.frame
            else:
                self.unasked = True
                self.timeouts += 1
                self.longest_wait = max(self.longest_wait, gap)
                open_episode(self, TIMEOUT, self.since, p.time)
                self.timeout_last = p.frame
                if not self.timeout_first:
                    self.timeout_first = self.sent[k + 2] if self.sent[k] == pos else p.frame
            self.recover = self.front
            self.rounds += 1
        self.in_round, self.round_next = True, end
        if pos <= self.una < end:
            if not self.tries:
                self.first_try_time = p.time
            self.tries, self.tried, self.tried_time = self.tries + 1, p.frame, p.time
        if end > self.una:
            self.last_try, self.last_try_end, self.last_try_time = p.frame, end, p.time
        count_again(self.episodes)
        return 0

    def answer(self, p: Packet) -> cython.int:
        """A packet of the responder."""
        pos: i64 = self.unwrap(p.psn)
        if not self.started:
            pos = p.psn + PSNS
            self.started, self.una, self.front = True, pos, pos
        self.answers += 1
        if not self.open.count and p.time - self.since >= ANEW_NS:  # after a silence, in front of the request that it answers
            self.woken = p.time
        if self.doubtful and p.msn >= 0:
            believe(self, p.msn)
        names: cython.bint = p.op != READ_MIDDLE and p.op != READ_LAST  # those have PSNs that no request has
        if self.requests and names and (p.op != ACKNOWLEDGE or p.syndrome & 0x60 == 0 or p.syndrome < 0):
            if pos >= self.front or self.strange(p, pos):
                self.misfits += 1
            else:
                self.fits += 1
        self.mark(p)
        self.spend(p.time, False)
        self.last_frame, self.last_answer, self.last_answer_time = p.frame, p.frame, p.time
        if p.op == ACKNOWLEDGE and p.syndrome >= 0 and p.syndrome >> 5 & 3:
            self.negative(p, pos)
        elif p.op != ACKNOWLEDGE or p.syndrome >= 0:
            if p.op != ACKNOWLEDGE:
                self.response(p, pos)
            elif self.reads.count:
                got: i64 = self.reads.value(0, 2)
                rest: i64 = self.reads.value(0, 0) + got
                if rest <= pos and got < self.reads.value(0, 1):
                    self.recover = self.front  # an ACK of a later request tells that a response is missing
                    self.asked = True
                    self.unheard(rest, min(pos, self.reads.value(0, 0) + self.reads.value(0, 1)))
                    self.reads.drop()
            if p.op == ACKNOWLEDGE:
                if pos == self.last_ack and p.msn == self.last_msn and self.una < self.front:
                    self.same_acks += 1
                    self.same_frame = p.frame
                    self.same_first = self.same_first or p.frame
                else:
                    self.same_acks = self.same_first = 0
                if self.far_back and self.last_msn >= 0 and p.msn - self.last_msn & PSNS >> 1:
                    self.renewed = True
                self.last_ack, self.last_msn = pos, p.msn
            self.acknowledge(pos + 1, p)
            if self.rnr != NOWHERE and pos >= self.rnr:
                self.rnr = NOWHERE
                close_episode(self, p.time)
        else:  # cut off: ACK or NAK, all before it is acknowledged
            self.unread += 1
            self.acknowledge(pos, p)
        self.judge()
        self.account()
        return 0

    def acknowledge(self, pos: i64, p: Packet) -> cython.int:
        """All before `pos` is acknowledged."""
        last: i64 = self.unwrap(p.psn) + 1
        sent: Waits = self.open
        path: Path = self.path
        at: cython.Py_ssize_t
        while sent.count:
            at = sent.place(0)
            if sent.ring[at + 1] > pos:
                break
            if sent.ring[at + 1] == last:
                path.trip = min(path.trip, max(0, p.time - sent.ring[at + 2]))
            self.took(sent.ring[at + 4], sent.ring[at + 2])
            sent.drop()
        if pos <= self.una:
            return 0
        self.una = pos
        self.tries, self.first_try_time = 1, self.open.value(0, 2) if self.open.count else 0
        self.rnr_count = 0
        if self.asked and pos > self.recover:
            self.asked = False
        if self.una >= self.recover > NOWHERE:
            close_episode(self, p.time)
            self.recover = NOWHERE
        while self.held and self.holes and self.holes[0][1] <= pos:
            self.listed = True
            self.missed += self.holes[0][1] - self.holes[0][0]
            self.holes.pop(0)
        return 0

    def took(self, size: i64, time: i64) -> cython.int:
        """The responder got a packet of this size, sent at this time."""
        self.largest, self.path.largest = max(self.largest, size), max(self.path.largest, size)
        if time > self.path.passed:
            if time - self.path.passed >= APART_NS:
                self.path.resumes(time)
            self.path.passed = time
        return 0

    def negative(self, p: Packet, pos: i64) -> cython.int:
        """A NAK: all before it is acknowledged."""
        self.acknowledge(pos, p)
        if self.open.count and self.open.value(0, 1) == pos + 1:
            self.path.trip = min(self.path.trip, max(0, p.time - self.open.value(0, 2)))
        code: cython.int = p.syndrome & 31
        if p.syndrome >> 5 & 3 == 1:
            self.rnr_naks += 1
            self.rnrs += 1
            self.rnr_begin = self.rnr_begin or p.frame
            self.rnr_count += 1
            if self.rnr_count == 1:
                self.rnr_first = p.frame
            self.rnr, self.rnr_time, self.rnr_frame, self.rnr_code, self.rnr_last = pos, p.time, p.frame, code, p.frame
            self.rnr_sent = self.tried_time if self.tries > 1 else self.first_try_time
            self.asked = True
            self.tries = 0  # this is an answer: the next try is the first one without
            open_episode(self, RNR, p.time, p.time)
            return 0
        if p.syndrome >> 5 & 3 != 3:
            return 0
        self.naks += 1
        if not code:
            self.recover = max(self.front, pos + 1)
            self.asked = True
            self.losses += 1
            self.loss_last = p.frame
            self.loss_first = self.loss_first or p.frame
            self.nakked[pos] = pos in self.late
            self.reorder_proof += pos in self.late
            if len(self.nakked) > RING:
                self.nakked = {}
            open_episode(self, LOSS, p.time, p.time)
            return 0
        if not self.fatal_frame:
            self.nak_code, self.fatal_frame = code, p.frame
            n: i64
            for n in range(self.open.count):
                if self.open.value(n, 0) <= pos < self.open.value(n, 1):
                    self.fatal_request, self.fatal_size = self.open.value(n, 5), self.open.value(n, 4)
                    break
            for n in range(self.reads.count):
                if self.reads.value(n, 0) <= pos < self.reads.value(n, 0) + self.reads.value(n, 1):
                    self.fatal_nth = self.reads.value(n, 7)
                if self.fatal_nth:
                    self.fatal_reads = max(self.fatal_reads, self.reads.value(n, 7))
        return 0

    def response(self, p: Packet, pos: i64) -> cython.int:
        """A response of a READ or atomic: whether one before it is missing, and whether it holds what was asked for."""
        if (p.op == READ_FIRST or p.op == READ_MIDDLE) and p.size and self.mtu != p.size:
            self.resized(p.size)
        reads: Waits = self.reads
        while reads.count:
            start: i64 = reads.value(0, 0)
            end: i64 = start + reads.value(0, 1)
            got: i64 = reads.value(0, 2)
            if start + got >= end or (pos >= end and reads.count > 1 and not got and reads.value(1, 0) == start):
                reads.drop()  # complete, or asked again before it was answered
                continue
            if pos < start + got:
                break
            if pos > start + got:
                self.recover = self.front
                self.asked = True
                self.unheard(start + got, min(pos, end))
                if pos >= end:
                    reads.drop()
                    continue
                reads.put(0, 5, _PARTS)
            got = pos - start + 1
            size: i64 = reads.value(0, 5) + p.size
            reads.put(0, 2, got)
            reads.put(0, 5, size)
            if pos == start and reads.value(0, 6) and (p.op == READ_MIDDLE or p.op == READ_LAST):
                self.wrong_read(p, -1)
            elif pos > start and reads.value(0, 6) and size >= 0 and (p.op == READ_FIRST or p.op == READ_ONLY):
                self.wrong_read(p, -2)
            elif p.op < ACKNOWLEDGE and size >= 0 and (size >= reads.value(0, 3) if p.op < READ_LAST else size != reads.value(0, 3)):
                self.wrong_read(p, size)
            if self.open_pos == start and READ_MIDDLE < p.op < ACKNOWLEDGE:  # the newest request ends here
                self.front, self.open_pos = pos + 1, NOWHERE
                self.open.ends(start, pos + 1)
            if start + got >= end or p.op >= READ_LAST:
                reads.drop()
            elif end - start == UNKNOWN_SPAN:
                self.front = max(self.front, pos + 2)  # there is one more response at least
            break
        if pos >= self.answered:
            self.answered = pos + 1
        else:
            if not self.held or not fill(self.unanswered, pos, pos + 1):
                return 0
            self.listed = True
        self.payload += p.size
        return 0

    def unheard(self, start: i64, end: i64) -> cython.int:
        """Responses of a READ that did not come, although later answers did."""
        self.listed = True
        self.forgotten += skip(self.unanswered, max(start, self.answered), end, self.path.room.entries)
        return 0

    def resized(self, mtu: i64) -> cython.int:
        """Responses have another size than known before: READs that are under way take another number of PSNs."""
        self.mtu = self.path.mtu = mtu
        n: i64
        for n in range(self.reads.count):
            if self.reads.value(n, 3) > 0:
                span: i64 = max(1, (self.reads.value(n, 3) + mtu - 1) // mtu)
                self.reads.put(n, 1, span)
                if self.open_pos == self.reads.value(n, 0):
                    self.front = self.open_pos + span
                    self.open.ends(self.open_pos, self.front)
                    self.open_pos = NOWHERE
        return 0

    def wrong_read(self, p: Packet, size: i64) -> cython.int:
        """Responses up to this one do not make what the first READ asked for: so many bytes, -1: a later part first, -2: a first one later.

        Counts once a direction, and not where another READ of another length may have these responses: part of one may be asked for again.
        """
        start: i64 = self.reads.value(0, 0)
        wanted: i64 = self.reads.value(0, 3)
        n: i64
        if self.wrong_frame or wanted < 0:
            return 0
        for n in range(self.reads.count):
            other: i64 = self.reads.value(n, 0)
            if other < start + self.reads.value(0, 1) and (other != start or self.reads.value(n, 3) != wanted):
                return 0
        self.wrong_frame, self.wrong_request, self.wrong_size, self.wrong_wanted = p.frame, self.reads.value(0, 4), size, wanted
        return 0
