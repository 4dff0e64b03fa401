# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""Packets that a mirror of a switch shows twice: on their way in, and on their way out.

They look like repetitions, but come in the order in which they went in, and nearly all packets come twice.
"""

from __future__ import annotations

from array import array
from typing import Any

from ibdissect.wire.headers import BTH, RNR
from ibdissect.wire.opcodes import ACKNOWLEDGE, CNP_OPCODE, OPERATION

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import b32, hashed, i64, mix, u64
    from cython.cimports.ibdissect.engine.datagram_copies import Recent, Window
else:
    from .common import b32, hashed, i64, mix, u64
    from .datagram_copies import Recent, Window

PASSING_NS = 200_000
"""A switch keeps a packet for less, and the shortest transport timers are longer."""
PART, OF = 2, 3
"""Two of three packets are shown twice, or it is no such mirror."""
LEARNT, TRIED = 8, 4096
"""So many packets that are shown twice prove it; after so many without it, nobody looks for them any more."""

_PASSING = cython.declare(cython.longlong, PASSING_NS)
_PART = cython.declare(cython.longlong, PART)
_OF = cython.declare(cython.longlong, OF)
_LEARNT = cython.declare(cython.longlong, LEARNT)
_TRIED = cython.declare(cython.longlong, TRIED)
_RANKS = cython.declare(cython.Py_ssize_t, 4)
_OF_RANK, _OF_MARKS = cython.declare(cython.Py_ssize_t, 2), cython.declare(cython.Py_ssize_t, 8)  # bits beside the origin of a packet
_MARKS = cython.declare(cython.longlong, 255)
_WORD = cython.declare(cython.Py_ssize_t, 4)
_BTH_SIZE = cython.declare(cython.Py_ssize_t, BTH.size)
_CONTENT = cython.declare(cython.Py_ssize_t, 64)
_CNP = cython.declare(cython.int, CNP_OPCODE)
_OPERATION = cython.declare(cython.int, OPERATION)
_ACKNOWLEDGE = cython.declare(cython.int, ACKNOWLEDGE)
_NEGATIVE = cython.declare(cython.int, RNR << 5)  # the bit that RNR NAKs and NAKs have
_POSITIVE = cython.declare(cython.ulonglong, (1 << 63) - 1)  # of hashes that are kept among signed numbers


@cython.final
@cython.cclass
class PassingPackets(Window):
    """Finds the packets that a mirror showed before: on their way into a switch, now on their way out. Feed windows in order.

    `seen`: how many packets were shown for the first time, the second, the third. Where most are not shown twice, nobody looks for long.
    What was sent again begins anew: a packet that was sent later came out before, or it was shown as often as the others.
    """

    def __init__(self, most: int) -> None:
        """`most`: packets before one that it is compared with."""
        self.recent, self.lanes, self.asked = Recent(most), Recent(most), Recent(most)
        self.seen = memoryview(array("q", bytes(8 * _RANKS)))
        self.over = False

    def feed(self, first_frame: int, data: Any, columns: dict[str, Any]) -> list[tuple[int, int, int, int]]:
        """Rows of packets that were shown before, how many frames and nanoseconds before that was, and the marks that they did not have.

        `columns`: besides those of `begin` mad, `end`, where its ICRC ends, or what was captured of it, and the interface that captured it:
        another one shows another place.
        """
        found: list[tuple[int, int, int, int]] = []
        if self.over:
            return found
        self.begin(data, columns)
        self.mads, self.end, self.taps = memoryview(columns["mad"]), memoryview(columns["end"]), memoryview(columns["interface"])
        row: cython.Py_ssize_t
        for row in range(self.rows):
            if self.bth[row] >= 0 and self.mads[row] < 0 and self.end[row] >= self.bth[row] + _BTH_SIZE:
                self.take(row, first_frame, found)
                if self.seen[0] >= _TRIED and self.seen[1] * _OF < self.seen[0] * _PART:
                    self.over = True
                    break
        return found

    def take(self, row: cython.Py_ssize_t, first_frame: i64, found: Any) -> cython.int:
        """The next packet."""
        recent: Recent = self.recent
        lanes: Recent = self.lanes
        at: cython.Py_ssize_t = self.bth[row]
        stop: cython.Py_ssize_t = self.end[row]
        way: i64 = self.way(row, False)
        lane: u64 = mix(mix(way, self.taps[row]), b32(self.data, at + _WORD) & 0xFFFFFF)
        head: u64 = mix(lane ^ b32(self.data, at), cython.cast(u64, stop - at))  # the marks of congestion behind it may change
        head = hashed(self.data, at + 2 * _WORD, min(stop, at + _BTH_SIZE + _CONTENT), head)
        key: i64 = hashed(self.data, stop - _WORD, stop, head) & _POSITIVE
        frame: i64 = first_frame + row
        origin: i64 = frame
        rank: i64 = 0
        marks: i64 = self.marks(row)
        place: cython.Py_ssize_t = recent.find(key)
        if place >= 0 and recent.is_near(place):
            before: i64 = recent.table[place + 2]
            later: i64 = abs(self.times[row] - recent.table[place + 3])
            known: i64 = recent.table[place + 4]
            origin, rank = known >> _OF_RANK + _OF_MARKS, (known >> _OF_MARKS & _RANKS - 1) + 1
            if later > _PASSING or rank >= _RANKS or self.overtaken(lane, rank, origin):
                rank = 0
            elif self.usual(rank):
                found.append((row, frame - before, later, marks & ~known & _MARKS))
                marks |= known & _MARKS
            elif self.data[at] == _CNP or self.called(row, origin):  # CNPs are all alike
                rank = 0
            elif rank > 1 and self.usual(rank - 1):
                self.seen[rank] += 1
                self.seen[0] -= 1
                rank = 0
        if not rank:
            origin = frame
        else:
            lanes.put(mix(lane, rank) & _POSITIVE, frame, origin, 0)
        self.seen[rank] += 1
        if self.data[at] & _OPERATION == _ACKNOWLEDGE and stop > at + _BTH_SIZE and self.data[at + _BTH_SIZE] & _NEGATIVE:
            self.asked.put(self.way(row, True), frame, 0, 0)
        recent.put(key, frame, self.times[row], (origin << _OF_RANK | rank) << _OF_MARKS | marks)
        return 0

    def usual(self, rank: i64) -> cython.bint:
        """Whether most packets are shown so often again."""
        return self.seen[rank] >= _LEARNT and self.seen[rank] * _OF >= self.seen[0] * _PART

    def overtaken(self, lane: u64, rank: i64, origin: i64) -> cython.bint:
        """Whether one that came into the switch after the packet of a frame came out before."""
        place: cython.Py_ssize_t = self.lanes.find(mix(lane, rank) & _POSITIVE)
        return place >= 0 and self.lanes.table[place + 3] >= origin

    def called(self, row: cython.Py_ssize_t, origin: i64) -> cython.bint:
        """Whether the other side asked for packets since a frame."""
        place: cython.Py_ssize_t = self.asked.find(self.way(row, False))
        return place >= 0 and self.asked.table[place + 2] > origin
