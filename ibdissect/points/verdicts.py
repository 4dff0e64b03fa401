"""The verdict on each packet between the points: passed, lost, ambiguous, or unknown.

Packets that are equal in all that a verdict depends on (flow, port, who saw them, what is proved) form a class. Each class is judged
once and has its number of packets, so the work and the memory do not grow with the captures.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.decode import Bool, Int
from ibdissect.decode.equal_rows import Columns, digest, groups, mix
from ibdissect.decode.identity import Mark
from ibdissect.wire.numbers import MULTICAST_QP

from .acknowledged import numbered
from .directions import Directions
from .flows import PointFlows

ON_PATH = 0.8
"""The share of a route's delivered packets that a point must have seen to lie on that route."""
ENOUGH = 8
"""Delivered packets needed to judge a route by itself, not together with all others between the same addresses."""
TESTED = 20
"""A point misses nothing if at least this many packets provably passed it, and its file has them all without a pause."""
CHANCE_PACKETS = 0.05
"""Two points that lack a packet prove its loss only if both would miss at most this many packets by chance."""
CHANCE_SHARE = 0.05
"""The share of lacking packets that chance may explain if the loss is to count as likely."""
PART_OF_ROUTE = 0.05
"""A point that saw at least this share of a route's delivered packets, but not ON_PATH, misses packets or sees one of several paths."""
PORTS = 1 << 17
"""Number of classes up to which UDP source ports are distinguished."""
LED_AROUND = 0.02
"""A point that lacks more of a flow's packets that arrived hardly missed them all: some took another way."""
WHY = ("", "absent", "absent-twice", "nak")
OUTCOMES = ("passed", "lost", "ambiguous", "unknown")
"""What became of a packet: `passed` the points on its route, or was answered; `ambiguous`: equal packets are too close together."""


class PacketClass(Columns):
    """What a verdict depends on, one entry per class."""

    flow: npt.NDArray[np.int32]
    port: npt.NDArray[np.uint16]
    seen: Bool
    """bool[n, points], as the next two."""
    covered: Bool
    """The point was certainly capturing."""
    perhaps: Bool
    """The point may have been capturing."""
    answered: Bool
    refused: Bool
    resent: Bool
    ambiguous: Bool
    by_order: Bool
    between: Bool
    """The point has packets of the same flow from before and after it; bool[n, points], as the next one."""
    opens: Bool
    """The first packet of its flow that the point lacks since it recorded anything: those that follow may be lost with it."""

    def __len__(self) -> int:
        return len(self.flow)


class Classes:
    """The classes of transmissions, and how many are in each."""

    def __init__(self) -> None:
        self._numbers: dict[Mark, int] = {}
        self._parts: list[PacketClass] = []
        self.count = np.zeros(0, np.int64)
        """Transmissions of each class."""
        self.merged = False
        """There were too many: further source ports of a flow count as one."""

    def add(self, alike: PacketClass) -> None:
        """Count the transmissions of a block."""
        names, first, index = _names(alike)
        new = [i for i, name in enumerate(names) if name not in self._numbers]
        if new and len(self._numbers) >= PORTS:
            self.merged = True
            names, first, index = self._without_ports(alike, names, index)
            new = [i for i, name in enumerate(names) if name not in self._numbers]
        for i in new:
            self._numbers[names[i]] = len(self._numbers)
        self._parts.append(alike.take(first[new]))
        self.count = np.concatenate([self.count, np.zeros(len(new), np.int64)])
        np.add.at(self.count, [self._numbers[name] for name in names], np.bincount(index, minlength=len(names)))

    def number(self, alike: PacketClass) -> Int:
        """The class of each transmission of a block."""
        names, _, index = _names(alike)
        if any(name not in self._numbers for name in names):
            names, _, index = self._without_ports(alike, names, index)
        return np.array([self._numbers[name] for name in names], np.int64)[index]

    def alike(self) -> PacketClass:
        """What the transmissions of each class have in common."""
        return PacketClass.joined(*self._parts)

    def _without_ports(self, alike: PacketClass, names: list[Mark], index: Int) -> tuple[list[Mark], Int, Int]:
        """The names of the classes, new ones without their source port."""
        alike.port = np.where(np.array([name in self._numbers for name in names])[index], alike.port, 0).astype(np.uint16)
        return _names(alike)


