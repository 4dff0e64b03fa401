"""Which value was valid when? Values that change over the capture, with the frames that set them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ibdissect.capture.records import ROWS

V = TypeVar("V")

SECOND_NS = 1_000_000_000
NEIGHBOURS_NS = 500_000
"""Packets this close together may be in the wrong order: captures of several queues swap neighbours."""
AFTER_ALL = 1 << 40
"""A frame after all others: what never happens, and where to ask for the latest value."""
KEPT = 4
"""Earlier values kept per fact, in addition to those valid within the last ROWS frames, the maximum of a chunk.

The value at every frame of the current chunk is known; at older frames it may be unknown.
"""
MANY = 64
"""With more values, half of them are dropped at a time."""

NONE: list[Any] = []
"""The earlier values of all facts that never changed; nothing is added to it."""


class Track(Generic[V]):
    """A fact over time. None means unknown: never learnt, or no longer certain."""

    __slots__ = ("now", "past", "since")

    def __init__(self) -> None:
        self.now: V | None = None
        self.since = 0
        """Frame that set `now`; 0 if nothing was learnt yet."""
        self.past: list[tuple[V | None, int]] = NONE
        """Earlier values with the frames that set them, oldest first."""

    def learn(self, value: V | None, frame: int) -> bool:
        """Learn a value from a frame; returns True if it differs from the current one."""
        if value == self.now:
            return False
        self.change(value, frame)
        return True

    def change(self, value: V | None, frame: int) -> None:
        """Learn a value from a frame that differs from the current one."""
        if self.since:
            past = self.past
            if past:
                past.append((self.now, self.since))
                size = len(past)
                if size > KEPT:
                    old = 1 if size <= MANY else size // 2
                    if past[old][1] <= frame - ROWS:
                        self.past = past[old:]  # another thread may still go through the longer list
            else:
                self.past = [(self.now, self.since)]
        self.now, self.since = value, frame

    def at(self, frame: int) -> tuple[V | None, int]:
        """The value at `frame`, and the frame that set it; (None, 0) before the oldest value kept."""
        if frame >= self.since:
            return self.now, self.since
        i = bisect_right(self.past, frame, key=itemgetter(1))
        return self.past[i - 1] if i else (None, 0)

    def since_frame(self, frame: int) -> Iterator[V]:
        """The known values that were valid at a frame or later."""
        until = None
        for value, since in ((self.now, self.since), *reversed(self.past)):
            if until is not None and until <= frame:
                return
            if value is not None:
                yield value
            until = since

    def values(self) -> list[tuple[V | None, int]]:
        """The values kept with the frames that set them, oldest first."""
        return [*self.past, (self.now, self.since)] if self.since else []

    def changes(self) -> list[int]:
        """Frames at which the value changed, oldest first."""
        return [since for _, since in self.values()]

    def changes_after(self, frame: int) -> list[int]:
        """Frames after another at which the value changed, latest first."""
        found = []
        if self.since > frame:
            found.append(self.since)
            for _, since in reversed(self.past):
                if since <= frame:
                    break
                found.append(since)
        return found


class Clock:
    """The times of the frames of the present chunk, and of at most ROWS before it."""

    def __init__(self) -> None:
        self.first = 1
        """The first frame whose time is kept."""
        self.times: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def take(self, first: int, times: npt.NDArray[np.int64]) -> None:
        """Add a chunk that begins with frame `first`."""
        kept = self.times[-ROWS:] if self.first + len(self.times) == first else self.times[:0]
        self.first, self.times = first - len(kept), np.concatenate((kept, times))

    def time_of(self, frame: int) -> int:
        """The time of a frame; of the first one kept if it is older."""
        return int(self.times[max(0, frame - self.first)])

    def first_after(self, time_ns: int) -> int:
        """The first frame kept that is not older than a time."""
        return self.first + int((self.times >= time_ns).argmax()) if len(self.times) else self.first
