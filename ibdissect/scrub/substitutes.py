"""Substitutes of identities: the next free one of its kind, by first appearance, which reveals nothing about the value.

Every map preserves what rules check: zero, broadcast and permissive values, the class of an address, equality. No substitute is
computed from the value, because that could be reversed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sized
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.decode import Bool
from ibdissect.decode.equal_rows import U64
from ibdissect.decode.hidden.key_numbers import PUBLIC
from ibdissect.errors import CaptureError
from ibdissect.wire.numbers import LINK_LOCAL, MGID_COMPOSED, MGID_IPV4, MGID_IPV6

ALL_ONES = (1 << 64) - 1
MGID_SIGNATURES = frozenset({0, MGID_IPV4, MGID_IPV6, MGID_COMPOSED})
"""Bits 47-32 of the upper half of a multicast GID: zero, IPoIB over IPv4 and IPv6 (RFC 4391), and OpenSM's for other MGIDs."""
MARK = 0x5C72
"""Part of substitutes, so that they are not mistaken for real addresses, which often have small numbers."""
WELL_KNOWN = 0xFF
"""Largest group number assigned by standards; these reveal nothing about a site."""
MAX_KNOWN = 1 << 21
"""Maximum values per kind, which need 400 MB."""
BLOCK = 64
"""LIDs per forwarding table block; a LID stays in its block."""
LIDS_16, LIDS_32 = 0xC000, 0xF000_0000
"""End of the unicast LIDs, for 16 and 32 bits."""


def _room(known: Sized) -> None:
    """Raise CaptureError if a map is full: a substitute must stay the same to the end, so none can be evicted."""
    if len(known) >= MAX_KNOWN:
        raise CaptureError("the capture", f"holds too many different identities of a kind, more than {MAX_KNOWN}", hint="scrub parts of it")


class NumberedSubstitutes:
    """Substitutes made by `make(number, value)`, where `number` counts distinct values from 1."""

    def __init__(self, make: Callable[[int, Any], Any]) -> None:
        self._make, self.known = make, dict[Any, Any]()

    def learn(self, values: Iterable[Any]) -> None:
        """Assign substitutes to new values, in order of appearance."""
        known = self.known
        for value in values:
            if value not in known:
                _room(known)
                known[value] = self._make(len(known) + 1, value)

    def __getitem__(self, value: Any) -> Any:
        return self.known[value]


class Keys(NumberedSubstitutes):
    """Substitutes of keys of up to `bits` bits: the numbers that masked ones show. If two are byte-reversed, so are their substitutes."""

    def __init__(self, bits: int, *, privileged: bool) -> None:
        super().__init__(self._key)
        self.size, self._privileged = (bits + 7) // 8, privileged

    def _key(self, number: int, value: int) -> int:
        twin = self.known.get(self._reversed(value))
        if twin is not None:
            return self._reversed(twin)
        # Bit 31 marks a privileged Q_Key.
        return (value & 0x8000_0000) | number if self._privileged else number

    def _reversed(self, value: int) -> int:
        return int.from_bytes(value.to_bytes(self.size, "big"), "little")


