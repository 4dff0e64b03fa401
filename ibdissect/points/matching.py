"""Sightings matched to packets. Equal packets are distinguished by time and order; ambiguous ones are not joined."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.decode import Bool, Int
from ibdissect.decode.equal_rows import by_value
from ibdissect.decode.identity import Code, FlowNumber, Index
from ibdissect.decode.mirror_copies import AT_MOST_NS

from .clocks import Clocks
from .directions import Directions
from .packet_identity import Sightings
from .read_captures import Point
from .transmissions import Repeats, Transmissions, transmissions_of

WAY_NS = 200_000
"""Time that a packet may always take between two points; longer if the capture shows it."""
FEWEST, FEW, MANY = 5, 0.01, 0.15
"""Packets, and shares of packets, that a point sees twice but another one once. Above FEW, within AT_MOST_NS, a mirror duplicates them;
above MANY, if the other point comes first, the point sees both sides of a port.
"""
QUICK, EARLY_NS = 0.005, 1_000
"""The share of packets that may seem faster than possible, because stamps are sometimes late, and by how much the others may."""
EARLY = 4
"""Which of two copies a sighting is, is ambiguous within EARLY usual spreads before the second copy is expected. A copy that is farther
off than this is not chosen."""
MOST_COPIES = 10
"""Maximum number of equal packets close together for which all orders are tried."""
CHAIN = 100
"""A chain of equal packets that is this many times longer than a packet may take is divided at its longest pause."""


class UsualDelay(Record):
    """The time that a flow's packets usually take from one point to another."""

    middle: float
    spread: float
    least: float
    """Hardly any packet takes less; negative, like `middle`, if packets pass the other point first."""


class Duplicate(Record):
    """A packet that some points have once and later points twice."""

    once: dict[Index, int]
    """Its frame at each point that has it once."""
    twice: list[tuple[int, int]]
    """Each point that has it twice, and the second frame there."""
    flow: FlowNumber
    opcode: int
    soon: bool
    """Whether the second one comes sooner than a NAK goes back and a request comes again."""


class MatchResult(Record):
    """The transmissions of some sightings."""

    transmissions: Transmissions
    repeats: Repeats
    rest: Int
    """Index of each sighting of which equal packets may still come."""


class Clusters(Record):
    """Sightings of equal packets, sorted by key, then by time, and their clusters: the stretches without a pause longer than a packet may
    take.
    """

    order: Int
    """Index of each sighting."""
    point: npt.NDArray[np.uint8]
    time: Int
    number: npt.NDArray[np.int32]
    """Of the cluster."""

    def __len__(self) -> int:
        return int(self.number[-1]) + 1 if len(self.number) else 0

    def counts(self, points: int, some: Bool | None = None) -> npt.NDArray[np.int32]:
        """Sightings of each point in each cluster, int32[clusters, points]. `some`: count only these."""
        group = self.number.astype(np.int64) * points + self.point
        group = group if some is None else group[some]
        return np.bincount(group, minlength=len(self) * points).astype(np.int32).reshape(-1, points)


