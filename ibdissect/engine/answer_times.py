# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""Answer times of one direction of a connection, as far as they matter: classes of times in a small table of numbers.

What of a time lasts beyond a round trip is known at the end only, when the shortest round trip is. It only becomes shorter, so that of
times above the one of the moment their number and sum are enough.
"""

from __future__ import annotations

from array import array

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import i64
    from cython.cimports.ibdissect.engine.waiting_packets import Room
else:
    from .common import i64
    from .waiting_packets import Room

_NOTHING = cython.declare(cython.longlong[::1], memoryview(array("q")))  # one for all that are empty
_SLOT = cython.declare(cython.Py_ssize_t, 3)
_FEWEST = cython.declare(cython.Py_ssize_t, 8)


@cython.final
@cython.cclass
class Gaps:
    """Times in classes of a sixteenth of an octave. `count`: the classes; `long_count`, `long_sum`: of times beyond a round trip.

    `table`: open addressing, three numbers a slot: the class and 1 (0: free), how many times it has, and their sum.
    """

    def __init__(self) -> None:
        self.table, self.count, self.long_count, self.long_sum = _NOTHING, 0, 0, 0

    def place(self, what: i64) -> cython.Py_ssize_t:
        """Where a class is, or would be."""
        last: cython.Py_ssize_t = len(self.table) - _SLOT
        at: cython.Py_ssize_t = (what & (len(self.table) // _SLOT - 1)) * _SLOT
        while self.table[at] != what + 1 and self.table[at]:
            at = at + _SLOT if at < last else 0
        return at

    def grow(self) -> cython.int:
        """Twice as many slots."""
        old = self.table
        i: cython.Py_ssize_t
        self.table = memoryview(array("q", bytes(8 * max(2 * len(old), _FEWEST * _SLOT))))
        for i in range(0, len(old), _SLOT):
            if old[i]:
                at: cython.Py_ssize_t = self.place(old[i] - 1)
                self.table[at], self.table[at + 1], self.table[at + 2] = old[i], old[i + 1], old[i + 2]
        return 0

    def add(self, room: Room, gap: i64, trip: i64) -> cython.int:
        """A time that an answer ended; `trip`: the shortest round trip so far. 1: there is no room for another class."""
        if gap >= trip:
            self.long_count += 1
            self.long_sum += gap
            return 0
        shift: i64 = 0
        while gap >> shift >= 32:
            shift += 1
        what: i64 = shift << 5 | gap >> shift
        at: cython.Py_ssize_t = self.place(what) if len(self.table) else 0
        if not len(self.table) or not self.table[at]:
            if room.entries <= 0:
                return 1
            room.entries -= 1
            self.count += 1
            if self.count * 4 > len(self.table):
                self.grow()
                at = self.place(what)
            self.table[at] = what + 1
        self.table[at + 1] += 1
        self.table[at + 2] += gap
        return 0

    def classes(self) -> object:
        """Of each class what it is, how many times it has, and their sum, in order."""
        found = []
        i: cython.Py_ssize_t
        for i in range(0, len(self.table), _SLOT):
            if self.table[i]:
                found.append((self.table[i] - 1, self.table[i + 1], self.table[i + 2]))
        return sorted(found)
