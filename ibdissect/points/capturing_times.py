"""Times at which a point was capturing: not before its file begins, while its clock was set, or where it recorded nothing; and from when to
when it had packets of each flow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ibdissect.decode import Bool, Int
from ibdissect.decode.equal_rows import groups
from ibdissect.decode.identity import Time
from ibdissect.wire.opcodes import CNP_OPCODE

from .clocks import Clocks
from .transmissions import Repeats, Transmissions

HOLE = 4
"""If this many packets provably passed a point while it recorded nothing, it was not capturing."""


class CoverageGaps:
    """Pauses of one point in which several packets provably passed it. Fed in order of time."""

    def __init__(self) -> None:
        self._before = np.empty(0, np.int64)  # the sightings from the last one on that every later packet follows
        self._passed: dict[Time, int] = {}  # the last sighting before a pause, and how many packets passed in it
        self._stops: dict[Time, int] = {}

    def feed(self, sightings: Int, passed: Int, now: int) -> None:
        """Times of sightings at the point, and of packets that provably passed it unseen; all later ones passed after `now`."""
        times = np.sort(np.concatenate([self._before, sightings]))
        place = np.searchsorted(times, passed)
        starts, counts = np.unique(times[place[place > 0] - 1], return_counts=True)
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            self._passed[start] = self._passed.get(start, 0) + count
        for start in self._passed.keys() - self._stops.keys():
            after = int(np.searchsorted(times, start, "right"))
            if after < len(times):
                self._stops[start] = int(times[after])
        for start in [start for start, stop in self._stops.items() if stop < now and self._passed[start] < HOLE]:
            del self._passed[start], self._stops[start]
        self._before = times[max(0, int(np.searchsorted(times, now, "right")) - 1) :]

    def found(self) -> Int:
        """Starts and stops of the holes, int64[2, n]."""
        some = sorted(start for start, count in self._passed.items() if count >= HOLE and start in self._stops)
        return np.array([some, [self._stops[start] for start in some]], np.int64).reshape(2, -1)


class Coverage:
    """When each point was capturing. Fed with all transmissions, then asked."""

    def __init__(self, clocks: Clocks) -> None:
        n = len(clocks.points)
        self.starts, self.stops = np.full(n, np.iinfo(np.int64).max), np.full(n, np.iinfo(np.int64).min)
        """The first and last sighting of each point on the reference clock."""
        self._slowest = np.zeros(n, np.int64)  # the longest time from a packet's first sighting to that at each point
        self._unsure = [clocks.unsure_times(i) for i in range(n)]
        self._holes = [np.zeros((2, 0), np.int64) for _ in range(n)]

    def feed(self, packets: Transmissions, repeats: Repeats) -> None:
        for i in range(len(self.starts)):
            rows = np.flatnonzero(packets.frame[:, i])
            at = packets.at[rows, i]
            if len(at):
                self._slowest[i] = max(self._slowest[i], int((at - packets.time[rows]).max()))
            for times in (at, repeats.time[repeats.point == i]):
                if len(times):
                    self.starts[i], self.stops[i] = min(self.starts[i], int(times.min())), max(self.stops[i], int(times.max()))

    def leave_out(self, holes: Sequence[CoverageGaps]) -> bool:
        """Points count as not capturing in these holes. Returns whether there are any."""
        self._holes = [one.found() for one in holes]
        return any(one.shape[1] for one in self._holes)

    def paused(self) -> Bool:
        """Which points did not capture for a while, bool[points]: those lack packets that certainly passed."""
        return np.array([one.shape[1] > 0 for one in self._holes], np.bool_)

    def of(self, packets: Transmissions) -> tuple[Bool, Bool]:
        """Which points were certainly capturing when each packet passed, however long it took, and which may have been; bool[n, points]."""
        covered, perhaps = np.zeros((2, *packets.frame.shape), np.bool_)
        time = packets.time
        for i, slowest in enumerate(self._slowest.tolist()):
            covered[:, i] = (time >= self.starts[i] + slowest) & (time <= self.stops[i] - slowest)
            perhaps[:, i] = (time >= self.starts[i]) & (time <= self.stops[i])
            for _, (start, stop) in self._unsure[i]:
                within = (time >= start - slowest) & (time <= stop)
                covered[within, i] = perhaps[within, i] = False
            starts, stops = self._holes[i]
            perhaps[np.searchsorted(starts, time) > np.searchsorted(stops, time), i] = False
            covered[np.searchsorted(starts - slowest, time) > np.searchsorted(stops + slowest, time), i] = False
        return covered, perhaps

    def ambiguous(self, packets: Transmissions) -> Bool:
        """Which packets are ambiguous, also because only one point saw them, and its clock was unknown."""
        found = packets.ambiguous.copy()
        alone = (packets.frame > 0).sum(axis=1) == 1
        for i, unsure in enumerate(self._unsure):
            for (last, first), _ in unsure:
                found |= alone & (packets.frame[:, i] > last) & (packets.frame[:, i] < first)
        return found


class FlowTimes:
    """From when to when each point had packets of each flow. Fed with all transmissions, then asked.

    Before and after, its filter may have left them out, they may have taken another way, or nobody behind it was in their group.
    """

    def __init__(self, points: int, flows: int) -> None:
        self._starts = np.full((points, 2 * flows), np.iinfo(np.int64).max)
        self._stops = np.full((points, 2 * flows), np.iinfo(np.int64).min)

    def feed(self, packets: Transmissions) -> None:
        flow = _flows(packets)
        for i in range(len(self._starts)):
            rows = np.flatnonzero(packets.frame[:, i])
            np.minimum.at(self._starts[i], flow[rows], packets.time[rows])
            np.maximum.at(self._stops[i], flow[rows], packets.time[rows])

    def between(self, packets: Transmissions) -> Bool:
        """Which points have packets of the same flow from before and after each packet, bool[n, points]."""
        flow = _flows(packets)
        found: Bool = ((self._starts[:, flow] < packets.time) & (packets.time < self._stops[:, flow])).T
        return found


def open_holes(packets: Transmissions) -> Bool:
    """Which packets, in order of time, are the first of their flow that a point lacks since it recorded anything; bool[n, points]."""
    opens = np.zeros(packets.frame.shape, np.bool_)
    rows = np.arange(len(packets))
    for i, seen in enumerate((packets.frame > 0).T):
        hole = np.maximum.accumulate(np.where(seen, rows, -1))  # the last sighting
        lacking = np.flatnonzero(~seen)
        opens[lacking[groups([hole[lacking], _flows(packets)[lacking]])[0]], i] = True
    return opens


def _flows(packets: Transmissions) -> Int:
    """The flow of each packet; notifications (CNPs) have others, as routers, mirrors and filters may treat them otherwise."""
    found: Int = packets.flow * np.int64(2) + (packets.opcode == CNP_OPCODE)
    return found
