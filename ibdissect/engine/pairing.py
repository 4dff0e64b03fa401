# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""Pairing of lanes: requests and their answers by PSNs, where connection management (`agreed_lanes`) does not say.

Many programs start all their queue pairs at PSN 0, so that one equal PSN proves nothing where several lanes have near PSNs: a "crowd". In
it, time tells: an answer acknowledges nothing that its requester did not send before. Each answer that comes while the newest request of
a lane is exactly the one it acknowledges speaks for that lane; one that acknowledges what a lane did not send speaks against it. Whoever
cannot be told apart stays alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ibdissect.wire.headers import BTH

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import (  # isort: skip
        ACKNOWLEDGE, ANSWER, COMPARE_SWAP, FETCH_ADD, PSNS, READ_LAST, READ_MIDDLE, READ_REQUEST, REQUEST, i64,
    )  # fmt: skip
    from cython.cimports.ibdissect.engine.hosts import Lane, join, leave, living
    from cython.cimports.ibdissect.engine.packet_fields import Packet
else:
    from .common import i64
    from .hosts import Lane, join, leave, living
    from .packet_fields import Packet
    from .packet_kinds import ACKNOWLEDGE, ANSWER, COMPARE_SWAP, FETCH_ADD, PSNS, READ_LAST, READ_MIDDLE, READ_REQUEST, REQUEST

MAX_CANDIDATES = 16
"""Lanes between two hosts that are compared with the answers of one; of more, nobody can say which one is answered."""
MAX_CROWD = 512
"""Lanes between two hosts that have near PSNs; of more, none is told apart."""
MAX_PSNS = 1 << 18
"""PSNs of all lanes together that are remembered for pairing; twice as many at most."""
ALONE = 3
"""Answers that must speak for a lane which has no others near it, but began with PSN 0 or as others did: more may begin a moment later.
At the end of a capture one is enough."""
CROWD = 64
"""From so many lanes on, one equal PSN may be chance: two are asked for."""
NEAR_BITS, START_BITS = 12, 6
"""Lanes of the same hosts whose PSNs are nearer than 4096 are a crowd, but for those that begin alone within 64 PSNs."""
AGAINST = 8
"""What an answer counts that a lane cannot have got."""
STARTS = 32
"""A READ or a coalesced ACK may begin that many PSNs after the first one agreed."""
ROUNDS = 8
"""At the end of a capture, each lane that is paired may make others certain; so often they are looked at."""
ASKS, BACK = cython.declare(cython.int, 0), cython.declare(cython.int, 1)
_PSN_BITS, _HOST = cython.declare(cython.int, BTH.psn.bits), cython.declare(cython.int, 17)  # the latter as many as `lanes.MAX_HOSTS` has
_NEAR, _START = cython.declare(cython.int, NEAR_BITS), cython.declare(cython.int, START_BITS)
_AGAINST, _STARTS = cython.declare(cython.longlong, AGAINST), cython.declare(cython.longlong, STARTS)