def _names(alike: PacketClass) -> tuple[list[Mark], Int, Int]:
    """The hashes of the classes of a block, the first transmission of each, and the class of each transmission."""
    marks = alike.seen, alike.covered, alike.perhaps, alike.between, alike.opens
    flags = (alike.answered, alike.refused, alike.resent, alike.ambiguous, alike.by_order)
    bits = np.packbits(np.concatenate([*marks, np.stack(flags, axis=1)], axis=1), axis=1)
    block = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), np.uint8)
    block[:, : bits.shape[1]] = bits
    name = mix([alike.flow, alike.port, digest(block)])
    first, index = groups([name])
    return name[first].tolist(), first, index


class PacketPath(Columns):
    """Where packets should have been seen, and where they were lost, of each class or of each transmission; bool[n, points] unless noted
    otherwise.
    """

    due: Bool
    """The point lies on the packet's route."""
    covered: Bool
    """The point was certainly capturing."""
    place: npt.NDArray[np.int16]
    """Number of earlier points on the route, int16[n, points]."""
    passed: Bool
    """Not seen there, but at a later point."""
    answered: Bool
    """bool[n]"""
    lost: Bool
    """bool[n]"""
    not_reached: Bool
    """Points of its route that a lost packet did not reach."""
    why: npt.NDArray[np.uint8]
    """Index into WHY, uint8[n]."""
    likely: Bool
    """The loss is likely, not certain; bool[n]."""
    after: Int
    """The last point that saw it, int64[n]."""
    likely_before: Int
    """The first later point that lacks it and hardly misses packets, else the last one that lacks it; int64[n]; -1 for none."""
    surely_before: Int
    """The first later point that it certainly did not reach, int64[n]; -1: only its receiver."""
    ambiguous: Bool
    """bool[n]"""


class PacketVerdicts(Record):
    """The journeys of all classes, and how much each point misses."""

    journey: PacketPath
    missed: Int
    """Packets that provably passed while the point was capturing but are missing in its file, int64[points]."""
    tested: Int
    """Packets that provably passed, int64[points]."""
    complete: Bool
    """Points that miss nothing, bool[points]."""
    partly: Bool
    """Points that saw only part of a route's packets, bool[points]."""
    unclear: int
    """Absent packets whose equal copies may have arrived."""


class PointRoutes:
    """Which points lie on the route of each class, and which provably passed packets do they miss?"""

    def __init__(self, alike: PacketClass, count: Int, directions: Directions) -> None:
        seen, source = alike.seen, directions.source[alike.flow]
        self.precedes: Bool = np.moveaxis(directions.sign, 2, 0)[source] > 0
        """bool[classes, i, j]: i comes before j."""
        self.place = self.precedes.sum(axis=1, dtype=np.int16)
        self.passed = np.zeros(seen.shape, np.bool_)
        for i, j in permutations(range(seen.shape[1]), 2):
            self.passed[:, i] |= ~seen[:, i] & seen[:, j] & self.precedes[:, i, j]
        furthest = np.where(seen, self.place, -1).max(axis=1, keepdims=True)
        known = (self.passed | (~seen & alike.answered[:, None])) & alike.covered
        there = seen & (alike.answered[:, None] | (self.place < furthest))
        ends = source * directions.count + directions.destination[alike.flow]
        self.due, self.partly = _due(seen, alike.covered, there & alike.covered, known, count, ends, alike.port)
        self.missing = known & self.due
        """Packets that provably passed a point that was capturing but lacks them."""
        self.there = there & self.due
        """Packets that provably passed and were seen."""


