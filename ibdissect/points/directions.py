"""Which of two points do the packets of a source pass first?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.table.locate import Int
from ibdissect.table.rows import by_value, common

from .columns import Flows, Point

Float = npt.NDArray[np.float64]
NEAR_NS = 50_000
"""Sightings of equal packets within this time count as one when clocks are compared: a mirror's duplicate, a port's two sides."""
CERTAIN = 4.0
"""Standard errors by which the delays of the two directions must differ."""
ENOUGH = 200_000
"""Packets from which two clocks are compared; of more, every second, third, ... is taken."""
MOST_FLOWS = 400
"""Flows whose directions are judged one by one; those with most packets."""
FEW_PROMPT = 20
"""Packets stamped by themselves that suffice to leave out the others."""
JUMP_NS, DRIFT = 200_000, 5e-4
"""A clock that moves by more than JUMP_NS and DRIFT of the time between two packets has been set."""
NEIGHBOURS = 7
"""Packets on each side of a jump that must agree on it."""


class Ends:
    """Numbers of the addresses of all flows."""

    def __init__(self, flows: Flows) -> None:
        names = {end: i for i, end in enumerate(dict.fromkeys(end for flow in flows.known for end in (flow.source, flow.destination)))}
        self.source: Int = np.array([names[flow.source] for flow in flows.known], np.int64)
        """Of each flow."""
        self.destination: Int = np.array([names[flow.destination] for flow in flows.known], np.int64)
        self.count = len(names)


class Anchors(Record):
    """Packets that both points saw once, in the file order of the second."""

    first: Int
    """Row at the first point."""
    second: Int
    delay: Int
    """Clock of the second point minus clock of the first."""
    flow: Int
    segment: Int
    """Number of the stretch between two steps of either clock."""
    prompt: npt.NDArray[np.bool_]
    """Both points stamped it by itself."""

    def __len__(self) -> int:
        return len(self.first)

    def of(self, which: npt.NDArray[np.bool_]) -> Anchors:
        """Some of them."""
        return Anchors(*(getattr(self, name)[which] for name in self.__struct_fields__))

    def prompt_ones(self) -> Anchors:
        """Those that were stamped by themselves, if they are not too few."""
        return self.of(self.prompt) if np.count_nonzero(self.prompt) >= max(FEW_PROMPT, len(self) // 10) else self


def seen_once(point: Point) -> tuple[npt.NDArray[np.uint64], Int]:
    """The keys that a point saw once, ascending, and the row of each; a duplicate within NEAR_NS does not count."""
    order = np.argsort(point.key, kind="stable")
    keys = point.key[order]
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    last = np.append(starts[1:], len(keys)) - 1
    near = np.abs(point.time[order[last]] - point.time[order[starts]]) <= NEAR_NS
    return keys[starts[near]], order[starts[near]]


def anchors(points: Sequence[Point], once: Sequence[tuple[npt.NDArray[np.uint64], Int]], first: int, second: int) -> Anchors:
    """The packets that let the clocks of two points be compared, with the steps of the clocks found."""
    _, left, right = common(once[first][0], once[second][0])
    rows, others = once[first][1][left], once[second][1][right]
    order = np.argsort(others, kind="stable")[:: 1 + len(others) // ENOUGH]
    rows, others = rows[order], others[order]
    delay = points[second].time[others] - points[first].time[rows]
    prompt = alone(points[first].time)[rows] & alone(points[second].time)[others]
    flow = points[first].flow[rows].astype(np.int64)
    return Anchors(rows, others, delay, flow, _segments(delay, points[second].time[others]), prompt)


def _segments(delay: Int, time: Int) -> Int:
    """Number the stretches between steps: places where the medians before and behind differ by more than a clock drifts."""
    n, k = len(delay), NEIGHBOURS
    if n < 2 * k:
        return np.zeros(n, np.int64)
    near = np.median(np.lib.stride_tricks.sliding_window_view(delay - delay[0], k), axis=1)
    when = np.median(np.lib.stride_tricks.sliding_window_view(time - time[0], k), axis=1)
    jump = np.abs(near[k:] - near[:-k]) - JUMP_NS - DRIFT * np.abs(when[k:] - when[:-k])  # between anchors i + k - 1 and i + k
    found = np.zeros(n, np.int64)
    i = 0
    while len(some := np.flatnonzero(jump[i:] > 0)):
        start = i + int(some[0])
        stop = start + 1
        while stop < len(jump) and jump[stop] > 0:
            stop += 1
        before, behind = delay[start : start + k], delay[min(stop + k - 1, n - k) : min(stop + 2 * k - 1, n)]
        place = delay[start : stop + 2 * k - 1] - np.int64(np.median(before))
        nearer = np.abs(place) < np.abs(place - np.int64(np.median(behind) - np.median(before)))
        gain = np.cumsum(np.where(nearer, 1, -1))  # the border with most anchors on their side
        found[start + int(np.argmax(gain)) + 1 :] += 1
        i = stop
    return found


def alone(time: Int) -> npt.NDArray[np.bool_]:
    """Which stamps differ from those before and behind: the others were taken for a batch of packets, when its last one was there."""
    differs = np.concatenate(([True], np.diff(time) != 0, [True]))
    return differs[1:] & differs[:-1]


def drift_of(anchors: Anchors, time: Int, side: Int) -> float:
    """The relative drift of two clocks, from packets of the same stretch and `side` far apart in time; robust against queueing.

    0 if it does not stand out from noise.
    """
    slopes, weights = [], []
    for _, rows in by_value(anchors.segment * (int(side.max(initial=0)) + 1) + side):
        half = len(rows) // 2
        if half < 2:
            continue
        rows = rows[np.argsort(time[rows], kind="stable")]
        apart = time[rows[half:]] - time[rows[: len(rows) - half]]
        apart_delay = anchors.delay[rows[half:]] - anchors.delay[rows[: len(rows) - half]]
        some = apart > 0
        slopes.append(apart_delay[some] / apart[some])
        weights.append(apart[some].astype(np.float64))
    if not slopes:
        return 0.0
    slope, weight = np.concatenate(slopes), np.concatenate(weights)
    order = np.argsort(slope)
    total = np.cumsum(weight[order])
    if not len(total):
        return 0.0
    low, middle, high = slope[order[np.searchsorted(total, total[-1] * np.array((0.25, 0.5, 0.75)))]].tolist()
    return float(middle) if abs(middle) > CERTAIN * (high - low) / len(slope) ** 0.5 else 0.0


class Directions:
    """For each source and pair of points: +1 if its packets pass the first point first, -1 the second, 0 unknown."""

    def __init__(self, points: Sequence[Point], flows: Flows) -> None:
        self.points, self.ends = points, Ends(flows)
        n = len(points)
        self.sign = np.zeros((n, n, self.ends.count), np.int8)
        self.two_way = np.zeros((n, n), np.bool_)
        """Whether timing of both directions told them apart."""
        self.assumed: list[tuple[int, int]] = []
        """Pairs of points whose order nothing proves: that of the command line."""
        once = [seen_once(point) for point in points]
        self.anchors = {(i, j): anchors(points, once, i, j) for i in range(n) for j in range(i + 1, n)}
        for (i, j), found in self.anchors.items():
            if len(found):
                self._set(i, j, self._by_time(found, i, j))
        for (i, j), found in self.anchors.items():
            if len(found):
                self._otherwise(found, i, j)

    def _set(self, i: int, j: int, sign: npt.NDArray[np.int8]) -> None:
        self.sign[i, j], self.sign[j, i] = sign, -sign

    def _by_time(self, found: Anchors, i: int, j: int) -> npt.NDArray[np.int8]:
        """Forth and back differ by the sum of both latencies, whatever the clocks say."""
        found = found.prompt_ones()
        time = self.points[j].time[found.second]
        slope = drift_of(found, time, found.flow)
        residual = found.delay - found.delay[0] - slope * (time - time[0])
        source, destination = self.ends.source[found.flow], self.ends.destination[found.flow]
        ends = source * self.ends.count + destination
        votes = np.zeros(self.ends.count)
        means: dict[tuple[int, int, int], tuple[float, float, int]] = {}
        for segment, rows in by_value(found.segment):
            groups = sorted(by_value(ends[rows]), key=lambda group: -len(group[1]))[:MOST_FLOWS]
            for name, index in groups:
                values = np.sort(residual[rows[index]])
                middle = values[len(values) // 4 : len(values) - len(values) // 4]
                near, far = divmod(name, self.ends.count)
                error = float(middle.std()) + self.points[i].resolution / 2 + self.points[j].resolution / 2
                means[segment, near, far] = float(middle.mean()), error / len(values) ** 0.5, len(values)
        for (segment, near, far), (mean, error, count) in means.items():
            back = means.get((segment, far, near))
            if back is not None and near < far and min(count, back[2]) >= 2:
                vote = (mean - back[0]) / max((error**2 + back[1] ** 2) ** 0.5, 1.0)
                votes[near] += vote
                votes[far] -= vote
        sign = np.where(np.abs(votes) >= CERTAIN, np.sign(votes), 0).astype(np.int8)
        if not ((sign > 0).any() and (sign < 0).any()):
            return np.zeros(self.ends.count, np.int8)
        self.two_way[i, j] = self.two_way[j, i] = True
        other: dict[int, float] = {}
        for (segment, near, _), (mean, _, count) in means.items():
            if not sign[near]:
                sides = {way: [m for (s, a, _), (m, _, _) in means.items() if s == segment and sign[a] == way] for way in (1, -1)}
                if sides[1] and sides[-1]:
                    other[near] = other.get(near, 0.0) + count * (mean - (min(sides[1]) + max(sides[-1])) / 2)
        for near, excess in other.items():
            sign[near] = 1 if excess > 0 else -1
        return sign

    def _otherwise(self, found: Anchors, i: int, j: int) -> None:
        """Directed routes count their hops; a host's own point is the first for what it sends and the last for what it receives."""
        first, second = self.points[i], self.points[j]
        sign = self.sign[i, j].copy()
        source, destination = self.ends.source[found.flow], self.ends.destination[found.flow]
        hops = second.fields[found.second, 6] - first.fields[found.first, 6]
        told = np.zeros(self.ends.count)
        np.add.at(told, source, np.sign(hops))
        sign = np.where(told != 0, np.sign(told), sign).astype(np.int8)
        open_ = [(s, rows) for s, rows in by_value(source) if not sign[s]]
        for name, rows in open_:
            homes = {self._home(int(end)) for end in np.unique(destination[rows])}
            if homes <= {j} or self._home(name) == i:
                sign[name] = 1
            elif homes <= {i} or self._home(name) == j:
                sign[name] = -1
        rest = [name for name, _ in open_ if not sign[name]]
        if rest:
            lacking = self._lacking(i, j, rest)
            sign[rest] = 1 if lacking >= 0 else -1
            if not lacking:
                self.assumed.append((i, j))
        self._set(i, j, sign)

    def _home(self, end: int) -> int:
        """The point that packets from an address pass before all others; -1 if unknown."""
        seen = np.abs(self.sign[:, :, end]).sum(axis=1)
        first = (self.sign[:, :, end] > 0).sum(axis=1)
        found = np.flatnonzero((first == seen) & (seen > 0))
        return int(found[0]) if len(found) == 1 else -1

    def _lacking(self, i: int, j: int, sources: list[int]) -> int:
        """How many more packets of these sources the first point has than the second: what is lost was before."""
        keys = [np.unique(point.key[np.isin(self.ends.source[point.flow], sources)]) for point in (self.points[i], self.points[j])]
        both = len(common(keys[0], keys[1])[0])
        return (len(keys[0]) - both) - (len(keys[1]) - both)
