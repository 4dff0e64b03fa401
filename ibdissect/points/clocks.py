"""Clocks of the capture points: offset, drift and steps, and their uncertainty.

A packet that passed another point earlier gives an upper bound of a clock's offset, one that passed it later a lower bound. The offset lies
between the fastest packets of both directions; with one direction it is bounded on one side only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.capture.times import earlier, near
from ibdissect.decode import Int
from ibdissect.decode.equal_rows import Columns

from .clock_anchors import NEIGHBOURS, PARTS, Anchors, drift_of
from .directions import Directions
from .read_captures import Point

QUICK = 0.02
"""The share of packets that may be faster than the bound: stamps may be late at the first point."""
UNBOUNDED_NS = 1_000_000
"""Uncertainty stated for a clock that is bounded on one side only."""
TRIED, TILT, MORE_NS = 20_000, 2e-6, 200
"""Packets with which other drifts are tried, first in steps of TILT; another drift must leave at least MORE_NS more room."""
UNSURE_NS = 200_000
"""If packets of both directions leave more room than this, nothing is concluded from times there."""
REFUTED_NS = 3_000
"""Packets that arrive this much before they were sent refute a straight line."""
JOINED_NS = 50_000
"""Stretches whose offsets differ by less are joined: there was no step between them."""
BLOCK, BLOCKS, USUAL = 32, 500, 0.25
"""Minimum number of packets that test together whether a line continues, maximum number of such blocks, and the share that may be stamped
late.
"""


class ClockSegment(Record):
    """A stretch without steps: offset = offset_ns + drift * (own time - at_ns)."""

    first_frame: int
    at_ns: int
    offset_ns: int
    drift: float
    uncertainty_ns: int
    two_way: bool
    """Bounded on both sides."""


class Bounds(Columns):
    """Packets that bound the offset of one clock."""

    frame: npt.NDArray[np.int32]
    time: Int
    """Time on the clock that is bounded."""
    offset: Int
    """The offset if the packet had needed no time."""
    above: npt.NDArray[np.bool_]
    """True: an upper bound."""
    doubt: Int
    """Uncertainty of the other point's clock."""