def judge(classes: Classes, directions: Directions, flows: PointFlows, paused: Bool) -> PacketVerdicts:
    """Decide for each class where its packets were lost, if that is certain. `paused`: points that did not capture for a while."""
    alike, count = classes.alike(), classes.count
    routes = PointRoutes(alike, count, directions)
    seen, due, place = alike.seen, routes.due, routes.place
    missed = count @ (routes.missing & ~(alike.ambiguous | alike.by_order)[:, None])
    tested = missed + count @ routes.there
    complete = (missed == 0) & (tested >= TESTED) & ~routes.partly & ~paused  # a pause may be longer than what is proved of it
    last = np.where(seen, place, -1).argmax(axis=1)
    rows = np.arange(len(seen))
    lacking = due & alike.perhaps & ~seen & (place > place[rows, last][:, None]) & routes.precedes[rows, last]
    vague = np.array([flow.vague for flow in flows.known])[alike.flow]  # which of several routes it took is unknown
    absent = lacking & alike.covered & ~(alike.answered | vague)[:, None]
    backed = alike.refused | alike.resent
    untested = absent & complete & ~backed[:, None]
    some = count @ (due & alike.covered & (seen | absent))
    all_missed, each_missed = _by_chance(count @ untested, count @ (untested & alike.opens), some, tested)
    proved_absent = (absent & complete & (backed[:, None] | (all_missed <= CHANCE_SHARE))).any(axis=1)
    doubtful = absent & ~proved_absent[:, None]
    proved, likely = _absent_twice(doubtful, due, count, np.where(routes.partly, 1.0, (missed + 1) / (tested + 2)))
    refused = alike.refused & ~alike.answered & lacking.any(axis=1)
    why = np.select([proved_absent, proved | (likely & ~refused), refused], [1, 2, 3], 0).astype(np.uint8)
    unclear = int(count[(why > 0) & alike.ambiguous].sum())
    why[alike.ambiguous] = 0
    gone = count * (why > 0)
    likely_before = _next_point(lacking, place, complete | _hardly_misses(gone @ lacking, gone @ seen, missed, tested))
    surely_before = np.where((why == 3) & ~(lacking & complete).any(axis=1), -1, _next_point(lacking, place, complete))
    likely = np.where(why == 1, ~((absent & complete & (each_missed <= CHANCE_SHARE)).any(axis=1) | backed), likely & (why == 2))
    group = np.array([flow.dest_qp == MULTICAST_QP for flow in flows.known])[alike.flow]  # its members come and go
    passes = alike.between | _asked_again(alike, absent & backed[:, None], count)
    known = absent & passes & ~group[:, None] & _tested_that_way(directions, alike, routes, count)
    behind = (lacking[:, :, None] & lacking[:, None, :] & routes.precedes).any(axis=(1, 2))  # one way around two points is rare
    known &= behind[:, None] | _on_path(alike, absent, count)
    likely |= (why == 3) & (np.count_nonzero(lacking, axis=1) == 1) & (lacking & _led_around(alike, routes, count)).any(axis=1)
    likely |= ((why == 1) & ~backed & ~(known & complete).any(axis=1)) | ((why == 2) & (np.count_nonzero(known, axis=1) < 2))
    lost = why > 0
    journey = PacketPath(
        due, alike.covered, place, routes.passed, alike.answered, lost, lacking & lost[:, None], why, likely, last,
        likely_before, surely_before, alike.ambiguous,
    )
    return PacketVerdicts(journey, missed, tested, complete, routes.partly, unclear)


def _asked_again(alike: PacketClass, lost: Bool, count: Int) -> Bool:
    """Which points lack packets of the flow of each class that were asked for or sent again, bool[n, points]: no other way led there."""
    found: Bool = _sums(numbered(alike.flow.astype(np.int64)), lost, count) > 0
    return found


def _tested_that_way(directions: Directions, alike: PacketClass, routes: PointRoutes, count: Int) -> Bool:
    """Which points have packets of the same source that provably passed, bool[n, points]: a tap records each way of a cable by itself."""
    found: Bool = _sums(directions.source[alike.flow], routes.there, count) >= TESTED
    return found


def _led_around(alike: PacketClass, routes: PointRoutes, count: Int) -> Bool:
    """Which points lack many of a flow's packets that arrived, as if adaptive routing led some around them, bool[n, points]: one that is
    asked for may have arrived late.
    """
    flow = numbered(alike.flow.astype(np.int64))
    away, there = _sums(flow, routes.missing, count), _sums(flow, routes.there, count)
    found: Bool = away > LED_AROUND * (away + there)
    return found


def _on_path(alike: PacketClass, absent: Bool, count: Int) -> Bool:
    """Which points have most packets of each flow, bool[n, points]: of one that has fewer, some took another way, if nothing proves them
    lost.
    """
    flow = numbered(alike.flow.astype(np.int64))
    lacks, has = _sums(flow, absent, count), _sums(flow, alike.seen & alike.covered, count)
    found: Bool = has >= ON_PATH * (lacks + has)
    return found


def _sums(group: Int, which: Bool, count: Int) -> Int:
    """Of how many packets `which` holds at each point, summed over all classes of the group of each class; int64[n, points]."""
    found: Int = np.stack([np.bincount(group, column * count) for column in which.T], axis=1)[group].astype(np.int64)
    return found


