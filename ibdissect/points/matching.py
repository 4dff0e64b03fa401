"""Which sightings are the same packet on its way? Equal packets are distinguished by time and order; ambiguous ones are not joined."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.table.copies import AT_MOST_NS
from ibdissect.table.locate import Bool, Int
from ibdissect.table.rows import by_value

from .clocks import Clocks
from .columns import Point
from .directions import Directions

WAY_NS = 200_000
"""Time that a packet may always take between two points; longer if the capture shows it."""
FEWEST, FEW, MANY = 5, 0.01, 0.15
"""Packets, and shares of packets, that a point sees twice but another one once. Above FEW, within AT_MOST_NS, a mirror duplicates them;
above MANY, if the other point comes first, the point sees both sides of a port.
"""
QUICK, EARLY_NS = 0.005, 1_000
"""The share of packets that may be faster than possible, as stamps are sometimes late, and by how much others may be."""
EARLY = 4
"""A second sighting up to this many usual spreads earlier than the next copy is expected may be either; nor is a copy known if all
possible ones are farther off.
"""
MOST_COPIES = 10
"""Maximum number of equal packets close together for which all orders are tried."""


class Expected(Record):
    """The time that a flow's packets usually take from one point to another."""

    middle: float
    spread: float
    least: float
    """Hardly any packet takes less; negative, like `middle`, if packets pass the other point first."""


class Matched(Record):
    """Transmissions: a packet sent once, with all its sightings."""

    rows: npt.NDArray[np.int32]
    """The row of the first sighting at each point, int32[n, points]; -1: not seen. In order of time."""
    time: Int
    """Time of the first sighting, on the reference clock."""
    ambiguous: Bool
    """Equal packets are so close together that it is unknown which was seen where."""
    close: Bool
    """Equal packets are so close together that only order and time distinguish them."""
    matches: int
    """Sightings not joined because of ambiguity."""
    longest: int
    """Longest time between two sightings of a packet, in nanoseconds."""
    number: list[npt.NDArray[np.int32]]
    """For each point the transmission number of each row."""
    doubled: list[tuple[dict[int, int], list[tuple[int, int]]]]
    """Packets that some points have once and later points twice: point -> row of the former, point and second row of the latter."""

    def __len__(self) -> int:
        return len(self.time)


class Sightings(Record):
    """All rows of all points, sorted by key, then by time."""

    point: npt.NDArray[np.uint16]
    row: npt.NDArray[np.int32]
    time: Int
    cluster: npt.NDArray[np.int32]
    """Equal packets not separated by a pause longer than a packet may take."""


def match(points: Sequence[Point], directions: Directions, clocks: Clocks) -> Matched:
    delays = _Delays(directions, clocks)
    seen = _sorted(points, clocks, delays.longest)
    clusters = int(seen.cluster[-1]) + 1
    group = seen.cluster.astype(np.int64) * len(points) + seen.point

    def count(which: Int) -> npt.NDArray[np.int32]:
        return np.bincount(which, minlength=clusters * len(points)).astype(np.int32).reshape(clusters, -1)

    counts = count(group)
    echo = [_echo(seen, counts, i, _before(points, seen, directions, i)) for i in range(len(points))]
    rank, new = _ranks(seen.time, group, np.array(echo)[seen.point])
    times = count(group[new])
    plain = np.array(echo) <= AT_MOST_NS
    most = np.maximum(times[:, plain].max(axis=1, initial=0), 1)
    del group, counts
    alike = ((times == 0) | (times == most[:, None]) | (~plain & (most[:, None] == 1))).all(axis=1)
    first = np.cumsum(most, dtype=np.int64) - most
    number = first[seen.cluster] + np.where(most[seen.cluster] > 1, rank, 0)
    ambiguous: list[int] = []
    doubled: list[tuple[dict[int, int], list[tuple[int, int]]]] = []
    total, apart = int(most.sum()), 0
    for cluster in np.flatnonzero(~alike).tolist():
        part = slice(*np.searchsorted(seen.cluster, (cluster, cluster + 1)).tolist())
        found, doubtful = _resolve(seen, part, rank[part], points, delays, echo, doubled)
        here = first[cluster] + found
        alone = np.flatnonzero(found < 0)
        here[alone] = total + np.arange(len(alone))
        total += len(alone)
        apart += len(alone)
        ambiguous += [*here[alone].tolist(), *(int(first[cluster]) + copy for copy in doubtful)]
        number[part] = here
    close = np.zeros(total, np.bool_)
    close[number[most[seen.cluster] > 1]] = True
    return _table(points, seen, number, np.array(ambiguous, np.int64), close, apart, delays.longest, doubled)


