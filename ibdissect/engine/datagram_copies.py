# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""Management datagrams and routed packets that were captured before, each compared with what came shortly before."""

from __future__ import annotations

from array import array
from typing import Any

from ibdissect.wire.encapsulation import IPv4, IPv6
from ibdissect.wire.headers import BTH, DETH, GRH, ICRC, LRH
from ibdissect.wire.mad import BASE_VERSION_IB, BASE_VERSION_OPA, MAD, MAD_SIZE, RMPP
from ibdissect.wire.numbers import DIRECTED
from ibdissect.wire.opa import STLSMPDirected
from ibdissect.wire.sm import SMPDirected
from ibdissect.wire.spec import Field

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import b32, hashed, i64, mix, u64
else:
    from .common import b32, hashed, i64, mix, u64

DATAGRAMS_SURELY_NS, DATAGRAMS_NS = 500_000, 5_000_000
"""Nobody repeats a management datagram within half a millisecond: the shortest timers are a hundred times as long. Two mirrors saw it,
or on both sides of a router."""
USUAL = 4
"""Up to DATAGRAMS_NS, equal datagrams are copies if at least so many came before, and one of so many datagrams was repeated so far."""
MOST = 8
"""More equal datagrams than an original and so many copies come from a sender in a loop."""
ROUTED_NS = 1_000_000
"""A router keeps a packet for less. A repetition has its sender's hop count again, however soon it comes."""
_OF_MAD = BTH.size + DETH.size
WHOLE = _OF_MAD + MAD_SIZE[BASE_VERSION_IB]
"""Bytes of a management datagram from its BTH on; routers change nothing in them."""
KNOWN = _OF_MAD + MAD.size + RMPP.size
"""The fewest of these bytes that tell which one it is: transaction, attribute and segment."""

_SURELY = cython.declare(cython.longlong, DATAGRAMS_SURELY_NS)
_SOON = cython.declare(cython.longlong, DATAGRAMS_NS)
_USUAL = cython.declare(cython.longlong, USUAL)
_MOST = cython.declare(cython.longlong, MOST)
_ROUTED = cython.declare(cython.longlong, ROUTED_NS)
_MAD_AT = cython.declare(cython.Py_ssize_t, _OF_MAD)
_WHOLE = cython.declare(cython.Py_ssize_t, WHOLE)
_KNOWN = cython.declare(cython.Py_ssize_t, KNOWN)
_POSITIVE = cython.declare(cython.ulonglong, (1 << 63) - 1)  # of hashes that are kept among signed numbers
_NUMBERS = cython.declare(cython.Py_ssize_t, 5)
_FIRST, _ENOUGH = cython.declare(cython.longlong, 64), cython.declare(cython.longlong, 1 << 62)
_NONE = cython.declare(cython.int, 256)  # in place of a hop count: what has none is routed by nobody
_ICRC = cython.declare(cython.Py_ssize_t, ICRC.size)
FECN, BECN, CE = 0x80, 0x40, 3
"""Marks of congestion: the bits of the BTH, and ECN of IP where a switch set both bits."""
_CE = cython.declare(cython.int, CE)
_IN_BTH = cython.declare(cython.int, FECN | BECN)
_RANK = cython.declare(cython.longlong, (1 << 16) - 1)  # of what is kept of a packet; its marks are above it
_MARKED = cython.declare(cython.Py_ssize_t, 16)


def _at(field: Field[Any]) -> int:
    return field.bit // 8