def _by_chance(lacks: Int, holes: Int, due: Int, tested: Int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The probability that a point merely missed the packets that it lacks: all of them, and each of them; float64[points].

    If it missed all of them, none of them is a test of it. That is credible for one or two packets, hardly for many. But a recorder that
    cannot keep up drops many at once: those of one hole, in which it recorded nothing, may have one cause.
    """
    untested = np.maximum(due - tested, 1)
    return (untested / (untested + tested)) ** lacks, untested / (tested + 1) / np.maximum(holes, 1)


def _next_point(lacking: Bool, place: npt.NDArray[np.int16], trusted: Bool) -> Int:
    """For each packet: the first point on its route that lacks it and misses so few packets that this is not chance, else the last point
    that lacks it; -1 if no point does.
    """
    first = np.where(lacking & trusted, place, np.iinfo(np.int16).max)
    last = np.where(lacking, place, -1)
    found = np.where((lacking & trusted).any(axis=1), first.argmin(axis=1), last.argmax(axis=1))
    return np.where(lacking.any(axis=1), found, -1)


def _hardly_misses(lacks: Int, has: Int, missed: Int, tested: Int) -> Bool:
    """Points that nearly none of the lost packets they lack reached, bool[points]. `lacks`, `has`: lost packets, int64[points]."""
    miss = (missed + 1) / (tested + 2)
    found: Bool = has * miss / (1 - miss) <= CHANCE_SHARE * lacks
    return found


def _absent_twice(absent: Bool, due: Bool, count: Int, miss: npt.NDArray[np.float64]) -> tuple[Bool, Bool]:
    """Packets that several points lack, whose loss is proved or likely: far more than these points would miss by chance."""
    proved, likely = np.zeros((2, len(absent)), np.bool_)
    for pattern in np.unique(absent, axis=0):
        if np.count_nonzero(pattern) >= 2:
            alike = (absent == pattern).all(axis=1)
            chance = float(miss[pattern].prod()) * count[due[:, pattern].all(axis=1)].sum()
            proved |= alike & (chance <= CHANCE_PACKETS)
            likely |= alike & (CHANCE_PACKETS < chance <= CHANCE_SHARE * count[alike].sum())
    return proved, likely


def _due(seen: Bool, covered: Bool, passed: Bool, missed: Bool, count: Int, ends: Int, port: npt.NDArray[np.uint16]) -> tuple[Bool, Bool]:
    """Which points lie on each packet's route: those that saw nearly all packets of that route that are known to have passed.

    A route with few such packets is judged by all others between the same addresses. But where a point saw none of a route with ENOUGH
    packets, or of many routes, source ports take several paths: there it must have seen nearly all of its own. And which points saw only
    part of a route's packets, bool[points].
    """
    due, partly = np.zeros(seen.shape, np.bool_), np.zeros(seen.shape[1], np.bool_)
    fine, coarse = numbered(mix([ends, port])), numbered(ends)
    for i in range(seen.shape[1]):
        mine = count * covered[:, i]
        of_fine, known, sent, own = _shares(fine, passed[:, i] * count, missed[:, i] * count, mine, seen[:, i] * mine)
        of_coarse, *_, every, _ = _shares(coarse, passed[:, i] * count, missed[:, i] * count, mine, seen[:, i] * mine)
        size = len(every)
        elsewhere = np.bincount(coarse, ((sent >= ENOUGH) & (own == 0))[fine], size) > 0
        elsewhere |= np.bincount(coarse, mine * (own == 0)[fine], size) > (1 - ON_PATH) * every
        most = (sent >= ENOUGH) & (own >= ON_PATH * sent)
        due[:, i] = np.where((known >= ENOUGH)[fine], of_fine[fine] >= ON_PATH, (of_coarse >= ON_PATH)[coarse])
        due[:, i] &= np.bincount(coarse, seen[:, i] * count, size)[coarse] > 0
        due[:, i] &= (known >= ENOUGH)[fine] | most[fine] | ~elsewhere[coarse]
        due[:, i] &= (known < ENOUGH)[fine] | (np.bincount(fine, seen[:, i] * count, len(own)) > 0)[fine]
        partly[i] = bool(((known >= ENOUGH) & (of_fine >= PART_OF_ROUTE) & (of_fine < ON_PATH)).any())
    return due, partly


def _shares(group: Int, passed: Int, missed: Int, sent: Int, own: Int) -> tuple[npt.NDArray[np.float64], Int, Int, Int]:
    """For each group the share that a point has of the packets that are known to have passed it, how many these are, how many packets were
    sent while it was capturing, and how many of them it saw.
    """
    size = int(group.max()) + 1
    there, away, every, mine = (np.bincount(group, which, size) for which in (passed, missed, sent, own))
    known = there + away
    return np.where(known > 0, there / np.maximum(known, 1), 1.0), known, every, mine


def outcomes(seen: Bool, journey: PacketPath) -> npt.NDArray[np.uint8]:
    """What became of each transmission, as an index of OUTCOMES."""
    further = journey.place > np.take_along_axis(journey.place, journey.after[:, None], axis=1)
    open_ = (journey.due & ~seen & further).any(axis=1) & ~journey.answered
    return np.select([journey.lost, journey.ambiguous, open_], [1, 2, 3], 0).astype(np.uint8)
