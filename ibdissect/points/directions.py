"""Directions of sources: which of two points their packets pass first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ibdissect.decode.equal_rows import by_value, common
from ibdissect.decode.identity import EndNumber, Index

from .clock_anchors import CERTAIN, PARTS, Anchors, anchors, drift_of, seen_once
from .flows import PointFlows
from .packet_identity import HOP
from .read_captures import Point

MOST_FLOWS = 400
"""Maximum number of flows, those with most packets, whose directions are judged one by one."""
WINDOW, WINDOWS = 256, 64
"""Minimum number of packets compared with each other, so that small clock steps do no harm, and maximum number of such windows."""


class Directions:
    """Whether the packets of each source pass point i before point j (`sign[i, j, source]` is 1), after it (-1), or it is unknown (0)."""

    def __init__(self, points: Sequence[Point], flows: PointFlows) -> None:
        self.points, self.ends, n = points, flows.ends(by_lid=True), len(points)
        self.source, self.destination = self.ends.T
        self.count = int(self.ends.max()) + 1
        self.sign = np.zeros((n, n, self.count), np.int8)
        self.two_way = np.zeros((n, n), np.bool_)
        """Whether the timing of both directions distinguished them."""
        self.assumed: list[tuple[int, int]] = []
        """Pairs of points whose order is not proved: that of the command line is assumed."""
        once = seen_once(points)
        self.anchors = {(i, j): anchors(points, once, i, j) for i in range(n) for j in range(i + 1, n)}
        for (i, j), found in self.anchors.items():
            if len(found):
                self._set(i, j, self._by_time(found, i, j))
        for (i, j), found in self.anchors.items():
            if len(found):
                self._by_hops_hosts_and_losses(found, i, j)

    def _set(self, i: int, j: int, sign: npt.NDArray[np.int8]) -> None:
        self.sign[i, j], self.sign[j, i] = sign, -sign

    def _by_time(self, found: Anchors, i: int, j: int) -> npt.NDArray[np.int8]:
        """The sign of each source by delays, which differ by both latencies together, whatever the clocks; all 0 if they do not differ."""
        found = found.with_own_stamps()
        time = self.points[j].seen.time[found.second]
        slope = drift_of(found, time, found.flow, PARTS)
        window = found.segment * len(found) + np.arange(len(found)) // max(WINDOW, len(found) // WINDOWS)
        residual = found.delay - found.delay[0] - slope * (time - time[0])
        source, destination = self.source[found.flow], self.destination[found.flow]
        ends = source * self.count + destination
        votes = np.zeros(self.count)
        means: dict[tuple[Index, EndNumber, EndNumber], tuple[float, float, int]] = {}
        for segment, rows in by_value(window):
            groups = sorted(by_value(ends[rows]), key=lambda group: -len(group[1]))[:MOST_FLOWS]
            for name, index in groups:
                values = np.sort(residual[rows[index]])
                middle = values[len(values) // 4 : len(values) - len(values) // 4]
                sender, receiver = map(EndNumber, divmod(name, self.count))
                error = float(middle.std()) + self.points[i].resolution / 2 + self.points[j].resolution / 2
                means[segment, sender, receiver] = float(middle.mean()), error / len(values) ** 0.5, len(values)
        for (segment, sender, receiver), (mean, error, count) in means.items():
            back = means.get((segment, receiver, sender))
            if back is not None and sender < receiver and min(count, back[2]) >= 2:
                vote = (mean - back[0]) / max((error**2 + back[1] ** 2) ** 0.5, 1.0)
                votes[sender] += vote
                votes[receiver] -= vote
        sign = np.where(np.abs(votes) >= CERTAIN, np.sign(votes), 0).astype(np.int8)
        if not ((sign > 0).any() and (sign < 0).any()):
            return np.zeros(self.count, np.int8)
        self.two_way[i, j] = self.two_way[j, i] = True
        other: dict[EndNumber, float] = {}
        for (segment, sender, _), (mean, _, count) in means.items():
            if not sign[sender]:
                sides = {one: [m for (s, a, _), (m, _, _) in means.items() if s == segment and sign[a] == one] for one in (1, -1)}
                if sides[1] and sides[-1]:
                    other[sender] = other.get(sender, 0.0) + count * (mean - (min(sides[1]) + max(sides[-1])) / 2)
        for sender, excess in other.items():
            sign[sender] = 1 if excess > 0 else -1
        return sign

    def _by_hops_hosts_and_losses(self, found: Anchors, i: int, j: int) -> None:
        """By hops of directed routes, by hosts (their own point is first for what they send), by losses (seen only earlier)."""
        first, second = self.points[i].seen, self.points[j].seen
        sign = self.sign[i, j].copy()
        source, destination = self.source[found.flow], self.destination[found.flow]
        hops = second.fields[found.second, HOP] - first.fields[found.first, HOP]
        by_hops = np.zeros(self.count)
        np.add.at(by_hops, source, np.sign(hops))
        sign = np.where(by_hops != 0, np.sign(by_hops), sign).astype(np.int8)
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
        """The point that packets from an address pass first; -1 if unknown."""
        seen = np.abs(self.sign[:, :, end]).sum(axis=1)
        first = (self.sign[:, :, end] > 0).sum(axis=1)
        found = np.flatnonzero((first == seen) & (seen > 0))
        return int(found[0]) if len(found) == 1 else -1

    def _lacking(self, i: int, j: int, sources: list[int]) -> int:
        """How many more packets of these sources the first point has than the second: lost packets were seen only earlier."""
        seen = self.points[i].seen, self.points[j].seen
        keys = [np.unique(one.key[np.isin(self.source[one.flow], sources)]) for one in seen]
        both = len(common(keys[0], keys[1])[0])
        return (len(keys[0]) - both) - (len(keys[1]) - both)
