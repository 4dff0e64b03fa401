"""Occurrences of a structure in a chunk, searched for at its places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ibdissect.capture.gather import looked_up
from ibdissect.engine.offsets import LABELS
from ibdissect.wire import encapsulation, headers
from ibdissect.wire.catalog import StructType
from ibdissect.wire.mad import BASE_VERSION_OPA, MAD, RMPP_CLASSES
from ibdissect.wire.places import Inside, Mad, MadFormat, Parsed
from ibdissect.wire.spec import Field
from ibdissect.wire.tail import Laid

from . import sa_tables
from .hidden.unreadable_fields import readable
from .locate import EXTENDED_AT, EXTENDED_STRUCTS, Bool, Int, around
from .occurrences import NONE, Occurrences, merged
from .payloads import FINDERS
from .places_in_fields import due_in, spans_of

if TYPE_CHECKING:
    from .chunk_table import ChunkTable

HEADERS: dict[StructType, tuple[str, ...]] = {
    encapsulation.OuterEthernet: around("eth"), encapsulation.OuterVLAN: around("vlan", "vlan2", "vlan3"),
    encapsulation.OuterIPv4: around("ip4"), encapsulation.OuterIPv6: around("ip6"),
    encapsulation.OuterUDP: around("udp"), encapsulation.MPLS: around(*LABELS),
    **{struct: around(struct.key) for struct in encapsulation.OF_TUNNELS},
    encapsulation.ERF: ("erf",), encapsulation.Ethernet: ("eth",), encapsulation.VLAN: ("vlan", "vlan2", "vlan3"),
    **{struct: (struct.key, *around(struct.key)) for struct in encapsulation.IP6_EXTENSIONS.values()},
    **{struct: (struct.key,) for struct in (encapsulation.Loopback, encapsulation.PPP, encapsulation.Pause, encapsulation.PriorityPause)},
    encapsulation.SLL: ("sll",), encapsulation.SLL2: ("sll2",), encapsulation.IPv4: ("ip4",), encapsulation.IPv6: ("ip6",),
    encapsulation.UDP: ("udp",), headers.LRH: ("lrh",), headers.RWH: ("rwh",), headers.FlowControl: ("link",), headers.VCRC: ("vcrc",),
    headers.GRH: ("grh",), headers.BTH: ("bth",), headers.ICRC: ("icrc",), headers.Payload: ("payload",), MAD: ("mad",),
}  # fmt: skip
"""Structures that `locate` finds; all others are found through their places."""


def find(table: ChunkTable, struct: StructType) -> Occurrences:
    """Every occurrence of a structure."""
    if struct in HEADERS:
        return merged([_header(table, struct, name) for name in HEADERS[struct]])
    if struct in EXTENDED_STRUCTS:
        return _extended(table, struct)
    there = table.attributes()  # most are absent from most chunks
    parts = [
        at_place(table, struct, place)
        for place in table.catalog.places(struct)
        if type(place) is not Mad or (place.mgmt_class, place.attr_id) in there
    ]
    parts += [_nested(table, struct, field) for field in table.catalog.nesting.get(struct, ())]
    return merged(parts)


def at_place(table: ChunkTable, struct: StructType, place: object) -> Occurrences:
    """The occurrences of a structure at one of its places; none for a place that is not searched."""
    if isinstance(place, MadFormat):
        return _format(table, struct, place)
    if isinstance(place, Mad):
        return _attribute(table, struct, place)
    if isinstance(place, Inside | Laid | Parsed):
        return _inner(table, struct, place)
    found = room_at(table, place)
    return found.pick(found.at + struct.size <= found.stop)


def room_at(table: ChunkTable, place: object) -> Occurrences:
    """The bytes at a place of its own, whether a structure fits into them or not; none for a place inside a MAD or a field."""
    search = FINDERS.get(type(place))
    return search(table, place) if search is not None else NONE


def _header(table: ChunkTable, struct: StructType, name: str) -> Occurrences:
    start = table.located.start.get(name)
    if start is None:
        return NONE
    rows = (start >= 0).nonzero()[0]
    at = start if len(rows) == len(start) else start[rows]
    if name in ("payload", "mad"):
        return Occurrences(rows, at, table.located.payload_end[rows])
    return Occurrences(rows, at, at + struct.size)


def _extended(table: ChunkTable, struct: StructType) -> Occurrences:
    loc = table.located
    bth = loc.start.get("bth")
    if bth is None:
        return NONE
    delta = EXTENDED_AT[EXTENDED_STRUCTS[struct]]
    if not table.once(_opcodes)[delta >= 0].any():
        return NONE
    rows = np.flatnonzero(looked_up(loc.opcode, delta >= 0))
    at = bth[rows]
    stop = at + (delta[loc.opcode[rows]] + (12 + struct.size))
    good = (at >= 0) & (stop <= loc.limit[rows])
    if not good.all():
        rows, stop = rows[good], stop[good]
    return Occurrences(rows, stop - struct.size, stop)


def _opcodes(table: ChunkTable) -> Bool:
    """Which OpCodes a chunk has, bool[256]."""
    return np.bincount(table.located.opcode, minlength=256) > 0


def _format(table: ChunkTable, struct: StructType, place: MadFormat) -> Occurrences:
    parts = []
    for (mgmt_class, attr_id), rows in table.attributes().items():
        if mgmt_class in place.classes and not (place.unclaimed and (mgmt_class, attr_id) in table.catalog.attributes):
            parts.append(_fitting(table, rows, table.located.at("mad")[rows], struct, place.base_version))
    return merged(parts)


def _attribute(table: ChunkTable, struct: StructType, place: Mad) -> Occurrences:
    rows = table.attributes().get((place.mgmt_class, place.attr_id))
    if rows is None:
        return NONE
    rows = sa_tables.of_methods(table, rows, place)
    data = table.catalog.start_of(place)
    if place.mgmt_class in RMPP_CLASSES:
        return sa_tables.records(table, rows, place, data, struct)
    return _fitting(table, rows, table.located.at("mad")[rows] + data, struct, place.base_version)


def _fitting(table: ChunkTable, rows: Int, at: Int, struct: StructType, base_version: int) -> Occurrences:
    good = at + struct.size <= table.located.payload_end[rows]
    good &= (table.once(sa_tables.versions_and_methods)[0, rows] == BASE_VERSION_OPA) == (base_version == BASE_VERSION_OPA)
    if not good.all():
        rows, at = rows[good], at[good]
    has_rest = any(field.kind == "rest" for field in struct.fields)
    return Occurrences(rows, at, table.located.payload_end[rows] if has_rest else at + struct.size)


def _inner(table: ChunkTable, struct: StructType, place: Inside | Laid | Parsed) -> Occurrences:
    """In the bytes of a field: at a declared place, in a tail, or where a function finds it; results that do not fit are dropped."""
    outer = table.occurrences(place.field.owner)
    if not len(outer):
        return NONE
    here, whole = due_in(table, place, outer), readable(table, place.field)
    index, at, stop, _ = spans_of(table, struct, place, outer, here if whole is None else here & whole)
    return Occurrences(outer.rows[index], at, stop)


def _nested(table: ChunkTable, struct: StructType, field: Field[Any]) -> Occurrences:
    outer = table.occurrences(field.owner)
    if not len(outer):
        return NONE
    starts = np.array([bit // 8 for bit in field.entries()], np.int64)
    at = (outer.at[:, None] + starts).ravel()
    return Occurrences(np.repeat(outer.rows, len(starts)), at, at + struct.size)
