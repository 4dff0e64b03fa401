"""Payloads that a port, queue pair, key, Ethertype or CM service binds to a structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ibdissect.capture.gather import gather
from ibdissect.wire.catalog import StructType
from ibdissect.wire.encapsulation import SLL, SLL2, UDP, VLAN, Ethernet
from ibdissect.wire.headers import BTH, DETH, RWH, ImmDt
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import CM_CLASS
from ibdissect.wire.places import (
    Behind,
    CmPayload,
    CmService,
    CmWrite,
    DestQP,
    Ethertype,
    QKey,
    SaPiece,
    Stream,
    TcpData,
    TcpPort,
    UdpPort,
    VendorOui,
)
from ibdissect.wire.spec import field_named
from ibdissect.wire.ulp.ip import TCP
from ibdissect.wire.ulp.ipoib import IPoIB

from .locate import Bool, Int
from .occurrences import NONE, Occurrences, merged
from .reassembled import pdus, whole_messages
from .sa_tables import holds_data, pieces
from .services import ACTIVE, PASSIVE
from .tcp_segments import segments_of

if TYPE_CHECKING:
    from .chunk_table import ChunkTable

WRITES_ONE = np.arange(256) % 32 == 0x0B
"""Whether an OpCode is an RDMA WRITE Only with Immediate."""
VENDOR_OUI_AT = 37
"""Offset of the OUI in a MAD of vendor range 2."""
VENDOR_DATA_AT = 40


def _to_qp(table: ChunkTable, place: DestQP) -> Occurrences:
    return _transport(table, table.of_rows(BTH.destqp)[0] == place.qp)


def _with_q_key(table: ChunkTable, place: QKey) -> Occurrences:
    values, there = table.of_rows(DETH.q_key)
    return _transport(table, there & (values == place.q_key))


def _transport(table: ChunkTable, wanted: Bool) -> Occurrences:
    """Payloads of transport packets, except MADs."""
    loc = table.located
    start = loc.at("payload")
    rows = np.flatnonzero(wanted & (start >= 0) & (loc.at("bth") >= 0) & (loc.at("mad") < 0))
    return Occurrences(rows, start[rows], loc.payload_end[rows])


def _udp(table: ChunkTable, place: UdpPort) -> Occurrences:
    found = table.occurrences(UDP)
    if not len(found):
        return NONE
    wanted = (table.values(UDP.destination_port) == place.port) | (table.values(UDP.source_port) == place.port)
    rows = found.rows[wanted]
    start = found.at[wanted] + UDP.size
    stop = np.minimum(found.at[wanted] + table.values(UDP.length)[wanted], table.located.end[rows])
    return Occurrences(rows, start, stop)


def tcp_data(table: ChunkTable, segments: Occurrences, start: bytes) -> Occurrences:
    """The data of TCP segments, after their options, that begin with `start`."""
    data = table.chunk.data
    at = segments.at + (data[segments.at + TCP.header_length.bit // 8] >> 4).astype(np.int64) * 4
    keep = np.flatnonzero((at >= segments.at + TCP.size) & (at + len(start) <= segments.stop))
    keep = keep[(gather(data, at[keep], len(start)) == np.frombuffer(start, np.uint8)).all(axis=1)]
    return Occurrences(segments.rows[keep], at[keep], segments.stop[keep])


def _tcp(table: ChunkTable, place: TcpData) -> Occurrences:
    found = table.occurrences(TCP)
    return tcp_data(table, found, place.start) if len(found) else NONE


def _tcp_port(table: ChunkTable, place: TcpPort) -> Occurrences:
    found = segments_of(table, place.port).data
    return found.pick(found.at < found.stop)


def _ethertype(table: ChunkTable, place: Ethertype) -> Occurrences:
    parts = []
    for field in (Ethernet.type, VLAN.type, SLL.type, SLL2.type, RWH.etype, IPoIB.type):
        found = table.occurrences(field.owner)
        if not len(found):
            continue
        found = found.pick(table.values(field) == place.ethertype)
        start = found.at + field.owner.size
        payload = table.located.at("payload")[found.rows]
        behind = (payload >= 0) & (payload <= start)
        stop = np.where(behind, table.located.payload_end[found.rows], table.located.end[found.rows])
        parts.append(Occurrences(found.rows, start, stop))
    return merged(parts)


def _cm(table: ChunkTable, place: CmService) -> Occurrences:
    """Private data of CM messages about a service of the place."""
    parts = []
    for attribute in sorted(place.messages):
        for _, struct in table.catalog.attributes.get((CM_CLASS, attribute), ()):
            private = field_named(struct, "private_data")
            if private is not None:
                found = table.occurrences(struct)
                if not len(found):
                    continue
                found = found.pick(about(table, place, _services_of(table, struct)))
                start = found.at + private.bit // 8
                data = Occurrences(found.rows, start, found.stop if private.kind == "rest" else start + private.bits // 8)
                parts.append(data if place.starts is None else _starting(table, data, *place.starts))
    return merged(parts)


def _services_of(table: ChunkTable, struct: StructType) -> npt.NDArray[np.uint64]:
    """The service of each occurrence of a CM message, uint64[k]; 0 if its request was not seen."""
    known: dict[StructType, npt.NDArray[np.uint64]] = table.results(_services_of)
    if struct not in known:
        named = field_named(struct, "service_id")
        if named is not None:
            known[struct] = table.values(named).astype(np.uint64)
        else:
            number = len(table.occurrences(struct))
            known[struct] = np.array([table.services.of_message(table, struct, i) for i in range(number)], np.uint64)
    return known[struct]


def _starting(table: ChunkTable, found: Occurrences, mask: bytes, value: bytes) -> Occurrences:
    """Those that begin with `value` in the bits of `mask`."""
    found = found.pick(found.at + len(mask) <= found.stop)
    begin = gather(table.chunk.data, found.at, len(mask)) & np.frombuffer(mask, np.uint8)
    return found.pick((begin == np.frombuffer(value, np.uint8)).all(axis=1))


def _writes(table: ChunkTable, place: CmWrite) -> Occurrences:
    """The data of RDMA WRITEs of one packet with the place's immediate data."""
    rows, services, _ = table.services.messages(table, WRITES_ONE)
    rows = rows[(np.array(services, np.uint64) & np.uint64(place.mask)) == np.uint64(place.service_id)]
    values, there = table.of_rows(ImmDt.immdt)
    rows = rows[there[rows] & ((values[rows] & np.uint32(place.which)) == place.value)]
    return Occurrences(rows, table.located.at("payload")[rows], table.located.payload_end[rows])