class _Delays:
    """How long packets take between two points, according to the anchors: by flow, and by direction."""

    def __init__(self, directions: Directions, clocks: Clocks) -> None:
        self._directions = directions
        self._known: dict[tuple[int, int, int], Expected] = {}
        self.longest = WAY_NS
        for (i, j), found in directions.anchors.items():
            if not len(found) or not (clocks.segments[i] and clocks.segments[j]):
                continue
            taken = clocks.times[j][found.second] - clocks.times[i][found.first]
            self.longest = max(self.longest, WAY_NS + 8 * int(np.quantile(np.abs(taken), 0.9)))
            sign = directions.sign[i, j][directions.ends.source[found.flow]]
            ways = [(-2 - way, -2 + way, np.flatnonzero(sign == way)) for way in (1, -1)]
            for name, back, rows in [*((name, name, rows) for name, rows in by_value(found.flow)), *ways]:
                if len(rows):
                    quick = QUICK if sign[rows[0]] > 0 else 1 - QUICK
                    low, middle, high, least = np.quantile(taken[rows], (0.1, 0.5, 0.9, quick)).tolist()
                    self._known[i, j, name] = Expected(middle, high - low, least)
                    self._known[j, i, back] = Expected(-middle, high - low, -least)

    def way(self, i: int, j: int, flow: int) -> int:
        """+1 if packets pass point `i` first, -1 if they pass `j` first."""
        return int(self._directions.sign[i, j, self._directions.ends.source[flow]])

    def of(self, i: int, j: int, flow: int) -> Expected:
        """The time from point `i` to point `j`, negative if packets pass `j` first."""
        way = self.way(i, j, flow)
        return self._known.get((i, j, flow)) or self._known.get((i, j, -2 - way)) or Expected(0.0, WAY_NS, -way * np.inf)


def _sorted(points: Sequence[Point], clocks: Clocks, longest: int) -> Sightings:
    some = [(i, point) for i, point in enumerate(points) if clocks.segments[i]]
    key = np.concatenate([point.key for _, point in some])
    time = np.concatenate([clocks.times[i] for i, _ in some])
    row = np.concatenate([np.arange(len(point), dtype=np.int32) for _, point in some])
    place = np.concatenate([np.full(len(point), i, np.uint16) for i, point in some])
    order = np.lexsort((time, key))
    key, time = key[order], time[order]
    new = np.concatenate(([False], (key[1:] != key[:-1]) | (np.diff(time) > longest)))
    return Sightings(place[order], row[order], time, np.cumsum(new, dtype=np.int32))


def _ranks(time: Int, group: Int, echo: Int) -> tuple[npt.NDArray[np.int32], Bool]:
    """The number of each sighting in its group, and whether it is a new one: sightings within `echo` of the previous one count as one."""
    order = np.argsort(group, kind="stable")
    starts = np.diff(group[order], prepend=-1) != 0
    fresh = starts | (np.diff(time[order], prepend=0) > echo[order])
    total = np.cumsum(fresh, dtype=np.int32)
    rank, new = np.empty(len(group), np.int32), np.empty(len(group), np.bool_)
    rank[order] = total - np.maximum.accumulate(np.where(starts, total, 0))
    new[order] = fresh
    return rank, new


def _before(points: Sequence[Point], seen: Sightings, directions: Directions, point: int) -> Bool:
    """Which points the packets of each cluster pass before this one, bool[clusters, points]."""
    first = np.flatnonzero(np.diff(seen.cluster, prepend=-1))
    flow = np.zeros(len(first), np.int64)
    for i, other in enumerate(points):
        here = seen.point[first] == i
        flow[here] = other.flow[seen.row[first[here]]]
    return directions.sign[:, point].T[directions.ends.source[flow]] > 0


def _echo(seen: Sightings, counts: npt.NDArray[np.int32], point: int, before: Bool) -> int:
    """The time within which a point sees the same packet again (a mirror, or both sides of a port); -1 if it does not."""
    here, others = counts[:, point], np.delete(counts, point, axis=1)
    once = (others == 1).any(axis=1) & (here > 0)
    mine = np.flatnonzero((seen.point == point) & (once & (here > 1))[seen.cluster])
    cluster, time = seen.cluster[mine], seen.time[mine]
    starts = np.flatnonzero(np.diff(cluster, prepend=-1))
    if len(starts) < FEWEST:
        return -1
    gaps = np.diff(time, append=0)[starts]
    came_once = ((counts == 1) & before).any(axis=1)  # packets sent twice arrive twice
    sides = gaps[came_once[cluster[starts]]]
    if len(sides) > MANY * np.count_nonzero(once & came_once):
        return max(AT_MOST_NS, int(np.quantile(sides, 0.999)))
    return AT_MOST_NS if np.count_nonzero(gaps <= AT_MOST_NS) > FEW * np.count_nonzero(once) else -1


