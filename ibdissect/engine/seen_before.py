# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""What is seen again? Hashes of the bytes at many places, what senders number, pairs of ends and connections seen before."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from ibdissect.wire.encapsulation import UDP, IPv4, IPv6
from ibdissect.wire.headers import AETH, BTH, GRH, LRH, RNR
from ibdissect.wire.opcodes import ACKNOWLEDGE, OPERATION, RC, UC, XRC
from ibdissect.wire.spec import Field

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import b16, b24, b32, hashed, i64, mix, u64
else:
    from .common import b16, b24, b32, hashed, mix

    if TYPE_CHECKING:
        i64 = u64 = int
    else:
        i64 = u64 = None


def _at(field: Field[Any]) -> int:
    return field.bit // 8


_SLID = cython.declare(cython.Py_ssize_t, _at(LRH.slid))
_DLID = cython.declare(cython.Py_ssize_t, _at(LRH.dlid))
_SGID = cython.declare(cython.Py_ssize_t, _at(GRH.sgid))
_DGID = cython.declare(cython.Py_ssize_t, _at(GRH.dgid))
_GID = cython.declare(cython.Py_ssize_t, GRH.sgid.bits // 8)
_SOURCE4 = cython.declare(cython.Py_ssize_t, _at(IPv4.source))
_DESTINATION4 = cython.declare(cython.Py_ssize_t, _at(IPv4.destination))
_IDENTIFICATION = cython.declare(cython.Py_ssize_t, _at(IPv4.identification))
_PORT = cython.declare(cython.Py_ssize_t, _at(UDP.source_port))
_QPN = cython.declare(cython.Py_ssize_t, _at(BTH.destqp))
_BTH = cython.declare(cython.Py_ssize_t, BTH.size)
_WITH_AETH = cython.declare(cython.Py_ssize_t, BTH.size + AETH.size)
_OPERATION = cython.declare(cython.int, OPERATION)
_ACKNOWLEDGE = cython.declare(cython.int, ACKNOWLEDGE)
_NEGATIVE = cython.declare(cython.int, RNR << 5)  # the bit that RNR NAKs and NAKs have
_CONNECTED = cython.declare(cython.int, 1 << (RC >> 5) | 1 << (UC >> 5) | 1 << (XRC >> 5))  # by the upper bits of the OpCode
_SPECIAL_QP = cython.declare(cython.int, 1)
_SOURCE6 = cython.declare(cython.Py_ssize_t, _at(IPv6.source))
_DESTINATION6 = cython.declare(cython.Py_ssize_t, _at(IPv6.destination))
_POSITIVE = cython.declare(cython.ulonglong, (1 << 63) - 1)  # of hashes that are kept among signed numbers


@cython.final
@cython.cclass
class Marks:
    """Hashes of the bytes of one window."""

    def __init__(self, data: Any) -> None:
        self.data = memoryview(data)

    def at(self, places: Any, size: int, found: Any) -> None:
        """A hash of the `size` bytes at each place (int64[n]) into `found`, int64[n]; none is negative."""
        self.places, self.found = memoryview(places), memoryview(found)
        stop: cython.Py_ssize_t = size
        i: cython.Py_ssize_t
        for i in range(len(self.places)):
            place: cython.Py_ssize_t = self.places[i]
            self.found[i] = hashed(self.data, place, place + stop, 0) & _POSITIVE


@cython.final
@cython.cclass
class Senders:
    """What senders of one window number in their IPv4 headers."""

    def __init__(self, data: Any) -> None:
        self.data = memoryview(data)

    def numbers(self, columns: dict[str, Any], found: Any) -> None:
        """Of numbered packets who sent it, the number, and where it was captured, into `found`, int64[n]; else 0. Negative of NAKs, -1
        without a number. `columns`: where headers start, int64[n], -1 where a row has none: bth, ip4; how far they may be read: limit;
        uint16[n]: taps.
        """
        self.bth, self.ip4, self.limit = memoryview(columns["bth"]), memoryview(columns["ip4"]), memoryview(columns["limit"])
        self.taps, self.found = memoryview(columns["taps"]), memoryview(found)
        row: cython.Py_ssize_t
        for row in range(len(self.bth)):
            ip: cython.Py_ssize_t = self.ip4[row]
            at: cython.Py_ssize_t = self.bth[row]
            if ip < 0 or at < 0:
                self.found[row] = 0
                continue
            number: i64 = b16(self.data, ip + _IDENTIFICATION)
            if number:
                number |= (cython.cast(i64, self.taps[row]) & 0x7FFF) << 48 | b32(self.data, ip + _SOURCE4) << 16
            known: cython.bint = self.data[at] & _OPERATION == _ACKNOWLEDGE and self.limit[row] >= at + _WITH_AETH
            if known and self.data[at + _BTH] & _NEGATIVE:
                number = min(-number, -1)
            self.found[row] = number


@cython.cclass
class NewPairs:
    """Which packets are the first from their sender to their receiver? Feed windows in order."""

    def __init__(self, most: int) -> None:
        """`most`: pairs that are remembered; no further one counts as new."""
        self.most, self.count = most, 0
        places: i64 = 8
        while places < 2 * most:
            places *= 2
        self.mask = places - 1
        self.table = memoryview(array("q"))

    def feed(self, data: Any, columns: dict[str, Any]) -> list[int]:
        """Rows of the first packets of new pairs, and all rows with a MAD: its header does not say which way a directed route goes.

        Where headers start, int64[n], -1 where a row has none: bth, lrh, grh, ip4, ip6, mad.
        """
        self.data = memoryview(data)
        self.bth, self.mads, self.lrh = memoryview(columns["bth"]), memoryview(columns["mad"]), memoryview(columns["lrh"])
        self.grh, self.ip4, self.ip6 = memoryview(columns["grh"]), memoryview(columns["ip4"]), memoryview(columns["ip6"])
        if not len(self.table):
            self.table = memoryview(array("q", bytes(8 * (self.mask + 1))))
        found: list[int] = []
        last: i64 = 0
        row: cython.Py_ssize_t
        for row in range(len(self.bth)):
            if self.bth[row] < 0:
                continue
            if self.mads[row] >= 0:
                found.append(row)
                continue
            key: i64 = self.pair(row)
            if key != last and self.is_new(key):
                found.append(row)
            last = key
        return found

    @cython.cfunc
    @cython.exceptval(-1)
    def is_new(self, key: i64) -> cython.bint:
        """Whether a pair is seen for the first time, and remembered."""
        at: cython.Py_ssize_t = key & self.mask
        while self.table[at]:
            if self.table[at] == key:
                return False
            at = (at + 1) & self.mask
        if self.count >= self.most:
            return False
        self.count += 1
        self.table[at] = key
        return True

    @cython.cfunc
    @cython.exceptval(-1)
    def pair(self, row: cython.Py_ssize_t) -> i64:
        """A hash of the addresses that identify both ends, never 0; without addresses 1."""
        if self.lrh[row] >= 0:
            return mix(b16(self.data, self.lrh[row] + _SLID) << 16 | b16(self.data, self.lrh[row] + _DLID), 2) & _POSITIVE | 1
        if self.grh[row] >= 0:
            return self.of_gids(self.grh[row] + _SGID, self.grh[row] + _DGID)
        if self.ip4[row] >= 0:
            source: u64 = b32(self.data, self.ip4[row] + _SOURCE4)
            return mix(source << 32 | b32(self.data, self.ip4[row] + _DESTINATION4), 4) & _POSITIVE | 1
        if self.ip6[row] >= 0:
            return self.of_gids(self.ip6[row] + _SOURCE6, self.ip6[row] + _DESTINATION6)
        return 1

    @cython.cfunc
    @cython.exceptval(-1)
    def of_gids(self, source: cython.Py_ssize_t, destination: cython.Py_ssize_t) -> i64:
        """A hash of two GIDs or IPv6 addresses."""
        h: u64 = hashed(self.data, source, source + _GID, 0)
        return hashed(self.data, destination, destination + _GID, h) & _POSITIVE | 1


@cython.final
@cython.cclass
class NewConnections(NewPairs):
    """Which packets of connections are the first from their source port to their queue pair? Feed windows in order.

    What was seen is forgotten, all at once, before there is no room for the connections of a window: then some are new again.
    """

    def feed(self, data: Any, columns: dict[str, Any]) -> list[int]:
        """Rows of the first packets. Where headers start, int64[n], -1 where a row has none: bth, udp, lrh, grh, ip4, ip6; networks."""
        self.data, self.bth, self.udp = memoryview(data), memoryview(columns["bth"]), memoryview(columns["udp"])
        self.lrh, self.networks = memoryview(columns["lrh"]), memoryview(columns["networks"])
        self.grh, self.ip4, self.ip6 = memoryview(columns["grh"]), memoryview(columns["ip4"]), memoryview(columns["ip6"])
        if not len(self.table) or self.count + len(self.bth) > self.most:
            self.table, self.count = memoryview(array("q", bytes(8 * (self.mask + 1)))), 0
        found: list[int] = []
        last: i64 = 0
        row: cython.Py_ssize_t
        for row in range(len(self.bth)):
            at: cython.Py_ssize_t = self.bth[row]
            if at < 0 or self.udp[row] < 0 or not _CONNECTED >> (self.data[at] >> 5) & 1:
                continue
            qpn: i64 = b24(self.data, at + _QPN)
            if qpn <= _SPECIAL_QP:
                continue
            ends: u64 = self.pair(row) ^ self.networks[row]
            key: i64 = mix(ends, b16(self.data, self.udp[row] + _PORT) << 24 | qpn) & _POSITIVE | 1
            if key != last and self.is_new(key):
                found.append(row)
            last = key
        return found
