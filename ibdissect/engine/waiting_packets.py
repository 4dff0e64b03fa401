# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""Packets that wait for an acknowledgement or an answer, in a ring of numbers that grows up to a bound, and facts about their path."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from operator import itemgetter

from .episodes import MAX_ALL, MAX_ENTRIES

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import APART_NS, MAX_WAITING, OPEN_VALUES, i64
else:
    from .common import i64
    from .packet_kinds import APART_NS, MAX_WAITING, OPEN_VALUES

_NOTHING = cython.declare(cython.longlong[::1], memoryview(array("q")))  # one for all that are empty
MAX_ALL_WAITING = 1 << 20
"""Packets that wait for which there is room in all directions together."""
MAX_ALL_PAUSES = 1 << 16
"""Pauses of paths for which there is room together."""


@cython.final
@cython.cclass
class Room:
    """What all directions may still keep: `episodes`, `entries` (of lists and classes of times), `waiting` packets, and paths' `pauses`."""

    def __init__(self) -> None:
        self.episodes, self.entries, self.waiting, self.pauses = MAX_ALL, MAX_ENTRIES, MAX_ALL_WAITING, MAX_ALL_PAUSES


@cython.final
@cython.cclass
class Path:
    """From the hosts of requesters to those of responders: the shortest round trip, the largest payload that was acknowledged, when a
    packet that was acknowledged was sent (first, last, and on both sides of each pause), the MTU."""

    def __init__(self, room: Room) -> None:
        self.trip, self.largest, self.began, self.passed, self.mtu, self.room = 1 << 62, -1, 0, -APART_NS, 0, room
        self.pauses: list[tuple[int, int]] = []

    def resumes(self, time: int) -> None:
        """A packet that was sent at this time passed, `APART_NS` or more after the one before, or as the first."""
        if self.passed >= 0 and self.room.pauses > 0:
            self.room.pauses -= 1
            self.pauses.append((self.passed, time))
        else:  # what was before is not known
            self.began = time
            self.room.pauses += len(self.pauses)
            self.pauses.clear()

    def passed_around(self, time: int) -> tuple[int, int]:
        """When packets were sent that passed: the last one up to a time, and the first one behind it, 0 if none is known; the time itself
        where they were less than `APART_NS` apart."""
        if time < self.began:
            return 0, self.began
        if time >= self.passed:
            return self.passed, 0
        at = bisect_right(self.pauses, time, key=itemgetter(0)) - 1
        return self.pauses[at] if at >= 0 and time < self.pauses[at][1] else (time, time)


@cython.final
@cython.cclass
class Waits:
    """Packets of one direction, oldest first, with OPEN_VALUES numbers each.

    Of a packet that is not acknowledged: 0 position, 1 the position behind it, 2 time, 3 frame, 4 size, 5 where its message began.
    Of a READ that is not answered to its end: 0 position, 1 how many PSNs it takes, 2 how many were answered, 3 DMALen or -1, 4 frame,
    5 bytes that were answered, 6 whether it followed the request before it, 7 how many were under way with it when it was sent.
    """

    def __init__(self) -> None:
        self.ring, self.count, self.start = _NOTHING, 0, 0

    def place(self, n: i64) -> cython.Py_ssize_t:
        """Where the numbers of the n-th packet begin."""
        return (self.start + n) * OPEN_VALUES & (len(self.ring) - 1)

    @cython.cfunc
    @cython.exceptval(-9223372036854775807)
    def value(self, n: i64, what: cython.Py_ssize_t) -> i64:
        """A number of the n-th packet."""
        return self.ring[self.place(n) + what]

    def put(self, n: i64, what: cython.Py_ssize_t, value: i64) -> cython.int:
        """Change a number of the n-th packet."""
        self.ring[self.place(n) + what] = value
        return 0

    def add(self, room: Room, zeroth: i64, first: i64, second: i64, third: i64, fourth: i64, fifth: i64) -> cython.int:
        """One more; 1 if there is no room for it."""
        if self.count >= MAX_WAITING:
            return 1
        if self.count * OPEN_VALUES == len(self.ring):
            more: i64 = max(self.count, 4)
            if room.waiting < more:
                return 1
            room.waiting -= more
            self.ring, self.start = wider(self.ring, self.start, OPEN_VALUES), 0
        at: cython.Py_ssize_t = self.place(self.count)
        self.ring[at], self.ring[at + 1], self.ring[at + 2] = zeroth, first, second
        self.ring[at + 3], self.ring[at + 4], self.ring[at + 5], self.ring[at + 6] = third, fourth, fifth, 0
        self.count += 1
        return 0

    def drop(self) -> cython.int:
        """The oldest one waits no longer."""
        self.start += 1
        self.count -= 1
        return 0

    def ends(self, pos: i64, end: i64) -> cython.int:
        """The newest one, if it is the request at `pos`, takes the positions before `end`."""
        if self.count and self.value(self.count - 1, 0) == pos:
            self.put(self.count - 1, 1, end)
        return 0

    def first(self) -> object:
        """Position, frame and size of the oldest one; None if there is none."""
        return (self.value(0, 0), self.value(0, 3), self.value(0, 4)) if self.count else None


def wider(ring: cython.longlong[::1], first: i64, size: cython.Py_ssize_t) -> cython.longlong[::1]:
    """A ring of entries of `size` numbers, twice as long, with its first entry at the front. `ring`: int64s."""
    old: cython.Py_ssize_t = len(ring)
    fresh: cython.longlong[::1] = memoryview(array("q", bytes(8 * max(2 * old, 4 * size))))
    i: cython.Py_ssize_t
    for i in range(old):
        fresh[i] = ring[(first * size + i) % old]
    return fresh
