# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""Repeated sightings: hashes of bytes, numbers that senders put into their packets, new numbers, contents judged before."""

from __future__ import annotations

from array import array
from typing import Any

from ibdissect.wire.encapsulation import IPv4
from ibdissect.wire.headers import AETH, BTH, RNR
from ibdissect.wire.mad import BASE_VERSION_IB, MAD, MAD_SIZE
from ibdissect.wire.opcodes import ACKNOWLEDGE, OPERATION
from ibdissect.wire.spec import Field

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import b16, b32, hashed, i64, mix, u64
else:
    from .common import b16, b32, hashed, i64, mix, u64

_FIRST = 1 << 10
"""Places of `Judged` at first: small captures need no more."""


def _at(field: Field[Any]) -> int:
    return field.bit // 8


_SOURCE4 = cython.declare(cython.Py_ssize_t, _at(IPv4.source))
_IDENTIFICATION = cython.declare(cython.Py_ssize_t, _at(IPv4.identification))
_BTH = cython.declare(cython.Py_ssize_t, BTH.size)
_WITH_AETH = cython.declare(cython.Py_ssize_t, BTH.size + AETH.size)
_OPERATION = cython.declare(cython.int, OPERATION)
_ACKNOWLEDGE = cython.declare(cython.int, ACKNOWLEDGE)
_NEGATIVE = cython.declare(cython.int, RNR << 5)  # the bit that RNR NAKs and NAKs have
_PSN = cython.declare(cython.Py_ssize_t, BTH.psn.span[0])
_BEHIND_PSN = cython.declare(cython.Py_ssize_t, BTH.psn.span[1])
_TRANSACTION = cython.declare(cython.Py_ssize_t, MAD.transaction_id.span[0])
_BEHIND_TRANSACTION = cython.declare(cython.Py_ssize_t, MAD.transaction_id.span[1])
_MAD = cython.declare(cython.Py_ssize_t, MAD_SIZE[BASE_VERSION_IB])
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

    def packets(self, rows: Any, lrh: Any, bth: Any, mad: Any, found: Any) -> None:
        """A hash of each native packet with a MAD, from its LRH to the end of the MAD but for PSN and transaction id, into `found`.

        All by row, int64[n]; of `rows` alone. None is 0 or negative.
        """
        self.places, self.found = memoryview(rows), memoryview(found)
        self.lrh, self.bth, self.mads = memoryview(lrh), memoryview(bth), memoryview(mad)
        i: cython.Py_ssize_t
        for i in range(len(self.places)):
            row: cython.Py_ssize_t = self.places[i]
            transport: cython.Py_ssize_t = self.bth[row]
            start: cython.Py_ssize_t = self.mads[row]
            h: u64 = hashed(self.data, self.lrh[row], transport + _PSN, 0)
            h = hashed(self.data, transport + _BEHIND_PSN, start + _TRANSACTION, h)
            h = hashed(self.data, start + _BEHIND_TRANSACTION, start + _MAD, h)
            self.found[row] = h & _POSITIVE | 1


@cython.final
@cython.cclass
class Judged:
    """Which contents are left to judge? Those that were not judged before, and those that were blamed; all others were found in order.

    Contents are known by their hashes, positive numbers; 0 stands for one that is judged in any case.
    """

    def __init__(self, most: int) -> None:
        """`most`: contents that are remembered; before a further one all are forgotten."""
        self.most = most
        self.forget()

    def forget(self) -> None:
        """Remember nothing."""
        self.count, self.mask = 0, _FIRST - 1
        self.table = self.earlier = memoryview(array("q", bytes(8 * _FIRST)))

    def left(self, contents: Any, found: Any) -> None:
        """Mark in `found`, uint8[n] of zeros, which of the contents, int64[n], are left. They are known from then on, unless blamed."""
        self.contents, self.found = memoryview(contents), memoryview(found)
        i: cython.Py_ssize_t
        new: cython.Py_ssize_t = 0
        for i in range(len(self.contents)):
            content: i64 = self.contents[i]
            if not content or self.table[self.place(content)] != content:
                self.found[i] = 1
                new += content != 0
        if not new:
            return
        if self.count + new > self.most:
            self.forget()
        self.make_room(new)
        for i in range(len(self.contents)):
            if self.found[i] and self.contents[i] and self.count < self.most:
                self.remember(self.contents[i])

    def blame(self, contents: Any) -> None:
        """Some contents are at fault: judge them whenever they are seen."""
        self.contents = memoryview(contents)
        i: cython.Py_ssize_t
        for i in range(len(self.contents)):
            at: cython.Py_ssize_t = self.place(self.contents[i])
            if self.table[at] > 0:
                self.table[at] = -self.table[at]

    def make_room(self, new: cython.Py_ssize_t) -> cython.int:
        """Make the table larger if so many further contents fill more than half of it."""
        places: cython.Py_ssize_t = self.mask + 1
        wanted: cython.Py_ssize_t = min(self.count + new, self.most)
        while places < 2 * wanted:
            places *= 2
        if places == self.mask + 1:
            return 0
        self.earlier = self.table
        self.count, self.mask, self.table = 0, places - 1, memoryview(array("q", bytes(8 * places)))
        i: cython.Py_ssize_t
        for i in range(len(self.earlier)):
            if self.earlier[i]:
                self.remember(self.earlier[i])
        self.earlier = self.table
        return 0

    def remember(self, content: i64) -> cython.int:
        """Take a place for a content if it has none; negative: one that was blamed."""
        at: cython.Py_ssize_t = self.place(abs(content))
        if not self.table[at]:
            self.table[at] = content
            self.count += 1
        return 0

    def place(self, content: i64) -> cython.Py_ssize_t:
        """Where a content is, negative if it was blamed, or where it would be: half of all places are free."""
        at: cython.Py_ssize_t = content & self.mask
        while self.table[at] and self.table[at] != content and self.table[at] != -content:
            at = (at + 1) & self.mask
        return at


@cython.final
@cython.cclass
class IPv4Senders:
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


@cython.final
@cython.cclass
class NewNumbers:
    """Which numbers are new? Feed columns in order."""

    def __init__(self, most: int) -> None:
        """`most`: numbers that are remembered; no further one counts as new."""
        self.most, self.count = most, 0
        places: i64 = 8
        while places < 2 * most:
            places *= 2
        self.mask = places - 1
        self.table = memoryview(array("q"))

    def feed(self, numbers: Any, renewed: bool = False) -> list[int]:
        """Where the new ones stand in a column, int64[n]. `renewed`: all are forgotten first where there is no room for as many."""
        self.numbers = memoryview(numbers)
        if not len(self.table) or (renewed and self.count + len(self.numbers) > self.most):
            self.table, self.count = memoryview(array("q", bytes(8 * (self.mask + 1)))), 0
        found: list[int] = []
        last: i64 = 0
        i: cython.Py_ssize_t
        for i in range(len(self.numbers)):
            number: i64 = self.numbers[i] or 1
            if number != last and self.is_new(number):
                found.append(i)
            last = number
        return found

    def is_new(self, number: i64) -> cython.bint:
        """Whether a number is seen for the first time, and remembered."""
        at: cython.Py_ssize_t = mix(number, 0) & self.mask
        while self.table[at]:
            if self.table[at] == number:
                return False
            at = (at + 1) & self.mask
        if self.count >= self.most:
            return False
        self.count += 1
        self.table[at] = number
        return True
