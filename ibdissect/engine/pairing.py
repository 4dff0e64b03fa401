"""Which lane carries the answers to another one's requests? By connection management first, then by PSNs.

Many programs start all their queue pairs at PSN 0, so that one equal PSN proves nothing where several lanes have near PSNs: a "crowd". In
it, time tells: an answer acknowledges nothing that its requester did not send before. Each answer that comes while the newest request of
a lane is exactly the one it acknowledges speaks for that lane; one that acknowledges what a lane did not send speaks against it. Whoever
cannot be told apart stays alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ibdissect.wire import cm

from .connection_setups import SetUp
from .packet_kinds import ANSWER, REQUEST

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
ASKS, BACK = 0, 1
_MIDDLE, _LAST, _ACK = 14, 15, 17
_READS = (12, 19, 20)
_PSN = 0xFFFFFF


def place(network: int, src: Any, dst: Any, psn: int) -> int:
    """The key of a PSN among the lanes from one host to another. Any: the classes of `lanes`, compiled or not."""
    key: int = (network << 20 ^ src.number) << 44 ^ dst.number << 24 ^ psn
    return key


def match(lanes: Any, lane: Any, p: Any) -> Any:
    """The lane that this packet shows to be the other way; None if it is not certain. Requests are remembered, answers looked up."""
    if p.kind == REQUEST:
        ask(lanes, lane, p)
    elif p.kind == ANSWER and p.op != _MIDDLE and p.op != _LAST:  # those have PSNs that no request has
        return answered(lanes, lane, p)
    return None


def ask(lanes: Any, lane: Any, p: Any) -> None:
    """A lane has sent a request."""
    if lane.newest < 0:
        if not lane.packets and not lane.backlog:
            remember(lanes, lane, p.psn - 1 & _PSN)  # a capture that begins in the midst shows the ACK of the one before
        lane.first_asked = p.psn
        count(lanes, lane, ASKS, p.psn, START_BITS, 1)
    remember(lanes, lane, p.psn)
    if lane.newest >= 0 and p.psn - lane.newest - 1 & 0x800000:
        return  # again, or late
    here = place(lane.network, lane.src, lane.dst, 0)
    if lane.newest >= 0:
        leave(lanes.fronts, here ^ lane.newest, lane)
    join(lanes.fronts, here ^ p.psn, lane)
    move(lanes, lane, ASKS, lane.newest, p.psn)
    lane.newest, lane.reads = p.psn, p.op in _READS


def answered(lanes: Any, lane: Any, p: Any) -> Any:
    """A lane has sent an answer: which lane does it speak for?"""
    again = p.psn == lane.newest_answer
    if not again:
        if lane.newest_answer < 0:
            lane.first_answer = p.psn
            count(lanes, lane, BACK, p.psn, START_BITS, 1)
        move(lanes, lane, BACK, lane.newest_answer, p.psn)
        lane.newest_answer = p.psn
    here = place(lane.network, lane.dst, lane.src, p.psn)
    sent = []
    for known in (lanes.waiting.get(here), lanes.older.get(here)):
        if type(known) is dict:
            for one in known:
                if one.over:
                    known = living(known)
                    break
        if known is not None and (type(known) is dict or not known.over):
            sent.append(known)
    number, alone = 0, len(sent) == 1 and type(sent[0]) is not dict
    if not alone or not begins_alone(lanes, lane, sent[0]):
        number = crowd(lanes, lane.dst, lane.src, lane.network, p.psn)
        alone = alone and number < 2
    if not alone:
        lane.crowd = max(lane.crowd, number)
        if number > MAX_CROWD or lane.settled or again:
            return None
        if p.op == _ACK and p.syndrome >= 0 and p.syndrome & 0x60:  # a NAK may name what was not sent
            return None
    weigh(lanes, lane, p, here, sent, alone, number)
    other = best(lanes, lane, number)
    if other is not None:
        other.crowd = lane.crowd = max(lane.crowd, other.crowd)
    return other


def weigh(lanes: Any, lane: Any, p: Any, here: int, sent: list[Any], alone: bool, number: int) -> None:
    """Count an answer for and against the lanes it may belong to. `sent`: those that sent this PSN; `alone`: it is one, without a crowd."""
    hits: dict[Any, int] = lane.hits if lane.hits is not None else {}
    reads = p.op != _ACK
    for other, score in list(hits.items()):
        if other.peer is not None:
            del hits[other]
        elif not any(known is other or (type(known) is dict and other in known) for known in sent):
            if number < 2 and other.reads and p.psn - other.newest & _PSN <= STARTS:
                continue  # of a READ, of which another response should be the first
            hits[other] = max(score - AGAINST, -2 * AGAINST)
        elif other.newest == p.psn:
            if alone or other.reads == reads:
                hits[other] = score + 1
                claim(other, lane, score + 1)
            else:
                hits[other] = max(score - AGAINST, -2 * AGAINST)
        elif alone:
            hits[other] = score + 1
    for known in (sent if alone else [lanes.fronts.get(here)]):
        for other in known if type(known) is dict else (known,):
            if len(hits) >= MAX_CANDIDATES:
                break
            if other is not None and other.peer is None and other not in hits and (alone or other.reads == reads):
                hits[other] = 1
    lane.hits = hits or None


def claim(other: Any, lane: Any, score: int) -> None:
    """So many answers of a lane speak for this one. Kept: whose are most, and how many the next best has."""
    if lane is not other.claimant:
        if score <= other.claim:
            other.rival = max(other.rival, score)
            return
        other.rival, other.claimant = other.claim, lane
    other.claim = score


def best(lanes: Any, lane: Any, number: int, last: bool = False) -> Any:
    """The candidate that is certain: in a crowd of `number` lanes by answers that only it can have got."""
    ranked = sorted(((score, -other.order, other) for other, score in (lane.hits or {}).items() if other.peer is None), reverse=True)
    if not ranked:
        return None
    score, _, other = ranked[0]
    alone = begins_alone(lanes, lane, other)
    if not alone and other.newest >= 0:
        number = max(number, crowd(lanes, other.src, other.dst, other.network, other.newest))
    if number < 2 or alone:
        was = max(lane.crowd, other.crowd) > 1
        if was and (lane.settled or other.settled):
            return None  # what one of them told before is lost
        if was or not (last or other.settled or (alone and other.first_asked)):
            return other if score >= ALONE else None
        return other if score >= (1 if last or len(lanes.lanes) < CROWD else 2) else None
    least = 2 + 2 * (number - 1).bit_length()
    rival = max(ranked[1][0] if len(ranked) > 1 else 0, other.rival if other.claimant is lane else other.claim)
    if score < least or 2 * (score - rival) < least or lane.settled or other.settled:
        return None
    return other


# -- what is remembered


def remember(lanes: Any, lane: Any, psn: int) -> None:
    """A lane has sent a PSN."""
    if lanes.remembered >= MAX_PSNS:
        lanes.older, lanes.waiting, lanes.remembered = lanes.waiting, {}, 0
    lanes.remembered += join(lanes.waiting, place(lane.network, lane.src, lane.dst, psn), lane)


def join(index: dict[int, Any], key: int, lane: Any) -> int:
    """Add a lane under a key, alone as it is, several in a dict; 1 if it was not there."""
    known = index.get(key)
    if known is None:
        index[key] = lane
    elif known is lane or (type(known) is dict and lane in known):
        return 0
    elif type(known) is dict:
        known[lane] = None
    else:
        index[key] = {known: None, lane: None}
    return 1


def living(known: dict[Any, None]) -> Any:
    """What the lanes of a key are without those that are over: one as it is, several in a dict, None if there are none."""
    live = {lane: None for lane in known if not lane.over}
    return live if len(live) > 1 else next(iter(live), None)


def leave(index: dict[int, Any], key: int, lane: Any) -> None:
    """Take a lane away again."""
    known = index.get(key)
    if type(known) is dict:
        known.pop(lane, None)
        if not known:
            del index[key]
    elif known is lane:
        del index[key]


def move(lanes: Any, lane: Any, role: int, old: int, new: int) -> None:
    """The newest PSN of a lane that asks or answers is another one; -1: there is none."""
    if old >= 0 and new >= 0 and old >> NEAR_BITS == new >> NEAR_BITS:
        return
    if old >= 0:
        count(lanes, lane, role, old, NEAR_BITS, -1)
    if new >= 0:
        count(lanes, lane, role, new, NEAR_BITS, 1)


def count(lanes: Any, lane: Any, role: int, psn: int, bits: int, step: int) -> None:
    """There is one lane more or less near a PSN that asks or answers."""
    key = near(lane.network, lane.src, lane.dst, psn >> bits, bits, role)
    number = lanes.near_psns.get(key, 0) + step
    if number:
        lanes.near_psns[key] = number
    else:
        del lanes.near_psns[key]


def near(network: int, src: Any, dst: Any, bucket: int, bits: int, role: int) -> int:
    """The key of lanes from one host to another that have near PSNs."""
    return place(network, src, dst, bucket & _PSN >> bits) << 2 | (bits == START_BITS) << 1 | role


def crowd(lanes: Any, asker: Any, responder: Any, network: int, psn: int, bits: int = NEAR_BITS) -> int:
    """How many lanes between two hosts, without known peers, have PSNs near this one: those that ask, or answer, whichever are more."""
    to, fro = near(network, asker, responder, 0, bits, ASKS), near(network, responder, asker, 0, bits, BACK)
    here, last, get, asks, back = psn >> bits, _PSN >> bits, lanes.near_psns.get, 0, 0
    for bucket in (here - 1 & last, here, here + 1 & last):
        asks += get(to ^ bucket << 2, 0)
        back += get(fro ^ bucket << 2, 0)
    return max(asks, back)


def begins_alone(lanes: Any, lane: Any, other: Any) -> bool:
    """Whether the answers of a lane begin near the requests of another one, and nobody else's ever did."""
    if other.first_asked < 0 or (lane.first_answer - other.first_asked + (1 << START_BITS) & _PSN) > 2 << START_BITS:
        return False
    return crowd(lanes, lane.dst, lane.src, lane.network, lane.first_answer, START_BITS) < 2


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
                number = crowd(lanes, lane.dst, lane.src, lane.network, lane.newest_answer)
                other = None if lane.settled else best(lanes, lane, number, True)
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
    asking: dict[tuple[int, Any, Any], list[Any]] = {}
    for lane in left:
        if lane.backlog[0].kind == REQUEST:
            asking.setdefault((lane.network, lane.src.number, lane.dst.number), []).append(lane)
    for lane in left:
        some = asking.get((lane.network, lane.dst.number, lane.src.number), ())
        if lane.peer is not None or lane.backlog[0].kind != ANSWER or lane.hits or len(some) > CROWD:
            continue
        psn = lane.backlog[0].psn
        some = [other for other in some if other.peer is None and (psn - other.backlog[0].psn + STARTS & _PSN) <= 2 * STARTS]
        if len(some) == 1 and crowd(lanes, lane.dst, lane.src, lane.network, psn) < 2:
            lanes.pair(lane, some[0])


