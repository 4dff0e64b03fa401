"""Which bytes of a frame may be a key, or part of one, that no structure shows?

A structure with a key that belongs to a place but does not fit there, because the frame or a length ends too early; the later segments of
an RMPP transfer; fields that cannot be read to their end (`insides`); private data that nothing explains (`private_data`). Messages of
several packets have a module of their own (`cut_messages`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct as Record

from ibdissect.wire.catalog import StructType
from ibdissect.wire.mad import BASE_VERSION_IB, MAD, RMPP, RMPP_CLASSES
from ibdissect.wire.numbers import DM_CLASS, SA_CLASS
from ibdissect.wire.places import Inside, Mad, MadFormat, Parsed, TcpPort
from ibdissect.wire.tail import Laid

from .find_structures import room_at
from .insides import holds_key, unread_insides
from .locate import Int
from .private_data import unexplained
from .sa_tables import holds_data, starts_data
from .tcp_segments import segments_of

if TYPE_CHECKING:
    from .table import ChunkTable

Pieces = tuple[Int, Int, Int]
"""Row, start and end, int64[k] each."""


def opaque_pieces(table: ChunkTable) -> Pieces:
    """Row, start and end of such bytes, without those that are zero, in the order of their starts. Call as `table.once(opaque_pieces)`."""
    parts = [*_unplaced(table), *_later_segments(table), *unread_insides(table), *unexplained(table)]
    rows, at, stop = (np.concatenate([np.empty(0, np.int64), *part]) for part in (zip(*parts, strict=True) if parts else ((), (), ())))
    keep = at < stop
    rows, at, stop = rows[keep], at[keep], stop[keep]
    order = np.argsort(at, kind="stable")
    rows, at, stop = rows[order], at[order], stop[order]
    there = np.array([table.chunk.data[a:b].any() for a, b in zip(at.tolist(), stop.tolist(), strict=True)], np.bool_)
    return rows[there], at[there], stop[there]


def _unplaced(table: ChunkTable) -> Iterator[Pieces]:
    """What is where a structure with a key belongs that does not fit."""
    for struct in table.catalog.structs:
        places = [place for place in struct.carried_by if not isinstance(place, Inside | Laid | Mad | MadFormat | Parsed)]
        if places and holds_key(table.catalog, struct):
            for place in places:
                found = room_at(table, place)
                short = found.at + struct.size > found.stop
                yield found.rows[short], found.at[short], found.stop[short]
                if isinstance(place, TcpPort):
                    unread = segments_of(table, place.port).unread
                    yield unread.rows, unread.at, unread.stop


def _later_segments(table: ChunkTable) -> Iterator[Pieces]:
    """The data of MADs that are not the first segment of their transfer, if the attribute holds a key: it may be anywhere. What a vendor
    declares is shown where it is whole, so its first segments are among them. Those of the SA are SARecordPiece."""
    mad, stop, data = table.located.at("mad"), table.located.payload_end, table.chunk.data
    for (mgmt_class, attribute), rows in table.attributes().items():
        if mgmt_class in RMPP_CLASSES - {SA_CLASS} and _has_key(table, mgmt_class, attribute):
            later = rows[~(holds_data if _of_vendors(table, mgmt_class, attribute) else starts_data)(table, rows)]
            if mgmt_class == DM_CLASS:  # the RMPP header is there only if its version is not 0
                later = later[data[mad[later] + MAD.size + RMPP.rmpp_version.bit // 8] != 0]
            yield later, mad[later] + table.catalog.data_at(mgmt_class, BASE_VERSION_IB), stop[later]


def _has_key(table: ChunkTable, mgmt_class: int, attribute: int) -> bool:
    """Whether any structure of a vendor's attribute holds a key."""
    structs = [struct for _, struct in table.catalog.attributes.get((mgmt_class, attribute), ())]
    structs += _of_vendors(table, mgmt_class, attribute)
    return any(holds_key(table.catalog, struct) for struct in structs)


def _of_vendors(table: ChunkTable, mgmt_class: int, attribute: int) -> list[StructType]:
    """The structures that vendors declare for an attribute, whatever their OUI."""
    return [one for place, one in table.catalog.of_vendors if place.mgmt_class == mgmt_class and place.attr_id in (None, attribute)]


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
    _, at, stop = table.once(opaque_pieces)
    if not len(at):
        return None
    ends = np.maximum.accumulate(stop)
    new = np.append(True, at[1:] > ends[:-1])
    return Masks(at[new].tolist(), ends[np.append(np.flatnonzero(new)[1:] - 1, len(at) - 1)].tolist())
