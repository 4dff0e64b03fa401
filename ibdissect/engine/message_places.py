# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""Where the packets of connections belong among the messages of their queue pairs, noted as their lanes get them.

A place is the number of a stream of requests (`psn_order.Order`) and, in its lower bits, a PSN that does not begin anew after 2**24.
An answer has the place of the request with its PSN that is nearest to the newest one before it, a CNP that of the newest request.
"""

from __future__ import annotations

from array import array
from typing import Any

from .psn_gaps import FAR

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import CNP, PSNS, READ_REQUEST, distance, i64
    from cython.cimports.ibdissect.engine.packet_fields import Packet
    from cython.cimports.ibdissect.engine.psn_order import Order
    from cython.cimports.ibdissect.engine.waiting_packets import wider
else:
    from .common import distance, i64
    from .packet_fields import Packet
    from .packet_kinds import CNP, PSNS, READ_REQUEST
    from .psn_order import Order
    from .waiting_packets import wider

PLACE_BITS = 36
"""Bits of a place below the number of its stream."""
COLUMNS = ("place", "frame", "time_ns", "opcode", "length", "dma_length", "syndrome")
"""What is noted of each packet; -1 for what no header says."""
BEHIND_READ = 4096
"""PSNs that a READ takes whose length is cut off."""
_WIDTH = cython.declare(cython.Py_ssize_t, len(COLUMNS))
_FAR = cython.declare(cython.longlong, FAR)
_END = cython.declare(cython.longlong, 1 << PLACE_BITS)
_SHIFT = cython.declare(cython.int, PLACE_BITS)
_WRONG = cython.declare(cython.int, 2)
_READ_SPAN = cython.declare(cython.longlong, BEHIND_READ)


@cython.final
@cython.cclass
class Places:
    """The packets that lanes got since the last window was `taken`, in that order."""

    def __init__(self) -> None:
        self.values, self.count = memoryview(array("q", bytes(8 * _WIDTH))), 0

    def taken(self) -> Any:
        """Numbers, COLUMNS of each packet; the next packet begins anew."""
        found = self.values[: self.count * _WIDTH]
        self.values, self.count = memoryview(array("q", bytes(8 * _WIDTH))), 0
        return found

    def says_nothing(self, one: Order, p: Packet) -> cython.bint:
        """Whether a packet's PSN may be damaged: it is not the next one, and the ICRC is wrong where that of the first packet was right."""
        step: i64 = (p.psn - one.latest) & (PSNS - 1)
        known: cython.bint = one.latest >= 0
        one.latest = p.psn
        return known and step > 1 and one.sealed and p.bad_icrc == _WRONG

    def ask(self, one: Order, p: Packet) -> cython.int:
        """A request. A PSN far from the one before is of another connection: its messages come after all others."""
        place: i64 = PSNS + p.psn  # packets from before the first one have places, too
        if one.newest < 0:
            one.newest = one.earliest = place
        else:
            ahead: i64 = distance(p.psn, one.place)
            place = one.place + (ahead if abs(ahead) <= _FAR else ahead & (PSNS - 1))
            if not 0 <= place < _END:
                return 0  # nobody sends so much
        one.place = place
        one.newest, one.earliest = max(one.newest, place), min(one.earliest, place)
        takes: i64 = 1
        if p.op == READ_REQUEST:
            takes += p.dma >> 8 if p.has_reth else _READ_SPAN
        one.reach = max(one.reach, place + takes)
        return self.add(one.number << _SHIFT | place, p)

    def answer(self, asked: Order, p: Packet) -> cython.int:
        """An answer to a stream of requests; nobody's if it is from before the first one, or far behind the last."""
        if asked.newest < 0:
            return 0
        place: i64 = asked.newest + distance(p.psn, asked.newest)
        if place < asked.earliest or place - asked.reach > _FAR or place >= _END:
            return 0
        return self.add(asked.number << _SHIFT | place, p)

    def slow_down(self, asked: Order, p: Packet) -> cython.int:
        """A CNP to the queue pair that sends a stream of requests."""
        return self.add(asked.number << _SHIFT | asked.newest, p) if asked.newest >= 0 else 0

    def add(self, place: i64, p: Packet) -> cython.int:
        """Note a packet."""
        at: cython.Py_ssize_t = self.count * _WIDTH
        if at == len(self.values):
            self.values = wider(self.values, 0, _WIDTH)
        self.values[at], self.values[at + 1], self.values[at + 2], self.values[at + 3] = place, p.frame, p.time, p.opcode
        if p.kind == CNP:
            self.values[at + 4], self.values[at + 5], self.values[at + 6] = 0, -1, -1
        else:
            self.values[at + 4], self.values[at + 5], self.values[at + 6] = p.length, p.dma if p.has_reth else -1, p.syndrome
        self.count += 1
        return 0