def note_crowds(lanes: Any, left: list[Any]) -> None:
    """Lanes that stay alone although some of the other way may be theirs: `crowd` says how many there are."""
    found: dict[int, int] = {}
    for lane in left:
        if lane.peer is None:
            for key in places(lane, lane.src, lane.dst):
                found[key] = found.get(key, 0) + 1
    for lane in left:
        if lane.peer is None:
            lane.crowd = max((found.get(key, 0) for key in places(lane, lane.dst, lane.src, 1, (-1, 0, 1))), default=0)


def places(lane: Any, source: Any, target: Any, flip: int = 0, steps: tuple[int, ...] = (0,)) -> set[int]:
    """Where the first and the newest PSN of a lane are among those from one host to another that ask, or with `flip` answer."""
    return {
        near(lane.network, source, target, (psn >> NEAR_BITS) + step, NEAR_BITS, role ^ flip)
        for role, psns in ((ASKS, (lane.first_asked, lane.newest)), (BACK, (lane.first_answer, lane.newest_answer)))
        for psn in psns
        if psn >= 0
        for step in steps
    }


def forget(lanes: Any, lane: Any) -> None:
    """A lane has found its peer, or another connection has its queue pair."""
    if lane.newest >= 0:
        leave(lanes.fronts, place(lane.network, lane.src, lane.dst, lane.newest), lane)
    for role, psn in ((ASKS, lane.newest), (BACK, lane.newest_answer)):
        if psn >= 0:
            move(lanes, lane, role, psn, -1)
    lane.hits = None


