# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""What is seen again? Hashes of the bytes at many places, and pairs of ends that were seen before."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from ibdissect.wire.encapsulation import IPv4, IPv6
from ibdissect.wire.headers import GRH, LRH
from ibdissect.wire.spec import Field

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import hashed, i64, u64
else:
    from .common import hashed

    if TYPE_CHECKING:
        i64 = u64 = int
    else:
        i64 = u64 = None


def _at(field: Field[Any]) -> int:
    return field.bit // 8


_SLID = cython.declare(cython.Py_ssize_t, _at(LRH.slid))
_DLID = cython.declare(cython.Py_ssize_t, _at(LRH.dlid))
_LID = cython.declare(cython.Py_ssize_t, LRH.slid.bits // 8)
_SGID = cython.declare(cython.Py_ssize_t, _at(GRH.sgid))
_DGID = cython.declare(cython.Py_ssize_t, _at(GRH.dgid))
_GID = cython.declare(cython.Py_ssize_t, GRH.sgid.bits // 8)
_SOURCE4 = cython.declare(cython.Py_ssize_t, _at(IPv4.source))
_DESTINATION4 = cython.declare(cython.Py_ssize_t, _at(IPv4.destination))
_IP4 = cython.declare(cython.Py_ssize_t, IPv4.source.bits // 8)
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
            return self.hash(self.lrh[row] + _SLID, self.lrh[row] + _DLID, _LID)
        if self.grh[row] >= 0:
            return self.hash(self.grh[row] + _SGID, self.grh[row] + _DGID, _GID)
        if self.ip4[row] >= 0:
            return self.hash(self.ip4[row] + _SOURCE4, self.ip4[row] + _DESTINATION4, _IP4)
        if self.ip6[row] >= 0:
            return self.hash(self.ip6[row] + _SOURCE6, self.ip6[row] + _DESTINATION6, _GID)
        return 1

    @cython.cfunc
    @cython.exceptval(-1)
    def hash(self, source: cython.Py_ssize_t, destination: cython.Py_ssize_t, size: cython.Py_ssize_t) -> i64:
        """A hash of two addresses of a size."""
        h: u64 = hashed(self.data, source, source + size, 0)
        return hashed(self.data, destination, destination + size, h) & _POSITIVE | 1