@cython.final
@cython.cclass
class Pairing:
    """What lanes without a peer sent lately, by way and PSN. `lanes`: all of a capture; `ways`: numbers of who sends to whom."""

    def __init__(self, lanes: dict[int, Lane]) -> None:
        self.lanes, self.remembered = lanes, 0
        self.ways, self.waiting, self.older, self.fronts, self.near_psns = {}, {}, {}, {}, {}

    def name(self, lane: Lane) -> cython.int:
        """Number the way of a new lane and the way back."""
        here: i64 = lane.src.number
        there: i64 = lane.dst.number
        lane.way = self.ways.setdefault(lane.network << 2 * _HOST | here << _HOST | there, len(self.ways))
        lane.back = self.ways.setdefault(lane.network << 2 * _HOST | there << _HOST | here, len(self.ways))
        return 0

    def match(self, lane: Lane, p: Packet) -> Lane | None:
        """The lane that this packet shows to be the other way; None if it is not certain. Requests are remembered, answers looked up."""
        if p.kind == REQUEST:
            self.ask(lane, p)
        elif p.kind == ANSWER and p.op != READ_MIDDLE and p.op != READ_LAST:  # those have PSNs that no request has
            return self.answered(lane, p)
        return None

    def ask(self, lane: Lane, p: Packet) -> cython.int:
        """A lane has sent a request."""
        if lane.newest < 0:
            if not lane.packets and not lane.backlog:
                self.remember(lane, (p.psn - 1) & (PSNS - 1))  # a capture that begins in the midst shows the ACK of the one before
            lane.first_asked = p.psn
            self.count(lane.way, ASKS, p.psn, _START, 1)
        self.remember(lane, p.psn)
        if lane.newest >= 0:
            if (p.psn - lane.newest - 1) & PSNS >> 1:
                return 0  # again, or late
            leave(self.fronts, lane.way << _PSN_BITS | lane.newest, lane)
        join(self.fronts, lane.way << _PSN_BITS | p.psn, lane)
        self.move(lane, ASKS, lane.newest, p.psn)
        lane.newest, lane.reads = p.psn, p.op == READ_REQUEST or p.op == COMPARE_SWAP or p.op == FETCH_ADD
        return 0

    def answered(self, lane: Lane, p: Packet) -> Lane | None:
        """A lane has sent an answer: which lane does it speak for?"""
        again: cython.bint = p.psn == lane.newest_answer
        if not again:
            if lane.newest_answer < 0:
                lane.first_answer = p.psn
                self.count(lane.way, BACK, p.psn, _START, 1)
            self.move(lane, BACK, lane.newest_answer, p.psn)
            lane.newest_answer = p.psn
        here: i64 = lane.back << _PSN_BITS | p.psn
        sent: list[Any] = []
        for index in (self.waiting, self.older):
            known = index.get(here)
            if type(known) is dict:
                for one in known:
                    if one.over:
                        known = living(known)
                        break
            if known is not None and (type(known) is dict or not known.over):
                sent.append(known)
        number: i64 = 0
        alone: cython.bint = len(sent) == 1 and type(sent[0]) is not dict
        if not alone or not self.begins_alone(lane, sent[0]):
            number = self.crowd(lane.back, lane.way, p.psn, _NEAR)
            alone = alone and number < 2
        if not alone:
            lane.crowd = max(lane.crowd, number)
            if number > MAX_CROWD or lane.settled or again:
                return None
            if p.op == ACKNOWLEDGE and p.syndrome >= 0 and p.syndrome & 0x60:  # a NAK may name what was not sent
                return None
        self.weigh(lane, p, here, sent, alone, number)
        other: Lane = self.best(lane, number, False)
        if other is not None:
            other.crowd = lane.crowd = max(lane.crowd, other.crowd)
        return other

    def weigh(self, lane: Lane, p: Packet, here: i64, sent: list[Any], alone: cython.bint, number: i64) -> cython.int:
        """Count an answer for and against the lanes it may belong to. `sent`: those that sent its PSN; `alone`: one, without a crowd."""
        hits: dict[Lane, int] = lane.hits if lane.hits is not None else {}
        reads: cython.bint = p.op != ACKNOWLEDGE
        other: Lane
        score: i64
        for other in list(hits):
            score = hits[other]
            if other.peer is not None:
                del hits[other]
            elif not is_among(sent, other):
                if number < 2 and other.reads and (p.psn - other.newest) & (PSNS - 1) <= _STARTS:
                    continue  # of a READ, of which another response should be the first
                hits[other] = max(score - _AGAINST, -2 * _AGAINST)
            elif other.newest == p.psn:
                if alone or other.reads == reads:
                    hits[other] = score + 1
                    claim(other, lane, score + 1)
                else:
                    hits[other] = max(score - _AGAINST, -2 * _AGAINST)
            elif alone:
                hits[other] = score + 1
        for known in (sent if alone else [self.fronts.get(here)]):
            for other in known if type(known) is dict else (known,):
                if len(hits) >= MAX_CANDIDATES:
                    break
                if other is not None and other.peer is None and other not in hits and (alone or other.reads == reads):
                    hits[other] = 1
        lane.hits = hits or None
        return 0

    def best(self, lane: Lane, number: i64, last: cython.bint) -> Lane | None:
        """The candidate that is certain: in a crowd of `number` lanes by answers that only it can have got. `last`: no more will come."""
        other: Lane = None
        one: Lane
        score: i64 = 0
        rival: i64 = 0
        several: cython.bint = False
        for one, found in (lane.hits or {}).items():
            if one.peer is not None:
                continue
            if other is None or found > score or (found == score and one.order < other.order):
                several, rival = other is not None, score
                other, score = one, found
            elif not several or found > rival:
                several, rival = True, found
        if other is None:
            return None
        alone: cython.bint = self.begins_alone(lane, other)
        if not alone and other.newest >= 0:
            number = max(number, self.crowd(other.way, other.back, other.newest, _NEAR))
        if number < 2 or alone:
            was: cython.bint = max(lane.crowd, other.crowd) > 1
            if was and (lane.settled or other.settled):
                return None  # what one of them told before is lost
            if was or not (last or other.settled or (alone and other.first_asked)):
                return other if score >= ALONE else None
            return other if score >= (1 if last or len(self.lanes) < CROWD else 2) else None
        least: i64 = 2
        while number > 1:  # twice as many bits as numbers below it have
            number, least = (number + 1) // 2, least + 2
        rival = max(rival if several else 0, other.rival if other.claimant is lane else other.claim)
        if score < least or 2 * (score - rival) < least or lane.settled or other.settled:
            return None
        return other

    # -- what is remembered

    def remember(self, lane: Lane, psn: i64) -> cython.int:
        """A lane has sent a PSN."""
        if self.remembered >= MAX_PSNS:
            self.older, self.waiting, self.remembered = self.waiting, {}, 0
        self.remembered += join(self.waiting, lane.way << _PSN_BITS | psn, lane)
        return 0

    def move(self, lane: Lane, role: cython.int, old: i64, new: i64) -> cython.int:
        """The newest PSN of a lane that asks or answers is another one; -1: there is none."""
        if old >= 0 and new >= 0 and old >> _NEAR == new >> _NEAR:
            return 0
        if old >= 0:
            self.count(lane.way, role, old, _NEAR, -1)
        if new >= 0:
            self.count(lane.way, role, new, _NEAR, 1)
        return 0

    def count(self, way: i64, role: cython.int, psn: i64, bits: cython.int, step: i64) -> cython.int:
        """There is one lane more or less near a PSN that asks or answers."""
        key = near(way, psn >> bits, bits, role)
        number: i64 = self.near_psns.get(key, 0) + step
        if number:
            self.near_psns[key] = number
        else:
            del self.near_psns[key]
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def crowd(self, to: i64, fro: i64, psn: i64, bits: cython.int) -> i64:
        """How many lanes of two ways, without known peers, have PSNs near this one: those that ask, or answer, whichever are more."""
        asks: i64 = 0
        back: i64 = 0
        step: i64
        for step in range(-1, 2):
            bucket: i64 = ((psn >> bits) + step) & ((PSNS - 1) >> bits)
            asks += self.near_psns.get(near(to, bucket, bits, ASKS), 0)
            back += self.near_psns.get(near(fro, bucket, bits, BACK), 0)
        return max(asks, back)

    def begins_alone(self, lane: Lane, other: Lane) -> cython.bint:
        """Whether the answers of a lane begin near the requests of another one, and nobody else's ever did."""
        if other.first_asked < 0 or (lane.first_answer - other.first_asked + (1 << _START)) & (PSNS - 1) > 2 << _START:
            return False
        return self.crowd(lane.back, lane.way, lane.first_answer, _START) < 2

    def forget(self, lane: Lane) -> cython.int:
        """A lane has found its peer, or another connection has its queue pair."""
        if lane.newest >= 0:
            leave(self.fronts, lane.way << _PSN_BITS | lane.newest, lane)
            self.move(lane, ASKS, lane.newest, -1)
        if lane.newest_answer >= 0:
            self.move(lane, BACK, lane.newest_answer, -1)
        lane.hits = None
        return 0

    def over(self, lane: Lane) -> cython.int:
        """Another connection has the queue pair of a lane."""
        self.forget(lane)
        lane.over = True
        if lane.first_asked >= 0:
            self.count(lane.way, ASKS, lane.first_asked, _START, -1)
        if lane.first_answer >= 0:
            self.count(lane.way, BACK, lane.first_answer, _START, -1)
        return 0


