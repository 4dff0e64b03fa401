# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""Packets counted by sender, receiver and P_Key, sent before the P_Key tables of their ports were known."""

from __future__ import annotations

from array import array
from typing import Any

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import i64, mix
else:
    from .common import i64, mix

SENDER, RECEIVER = 32, 16
"""Places of SLID and DLID in the number of a flow, above the P_Key."""
VALUES = 7
"""Numbers that are kept of a flow: its own, frame and time of its first packet, where its BTH starts in the frame and its destination
QP, and how many packets came before the tables of the sender and of the receiver were known."""
_SENDER = cython.declare(cython.int, SENDER)
_RECEIVER = cython.declare(cython.int, RECEIVER)
_VALUES = cython.declare(cython.Py_ssize_t, VALUES)
_FEW = cython.declare(cython.Py_ssize_t, 512)


@cython.final
@cython.cclass
class FlowCounts:
    """The latest flows of a capture, `most` of them: the oldest makes room for the next. `begun`: how many there were so far."""

    def __init__(self, most: int) -> None:
        self.most, self.begun, self.taken = most, 0, 0
        self.resize(_FEW)
        self.make_table()

    def feed(self, first_frame: int, columns: dict[str, Any]) -> int:
        """The packets of a window; the row of the first one for which a flow was forgotten, -1 if none was.

        int64[n] of all rows: bth, offset, times. Of the packets, int64[n] each: rows, slid, dlid, p_key, dest_qp. By LID the frame from
        which on its table is known: senders, receivers.
        """
        self.bth, self.offset, self.times = memoryview(columns["bth"]), memoryview(columns["offset"]), memoryview(columns["times"])
        self.rows, self.slid, self.dlid = memoryview(columns["rows"]), memoryview(columns["slid"]), memoryview(columns["dlid"])
        self.p_key, self.dest_qp = memoryview(columns["p_key"]), memoryview(columns["dest_qp"])
        self.senders, self.receivers = memoryview(columns["senders"]), memoryview(columns["receivers"])
        first: i64 = first_frame
        gone: i64 = -1
        i: cython.Py_ssize_t
        for i in range(len(self.rows)):
            row: cython.Py_ssize_t = self.rows[i]
            of_sender: cython.bint = self.senders[self.slid[i]] > first + row
            of_receiver: cython.bint = self.receivers[self.dlid[i]] > first + row
            if not of_sender and not of_receiver:
                continue
            flow: i64 = self.slid[i] << _SENDER | self.dlid[i] << _RECEIVER | self.p_key[i]
            number: i64 = self.table[self.find(flow)]
            if not number:
                if self.begun >= self.most and gone < 0:
                    gone = row
                number = self.begin(flow)
                at: cython.Py_ssize_t = (number - 1 & self.mask) * _VALUES
                self.kept[at], self.kept[at + 1], self.kept[at + 2] = flow, first + row, self.times[row]
                self.kept[at + 3], self.kept[at + 4] = self.bth[row] - self.offset[row], self.dest_qp[i]
                self.kept[at + 5] = self.kept[at + 6] = 0
            at = (number - 1 & self.mask) * _VALUES
            self.kept[at + 5] += of_sender
            self.kept[at + 6] += of_receiver
        return gone

    def find(self, flow: i64) -> cython.Py_ssize_t:
        """The place of a flow in the table, which holds its number from 1 on; an empty place if it is not kept."""
        last: i64 = len(self.table) - 1
        place: cython.Py_ssize_t = mix(flow, 0) & last
        while self.table[place]:
            number: i64 = self.table[place]
            if number > self.begun - self.most and self.kept[(number - 1 & self.mask) * _VALUES] == flow:
                break
            place = (place + 1) & last
        return place

    @cython.cfunc
    @cython.exceptval(-1)
    def begin(self, flow: i64) -> i64:
        """The number of a new flow, which takes the place of the oldest one."""
        if self.begun > self.mask and self.mask + 1 < self.most:
            self.resize(2 * (self.mask + 1))
        if 2 * self.taken >= len(self.table):
            self.make_table()
        self.begun += 1
        self.taken += 1
        self.table[self.find(flow)] = self.begun
        return self.begun

    def resize(self, flows: cython.Py_ssize_t) -> cython.int:
        """Make room for so many flows, a power of two; those that are kept have not begun to take each other's place."""
        before = self.block if self.begun else ()
        self.block: Any = array("q", before)
        self.block.extend(array("q", bytes(8 * (_VALUES * flows - len(before)))))
        self.kept, self.mask = memoryview(self.block), flows - 1
        return 0

    def make_table(self) -> cython.int:
        """Make the table anew, at most a quarter full, without flows that are forgotten."""
        alive: i64 = min(self.begun, self.most)
        places: i64 = 8
        while places < 4 * (alive + 1):
            places *= 2
        self.table, self.taken = memoryview(array("q", bytes(8 * places))), alive
        number: i64
        for number in range(self.begun - alive + 1, self.begun + 1):
            place: cython.Py_ssize_t = mix(self.kept[(number - 1 & self.mask) * _VALUES], 0) & (places - 1)
            while self.table[place]:
                place = (place + 1) & (places - 1)
            self.table[place] = number
        return 0
