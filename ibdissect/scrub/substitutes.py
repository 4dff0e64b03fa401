"""What stands in place of an identity? The next free substitute of its kind, by first appearance: it says nothing of the value.

Every map keeps what rules look at: zero, broadcast and permissive values, the class of an address, equality. No map computes
a substitute from the value, which could be guessed back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.table.secrets import PUBLIC

U64 = npt.NDArray[np.uint64]
Bool = npt.NDArray[np.bool_]

LINK_LOCAL, ALL_ONES = 0xFE80_0000_0000_0000, (1 << 64) - 1
MGID_SIGNATURES = frozenset({0, 0x401B, 0x601B, 0xA01B})
"""Bits 47-32 of the upper half of a multicast GID: none, IPoIB over IPv4 and IPv6 (RFC 4391), and what OpenSM makes for others."""
WELL_KNOWN = 0xFF
"""Group numbers up to here are assigned by standards and say nothing about a site."""
GROUP = 8
"""LIDs that keep their order: a port has up to 2**LMC of them in a row, and its base LID keeps zeros at the end."""
BLOCK = 64
"""LIDs of one block of a forwarding table; a LID stays in its block."""
LIDS_16, LIDS_32 = 0xC000, 0xF000_0000
"""Behind the unicast LIDs, of 16 bits and of 32."""
_TARGETS = (5, 2, 7, 4, 1, 6, 3, 0)
"""In which order the groups of a block are handed out."""
HOSTS = 254


class Numbers:
    """Substitutes for values that are no class of their own: `make(number, value)` for the n-th new one, from 1."""

    def __init__(self, make: Callable[[int, Any], Any]) -> None:
        self._make, self._known = make, dict[Any, Any]()

    def learn(self, values: Iterable[Any]) -> None:
        """Take in values in the order of their appearance."""
        known = self._known
        for value in values:
            if value not in known:
                known[value] = self._make(len(known) + 1, value)

    def __getitem__(self, value: Any) -> Any:
        return self._known[value]


class Lids:
    """A permutation of the groups of eight LIDs inside each block of 64."""

    def __init__(self) -> None:
        self._group: dict[int, int] = {}
        self._used: dict[int, set[int]] = {}

    def learn(self, values: Iterable[int]) -> None:
        """Take in unicast LIDs in the order of their appearance."""
        for value in values:
            group = value // GROUP
            if group in self._group:
                continue
            block, own = divmod(group, BLOCK // GROUP)
            used = self._used.setdefault(block, {0} if block == 0 else set())
            # LID 0 is nobody's: the first group of all stays where it is. Others move, as long as there is room.
            free = [target for target in _TARGETS if target not in used]
            target = 0 if group == 0 else next((t for t in free if t != own), free[0])
            used.add(target)
            self._group[group] = block * (BLOCK // GROUP) + target

    def __getitem__(self, value: int) -> int:
        return self._group[value // GROUP] * GROUP + value % GROUP


def unicast_lids(values: U64, bits: int) -> Bool:
    """Which values of LID fields of 16 or 32 bits are LIDs of ports."""
    small: Bool = (values > 0) & (values < LIDS_16)
    return small if bits == 16 else small | ((values > 0xFFFF) & (values < LIDS_32))


def special_guids(values: U64) -> Bool:
    """Which GUIDs are nobody's."""
    found: Bool = (values == 0) | (values == ALL_ONES)
    return found


def guid(number: int, _value: int) -> int:
    """A locally administered EUI-64."""
    return 0x0200 << 48 | number


def prefix(number: int, value: int) -> int:
    """A subnet prefix of the same class: link-local, site-local, or one from the documentation range."""
    if value >> 54 in (0xFE80 >> 6, 0xFEC0 >> 6):
        return value >> 48 << 48 | number
    return 0x2001_0DB8 << 32 | number


def special_prefixes(values: U64) -> Bool:
    """Which subnet prefixes everybody uses."""
    found: Bool = (values == 0) | (values == LINK_LOCAL) | (values == ALL_ONES)
    return found


def qpn(number: int, _value: int) -> int:
    """A queue pair number of applications."""
    return 0xFF + number


def special_qpns(values: U64) -> Bool:
    """QP0, QP1 and the multicast number."""
    found: Bool = (values <= 1) | (values == 0xFFFFFF)
    return found


def key(number: int, value: int) -> int:
    """The number under which the key is masked elsewhere."""
    return number


def q_key(number: int, value: int) -> int:
    """The same; bit 31, which makes a Q_Key a privileged one, stays."""
    return (value & 0x8000_0000) | number


def special_keys(kind: str, values: npt.NDArray[Any]) -> Bool:
    """Zero is no key, and some values everybody knows."""
    public: Bool = np.isin(values, np.array([0, *PUBLIC.get(kind, ())], values.dtype))
    return public


def ip4(number: int, value: int) -> int:
    """An address of the same class: multicast, link-local, or a private one."""
    if value >> 28 == 0xE:
        return 0xEF00_0000 | number + WELL_KNOWN
    net, host = divmod(number - 1, HOSTS)
    return (0xA9FE_0000 if value >> 16 == 0xA9FE else 0x0A00_0000) | net << 8 | host + 1


def special_ip4(values: U64) -> Bool:
    """Unspecified, broadcast, loopback and the groups that standards assigned."""
    found: Bool = (values == 0) | (values == 0xFFFF_FFFF) | (values >> 24 == 127) | (values >> 8 == 0xE0_0000)
    return found


def mac(number: int, value: int) -> int:
    """A locally administered address; a group address of the same kind."""
    if value >> 24 == 0x01005E:
        return 0x01005E << 24 | number + WELL_KNOWN
    if value >> 32 == 0x3333:
        return 0x3333 << 32 | number + WELL_KNOWN
    return (0x0300 if value >> 40 & 1 else 0x0200) << 32 | number


def special_macs(values: U64) -> Bool:
    """None, broadcast, and the groups that standards assigned."""
    group = (values >> 24 == 0x01005E) & (values & 0xFFFFFF <= WELL_KNOWN) | (values >> 32 == 0x3333) & (values & 0xFFFF_FFFF <= WELL_KNOWN)
    found: Bool = (values == 0) | (values == (1 << 48) - 1) | (values >> 24 == 0x0180C2) | group
    return found


def group_id(number: int, value: int) -> int:
    """The lower half of a multicast GID; of a solicited-node group (RFC 4291 2.7.1) the part that is not an address stays."""
    if value >> 24 == 0x1FF:
        return 0x1FF << 24 | number + WELL_KNOWN
    return number + WELL_KNOWN


def special_groups(values: U64) -> Bool:
    """Groups that standards assigned, and broadcast."""
    found: Bool = (values <= WELL_KNOWN) | (values == 0xFFFF_FFFF)
    return found


def text(number: int, value: tuple[str, bytes]) -> bytes:
    """`node_string 3` for the third text; one that was no UTF-8 is none again."""
    name, data = value
    try:
        data.decode()
    except UnicodeDecodeError:
        return f"{name} {number} ".encode() + b"\xff"
    return f"{name} {number}".encode()
