"""Who sent a packet to whom, as text: LIDs, GIDs or IP addresses."""

from __future__ import annotations

from ibdissect.table.table import ChunkTable
from ibdissect.wire.text import gid_text

from .events import Ends

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


def ends_of(table: ChunkTable, row: int, service: str, dest_qp: int, response: bool) -> Ends:
    """The two ends of the stream that a row belongs to."""
    return Ends(service, *addresses_of(table, row), dest_qp, response)


def _text(value: bytes) -> str:
    if len(value) == 2:
        return f"LID {int.from_bytes(value, 'big')}"
    return ".".join(map(str, value)) if len(value) == 4 else gid_text(value)
