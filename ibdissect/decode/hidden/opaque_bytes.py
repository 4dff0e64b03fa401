"""Bytes of a frame that may be a key, or part of one, and that no structure shows.

A structure with a key that belongs to a place but does not fit there, because the frame or a length ends too early; data of a MAD beside
the structures of its attribute; fields that cannot be read to their end (`insides`); private data that nothing explains (`private_data`).
Messages of several packets have a module of their own (`cut_messages`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct as Record

from ibdissect.capture.gather import Bytes
from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.numbers import SA_CLASS
from ibdissect.wire.places import Parsed, Place, TcpPort, UdpPort
from ibdissect.wire.sa import SARecordPiece
from ibdissect.wire.tail import Laid

from ..bit_fields import any_set
from ..find_structures import room_at
from ..ignored_data import attribute_bytes
from ..inner_structures import holds_key
from ..locate import Int
from ..occurrences import Occurrences, merged
from ..tcp_segments import segments_of
from .cut_messages import behind_packets, of_other_types
from .key_like_payloads import alike, carried
from .private_data import unexplained
from .unreadable_fields import unread_insides

if TYPE_CHECKING:
    from ..chunk_table import ChunkTable

def opaque_pieces(table: ChunkTable) -> Occurrences:
    """Such bytes, without those that are zero, in the order of their starts. Call as `table.once(opaque_pieces)`."""
    parts = [*_unplaced(table), *_uncovered(table), *unread_insides(table), *unexplained(table), *of_other_types(table)]
    found = merged([*parts, *behind_packets(table), *alike(table), carried(table)])
    found = found.pick(np.argsort(found.at, kind="stable"))
    there = [table.chunk.data[a:b].any() for a, b in zip(found.at.tolist(), found.stop.tolist(), strict=True)]
    return found.pick(np.array(there, np.bool_))


def _unplaced(table: ChunkTable) -> Iterator[Occurrences]:
    """What is where a structure with a key belongs that does not fit."""
    for struct, place in _with_keys(table.catalog):
        found = room_at(table, place)
        if isinstance(place, UdpPort):  # a length that is too short leaves bytes behind it
            room = Occurrences(found.rows, found.at, (table.chunk.offset + table.chunk.caplen)[found.rows])
            yield _gaps(table.chunk.data, room, _within(table, table.occurrences(struct), found.rows))
            continue
        yield found.pick(found.at + struct.size > found.stop)
        if isinstance(place, TcpPort):
            yield segments_of(table, place.port).unread


@lru_cache(maxsize=8)
def _with_keys(catalog: Catalog) -> list[tuple[StructType, Place]]:
    """The structures with a key that have a place of their own, and these places."""
    return [(struct, place) for place, struct in catalog.others if not isinstance(place, Laid | Parsed) and holds_key(catalog, struct)]


def _uncovered(table: ChunkTable) -> Iterator[Occurrences]:
    """The data of a MAD beside the structures of its attribute, if one of them holds a key. Such a structure may lie there: of a record
    that lengths, an offset, a segment's number or type leave out, of an answer that failed, of a method that has none, or left over from an
    earlier packet. Data that nobody reads (`unread`) and pieces of records have their own modules."""
    for (mgmt_class, attribute), rows in table.attributes().items():
        structs = _structs(table.catalog, mgmt_class, attribute)
        if any(holds_key(table.catalog, struct) for struct in structs):
            parts = [attribute_bytes(table, rows)]
            parts += [_within(table, table.occurrences(struct), rows) for struct in structs]
            yield _gaps(table.chunk.data, *parts)


def _within(table: ChunkTable, found: Occurrences, rows: Int) -> Occurrences:
    """The occurrences that lie in these rows, without those that were put together from several packets."""
    return found.pick((found.at < table.window) & np.isin(found.rows, rows))


def _structs(catalog: Catalog, mgmt_class: int, attribute: int) -> list[StructType]:
    """The structures of an attribute, also those that vendors declare, whatever their OUI, and the pieces of records of the SA."""
    structs = [struct for _, struct in catalog.attributes.get((mgmt_class, attribute), ())]
    structs += [one for place, one in catalog.of_vendors if place.mgmt_class == mgmt_class and place.attr_id in (None, attribute)]
    return [*structs, SARecordPiece] if structs and mgmt_class == SA_CLASS else structs


def _gaps(data: Bytes, outer: Occurrences, *inner: Occurrences) -> Occurrences:
    """What is in one of the outer ranges but in none of the inner ones, unless it is zero."""
    at, stop = outer.at, np.maximum(outer.at, outer.stop)
    edges = np.concatenate([at, stop, *(one.at for one in inner)])
    ends = np.concatenate([at, stop, *(one.stop for one in inner)])
    rows = np.concatenate([outer.rows, outer.rows, *(one.rows for one in inner)])
    order = np.lexsort((ends, rows, edges))
    edges, ends, rows = edges[order], ends[order], rows[order]
    reached = np.maximum.accumulate(ends)[:-1]
    found = np.flatnonzero((reached < edges[1:]) & (rows[:-1] == rows[1:]))
    found = found[any_set(data, reached[found], edges[1:][found])]
    return Occurrences(rows[found], reached[found], edges[1:][found])


class Masks(Record, frozen=True, eq=False):
    """Opaque pieces to look up by place: disjoint and ascending."""

    at: list[int]
    stop: list[int]

    def within(self, begin: int, end: int) -> tuple[tuple[int, int], ...]:
        """The parts of data[begin:end] that are opaque, counted from `begin`."""
        found = []
        for i in range(bisect_right(self.stop, begin), len(self.at)):
            if self.at[i] >= end:
                break
            found.append((max(self.at[i] - begin, 0), min(self.stop[i], end) - begin))
        return tuple(found)


def masks(table: ChunkTable) -> Masks | None:
    """The opaque pieces of a chunk; None if there are none, as in most. Call as `table.once(masks)`."""
    found = table.once(opaque_pieces)
    if not len(found):
        return None
    at, stop = found.at, found.stop
    ends = np.maximum.accumulate(stop)
    new = np.append(True, at[1:] > ends[:-1])
    return Masks(at[new].tolist(), ends[np.append(np.flatnonzero(new)[1:] - 1, len(at) - 1)].tolist())
