"""Where are the numbers of one kind in a chunk, and how are they replaced?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ibdissect.capture.scattered import Bytes, gather
from ibdissect.table import Bool, Int
from ibdissect.table.rows import U64

from .substitutes import MGID_SIGNATURES, Lids, Numbers


@dataclass(frozen=True, slots=True)
class Spot:
    """Numbers of one kind in whole bytes: their offsets in the chunk's data, and their values."""

    at: Int
    bits: int
    values: U64


class Replacement(NamedTuple):
    """One kind of number: the substitutes, and which values stay."""

    numbers: Numbers
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


def integers(rows: Bytes) -> U64:
    """Big-endian numbers of up to eight bytes."""
    wide = np.zeros((len(rows), 8), np.uint8)
    wide[:, 8 - rows.shape[1] :] = rows
    return wide.view(">u8").ravel().astype(np.uint64)


def learn(numbers: Numbers | Lids, found: Iterable[tuple[Int, U64]]) -> None:
    """Learn the values of a chunk in byte order."""
    pieces = list(found)
    if not pieces:
        return
    at, values = (np.concatenate(part) for part in zip(*pieces, strict=True))
    values = values[np.argsort(at, kind="stable")]
    unique, first = np.unique(values, return_index=True)
    numbers.learn(unique[np.argsort(first)].tolist())


def replace(data: Bytes, spot: Spot, keep: Bool, numbers: Numbers | Lids) -> None:
    """Write the substitutes of the values selected by `keep`."""
    unique, which = np.unique(spot.values[keep], return_inverse=True)
    new = np.array([numbers[value] for value in unique.tolist()], np.uint64)[which]
    size = spot.bits // 8
    data[spot.at[keep][:, None] + np.arange(size)] = new.astype(">u8").view(np.uint8).reshape(len(new), 8)[:, 8 - size :]


def mark(data: Bytes, at: Int, mask: Bytes) -> None:
    """Set the last bit of `mask` at each offset where none of its bits is set."""
    rows = gather(data, at, len(mask))
    empty = at[~(rows & mask).any(axis=1)]
    last = int(np.flatnonzero(mask)[-1])
    data[empty + last] |= np.uint8(int(mask[last]) & -int(mask[last]))
