"""Times of Sets and other writes, and their requests, kept as stretches of time, so that hours of writing take little memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter

import numpy as np
from msgspec import Struct as Record

from ibdissect.decode.equal_rows import mix, run_starts
from ibdissect.wire.numbers import CM_CLASS, DELETE, SET

from .datagrams import Datagrams
from .transactions import SWAPPED_NS

MAX_STRETCHES = 65536
TRIES = 8
"""Tries of one request that are distinguished from writes of others."""
_FIRST, _LAST = attrgetter("first"), attrgetter("last")


class Interval(Record):
    """A time with writes, in units of `SWAPPED_NS`."""

    first: int
    last: int
    request: int
    """Hash of the request that wrote; 0 for several."""
    frames: tuple[int, ...]
    """Frames of its tries; empty for several requests."""

    def joined(self, other: Interval) -> Interval:
        """Both, and the time in between."""
        frames = tuple(sorted({*self.frames, *other.frames}))
        one = self.request == other.request != 0 and len(frames) <= TRIES
        ends = min(self.first, other.first), max(self.last, other.last)
        return Interval(*ends, self.request, frames) if one else Interval(*ends, 0, ())


class WriteTimes:
    """The times at which something was written. One per capture; feed chunks in order, ask at any time.

    Writes in adjoining units form one stretch. If there are too many stretches, neighbours are joined, so none is forgotten.
    """

    def __init__(self) -> None:
        self.stretches: list[Interval] = []
        """Ascending; no two are less than `reach` units apart."""
        self.reach = 1

    def feed(self, mads: Datagrams) -> None:
        """Note the writes among datagrams."""
        writes = np.flatnonzero(((mads.method == SET) | (mads.method == DELETE)) & (mads.mgmt_class != CM_CLASS))
        if not len(writes):
            return
        some = mads.take(writes)
        units = some.times // SWAPPED_NS
        request = mix([some.method, some.attribute, some.modifier, *some.keys(np.zeros(len(some), np.bool_))])
        starts = run_starts(units)
        sizes = np.diff(starts, append=len(units))
        several = np.logical_or.reduceat(request != np.repeat(request[starts], sizes), starts) | (sizes > TRIES)
        found = zip(starts.tolist(), sizes.tolist(), units[starts].tolist(), request[starts].tolist(), several.tolist(), strict=True)
        for start, size, unit, one, others in found:
            self._add(Interval(unit, unit, *((0, ()) if others else (one, tuple(some.frames[start : start + size].tolist())))))
            while len(self.stretches) > MAX_STRETCHES:
                self.reach *= 2
                earlier, self.stretches = self.stretches, []
                for stretch in earlier:
                    self._add(stretch)

    def _add(self, stretch: Interval) -> None:
        if not self.stretches or stretch.first > self.stretches[-1].last + self.reach:
            self.stretches.append(stretch)
            return
        start = bisect_left(self.stretches, stretch.first - self.reach, key=_LAST)
        stop = bisect_right(self.stretches, stretch.last + self.reach, key=_FIRST)
        for near in self.stretches[start:stop]:
            stretch = stretch.joined(near)
        self.stretches[start:stop] = [stretch]

    def others(self, frame: int, time_ns: int) -> bool:
        """Whether a request other than that of a frame wrote around that time."""
        unit = time_ns // SWAPPED_NS
        start = bisect_left(self.stretches, unit - 1, key=_LAST)
        stop = bisect_right(self.stretches, unit + 1, key=_FIRST)
        return any(frame not in near.frames for near in self.stretches[start:stop])
