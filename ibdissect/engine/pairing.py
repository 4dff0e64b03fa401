"""Which lane carries the answers to another one's requests? By connection management first, then by PSNs over all candidates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ibdissect.wire import cm

from .common import MASK
from .kinds import ANSWER, REQUEST
from .setups import SetUp

MAX_CANDIDATES = 16
"""Lanes between two hosts that wait with the same PSN; of more, nobody can say which one is answered."""
MAX_PSNS = 1 << 18
"""PSNs that are remembered for pairing; twice as many at most."""
CROWD = 64
"""From so many lanes between two hosts on, one equal PSN may be chance: two are asked for."""
STARTS = 32
"""A READ or a coalesced ACK may begin that many PSNs after the first one agreed."""


def place(src: int, dst: int, psn: int) -> int:
    """The key of a PSN among the lanes from one host to another."""
    return (src << 44 ^ dst << 24 ^ psn) & MASK


def match(lanes: Any, lane: Any, p: Any) -> Any:  # Any: the classes of `lanes`, compiled or not
    """The lane that this packet shows to be the other way; None if it is not certain. Requests are remembered, answers looked up."""
    if p.kind == REQUEST:
        if not lane.packets and not lane.backlog:
            remember(lanes, lane, p.psn - 1 & 0xFFFFFF)  # a capture that begins in the midst shows the ACK of the one before
        remember(lanes, lane, p.psn)
        return None
    if p.kind != ANSWER:
        return None
    found = candidates(lanes, lane, p.psn)
    if not found:
        return None
    if lane.hits is None:
        lane.hits = {}
    for other in found:
        lane.hits[other] = lane.hits.get(other, 0) + 1
    return best(lanes, lane, 1 if len(lanes.lanes) < CROWD else 2)


def best(lanes: Any, lane: Any, least: int) -> Any:
    """The candidate that was answered most often, at least `least` times and more often than any other; of the same network first."""
    ranked = sorted(
        ((count, other.network == lane.network, -other.order, other) for other, count in lane.hits.items() if other.peer is None),
        key=lambda one: one[:3], reverse=True,
    )  # fmt: skip
    if not ranked or ranked[0][0] < least or (len(ranked) > 1 and ranked[1][:2] == ranked[0][:2]):
        return None
    return ranked[0][3]


def remember(lanes: Any, lane: Any, psn: int) -> None:
    """A lane has sent a PSN."""
    key = place(lane.src.number, lane.dst.number, psn)
    known = lanes.waiting.get(key)
    if known is None:
        if len(lanes.waiting) >= MAX_PSNS:
            lanes.older, lanes.waiting = lanes.waiting, {}
        lanes.waiting[key] = [lane]
    elif lane not in known and len(known) <= MAX_CANDIDATES:
        known.append(lane)


def candidates(lanes: Any, lane: Any, psn: int) -> list[Any]:
    """Lanes the other way that sent this PSN and have no answers yet; none if there are too many."""
    key = place(lane.dst.number, lane.src.number, psn)
    found = [other for known in (lanes.waiting.get(key), lanes.older.get(key)) if known for other in known if other.peer is None]
    return found if len(found) <= MAX_CANDIDATES else []


def merged(one: Any, other: Any) -> Iterator[tuple[Any, Any]]:
    """What waited of two lanes, in the order of frames."""
    both = [(p.frame, 0, one, p) for p in one.backlog] + [(p.frame, 1, other, p) for p in other.backlog]
    for _, _, lane, p in sorted(both, key=lambda item: item[:2]):
        yield lane, p


def pair_rest(lanes: Any) -> None:
    """At the end of a capture, the best candidates of lanes that are still alone; then those whose PSNs are near, if only one is."""
    left: dict[tuple[int, int], list[Any]] = {}
    for lane in list(lanes.lanes.values()):
        if lane.peer is not None:
            continue
        other = best(lanes, lane, 1) if lane.hits else None
        if other is not None:
            lanes.pair(lane, other)
        elif lane.backlog:
            left.setdefault((lane.src.number, lane.dst.number), []).append(lane)
    for (source, target), some in left.items():
        if len(some) > CROWD:
            continue
        for lane in some:
            if lane.peer is None and lane.backlog[0].kind == ANSWER:
                near = [
                    other for other in left.get((target, source), ())
                    if other.peer is None and other.backlog[0].kind == REQUEST
                    and (lane.backlog[0].psn - other.backlog[0].psn + STARTS & 0xFFFFFF) <= 2 * STARTS
                ]  # fmt: skip
                if len(near) == 1:
                    lanes.pair(lane, near[0])


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
                    lanes.setups.keep(setup)
                if lane.peer is not None and lane.peer.setup is None:
                    lane.peer.setup, lane.peer.side = setup, 1 - side