def _resolve(
    seen: Sightings, part: slice, rank: npt.NDArray[np.int32], points: Sequence[Point], delays: _Delays, echo: Sequence[int],
    doubled: list[tuple[dict[int, int], list[tuple[int, int]]]],
) -> tuple[Int, list[int]]:
    """Which copy each sighting of a cluster is (-1: unknown), and which copies are doubtful because of that. Adds to `doubled`."""
    place, time = seen.point[part], seen.time[part]
    found, doubtful = np.full(len(place), -1, np.int64), set()
    at = {int(i): np.flatnonzero(place == i) for i in np.unique(place)}
    flow = int(points[int(place[0])].flow[seen.row[part][0]])
    copies = {i: int(rank[index[-1]]) + 1 for i, index in at.items()}
    most = max(count for i, count in copies.items() if echo[i] <= AT_MOST_NS)
    pivots = [i for i, count in copies.items() if count == most and echo[i] <= AT_MOST_NS]
    if all(any(delays.way(i, p, flow) > 0 for i in copies if i not in pivots) for p in pivots):
        doubtful |= set(range(most))  # more than at an earlier point: that point missed one, or this one saw a packet twice
        rest = {i: int(seen.row[part][at[i][0]]) for i in copies if i not in pivots}
        if most == 2 and all(copies[i] == 1 for i in rest) and all(echo[i] < 0 for i in copies):
            doubled.append((rest, [(i, int(seen.row[part][at[i][1]])) for i in pivots]))
    first = {}
    for i in pivots:
        found[at[i]] = rank[at[i]]
        first[i] = time[at[i]][np.diff(rank[at[i]], prepend=-1) > 0]
    for i, index in at.items():
        if i in pivots:
            continue
        known = [(first[p], delays.of(p, i, flow)) for p in pivots]
        wanted = np.array([sent + way.middle for sent, way in known])
        spread = max(way.spread for _, way in known) + points[i].resolution
        if echo[i] > AT_MOST_NS:
            late = time[index][:, None] - np.median(wanted, axis=0)
            found[index] = np.maximum((late >= -spread).sum(axis=1) - 1, 0)
            early = ((late < -spread) & (late >= -EARLY * spread)).any(axis=0)  # perhaps this copy, slightly faster than usual
            doubtful |= {near for copy in np.flatnonzero(early[1:]).tolist() for near in (copy, copy + 1)}
            for copy in sorted(set(found[index].tolist())):  # or is it the next copy, which is not seen otherwise, with a late stamp?
                mine = late[found[index] == copy]
                if copy + 1 < most and copy + 1 not in found[index] and (np.abs(mine[:, copy + 1]) < mine[:, copy]).any():
                    doubtful |= {copy, copy + 1}
            continue
        if echo[i] >= 0:  # two copies may count as one at this point
            nearby = np.flatnonzero(np.diff(np.median(wanted, axis=0)) <= AT_MOST_NS + spread).tolist()
            doubtful |= {near for copy in nearby for near in (copy, copy + 1)}
        if most > MOST_COPIES:
            doubtful |= set(range(most))
            continue
        own = rank[index]
        came = time[index[np.diff(own, prepend=-1) > 0]]
        ahead = EARLY_NS + points[i].resolution
        possible = [
            some for some in map(list, combinations(range(most), len(came)))
            if all(((came - sent[some] - way.least) * delays.way(p, i, flow) >= -ahead).all()
                   for p, (sent, way) in zip(pivots, known, strict=True))
        ]  # fmt: skip
        costs = sorted((float(np.abs(came - wanted[:, some]).sum()), some) for some in possible)
        slow = not costs or costs[0][0] > EARLY * spread * len(came)  # a late stamp may have ruled out the right ones
        if slow or (len(costs) > 1 and (costs[1][0] - costs[0][0] <= spread or 2 * costs[0][0] > costs[1][0])):
            doubtful |= set(range(most))
            continue
        found[index] = np.array(costs[0][1])[own]
    return found, sorted(doubtful)


def _table(
    points: Sequence[Point], seen: Sightings, number: Int, ambiguous: Int, close: Bool, apart: int, longest: int,
    doubled: list[tuple[dict[int, int], list[tuple[int, int]]]],
) -> Matched:
    """The transmissions in order of time."""
    total = len(close)
    time = np.full(total, np.iinfo(np.int64).max)
    np.minimum.at(time, number, seen.time)
    order = np.argsort(time, kind="stable")
    new = np.empty(total, np.int64)
    new[order] = np.arange(total)
    order = order[time[order] < np.iinfo(np.int64).max]
    number = new[number]
    rows = np.full((len(order), len(points)), -1, np.int32)
    numbers = []
    for i, point in enumerate(points):
        mine = seen.point == i
        of_row = np.full(len(point), -1, np.int32)
        of_row[seen.row[mine]] = number[mine]
        numbers.append(of_row)
        known = np.flatnonzero(of_row >= 0)[::-1]
        rows[of_row[known], i] = known
    doubtful = np.zeros(len(order), np.bool_)
    doubtful[new[ambiguous]] = True
    return Matched(rows, time[order], doubtful, close[order], apart, longest, numbers, doubled)