def over(lanes: Any, lane: Any) -> None:
    """Another connection has the queue pair of a lane."""
    forget(lanes, lane)
    lane.over = True
    for role, psn in ((ASKS, lane.first_asked), (BACK, lane.first_answer)):
        if psn >= 0:
            count(lanes, lane, role, psn, START_BITS, -1)


def named(lanes: Any, setup: SetUp, hosts: list[Any], side: int) -> Any:
    """The lane of a set-up from one of its ends to the queue pair that the other one named; None if there are too many."""
    ends = hosts[side], hosts[1 - side], setup.qpns[1 - side], setup.network
    lane = lanes.made(lanes.key_of(*ends), *ends)
    if lane is not None:
        lane.setup, lane.side = setup, side
    return lane


def expect(lanes: Any, setup: SetUp, message: int) -> None:
    """Connection management names queue pairs: their lanes are of this connection."""
    hosts = [lanes.hosts[end] for end in setup.ends]
    if message == cm.REP_ID and setup.rep is not None and setup.rep[0] == setup.last_frame and setup.qpns[1] is not None:
        to_other = named(lanes, setup, hosts, 0)
        if to_other is None:
            return
        if setup.qpns[0] is not None:
            to_asker = named(lanes, setup, hosts, 1)
            if to_asker is not None:
                lanes.pair(to_other, to_asker)
        elif setup.psns[1] is not None:
            for more in range(STARTS):
                remember(lanes, to_other, setup.psns[1] + more & 0xFFFFFF)
    elif message == cm.REQ_ID and setup.tries == 1 and setup.qpns[0] is not None:
        key = lanes.key_of(hosts[1], hosts[0], setup.qpns[0], setup.network)
        if key not in lanes.lanes:
            lanes.expected[key] = setup, 1
            if len(lanes.expected) > MAX_PSNS:
                lanes.expected.pop(next(iter(lanes.expected)))
    elif message == cm.DREQ_ID:
        for side in (0, 1):
            qpn = setup.qpns[1 - side]
            lane = lanes.lanes.get(lanes.key_of(hosts[side], hosts[1 - side], qpn, setup.network)) if qpn is not None else None
            if lane is not None and lane.setup is None and setup.rep is None:
                lane.setup, lane.side = setup, side
                if not setup.reqs and setup.rej is None:
                    lanes.setups.keep(setup, setup.first_frame or setup.last_frame, setup.last_time)
                if lane.peer is not None and lane.peer.setup is None:
                    lane.peer.setup, lane.peer.side = setup, 1 - side
