# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""Frames of one window that repeat one of the last few, as a mirror delivers them twice."""

from __future__ import annotations

from typing import Any

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import i64
else:
    from .common import i64

AT_MOST_NS = 3000
"""Copies of a mirror come up to 3 us apart, and so do a few real repetitions."""
APART = 8
"""A copy comes at most this many frames after its original."""
SHORTEST = 16
"""Shorter frames may be equal by chance."""
NUMBERED_NS = 5_000_000
"""A network that doubles packets delays the second one; senders number what they send again anew in its IP header."""

_AT_MOST = cython.declare(cython.longlong, AT_MOST_NS)
_APART = cython.declare(cython.Py_ssize_t, APART)
_SHORTEST = cython.declare(cython.Py_ssize_t, SHORTEST)
_NUMBERED = cython.declare(cython.longlong, NUMBERED_NS)


def near(data: Any, times: Any, starts: Any, sizes: Any, begins: Any, wire: Any, numbers: Any) -> list[tuple[int, int, int, int]]:
    """Rows that repeat a frame of the last AT_MOST_NS: row, how many frames and nanoseconds before, and how many bytes are equal.

    int64[n] each: times, where frames start in the data, how many bytes were captured, where what copies have in common begins, `wire`, how
    many bytes the frame had from there on (if one was cut before the other, what both have is compared), and `numbers`: of frames
    that their sender numbered who that is and the number, 0 of others; negative of NAKs, -1 if they are not numbered. Numbered frames
    repeat one of the last NUMBERED_NS, if no other one between has their number, and no NAK asked for it.
    """
    found: list[tuple[int, int, int, int]] = []
    window = Frames(data, times, starts, sizes, begins, wire, numbers)
    row: cython.Py_ssize_t
    for row in range(1, window.rows):
        behind: cython.Py_ssize_t = window.copied(row)
        if behind:
            later: i64 = abs(window.times[row] - window.times[row - behind])
            found.append((row, behind, later, window.alike(row, row - behind)))
    return found


@cython.final
@cython.cclass
class Frames:
    """The frames of one window."""

    def __init__(self, data: Any, times: Any, starts: Any, sizes: Any, begins: Any, wire: Any, numbers: Any) -> None:
        self.data, self.times, self.numbers, self.wire = memoryview(data), memoryview(times), memoryview(numbers), memoryview(wire)
        self.starts, self.sizes, self.begins = memoryview(starts), memoryview(sizes), memoryview(begins)
        self.rows, self.rising = len(self.times), True
        row: cython.Py_ssize_t
        for row in range(1, self.rows):
            if self.times[row] < self.times[row - 1]:
                self.rising = False
                break

    def copied(self, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """How many frames before a row the nearest equal one was; 0: there is none."""
        behind: cython.Py_ssize_t
        number: i64 = self.numbers[row]
        numbered: cython.bint = number > 0 or number < -1
        for behind in range(1, min(_APART, row) + 1):
            later: i64 = self.times[row] - self.times[row - behind]  # the clock of a second mirror may be a little behind
            if later > _AT_MOST or later < -_AT_MOST:
                if not numbered or later > _NUMBERED or later < -_NUMBERED:
                    if self.rising:
                        break  # frames that are farther apart are not nearer in time
                elif number == self.numbers[row - behind]:
                    return behind if self.alike(row, row - behind) else 0
                elif self.numbers[row - behind] < 0:
                    numbered = False
            elif self.alike(row, row - behind):
                return behind
        return 0

    def alike(self, one: cython.Py_ssize_t, other: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """How many bytes two frames have in common: all, or those from where it may begin; 0 if those differ or are few."""
        end: cython.Py_ssize_t = self.starts[one] + self.sizes[one]
        stop: cython.Py_ssize_t = self.starts[other] + self.sizes[other]
        size: cython.Py_ssize_t = end - self.begins[one]
        if size != stop - self.begins[other]:
            return self.alike_so_far(one, other, min(size, stop - self.begins[other]))
        if size < _SHORTEST:
            return 0
        back: cython.Py_ssize_t
        for back in range(1, size + 1):  # the last bytes hold a CRC or payload: nearly all pairs differ there already
            if self.data[end - back] != self.data[stop - back]:
                return 0
        if self.sizes[one] != self.sizes[other]:
            return size
        for back in range(size + 1, self.sizes[one] + 1):
            if self.data[end - back] != self.data[stop - back]:
                return size
        return self.sizes[one]

    def alike_so_far(self, one: cython.Py_ssize_t, other: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The same of frames that were cut at different places, and had equally many bytes."""
        if size < _SHORTEST or self.wire[one] != self.wire[other]:
            return 0
        at: cython.Py_ssize_t
        for at in range(size):
            if self.data[self.begins[one] + at] != self.data[self.begins[other] + at]:
                return 0
        return size
