"""Who sent a packet to whom, as text: LIDs, GIDs or IP addresses."""

from __future__ import annotations

import numpy as np

from ibdissect.table.locate import Int
from ibdissect.table.table import ChunkTable
from ibdissect.wire.text import gid_text

_PLACES = (("lrh", 6, 2, 2), ("grh", 8, 24, 16), ("ip4", 12, 16, 4), ("ip6", 8, 24, 16))
"""Header, offset of source and destination, size; the first one present counts."""


def addresses_of(table: ChunkTable, row: int) -> tuple[str, str]:
    """Source and destination of a row; empty where it has neither."""
    start, data = table.located.start, table.chunk.data
    for name, source, destination, size in _PLACES:
        at = int(start[name][row]) if name in start else -1
        if at >= 0:
            near, far = (data[at + where : at + where + size].tobytes() for where in (source, destination))
            return _text(near), _text(far)
    return "", ""


def ways_of(table: ChunkTable, rows: Int) -> list[tuple[str, str]]:
    """The same of many rows."""
    start, found = table.located.start, [("", "")] * len(rows)
    left = np.arange(len(rows))
    texts: dict[bytes, str] = {}
    for name, source, destination, size in _PLACES:
        if name not in start:
            continue
        at = start[name][rows[left]]
        index, at, left = left[at >= 0], at[at >= 0], left[at < 0]
        both = (table.located.front.part(rows[index], at + where, size).tobytes() for where in (source, destination))
        near, far = ([raw[i : i + size] for i in range(0, len(raw), size)] for raw in both)
        for address in {*near, *far}:
            texts[address] = _text(address)
        for i, one, other in zip(index.tolist(), near, far, strict=True):
            found[i] = texts[one], texts[other]
    return found


def _text(value: bytes) -> str:
    if len(value) == 2:
        return f"LID {int.from_bytes(value, 'big')}"
    return ".".join(map(str, value)) if len(value) == 4 else gid_text(value)