_CLASS = cython.declare(cython.Py_ssize_t, _at(MAD.mgmt_class))
_DIRECTED = cython.declare(cython.int, DIRECTED)
_OPA = cython.declare(cython.int, BASE_VERSION_OPA)
_HOP = cython.declare(cython.Py_ssize_t, _at(SMPDirected.hop_pointer))
_RETURN = cython.declare(cython.Py_ssize_t, _at(SMPDirected.return_path))
_RETURN_OPA = cython.declare(cython.Py_ssize_t, _at(STLSMPDirected.return_path))
_PATH = cython.declare(cython.Py_ssize_t, SMPDirected.return_path.bits // 8)

_SLID = cython.declare(cython.Py_ssize_t, _at(LRH.slid))
_DLID = cython.declare(cython.Py_ssize_t, _at(LRH.dlid))
_LID = cython.declare(cython.Py_ssize_t, LRH.slid.bits // 8)
_SGID = cython.declare(cython.Py_ssize_t, _at(GRH.sgid))
_DGID = cython.declare(cython.Py_ssize_t, _at(GRH.dgid))
_HOPS = cython.declare(cython.Py_ssize_t, _at(GRH.hop_lmt))
_GID = cython.declare(cython.Py_ssize_t, GRH.sgid.bits // 8)
_SOURCE6 = cython.declare(cython.Py_ssize_t, _at(IPv6.source))
_DESTINATION6 = cython.declare(cython.Py_ssize_t, _at(IPv6.destination))
_HOPS6 = cython.declare(cython.Py_ssize_t, _at(IPv6.hop_limit))
_SOURCE4 = cython.declare(cython.Py_ssize_t, _at(IPv4.source))
_DESTINATION4 = cython.declare(cython.Py_ssize_t, _at(IPv4.destination))
_TTL = cython.declare(cython.Py_ssize_t, _at(IPv4.ttl))
_IP4 = cython.declare(cython.Py_ssize_t, IPv4.source.bits // 8)
_WORD = cython.declare(cython.Py_ssize_t, 4)
_FECN = cython.declare(cython.Py_ssize_t, _at(BTH.fecn))
_DS4 = cython.declare(cython.Py_ssize_t, _at(IPv4.dsfield))
_DS6 = cython.declare(cython.Py_ssize_t, _at(IPv6.traffic_class))


@cython.final
@cython.cclass
class Recent:
    """The last things that were seen, at least `most`, by a hash of what makes two of them equal; of equal ones the last.

    A table has two halves, in which hashes are looked for one place after the other. Once `most` were put into the young half, the old one
    becomes it, and what it holds counts as nothing: its numbers are too low. Each place holds hash, number (from 1), frame, time, and
    what else is known.
    """

    def __init__(self, most: int) -> None:
        self.most, self.count, self.young, self.old = most, 0, 0, 0
        self.mask = self.half = self.room = 0
        self.table = memoryview(array("q"))

    def grow(self) -> cython.int:
        """Make the table, or make it twice as large, until a half has room for `most`: a small capture needs a small one."""
        places: i64 = 2 * (self.mask + 1) if self.mask else _FIRST
        before: i64[::1] = self.table
        self.mask, self.room = places - 1, places // 2 if places < 2 * self.most else _ENOUGH
        self.table = memoryview(array("q", bytes(8 * 2 * places * _NUMBERS)))
        old: cython.Py_ssize_t
        for old in range(0, len(before) // 2, _NUMBERS):  # the second half is empty until `most` are in the first
            if before[old + 1]:
                at: i64 = before[old] & self.mask
                while self.table[at * _NUMBERS + 1]:
                    at = (at + 1) & self.mask
                self.table[at * _NUMBERS : (at + 1) * _NUMBERS] = before[old : old + _NUMBERS]
        return 0

    def find(self, key: i64) -> cython.Py_ssize_t:
        """The place of the last one with a hash, -1: none; `put` may move it."""
        if not self.mask:
            return -1
        half: cython.Py_ssize_t
        for half in range(2):
            base: cython.Py_ssize_t = (self.half ^ half) * (self.mask + 1)
            since: i64 = self.old if half else self.young
            at: i64 = key & self.mask
            place: cython.Py_ssize_t = (base + at) * _NUMBERS
            while self.table[place + 1] > since:
                if self.table[place] == key:
                    return place
                at = (at + 1) & self.mask
                place = (base + at) * _NUMBERS
        return -1

    def put(self, key: i64, frame: i64, time: i64, more: i64) -> cython.int:
        """Remember one."""
        if self.count >= self.room:
            self.grow()
        if self.count - self.young >= self.most:
            self.old, self.young, self.half = self.young, self.count, self.half ^ 1
        self.count += 1
        base: cython.Py_ssize_t = self.half * (self.mask + 1)
        at: i64 = key & self.mask
        place: cython.Py_ssize_t = (base + at) * _NUMBERS
        while self.table[place + 1] > self.young and self.table[place] != key:
            at = (at + 1) & self.mask
            place = (base + at) * _NUMBERS
        self.table[place], self.table[place + 1], self.table[place + 2] = key, self.count, frame
        self.table[place + 3], self.table[place + 4] = time, more
        return 0

    def is_near(self, place: cython.Py_ssize_t) -> cython.bint:
        """Whether the next one comes at most `most` after the one at a place."""
        return self.count + 1 - self.table[place + 1] <= self.most


@cython.cclass
class Window:
    """Where the headers of a window start, -1 where a row has none."""

    def begin(self, data: Any, columns: dict[str, Any]) -> cython.int:
        """Its bytes, and int64[n] each of times, bth, ip4, ip6, grh, lrh."""
        self.data = memoryview(data)
        self.times, self.bth, self.lrh = memoryview(columns["times"]), memoryview(columns["bth"]), memoryview(columns["lrh"])
        self.ip4, self.ip6, self.grh = memoryview(columns["ip4"]), memoryview(columns["ip6"]), memoryview(columns["grh"])
        self.rows = len(self.times)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def way(self, row: cython.Py_ssize_t, back: cython.bint) -> i64:
        """A hash of who sends to whom: of the addresses that a router keeps, otherwise of the LIDs. `back`: that of answers."""
        if self.ip6[row] >= 0:
            return self.pair(self.ip6[row] + _SOURCE6, self.ip6[row] + _DESTINATION6, _GID, back)
        if self.ip4[row] >= 0:
            return self.pair(self.ip4[row] + _SOURCE4, self.ip4[row] + _DESTINATION4, _IP4, back)
        if self.grh[row] >= 0:
            return self.pair(self.grh[row] + _SGID, self.grh[row] + _DGID, _GID, back)
        if self.lrh[row] >= 0:
            return self.pair(self.lrh[row] + _SLID, self.lrh[row] + _DLID, _LID, back)
        return 0

    def marks(self, row: cython.Py_ssize_t) -> cython.int:
        """The marks of congestion of a packet: FECN, BECN and CE."""
        found: cython.int = self.data[self.bth[row] + _FECN] & _IN_BTH
        ecn: cython.int = 0
        if self.ip4[row] >= 0:
            ecn = self.data[self.ip4[row] + _DS4]
        elif self.ip6[row] >= 0:
            ecn = self.data[self.ip6[row] + _DS6 + 1] >> 4
        if ecn & _CE == _CE:
            found |= _CE
        return found

    @cython.cfunc
    @cython.exceptval(-1)
    def pair(self, source: cython.Py_ssize_t, destination: cython.Py_ssize_t, size: cython.Py_ssize_t, back: cython.bint) -> i64:
        """A hash of two addresses of a size, in this order or the other one."""
        if back:
            source, destination = destination, source
        return hashed(self.data, destination, destination + size, hashed(self.data, source, source + size, 0)) & _POSITIVE


@cython.final
@cython.cclass
class DatagramCopies(Window):
    """Finds the management datagrams that hold the bytes of an earlier one, sent between the same ports. Feed windows in order.

    Of a directed SMP hop pointer and return path count for nothing: each hop changes them, and a sender's repetition is no copy later on.
    """

    def __init__(self, most: int) -> None:
        """`most`: datagrams before one that it is compared with."""
        self.recent = Recent(most)
        self.seen = self.repeated = 0

    def feed(self, first_frame: int, data: Any, columns: dict[str, Any]) -> list[tuple[int, int, int, int]]:
        """Rows of the copies in a window, how many frames and nanoseconds before the equal one was, and the marks that it did not have.

        `columns`: besides those of `begin` mad and `end`, where the payload ends, int64[n].
        """
        self.begin(data, columns)
        self.mads, self.end = memoryview(columns["mad"]), memoryview(columns["end"])
        found: list[tuple[int, int, int, int]] = []
        recent: Recent = self.recent
        first: i64 = first_frame
        row: cython.Py_ssize_t
        for row in range(self.rows):
            at: cython.Py_ssize_t = self.bth[row]
            size: cython.Py_ssize_t = min(self.end[row] - at, _WHOLE)
            if at < 0 or self.mads[row] - at != _MAD_AT or size < _KNOWN:
                continue
            way: u64 = mix(self.way(row, False), b32(self.data, at + _WORD) & 0xFFFFFF)  # the marks of congestion before it may change
            key: i64 = self.content(at, at + size, mix(way, b32(self.data, at)))
            time: i64 = self.times[row]
            place: cython.Py_ssize_t = recent.find(key)
            rank: i64 = 0
            marks: i64 = self.marks(row)
            self.seen += 1
            if place >= 0 and recent.is_near(place):
                later: i64 = abs(time - recent.table[place + 3])
                if later <= _SOON:
                    rank = (recent.table[place + 4] & _RANK) + 1
                    if rank <= _MOST:
                        usual: cython.bint = self.repeated >= _USUAL and (self.repeated + 1) * _USUAL >= self.seen and size == _WHOLE
                        self.repeated += 1
                        if usual or later <= _SURELY:
                            before: i64 = recent.table[place + 4] >> _MARKED
                            found.append((row, first + row - recent.table[place + 2], later, marks & ~before))
                            marks |= before
            recent.put(key, first + row, time, marks << _MARKED | min(rank, _MOST + 1))
        return found

    @cython.cfunc
    @cython.exceptval(-1)
    def content(self, at: cython.Py_ssize_t, end: cython.Py_ssize_t, h: u64) -> i64:
        """A hash of a datagram from the PSN of its BTH on, and of a hash before, without what a hop changes."""
        mad: cython.Py_ssize_t = at + _MAD_AT
        if self.data[mad + _CLASS] != _DIRECTED:
            return hashed(self.data, at + 2 * _WORD, end, h) & _POSITIVE
        back: cython.Py_ssize_t = mad + (_RETURN_OPA if self.data[mad] == _OPA else _RETURN)
        h = hashed(self.data, at + 2 * _WORD, mad + _HOP, h)
        h = hashed(self.data, mad + _HOP + 1, min(back, end), h)
        if back + _PATH < end:
            h = hashed(self.data, back + _PATH, end, h)
        return h & _POSITIVE


@cython.final
@cython.cclass
class RoutedPackets(Window):
    """Finds the second and further sightings of packets that a router forwarded. Feed windows in order."""

    def __init__(self, most: int) -> None:
        """`most`: packets before one that it is compared with."""
        self.recent = Recent(most)
        self.several = False
        self.usual = _NONE

    def feed(self, first_frame: int, data: Any, columns: dict[str, Any]) -> list[tuple[int, int, int, int]]:
        """Rows seen before with more hops left, how many frames and nanoseconds before, and the marks that they did not have then.

        `columns`: besides those of `begin` icrc."""
        self.begin(data, columns)
        self.icrc = memoryview(columns["icrc"])
        found: list[tuple[int, int, int, int]] = []
        recent: Recent = self.recent
        first: i64 = first_frame
        row: cython.Py_ssize_t
        for row in range(self.start(), self.rows):
            hops: cython.int = self.hops(row)
            if hops == _NONE:
                continue
            at: cython.Py_ssize_t = self.bth[row]
            end: cython.Py_ssize_t = self.icrc[row]
            check: u64 = b32(self.data, end)
            if not check:  # not yet computed when it was captured
                continue
            h: u64 = mix(
                check << 32 | b32(self.data, at + _WORD) & 0xFFFFFF, cython.cast(u64, b32(self.data, at + 2 * _WORD)) << 32 | (end - at)
            )
            key: i64 = self.mark(row, h)
            time: i64 = self.times[row]
            marks: i64 = self.marks(row)
            if self.several:
                place: cython.Py_ssize_t = recent.find(key)
                if place >= 0 and recent.is_near(place) and hops < recent.table[place + 4] & _RANK:
                    later: i64 = abs(time - recent.table[place + 3])
                    if later <= _ROUTED:
                        before: i64 = recent.table[place + 4] >> _MARKED
                        found.append((row, first + row - recent.table[place + 2], later, marks & ~before))
                        marks |= before
            recent.put(key, first + row, time, marks << _MARKED | hops)
        return found

    def hops(self, row: cython.Py_ssize_t) -> cython.int:
        """How many hops a packet with an ICRC may still take, by the header that routers read; _NONE without one."""
        if self.bth[row] < 0 or self.icrc[row] < 0:
            return _NONE
        if self.ip4[row] >= 0:
            return self.data[self.ip4[row] + _TTL]
        if self.ip6[row] >= 0:
            return self.data[self.ip6[row] + _HOPS6]
        if self.grh[row] >= 0:
            return self.data[self.grh[row] + _HOPS]
        return _NONE

    @cython.cfunc
    @cython.exceptval(-1)
    def mark(self, row: cython.Py_ssize_t, h: u64) -> i64:
        """A hash that joins another one with the last words of both addresses: those of an IPv4 address and of its GID are the same."""
        source: cython.Py_ssize_t = self.grh[row] + _SGID + _GID
        destination: cython.Py_ssize_t = self.grh[row] + _DGID + _GID
        if self.ip4[row] >= 0:
            source, destination = self.ip4[row] + _SOURCE4 + _IP4, self.ip4[row] + _DESTINATION4 + _IP4
        elif self.ip6[row] >= 0:
            source, destination = self.ip6[row] + _SOURCE6 + _GID, self.ip6[row] + _DESTINATION6 + _GID
        ends: u64 = cython.cast(u64, b32(self.data, source - _WORD)) << 32 | b32(self.data, destination - _WORD)
        return mix(h, ends) & _POSITIVE

    def start(self) -> cython.Py_ssize_t:
        """The row to begin with: until hop counts differ, nobody has to compare, and the last ones are all that need be known."""
        if self.several:
            return 0
        row: cython.Py_ssize_t
        for row in range(self.rows):
            hops: cython.int = self.hops(row)
            if hops == _NONE or hops == self.usual or not b32(self.data, self.icrc[row]):
                continue
            if self.usual != _NONE:
                self.several = True
                return 0
            self.usual = hops
        left: i64 = self.recent.most
        for row in range(self.rows - 1, -1, -1):
            if self.hops(row) != _NONE and b32(self.data, self.icrc[row]):
                left -= 1
                if not left:
                    return row
        return 0