def is_among(sent: list[Any], lane: Lane) -> cython.bint:
    """Whether a lane is one of some, or in one of the dicts among them."""
    return any([known is lane or (type(known) is dict and lane in known) for known in sent])


def claim(other: Lane, lane: Lane, score: i64) -> cython.int:
    """So many answers of a lane speak for this one. Kept: whose are most, and how many the next best has."""
    if lane is not other.claimant:
        if score <= other.claim:
            other.rival = max(other.rival, score)
            return 0
        other.rival, other.claimant = other.claim, lane
    other.claim = score
    return 0


@cython.cfunc
@cython.exceptval(-1)
def near(way: i64, bucket: i64, bits: cython.int, role: cython.int) -> i64:
    """The key of lanes of a way that have near PSNs."""
    return way << _PSN_BITS | bucket << 2 | (bits == _START) << 1 | role


def merged(one: Any, other: Any) -> Iterator[tuple[Any, Any]]:
    """What waited of two lanes, in the order of frames."""
    both = [(p.frame, 0, one, p) for p in one.backlog] + [(p.frame, 1, other, p) for p in other.backlog]
    for _, _, lane, p in sorted(both, key=lambda item: item[:2]):
        yield lane, p


def pair_rest(lanes: Any) -> None:
    """At the end of a capture, the best candidates of lanes that are still alone; then those whose PSNs are near, if only one is."""
    left = [lane for lane in lanes.lanes.values() if lane.peer is None]
    for _ in range(ROUNDS):
        before = len(left)
        for lane in left:
            if lane.peer is None and lane.hits:
                number = lanes.pairing.crowd(lane.back, lane.way, lane.newest_answer, NEAR_BITS)
                other = None if lane.settled else lanes.pairing.best(lane, number, True)
                if other is not None:
                    other.crowd = lane.crowd
                    lanes.pair(lane, other)
        left = [lane for lane in left if lane.peer is None]
        if len(left) == before:
            break
    pair_near(lanes, [lane for lane in left if lane.backlog])
    note_crowds(lanes, left)