def _behind(table: ChunkTable, place: Behind) -> Occurrences:
    """The bytes after a header of variable length."""
    field, unit, add = place.length
    if not len(table.occurrences(field.owner)):
        return NONE
    size = table.values(field).astype(np.int64) * unit + add
    wanted = table.where(field.owner, place.when) & (size >= field.owner.size)
    found = table.occurrences(field.owner).pick(wanted)
    return Occurrences(found.rows, found.at + size[wanted], table.located.end[found.rows])


def _messages(table: ChunkTable, place: CmPayload) -> Occurrences:
    """First packets of messages on connections to a service, and messages put together from several packets."""
    rows, services, sides = table.messages()
    if not len(rows) and not table.joined:
        return NONE
    found = Occurrences(rows, table.located.at("payload")[rows], table.located.payload_end[rows])
    parts = [found.pick(served(table, place, services, sides))]
    if table.joined:
        whole, services, sides = whole_messages(table)
        parts.append(whole.pick(served(table, place, services, sides)))
    found = merged(parts)
    if place.starts is None:
        return found
    mask, value = place.starts
    return found.pick((table.chunk.data[found.at] & mask) == value)


def _stream(table: ChunkTable, place: Stream) -> Occurrences:
    """PDUs of a stream; only in `ChunkTable.shown`."""
    return pdus(table, place)


def served(table: ChunkTable, place: CmPayload, services: npt.NDArray[np.uint64], sides: Int) -> Bool:
    """Which messages belong to the place's service and go to its side."""
    wanted = about(table, place, services)
    return wanted & (sides == (PASSIVE if place.toward == "passive" else ACTIVE)) if place.toward else wanted


def about(table: ChunkTable, place: CmService | CmPayload, services: npt.NDArray[np.uint64]) -> Bool:
    """Which of the service ids match the place."""
    if place.named:
        known = [number for number, name in list(table.services.names.items()) if name.startswith(place.named)]
        return np.asarray(np.isin(services, np.array(known, np.uint64)), np.bool_)
    same: Bool = (services & np.uint64(place.mask)) == np.uint64(place.service_id & place.mask)
    known_service: Bool = services != 0
    return np.asarray(same & known_service, np.bool_)


def _vendor(table: ChunkTable, place: VendorOui) -> Occurrences:
    """Data of vendor MADs with the place's OUI, and data that came in several segments, where the last of them came."""
    parts = [
        rows
        for (mgmt_class, attribute), rows in table.attributes().items()
        if mgmt_class == place.mgmt_class and place.attr_id in (None, attribute)
    ]
    if not parts and not table.joined:
        return NONE
    row = np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)
    mad, stop = table.located.at("mad")[row], table.located.payload_end[row]
    long = mad + VENDOR_DATA_AT <= stop
    row, mad, stop = row[long], mad[long], stop[long]
    data = table.chunk.data
    oui = data[mad + VENDOR_OUI_AT].astype(np.int64) << 16
    oui |= data[mad + VENDOR_OUI_AT + 1].astype(np.int64) << 8
    oui |= data[mad + VENDOR_OUI_AT + 2]
    same = oui == place.oui
    same &= holds_data(table, row)
    if place.methods is not None:
        same &= np.isin(data[mad + MAD.method.span[0]], list(place.methods))
    found = Occurrences(row, mad + VENDOR_DATA_AT, stop).pick(same)
    return merged([found, pdus(table, place)]) if table.joined else found


FINDERS: dict[type, Callable[[ChunkTable, Any], Occurrences]] = {
    Behind: _behind, CmPayload: _messages, CmService: _cm, CmWrite: _writes, DestQP: _to_qp, Ethertype: _ethertype, QKey: _with_q_key,
    SaPiece: pieces, Stream: _stream, TcpData: _tcp, TcpPort: _tcp_port, UdpPort: _udp, VendorOui: _vendor,
}  # fmt: skip
"""The function that finds the bytes for each kind of place."""