class Matcher:
    """Matches sightings by what the sample of all points shows: how long packets take, which points see a packet more than once."""

    def __init__(self, points: Sequence[Point], directions: Directions, clocks: Clocks) -> None:
        self._directions, self._points = directions, points
        self._delays = _Delays(directions, clocks)
        self.longest = self._delays.longest
        """Longest time between two sightings of a packet, in nanoseconds."""
        self.unjoined = 0
        """Sightings not joined because of ambiguity."""
        self.divided = 0
        """Chains of equal packets that were divided."""
        self.doubled: list[Duplicate] = []
        self._ids = 0
        sample = Sightings.joined(*(point.seen for point in points))
        sample.time = np.concatenate(clocks.times)
        clusters = _clusters(sample, self.longest)
        counts = clusters.counts(len(points))
        source = directions.source[sample.flow[clusters.order[np.flatnonzero(np.diff(clusters.number, prepend=-1))]]]
        self._echo = np.array([_echo(clusters, counts, i, directions.sign[:, i].T[source] > 0) for i in range(len(points))])

    def match(self, seen: Sightings, until: int | None = None) -> MatchResult:
        """Match the sightings up to the time `until`: packets equal to later ones may still come. None: nothing more comes."""
        clusters = _clusters(seen, self.longest)
        rest = np.empty(0, np.int64)
        if until is not None:
            clusters, rest = self._complete(clusters, until)
        if not len(clusters):
            empty = np.zeros(0, np.bool_)
            nothing = seen.take(np.zeros(0, np.int64))
            return MatchResult(*transmissions_of(nothing, rest[:0], empty, empty, len(self._points), 0), rest)
        seen = seen.take(clusters.order)
        return MatchResult(*self._matched(seen, clusters), rest)

    def _complete(self, clusters: Clusters, until: int) -> tuple[Clusters, Int]:
        """The clusters to which nothing can be added, and the index of all other sightings."""
        starts = np.flatnonzero(np.diff(clusters.number, prepend=-1))
        stops = np.append(starts[1:], len(clusters.number))
        ready = (clusters.time[stops - 1] < until - self.longest)[clusters.number]
        chain = CHAIN * self.longest
        for i in np.flatnonzero((clusters.time[starts] < until - chain) & ~ready[starts]).tolist():
            pauses = np.diff(clusters.time[starts[i] : stops[i]])
            pauses[clusters.time[starts[i] + 1 : stops[i]] > until - self.longest] = -1
            ready[starts[i] : starts[i] + 1 + int(np.argmax(pauses))] = True
            self.divided += 1
        new = np.diff(clusters.number[ready], prepend=-1) != 0
        kept = Clusters(clusters.order[ready], clusters.point[ready], clusters.time[ready], np.cumsum(new, dtype=np.int32) - 1)
        return kept, clusters.order[~ready]

    def _matched(self, seen: Sightings, clusters: Clusters) -> tuple[Transmissions, Repeats]:
        """Number the sightings (`seen`, sorted by cluster): by order where all points saw a cluster equally often, else one by one."""
        points, own = len(self._points), clusters.number
        group = own.astype(np.int64) * points + seen.point
        rank, new = _ranks(seen.time, group, self._echo[seen.point])
        times = clusters.counts(points, new)
        plain = self._echo <= AT_MOST_NS
        most = np.maximum(times[:, plain].max(axis=1, initial=0), 1)
        alike = ((times == 0) | (times == most[:, None]) | (~plain & (most[:, None] == 1))).all(axis=1)
        first = np.cumsum(most, dtype=np.int64) - most
        number = first[own] + np.where(most[own] > 1, rank, 0)
        ambiguous: list[int] = []
        total = int(most.sum())
        for cluster in np.flatnonzero(~alike).tolist():
            part = slice(*np.searchsorted(own, (cluster, cluster + 1)).tolist())
            found, doubtful = self._resolved(seen.take(np.arange(part.start, part.stop)), rank[part])
            here = first[cluster] + found
            alone = np.flatnonzero(found < 0)
            here[alone] = total + np.arange(len(alone))
            total += len(alone)
            self.unjoined += len(alone)
            ambiguous += [*here[alone].tolist(), *(int(first[cluster]) + copy for copy in doubtful)]
            number[part] = here
        by_order, unknown = np.zeros((2, total), np.bool_)
        by_order[number[most[own] > 1]] = True
        unknown[ambiguous] = True
        self._ids += total
        return transmissions_of(seen, number, unknown, by_order, points, self._ids - total)

    def _resolved(self, seen: Sightings, rank: npt.NDArray[np.int32]) -> tuple[Int, set[Index]]:
        """Which copy each sighting of a cluster is (-1: unknown), and which copies are doubtful because of that.

        Pivots are the points that saw most copies; the sightings of the others are compared with theirs.
        """
        echo, delays, flow = self._echo, self._delays, int(seen.flow[0])
        found, doubtful = np.full(len(seen), -1, np.int64), set()
        at = dict(by_value(seen.point))
        copies = {i: int(rank[index[-1]]) + 1 for i, index in at.items()}
        most = max(count for i, count in copies.items() if echo[i] <= AT_MOST_NS)
        pivots = [i for i, count in copies.items() if count == most and echo[i] <= AT_MOST_NS]
        others = [i for i in copies if i not in pivots]
        if all(any(delays.direction(i, p, flow) > 0 for i in others) for p in pivots):
            doubtful |= set(range(most))  # more than at an earlier point: that point missed one, or this one saw a packet twice
            if most == 2 and all(copies[i] == 1 for i in others) and all(echo[i] < 0 for i in copies):
                once = {i: int(seen.frame[at[i][0]]) for i in others}
                apart = max(int(np.ptp(seen.time[at[i]])) for i in pivots)
                soon = apart < 2 * min(delays.of(i, p, flow).least for i in others for p in pivots) < np.inf
                twice = [(i, int(seen.frame[at[i][1]])) for i in pivots]
                self.doubled.append(Duplicate(once, twice, FlowNumber(flow), int(seen.opcode[0]), bool(soon)))
        sent = {}
        for i in pivots:
            found[at[i]] = rank[at[i]]
            sent[i] = seen.time[at[i]][np.diff(rank[at[i]], prepend=-1) > 0]
        for i in others:
            copy = _Copies([(sent[p], delays.of(p, i, flow), delays.direction(p, i, flow)) for p in pivots], self._points[i].resolution)
            if echo[i] > AT_MOST_NS:
                found[at[i]], unsure = copy.of_sides(seen.time[at[i]])
            else:
                found[at[i]], unsure = copy.of_each(seen.time[at[i]], rank[at[i]], mirrored=echo[i] >= 0)
            doubtful |= unsure
        return found, doubtful