def pair_near(lanes: Any, left: list[Any]) -> None:
    """Lanes whose first PSNs are near belong together if no others are near, and no answer speaks against it."""
    asking: dict[int, list[Any]] = {}
    for lane in left:
        if lane.backlog[0].kind == REQUEST:
            asking.setdefault(lane.way, []).append(lane)
    for lane in left:
        some = asking.get(lane.back, ())
        if lane.peer is not None or lane.backlog[0].kind != ANSWER or lane.hits or len(some) > CROWD:
            continue
        psn = lane.backlog[0].psn
        some = [other for other in some if other.peer is None and (psn - other.backlog[0].psn + STARTS & (PSNS - 1)) <= 2 * STARTS]
        if len(some) == 1 and lanes.pairing.crowd(lane.back, lane.way, psn, NEAR_BITS) < 2:
            lanes.pair(lane, some[0])


def note_crowds(lanes: Any, left: list[Any]) -> None:
    """Lanes that stay alone although some of the other way may be theirs: `crowd` says how many there are."""
    found: dict[int, int] = {}
    for lane in left:
        if lane.peer is None:
            for key in places(lane, lane.way):
                found[key] = found.get(key, 0) + 1
    for lane in left:
        if lane.peer is None:
            lane.crowd = max((found.get(key, 0) for key in places(lane, lane.back, 1, (-1, 0, 1))), default=0)


def places(lane: Any, way: int, flip: int = 0, steps: tuple[int, ...] = (0,)) -> set[int]:
    """Where the first and the newest PSN of a lane are among those of a way that ask, or with `flip` answer."""
    return {
        near(way, (psn >> NEAR_BITS) + step & PSNS - 1 >> NEAR_BITS, NEAR_BITS, role ^ flip)
        for role, psns in ((ASKS, (lane.first_asked, lane.newest)), (BACK, (lane.first_answer, lane.newest_answer)))
        for psn in psns
        if psn >= 0
        for step in steps
    }
