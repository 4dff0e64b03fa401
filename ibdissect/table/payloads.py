"""Where are the payloads that a port, queue pair, key, Ethertype or CM service binds to a structure?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ibdissect.wire.catalog import StructType
from ibdissect.wire.encapsulation import SLL, SLL2, UDP, VLAN, Ethernet
from ibdissect.wire.link import RWH
from ibdissect.wire.numbers import CM_CLASS
from ibdissect.wire.places import Behind, CmPayload, CmService, DestQP, Ethertype, Parsed, QKey, SaPiece, UdpPort, VendorOui
from ibdissect.wire.spec import Field
from ibdissect.wire.transport import BTH, DETH
from ibdissect.wire.ulp.ipoib import IPoIB

from .locate import Bool, Int
from .plugin_calls import guarded
from .sa_tables import pieces, starts_data
from .services import ACTIVE, PASSIVE

if TYPE_CHECKING:
    from .table import ChunkTable

Room = tuple[Int, Int, Int]
"""Rows, starts and ends (int64[k] each) of the bytes that a structure may occupy; the caller checks that it fits."""

MOST_PARSED = 4096
"""How many structures a parsing function may find in one field."""
VENDOR_OUI_AT = 37
"""Offset of the OUI in a MAD of vendor range 2."""
VENDOR_DATA_AT = 40


def _to_qp(table: ChunkTable, place: DestQP) -> Room:
    return _transport(table, table.of_rows(BTH.destqp)[0] == place.qp)


def _with_q_key(table: ChunkTable, place: QKey) -> Room:
    values, there = table.of_rows(DETH.q_key)
    return _transport(table, there & (values == place.q_key))


def _transport(table: ChunkTable, wanted: Bool) -> Room:
    """Payloads of transport packets, except MADs."""
    loc = table.located
    start = loc.at("payload")
    rows = np.flatnonzero(wanted & (start >= 0) & (loc.at("bth") >= 0) & (loc.at("mad") < 0))
    return rows, start[rows], loc.payload_end[rows]


def _udp(table: ChunkTable, place: UdpPort) -> Room:
    found = table.occurrences(UDP)
    wanted = (table.values(UDP.destination_port) == place.port) | (table.values(UDP.source_port) == place.port)
    rows = found.rows[wanted]
    start = found.at[wanted] + UDP.size
    stop = np.minimum(found.at[wanted] + table.values(UDP.length)[wanted], table.located.end[rows])
    return rows, start, stop


def _ethertype(table: ChunkTable, place: Ethertype) -> Room:
    rows, starts = [], []
    for field in (Ethernet.type, VLAN.type, SLL.type, SLL2.type, RWH.etype, IPoIB.type):
        assert field.owner is not None
        found = table.occurrences(field.owner)
        wanted = table.values(field) == place.ethertype
        rows.append(found.rows[wanted])
        starts.append(found.at[wanted] + field.owner.size)
    row, start = np.concatenate(rows), np.concatenate(starts)
    order = np.lexsort((start, row))
    row, start = row[order], start[order]
    payload = table.located.at("payload")[row]
    stop = np.where((payload >= 0) & (payload <= start), table.located.payload_end[row], table.located.end[row])
    return row, start, stop


def _cm(table: ChunkTable, place: CmService) -> Room:
    """Private data of CM messages about a service of the place."""
    rows, starts, stops = [], [], []
    for attribute in sorted(place.messages):
        for _, struct in table.catalog.attributes.get((CM_CLASS, attribute), ()):
            private = _field(struct, "private_data")
            if private is None:
                continue
            found = table.occurrences(struct)
            wanted = _about(table, place, table.services_of(struct))
            start = found.at[wanted] + private.bit // 8
            rows.append(found.rows[wanted])
            starts.append(start)
            stops.append(found.stop[wanted] if private.kind == "rest" else start + private.bits // 8)
    if not rows:
        empty = np.empty(0, np.int64)
        return empty, empty, empty
    row, start, stop = np.concatenate(rows), np.concatenate(starts), np.concatenate(stops)
    order = np.argsort(row, kind="stable")
    return row[order], start[order], stop[order]


def _behind(table: ChunkTable, place: Behind) -> Room:
    """The bytes after a header of variable length."""
    field, unit, add = place.length
    assert field.owner is not None
    found = table.occurrences(field.owner)
    wanted = np.ones(len(found), np.bool_)
    for other, values in place.when:
        wanted &= np.isin(table.values(other), list(values))
    size = table.values(field)[wanted].astype(np.int64) * unit + add
    rows, at = found.rows[wanted], found.at[wanted]
    whole = size >= field.owner.size
    return rows[whole], (at + size)[whole], table.located.end[rows[whole]]


def _messages(table: ChunkTable, place: CmPayload) -> Room:
    """First packets of messages on connections to a service."""
    rows, services, sides = table.messages()
    wanted = _about(table, place, services)
    if place.toward:
        wanted &= sides == (PASSIVE if place.toward == "passive" else ACTIVE)
    row = rows[wanted]
    start, stop = table.located.at("payload")[row], table.located.payload_end[row]
    if place.starts is not None:
        mask, value = place.starts
        right = (table.chunk.data[start] & mask) == value
        row, start, stop = row[right], start[right], stop[right]
    return row, start, stop


def _about(table: ChunkTable, place: CmService | CmPayload, services: npt.NDArray[np.uint64]) -> Bool:
    """Which of the service ids match the place."""
    if place.named:
        known = [number for number, name in list(table.services.names.items()) if name.startswith(place.named)]
        return np.asarray(np.isin(services, np.array(known, np.uint64)), np.bool_)
    same: Bool = (services & np.uint64(place.mask)) == np.uint64(place.service_id & place.mask)
    known_service: Bool = services != 0
    return np.asarray(same & known_service, np.bool_)


def parsed(table: ChunkTable, struct: StructType, place: Parsed) -> Room:
    """Where a plugin function finds a structure in the bytes of a field; results that do not fit are dropped."""
    owner = place.field.owner
    assert owner is not None
    outer = table.occurrences(owner)
    low, size = 0 if place.whole else place.field.bit // 8, place.field.bits // 8
    found: list[tuple[int, int, int]] = []
    keep = np.ones(len(outer), np.bool_)
    for field, values in place.when:
        keep &= np.isin(table.values(field), list(values))
    for row, at, end in zip(outer.rows[keep].tolist(), outer.at[keep].tolist(), outer.stop[keep].tolist(), strict=True):
        begin = at + low
        stop = end if place.field.kind == "rest" else begin + size
        data = table.chunk.data[begin:stop].tobytes()
        spans = [span if isinstance(span, tuple) else (span, span + struct.size) for span in guarded(place.find, data, limit=MOST_PARSED)]
        found += sorted((row, begin + a, begin + b) for a, b in spans if a >= 0 and a + struct.size <= b <= len(data))
    columns = np.array(found, np.int64).reshape(-1, 3).T
    return columns[0], columns[1], columns[2]


def _field(struct: StructType, name: str) -> Field[object] | None:
    return next((field for field in struct.fields if field.name == name), None)


def _vendor(table: ChunkTable, place: VendorOui) -> Room:
    """Data of vendor MADs with the place's OUI."""
    parts = [
        rows
        for (mgmt_class, attribute), rows in table.attributes().items()
        if mgmt_class == place.mgmt_class and place.attr_id in (None, attribute)
    ]
    row = np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)
    mad, stop = table.located.at("mad")[row], table.located.payload_end[row]
    long = mad + VENDOR_DATA_AT <= stop
    row, mad, stop = row[long], mad[long], stop[long]
    data = table.chunk.data
    oui = data[mad + VENDOR_OUI_AT].astype(np.int64) << 16
    oui |= data[mad + VENDOR_OUI_AT + 1].astype(np.int64) << 8
    oui |= data[mad + VENDOR_OUI_AT + 2]
    same = oui == place.oui
    same &= starts_data(table, row)
    return row[same], mad[same] + VENDOR_DATA_AT, stop[same]


def _cut_record(table: ChunkTable, _place: SaPiece) -> Room:
    """Pieces of SA records that are not whole in their frame."""
    runs = pieces(table)
    return runs.rows, runs.at, runs.stop


FINDERS: dict[type, Callable[[ChunkTable, Any], Room]] = {
    Behind: _behind, CmPayload: _messages, CmService: _cm, DestQP: _to_qp, Ethertype: _ethertype, QKey: _with_q_key, SaPiece: _cut_record,
    UdpPort: _udp, VendorOui: _vendor,
}  # fmt: skip
"""The function that finds the bytes for each kind of place."""
