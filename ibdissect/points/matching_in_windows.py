"""Matching of any number of packets, in windows by time: memory is bounded by the clocks' uncertainty and by reordering."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .changed import join_changed
from .clocks import Clocks
from .directions import Directions
from .flows import PointFlows
from .matching import CHAIN, Matcher
from .packet_identity import Sightings
from .read_captures import Point, clarified
from .transmissions import Repeats, Transmissions

WINDOW = 1 << 17
"""Sightings that are matched at once."""
REORDERED_NS = 20_000_000
"""By how much a later frame of a file may be earlier."""


class MatchingWindows:
    """The transmissions of all points in order of time, matched window by window."""

    def __init__(self, points: Sequence[Point], flows: PointFlows, directions: Directions, clocks: Clocks, size: int = WINDOW) -> None:
        self._points, self._flows, self._ends, self._clocks, self._size = points, flows, directions.ends, clocks, size
        self.matcher = Matcher(points, directions, clocks)
        self.late = 0
        """Packets that came too late: packets sent after them had already been matched and dropped from memory."""

    def __iter__(self) -> Iterator[tuple[Transmissions, Repeats]]:
        """Blocks of transmissions and their repeated sightings, whose `id` is the index in the block."""
        held: Sightings | None = None
        waiting: tuple[Transmissions, Repeats] | None = None
        done = np.iinfo(np.int64).min
        for seen, until in self._read():
            held = clarified(seen if held is None else Sightings.joined(held, seen), self._flows)
            matched = self.matcher.match(held, until)
            held = held.take(matched.rest)
            new = matched.transmissions, matched.repeats
            found, repeats = new if waiting is None else (Transmissions.joined(waiting[0], new[0]), Repeats.joined(waiting[1], new[1]))
            found = found.take(np.lexsort((*found.frame.T[::-1], found.time)))
            longest = self.matcher.longest
            known = None if until is None else min(until - longest, int(held.time.min()) if len(held) else until)
            found, joined = join_changed(found, repeats, self._flows, self._ends, longest, known)
            if joined is not None and known is not None:
                joined = max(joined, known - CHAIN * longest)
            ready = found.time < joined if joined is not None else np.ones(len(found), np.bool_)
            self.late += int(np.count_nonzero(found.time[ready] < done))
            waiting = found.take(~ready), repeats.take(~np.isin(repeats.id, found.id[ready]))
            found, repeats = found.take(ready), repeats.take(np.isin(repeats.id, found.id[ready]))
            if len(found):
                done = int(found.time[-1])
                order = np.argsort(found.id)
                repeats.id = order[np.searchsorted(found.id, repeats.id, sorter=order)]
                yield found, repeats.take(np.argsort(repeats.id, kind="stable"))

    def _read(self) -> Iterator[tuple[Sightings, int | None]]:
        """All sightings by the reference clock, and the time up to which nothing more comes; None: nothing at all comes."""
        blocks = [point.blocks() for point in self._points]
        reached = [np.iinfo(np.int64).min] * len(blocks)
        parts: list[Sightings] = []
        size, last = 0, np.iinfo(np.int64).max
        while min(reached) < last:
            i = reached.index(min(reached))
            block = next(blocks[i], None)
            if block is None:
                reached[i] = last
                continue
            block.time = self._clocks.on_reference(i, block.frame, block.time)
            reached[i] = max(reached[i], int(block.time.max()))
            parts.append(block)
            size += len(block)
            if size >= self._size and min(reached) < last:
                yield Sightings.joined(*parts), min(reached) - REORDERED_NS
                parts, size = [block.take(np.zeros(0, np.int64))], 0
        yield Sightings.joined(*parts), None