class _Copies:
    """The copies of a packet that pivots saw, to find those that another point saw fewer of.

    `known`: for each pivot the times of the copies, the time from there to this point, and the direction.
    """

    def __init__(self, known: list[tuple[Int, UsualDelay, int]], resolution: int) -> None:
        self._known = known
        self._wanted = np.array([sent + expected.middle for sent, expected, _ in self._known])
        self._spread = max(expected.spread for _, expected, _ in self._known) + resolution
        self._most, self._ahead = self._wanted.shape[1], EARLY_NS + resolution

    def of_sides(self, time: Int) -> tuple[Int, set[Index]]:
        """The copy of each sighting of a point that sees both sides of a port: the last one expected before; and the doubtful copies."""
        spread, doubtful = self._spread, set()
        late = time[:, None] - np.median(self._wanted, axis=0)
        found = np.maximum((late >= -spread).sum(axis=1) - 1, 0)
        early = ((late < -spread) & (late >= -EARLY * spread)).any(axis=0)  # perhaps this copy, slightly faster than usual
        doubtful |= {near for copy in np.flatnonzero(early[1:]).tolist() for near in (copy, copy + 1)}
        for copy in sorted(set(found.tolist())):  # or is it the next copy, which is not seen otherwise, with a late stamp?
            mine = late[found == copy]
            if copy + 1 < self._most and copy + 1 not in found and (np.abs(mine[:, copy + 1]) < mine[:, copy]).any():
                doubtful |= {copy, copy + 1}
        return found, doubtful

    def of_each(self, time: Int, rank: npt.NDArray[np.int32], *, mirrored: bool) -> tuple[Int, set[Index]]:
        """The copy of each sighting: those whose delays are most usual, if no others are nearly as usual; and the doubtful copies.

        `mirrored`: a mirror duplicates packets here, so two copies may count as one.
        """
        spread, doubtful, unknown = self._spread, set(), np.full(len(time), -1, np.int64)
        if mirrored:
            nearby = np.flatnonzero(np.diff(np.median(self._wanted, axis=0)) <= AT_MOST_NS + spread).tolist()
            doubtful |= {near for copy in nearby for near in (copy, copy + 1)}
        if self._most > MOST_COPIES:
            return unknown, set(range(self._most))
        came = time[np.diff(rank, prepend=-1) > 0]
        costs = sorted((float(np.abs(came - self._wanted[:, some]).sum()), some) for some in self._possible(came))
        slow = not costs or costs[0][0] > EARLY * spread * len(came)  # a late stamp may have ruled out the right ones
        if slow or (len(costs) > 1 and (costs[1][0] - costs[0][0] <= spread or 2 * costs[0][0] > costs[1][0])):
            return unknown, set(range(self._most))
        return np.array(costs[0][1])[rank], doubtful

    def _possible(self, came: Int) -> list[list[int]]:
        """The choices of copies of which none arrives before it was sent."""
        return [
            some for some in map(list, combinations(range(self._most), len(came)))
            if all(((came - sent[some] - expected.least) * sign >= -self._ahead).all() for sent, expected, sign in self._known)
        ]  # fmt: skip


