"""Places of the numbers of one kind in a chunk, and their replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ibdissect.capture.gather import Bytes, gather
from ibdissect.decode import Bool, Int
from ibdissect.decode.equal_rows import U64
from ibdissect.wire.cm_names import IPOIB_CM_MASK, IPOIB_CM_PREFIX

from .substitutes import MGID_SIGNATURES, Lids, NumberedSubstitutes

WIDE = 1 << 40
"""Service ids from here on may be a GUID; protocols have smaller ones, and that of IPoIB connected mode."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Numbers of one kind: the offsets of their first bytes in the chunk's data, and their values."""

    at: Int
    bits: int
    values: U64
    """What the substitute is of, which may be more than stands there."""
    low: int = 0
    """Bits of the last byte below the number."""


class Replacement(NamedTuple):
    """One kind of number: the substitutes, and which values stay."""

    numbers: NumberedSubstitutes
    special: Callable[[U64], Bool]


def gids(at: Int, rows: Bytes) -> Iterator[tuple[str, Spot]]:
    """The parts of GIDs that are replaced separately: prefix and GUID, mapped IPv4 address, multicast group."""
    high, low = (np.ascontiguousarray(rows[:, part]).view(">u8").ravel().astype(np.uint64) for part in (slice(0, 8), slice(8, 16)))
    multicast = high >> 56 == 0xFF
    mapped = (high == 0) & ((low >> 32 == 0xFFFF) | ((low >> 32 == 0) & (low > 1)))
    unicast = ~multicast & ~mapped & ~((high == 0) & (low <= 1))
    of_site = multicast & ~np.isin(high >> 32 & 0xFFFF, list(MGID_SIGNATURES)) | (multicast & (high & 0xFFFF != 0))
    yield "prefix", Spot(at[unicast], 64, high[unicast])
    yield "guid", Spot(at[unicast] + 8, 64, low[unicast])
    yield "ip4", Spot(at[mapped] + 12, 32, low[mapped] & 0xFFFFFFFF)
    yield "group", Spot(at[multicast] + 8, 64, low[multicast])
    yield "site", Spot(at[of_site], 64, high[of_site])


SITE_LOCAL = np.uint64(0xFEC0 << 48)


def services(at: Int, values: U64) -> Iterator[tuple[str, Spot]]:
    """The parts of service ids that are replaced: the QPN of IPoIB connected mode, and ids that are a GUID. Ids of protocols stay."""
    of_qp = values & np.uint64(IPOIB_CM_MASK) == IPOIB_CM_PREFIX
    wide = ~of_qp & (values >= WIDE)
    yield "qpn", Spot(at[of_qp] + 5, 24, values[of_qp] & np.uint64(0xFFFFFF))
    yield "guid", Spot(at[wide], 64, values[wide])


def site_prefixes(at: Int, values: U64) -> Spot:
    """The last 16 bits of site-local subnet prefixes (IBA 4.1.1): those of the whole prefix's substitute; 0 for no subnet stays."""
    return Spot(at, 16, np.where(values != 0, values | SITE_LOCAL, values))


def integers(rows: Bytes) -> U64:
    """Big-endian numbers of up to eight bytes."""
    wide = np.zeros((len(rows), 8), np.uint8)
    wide[:, 8 - rows.shape[1] :] = rows
    return wide.view(">u8").ravel().astype(np.uint64)


def learn(numbers: NumberedSubstitutes | Lids, found: Iterable[tuple[Int, U64]]) -> None:
    """Learn the values of a chunk in byte order."""
    pieces = list(found)
    if not pieces:
        return
    at, values = (np.concatenate(part) for part in zip(*pieces, strict=True))
    values = values[np.argsort(at, kind="stable")]
    unique, first = np.unique(values, return_index=True)
    numbers.learn(unique[np.argsort(first)].tolist())


def replace(data: Bytes, spot: Spot, keep: Bool, numbers: NumberedSubstitutes | Lids) -> None:
    """Write the substitutes of the values selected by `keep`."""
    unique, which = np.unique(spot.values[keep], return_inverse=True)
    new = np.array([numbers[value] for value in unique.tolist()], np.uint64)[which]
    size = (spot.bits + spot.low + 7) // 8
    index = spot.at[keep][:, None] + np.arange(size)
    if spot.bits % 8 or spot.low:
        mask = np.uint64(((1 << spot.bits) - 1) << spot.low)
        new = integers(data[index]) & ~mask | new << np.uint64(spot.low) & mask
    data[index] = new.astype(">u8").view(np.uint8).reshape(len(new), 8)[:, 8 - size :]


def mark(data: Bytes, at: Int, mask: Bytes) -> None:
    """Set the last bit of `mask` at each offset where none of its bits is set."""
    rows = gather(data, at, len(mask))
    empty = at[~(rows & mask).any(axis=1)]
    last = int(np.flatnonzero(mask)[-1])
    data[empty + last] |= np.uint8(int(mask[last]) & -int(mask[last]))