class Lids:
    """A permutation of LIDs inside each block of 64, in units of the 2**LMC LIDs of a port.

    `lmc` is the largest in the capture, `tops` are the values of LinearFDBTop; no LID is moved across one of them.
    """

    def __init__(self, lmc: int = 0, tops: Iterable[int] = ()) -> None:
        self.unit = min(1 << lmc, BLOCK)
        """Number of LIDs that are moved together."""
        self._tops = sorted(set(tops))
        self._place: dict[int, int] = {}
        self._used: dict[int, set[int]] = {}

    def learn(self, values: Iterable[int]) -> None:
        """Assign substitutes to new unicast LIDs, in order of appearance."""
        places = BLOCK // self.unit
        for value in values:
            unit = value // self.unit
            if unit in self._place:
                continue
            first = unit // places * places
            # LID 0 is not a port's, so the first unit stays. Others move if there is a free unit.
            used, side = self._used.setdefault(first, {0} if first == 0 else set()), self._side(unit)
            free = (first + place for place in _order(places) if place not in used and first + place != unit)
            found = 0 if unit == 0 else next((other for other in free if self._side(other) == side), unit)
            used.add(found - first)
            self._place[unit] = found

    def _side(self, unit: int) -> tuple[int, int]:
        """Position of a unit's first and last LID among the tops."""
        return bisect_left(self._tops, unit * self.unit), bisect_left(self._tops, (unit + 1) * self.unit - 1)

    def __getitem__(self, value: int) -> int:
        return self._place[value // self.unit] * self.unit + value % self.unit


class Addresses(NumberedSubstitutes):
    """IPv4 addresses: those with the same first byte, or first three bytes, still share it; multicast stays multicast."""

    def __init__(self) -> None:
        super().__init__(self._substitute)
        self._first: dict[int, int] = {}
        self._nets: dict[int, dict[int, int]] = {}
        self._hosts: dict[int, dict[int, int]] = {}
        self._groups: dict[int, int] = {}

    def _substitute(self, _number: int, value: int) -> int:
        if value >> 28 >= 0xE:
            return 0xEF00_0000 | (MARK << 8) + _numbered(self._groups, value)
        first = _FIRST_BYTES[_numbered(self._first, value >> 24) - 1]
        net = _numbered(self._nets.setdefault(first, {}), value >> 8) - 1
        host = value & 0xFF
        if host not in (0, 0xFF):  # network and broadcast address
            host = _numbered(self._hosts.setdefault(value >> 8, {}), host)
        return first << 24 | net << 8 | host


_FIRST_BYTES: tuple[int, ...] = (*range(126, 0, -1), *range(223, 127, -1), 0)


def _numbered(known: dict[int, int], value: int) -> int:
    """The number of a value, from 1; a new value gets the next number."""
    number: int = known.setdefault(value, len(known) + 1)
    return number


@cache
def _order(places: int) -> tuple[int, ...]:
    """The order in which the units of a block are assigned: scattered, so that consecutive LIDs do not stay consecutive."""
    return tuple((37 * i + 11) % places for i in range(places))


def unicast_lids(values: U64) -> Bool:
    """Which values are unicast LIDs, of 16 or 32 bits."""
    found: Bool = ((values > 0) & (values < LIDS_16)) | ((values > 0xFFFF) & (values < LIDS_32))
    return found


SPECIAL: dict[str, Callable[[U64], Bool]] = {
    "guid": lambda values: (values == 0) | (values == ALL_ONES),
    "prefix": lambda values: (values == 0) | (values == LINK_LOCAL) | (values == ALL_ONES),
    "site": lambda values: np.zeros(len(values), np.bool_),
    "group": lambda values: (values <= WELL_KNOWN) | (values == 0xFFFF_FFFF),
    "qpn": lambda values: (values <= 1) | (values == 0xFFFFFF),
    "ip4": lambda values: (values == 0) | (values == 0xFFFF_FFFF) | (values >> 24 == 127) | (values >> 8 == 0xE0_0000),
    "mac": lambda values: (
        (values == 0) | (values == (1 << 48) - 1) | (values >> 24 == 0x0180C2)
        | (values - (0x01005E << 24) <= WELL_KNOWN) | (values - (0x3333 << 32) <= WELL_KNOWN)  # below, it wraps around
    ),
}  # fmt: skip
"""Which values of a kind stay, as they identify nobody: zero, broadcast, loopback, link-local, QP0 and QP1, standard multicast groups."""


def guid(number: int, _value: int) -> int:
    """A locally administered EUI-64."""
    return 0x025C_7275_6200_0000 | number


def prefix(number: int, value: int) -> int:
    """A subnet prefix of the same class: link-local, site-local, or one from the documentation range."""
    if value >> 54 in (0xFE80 >> 6, 0xFEC0 >> 6):
        return value >> 48 << 48 | (MARK << 16) + number
    return 0x2001_0DB8 << 32 | number


def qpn(number: int, _value: int) -> int:
    """A queue pair number above QP1 and below the multicast QP."""
    found = 0x5C_0000 + number
    return found if found < 0xFF_FFFF else found - 0xFF_FFFF + 2


def special_keys(kind: str, values: npt.NDArray[Any]) -> Bool:
    """Zero (no key) and well-known values."""
    public: Bool = np.isin(values, np.array([0, *PUBLIC.get(kind, ())], values.dtype))
    return public


FIRST_DYNAMIC = 0xC000
"""The first UDP port that RoCE computes from queue pairs (kernel rdma_flow_label_to_udp_sport)."""


def network(bits: int, number: int) -> int:
    """The number of a network; VLAN 1, the default, is no substitute."""
    return number + (bits == 12)


def special_networks(bits: int, values: U64) -> Bool:
    """Zero (none), and VLANs that say nothing: the default one and the reserved one."""
    found: Bool = (values == 0) | ((bits == 12) & ((values == 1) | (values == 0xFFF)))
    return found


def port(number: int, known: Iterable[int]) -> int:
    """A port from 49152 on that none of the `known` protocols has."""
    found = FIRST_DYNAMIC + number - 1
    for one in sorted(known):
        found += FIRST_DYNAMIC <= one <= found
    return found


def mac(number: int, value: int) -> int:
    """A locally administered address, or a group address of the same kind."""
    if value >> 24 == 0x01005E:
        return 0x01005E << 24 | (MARK << 8) + number
    if value >> 32 == 0x3333:
        return 0x3333 << 32 | (MARK << 16) + number
    return (0x035C_72 if value >> 40 & 1 else 0x025C_72) << 24 | number


def group_id(number: int, value: int) -> int:
    """The lower half of a multicast GID; a solicited-node group (RFC 4291 2.7.1) stays one."""
    if value >> 24 == 0x1FF:
        return 0x1FF << 24 | (MARK << 8) + number
    return (MARK << 16) + number


def site(number: int, value: int) -> int:
    """The upper half of a multicast GID that contains a subnet prefix: flags and scope stay."""
    return value >> 48 << 48 | (MARK << 16) + number


def text(number: int, value: tuple[str, bytes]) -> bytes:
    """`node_string 3` for the third text; invalid UTF-8 stays invalid."""
    name, data = value
    try:
        data.decode()
    except UnicodeDecodeError:
        return f"{name} {number} ".encode() + b"\xff"
    return f"{name} {number}".encode()
