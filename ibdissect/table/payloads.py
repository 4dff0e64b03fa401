"""Where the payloads lie that a port, a queue pair, a key, an Ethertype or a CM service binds to a structure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ibdissect.wire.around import UDP, VLAN, Ethernet
from ibdissect.wire.catalog import StructType
from ibdissect.wire.link import RWH
from ibdissect.wire.places import CmService, DestQP, Ethertype, QKey, UdpPort, VendorOui
from ibdissect.wire.spec import Field
from ibdissect.wire.transport import BTH, DETH

from .locate import Bool, Int
from .sa_tables import starts_data

if TYPE_CHECKING:
    from .table import ChunkTable

Room = tuple[Int, Int, Int]
"""Rows, starts and ends (int64[k] each) of the bytes a structure may fill; its size has not been compared yet."""

CM_CLASS = 0x07
VENDOR_OUI_AT = 37
"""Byte of a MAD of the vendor range 2 where the OUI stands (FACTS A1)."""
VENDOR_DATA_AT = 40


def room(table: ChunkTable, place: object) -> Room | None:
    """The bytes that belong to a payload place, None for a place of another kind."""
    if isinstance(place, DestQP):
        return _transport(table, table.of_rows(BTH.destqp)[0] == place.qp)
    if isinstance(place, QKey):
        values, there = table.of_rows(DETH.q_key)
        return _transport(table, there & (values == place.q_key))
    if isinstance(place, UdpPort):
        return _udp(table, place.port)
    if isinstance(place, Ethertype):
        return _ethertype(table, place.ethertype)
    if isinstance(place, CmService):
        return _cm(table, place)
    if isinstance(place, VendorOui):
        return _vendor(table, place)
    return None


def _transport(table: ChunkTable, wanted: Bool) -> Room:
    """Payloads behind a BTH, management datagrams aside."""
    loc = table.located
    start = loc.at("payload")
    rows = np.flatnonzero(wanted & (start >= 0) & (loc.at("bth") >= 0) & (loc.at("mad") < 0))
    return rows, start[rows], loc.payload_end[rows]


def _udp(table: ChunkTable, port: int) -> Room:
    found = table.occurrences(UDP)
    wanted = (table.values(UDP.destination_port) == port) | (table.values(UDP.source_port) == port)
    rows = found.rows[wanted]
    start = found.at[wanted] + UDP.size
    stop = np.minimum(found.at[wanted] + table.values(UDP.length)[wanted], table.located.end[rows])
    return rows, start, stop


def _ethertype(table: ChunkTable, ethertype: int) -> Room:
    rows, starts = [], []
    for struct, field in ((Ethernet, Ethernet.type), (VLAN, VLAN.type), (RWH, RWH.etype)):
        found = table.occurrences(struct)
        wanted = table.values(field) == ethertype
        rows.append(found.rows[wanted])
        starts.append(found.at[wanted] + struct.size)
    row, start = np.concatenate(rows), np.concatenate(starts)
    order = np.lexsort((start, row))
    row, start = row[order], start[order]
    stop = np.where(table.located.at("payload")[row] == start, table.located.payload_end[row], table.located.end[row])
    return row, start, stop


def _cm(table: ChunkTable, place: CmService) -> Room:
    """Private data of CM messages that name a service in the place's range."""
    rows, starts, stops = [], [], []
    for attribute in sorted(place.messages):
        for _, struct in table.catalog.attributes.get((CM_CLASS, attribute), ()):
            service, private = _field(struct, "service_id"), _field(struct, "private_data")
            if service is None or private is None:
                continue
            found = table.occurrences(struct)
            mask = np.uint64(place.mask)
            wanted = (table.values(service).astype(np.uint64) & mask) == np.uint64(place.service_id & place.mask)
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


def _field(struct: StructType, name: str) -> Field[object] | None:
    return next((field for field in struct.fields if field.name == name), None)


def _vendor(table: ChunkTable, place: VendorOui) -> Room:
    """Data of vendor datagrams whose OUI agrees."""
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