class Clocks:
    """The clocks of all points relative to the first one."""

    def __init__(self, points: Sequence[Point], directions: Directions) -> None:
        self.points, self.directions = points, directions
        self.segments: list[list[ClockSegment]] = [[] for _ in points]
        """Of each point; empty if its clock could not be compared."""
        self._origin = int(points[0].seen.time[0])
        self.segments[0] = [ClockSegment(1, int(points[0].seen.time[0]), 0, 0.0, 0, True)]
        self.times: list[Int] = [points[0].seen.time, *(np.empty(0, np.int64) for _ in points[1:])]
        """Times of the sample of each point on the first point's clock."""
        self.unsure: list[list[tuple[int, int]]] = [[] for _ in points]
        """For each point, where its times are unknown: the last frame before, and the first frame after."""
        while (best := self._next()) is not None:
            self._place(*best)

    def unsure_times(self, point: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Where the times of a point are unknown: the last frame before and the first one after, and when these were, by the reference."""
        found = []
        for last, first in self.unsure[point]:
            frame, time = self.points[point].times(last, first)
            start, stop = self.on_reference(point, frame, time)[[0, -1]].tolist()
            found.append(((last, first), (start, stop)))
        return found

    def _next(self) -> tuple[int, int] | None:
        """The placed point and the next one that share most packets; sharing both directions counts more."""
        best, found = (False, 0), None
        for (i, j), pair in self.directions.anchors.items():
            worth = bool(self.directions.two_way[i, j]), len(pair)
            if worth > best and bool(self.segments[i]) != bool(self.segments[j]):
                best, found = worth, (i, j) if self.segments[i] else (j, i)
        return found

    def _pair(self, first: int, second: int) -> Anchors:
        """The packets that two points share."""
        found = self.directions.anchors[min(first, second), max(first, second)]
        rows = (found.first, found.second) if first < second else (found.second, found.first)
        return Anchors(*rows, found.delay, found.flow, found.segment, found.own_stamp)

    def _place(self, placed: int, new: int) -> None:
        point, seen = self.points[new], self.points[new].seen
        base = self._pair(placed, new)
        base.delay = seen.time[base.second] - self.times[placed][base.first]
        bounds = self._bounds(new)
        stamped = base.with_own_stamps()
        time = seen.time[stamped.second]
        drift = drift_of(stamped, time, stamped.flow)
        starts = self._starts(base, drift, new)
        refuted = _refuted(bounds, starts, drift_of(stamped, time, stamped.flow, PARTS), point.resolution)
        if refuted:
            starts = sorted({*starts, *refuted})
            stamped.segment = np.searchsorted(starts, seen.frame[stamped.second], "right")
            drift = drift_of(stamped, time, stamped.flow)
        self.segments[new] = []
        for start, stop in zip(starts, [*starts[1:], point.frames + 1], strict=True):
            found = _fit(bounds.take((bounds.frame >= start) & (bounds.frame < stop)), start, drift, point.resolution)
            if any(segment.two_way and segment.uncertainty_ns > UNSURE_NS for segment in found):
                self.unsure[new].append((start - 1, stop))
            self.segments[new] += found
        self.times[new] = self.on_reference(new, seen.frame, seen.time)

    def on_reference(self, point: int, frame: npt.NDArray[np.int32], time: Int) -> Int:
        """Times of some frames of a point, in file order, on the clock of the first point."""
        found = np.empty(len(time), np.int64)
        segments = self.segments[point]
        starts = np.searchsorted(frame, [segment.first_frame for segment in segments[1:]]).tolist()
        for segment, start, stop in zip(segments, [0, *starts], [*starts, len(time)], strict=True):
            part = time[start:stop]
            found[start:stop] = earlier(part, segment.offset_ns, segment.drift * (part - segment.at_ns))
        return near(found, self._origin)

    def _bounds(self, new: int) -> Bounds:
        """The bounds that all placed points give for the clock of another one."""
        parts = []
        for i, segments in enumerate(self.segments):
            if segments and i != new:
                found = self._pair(i, new).with_own_stamps()
                sign = self.directions.sign[i, new][self.directions.source[found.flow]]
                time = self.points[new].seen.time[found.second]
                doubt = max(segment.uncertainty_ns for segment in segments) + self.points[i].resolution
                frame = self.points[new].seen.frame[found.second]
                every = Bounds(frame, time, time - self.times[i][found.first], sign > 0, np.full(len(time), doubt))
                parts.append(every.take(sign != 0))
        return Bounds.joined(*parts)

    def _starts(self, base: Anchors, drift: float, new: int) -> list[int]:
        """The first frame of each stretch without steps."""
        point, seen = self.points[new], self.points[new].seen
        rest = base.delay - drift * (seen.time[base.second] - seen.time[base.second[0]])
        order = np.argsort(base.second, kind="stable")
        level, starts, last = None, [1], 1
        for segment in range(int(base.segment.max(initial=0)) + 1):
            rows = order[base.segment[order] == segment]
            if len(rows) < 2 * NEIGHBOURS and segment:
                continue
            here = float(np.median(rest[rows])) if len(rows) else 0.0
            if level is not None and abs(here - level) > JOINED_NS:
                last, first = sorted((last, int(seen.frame[base.second[rows[0]]])))  # packets of both directions cross
                starts.append(_border(point, last, first, here > level))
                self.unsure[new].append((last, first))
            if len(rows):
                level, last = here, int(seen.frame[base.second[rows[-1]]])
        return sorted({*starts})


def _refuted(bounds: Bounds, starts: Sequence[int], drift: float, resolution: int) -> list[int]:
    """Where a straight line cannot continue: otherwise the packets of a block would arrive before they were sent."""
    if not len(bounds.frame):
        return []
    order = np.argsort(bounds.frame, kind="stable")
    frame, above = bounds.frame[order], bounds.above[order]
    rest = (bounds.offset - bounds.offset[0] - drift * (bounds.time - bounds.time[0]))[order]
    size = max(BLOCK, len(frame) // BLOCKS)
    found, low, high = [], -np.inf, np.inf
    doubt = -1  # the block before that cannot be on the line: a burst of late stamps, unless the next one cannot be either
    for at in range(0, len(frame) - size // 2, size):
        part = slice(at, at + size)
        uppers, lowers = rest[part][above[part]], rest[part][~above[part]]
        upper = float(np.quantile(uppers, USUAL)) if len(uppers) >= BLOCK // 8 else np.inf
        lower = float(np.quantile(lowers, 1 - USUAL)) if len(lowers) >= BLOCK // 8 else -np.inf
        end = frame[min(at + size, len(frame) - 1)]
        if any(frame[at] < start <= end for start in starts[1:]):  # its packets lie on both sides of a step
            low, high, doubt = -np.inf, np.inf, -1
            continue
        if max(low, lower) > min(high, upper) + REFUTED_NS + resolution:
            if doubt < 0:
                doubt = int(frame[at])
                continue
            found.append(doubt)
            low, high = -np.inf, np.inf
        low, high, doubt = max(low, lower), min(high, upper), -1
    return found


def _border(point: Point, last: int, first: int, forward: bool) -> int:
    """The frame at which the clock was set: the largest jump of the stamps after frame `last`, up to frame `first`."""
    frame, time = point.times(last, first)
    gaps = np.diff(time)
    return int(frame[1 + int(np.argmax(gaps) if forward else np.argmin(gaps))]) if len(gaps) else first


def _tilted(bounds: Bounds, drift: float) -> float:
    """The drift, or another one that leaves clearly more room between both directions, since a slowly filling queue looks like a drift."""
    some = bounds.take(np.arange(len(bounds.frame)) % (1 + len(bounds.frame) // TRIED) == 0)
    time, offset = some.time - some.time[0], some.offset - some.offset[0]
    if min(np.count_nonzero(some.above), np.count_nonzero(~some.above)) < BLOCK:
        return drift

    def room(tilt: float) -> float:
        rest = offset - (drift + tilt) * time
        return float(np.quantile(rest[some.above], QUICK) - np.quantile(rest[~some.above], 1 - QUICK))

    best, step = 0.0, TILT
    for _ in range(4):
        best = max((best + step * i for i in range(-4, 5)), key=room)
        step /= 4
    return drift + best if room(best) > room(0.0) * 1.05 + MORE_NS else drift


def _fit(bounds: Bounds, frame: int, drift: float, resolution: int) -> list[ClockSegment]:
    """The segments of a stretch without large steps; none without packets."""
    if not len(bounds.frame):
        return []
    at, base = int(bounds.time[0]), int(bounds.offset[0])
    drift = _tilted(bounds, drift)
    rest = (bounds.offset - base) - drift * (bounds.time - at)
    above, below = rest[bounds.above], rest[~bounds.above]
    upper = float(np.quantile(above, QUICK)) if len(above) else None
    lower = float(np.quantile(below, 1 - QUICK)) if len(below) else None
    offset, uncertainty = 0.0, float(UNBOUNDED_NS)
    if upper is not None and lower is not None:
        offset = (upper + lower) / 2
        uncertainty = abs(upper - lower) / 2 + resolution + float(bounds.doubt.max())
    elif upper is not None or lower is not None:
        offset = upper if upper is not None else lower or 0.0
    return [ClockSegment(frame, at, base + round(offset), drift, round(uncertainty), len(above) > 0 < len(below))]