class _Delays:
    """How long packets take between two points, according to the anchors: by flow, and by direction."""

    def __init__(self, directions: Directions, clocks: Clocks) -> None:
        self._directions = directions
        self._known: dict[tuple[Index, Index, FlowNumber | Code], UsualDelay] = {}
        self.longest = WAY_NS
        for (i, j), found in directions.anchors.items():
            if not len(found) or not (clocks.segments[i] and clocks.segments[j]):
                continue
            taken = clocks.times[j][found.second] - clocks.times[i][found.first]
            self.longest = max(self.longest, WAY_NS + 8 * int(np.quantile(np.abs(taken), 0.9)))
            sign = directions.sign[i, j][directions.source[found.flow]]
            ways = [(-2 - way, -2 + way, np.flatnonzero(sign == way)) for way in (1, -1)]
            for name, back, rows in [*((name, name, rows) for name, rows in by_value(found.flow)), *ways]:
                if len(rows):
                    quick = QUICK if sign[rows[0]] > 0 else 1 - QUICK
                    low, middle, high, least = np.quantile(taken[rows], (0.1, 0.5, 0.9, quick)).tolist()
                    self._known[i, j, name] = UsualDelay(middle, high - low, least)
                    self._known[j, i, back] = UsualDelay(-middle, high - low, -least)

    def direction(self, i: int, j: int, flow: int) -> int:
        """+1 if packets pass point `i` first, -1 if they pass `j` first."""
        return int(self._directions.sign[i, j, self._directions.source[flow]])

    def of(self, i: int, j: int, flow: int) -> UsualDelay:
        """The time from point `i` to point `j`, negative if packets pass `j` first."""
        direction = self.direction(i, j, flow)
        return self._known.get((i, j, flow)) or self._known.get((i, j, -2 - direction)) or UsualDelay(0.0, WAY_NS, -direction * np.inf)


def _clusters(seen: Sightings, longest: int) -> Clusters:
    order = np.lexsort((seen.time, seen.key))
    key, time = seen.key[order], seen.time[order]
    new = (np.diff(key, prepend=key[:1]) != 0) | (np.diff(time, prepend=time[:1]) > longest)
    return Clusters(order, seen.point[order], time, np.cumsum(new, dtype=np.int32))


def _ranks(time: Int, group: Int, echo: Int) -> tuple[npt.NDArray[np.int32], Bool]:
    """The number of each sighting in its group, and whether it is a new one: sightings within `echo` of a new one count as one with it."""
    order = np.argsort(group, kind="stable")
    time, echo = time[order], echo[order]
    starts = np.diff(group[order], prepend=-1) != 0
    fresh = starts | (np.diff(time, prepend=0) > echo)
    for _ in range(MOST_COPIES):  # a new one may come soon after an echo of the one before
        since = time - time[np.maximum.accumulate(np.where(fresh, np.arange(len(time)), 0))]
        later = (since > echo) & ~fresh
        missed = later & ~np.concatenate(([False], later[:-1]))
        if not missed.any():
            break
        fresh |= missed
    total = np.cumsum(fresh, dtype=np.int32)
    rank, new = np.empty(len(group), np.int32), np.empty(len(group), np.bool_)
    rank[order] = total - np.maximum.accumulate(np.where(starts, total, 0))
    new[order] = fresh
    return rank, new


def _echo(seen: Clusters, counts: npt.NDArray[np.int32], point: int, before: Bool) -> int:
    """The time within which a point sees the same packet again (a mirror, or both sides of a port); -1 if it does not."""
    here, others = counts[:, point], np.delete(counts, point, axis=1)
    once = (others == 1).any(axis=1) & (here > 0)
    mine = np.flatnonzero((seen.point == point) & (once & (here > 1))[seen.number])
    cluster, time = seen.number[mine], seen.time[mine]
    starts = np.flatnonzero(np.diff(cluster, prepend=-1))
    if len(starts) < FEWEST:
        return -1
    gaps = np.diff(time, append=0)[starts]
    came_once = ((counts == 1) & before).any(axis=1)  # packets sent twice arrive twice
    sides = gaps[came_once[cluster[starts]]]
    if len(sides) > MANY * np.count_nonzero(once & came_once):
        pairs = came_once | ((here == 2) & (others.max(axis=1) == 1))  # no earlier point may capture when a queue is long
        return max(AT_MOST_NS, int(np.quantile(gaps[pairs[cluster[starts]]], 0.999, method="higher")))
    return AT_MOST_NS if np.count_nonzero(gaps <= AT_MOST_NS) > FEW * np.count_nonzero(once) else -1
