"""Who sent a packet to whom, as text: LIDs, GIDs or IP addresses."""

from __future__ import annotations

from ibdissect.table.addresses import address_text, way_of
from ibdissect.table.addresses import ways_of as raw_ways_of
from ibdissect.table.locate import Int
from ibdissect.table.table import ChunkTable


def addresses_of(table: ChunkTable, row: int) -> tuple[str, str]:
    """Source and destination of a row; empty where it has neither."""
    way = way_of(table, row)
    return (address_text(way[0]), address_text(way[1])) if way is not None else ("", "")


def ways_of(table: ChunkTable, rows: Int) -> list[tuple[str, str]]:
    """The same of many rows."""
    ways = raw_ways_of(table, rows)
    texts = {address: address_text(address) if address else "" for way in ways for address in way}
    return [(texts[near], texts[far]) for near, far in ways]
