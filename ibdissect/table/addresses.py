"""Who sent a packet to whom, as the headers have it: LIDs, GIDs or IP addresses?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ibdissect.wire.text import gid_text

from .locate import Int

if TYPE_CHECKING:
    from .table import ChunkTable

PLACES = (("lrh", 6, 2, 2), ("grh", 8, 24, 16), ("ip4", 12, 16, 4), ("ip6", 8, 24, 16))
"""Header, offset of source and destination, size."""
Way = tuple[bytes, bytes]
"""Source and destination: two bytes are a LID, four an IPv4 address, sixteen a GID or IPv6 address."""


def way_of(table: ChunkTable, row: int) -> Way | None:
    """Source and destination of a row by the first of PLACES that it has; None where it has none."""
    start, data = table.located.start, table.chunk.data
    for name, source, destination, size in PLACES:
        at = int(start[name][row]) if name in start else -1
        if at >= 0:
            return data[at + source : at + source + size].tobytes(), data[at + destination : at + destination + size].tobytes()
    return None


def ways_of(table: ChunkTable, rows: Int, places: tuple[tuple[str, int, int, int], ...] = PLACES) -> list[Way]:
    """Source and destination of many rows by the first of `places` that each has; empty where it has none."""
    loc, ways = table.located, [(b"", b"")] * len(rows)
    left = np.arange(len(rows))
    for name, source, destination, size in places:
        if name not in loc.start or not len(left):
            continue
        at = loc.start[name].take(rows[left])
        index, at, left = left[at >= 0], at[at >= 0], left[at < 0]
        both = (loc.front.part(rows[index], at + where, size).tobytes() for where in (source, destination))
        near, far = ([raw[i : i + size] for i in range(0, len(raw), size)] for raw in both)
        for i, way in zip(index.tolist(), zip(near, far, strict=True), strict=True):
            ways[i] = way
    return ways


def address_text(address: bytes) -> str:
    """An address as people write it."""
    if len(address) == 2:
        return f"LID {int.from_bytes(address, 'big')}"
    return ".".join(map(str, address)) if len(address) == 4 else gid_text(address)
