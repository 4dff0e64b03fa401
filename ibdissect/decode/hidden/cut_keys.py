"""Frames in which bytes outside any structure may belong to a key, and checksums that would reveal a hidden key."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.wire.catalog import Catalog
from ibdissect.wire.headers import BTH
from ibdissect.wire.mad import BASE_VERSION_IB, BASE_VERSION_OPA
from ibdissect.wire.numbers import SA_CLASS
from ibdissect.wire.sa import SARecordPiece
from ibdissect.wire.spec import Field

from ..chunk_table import ChunkTable
from ..ignored_data import beside, unread_bits, unread_bytes
from ..inner_structures import holds_key
from ..locate import EXTENDED_SIZE, Bool, Int
from ..occurrences import Occurrences, filled
from .cut_messages import cut_messages, opaque_bytes
from .key_numbers import fields_there, keys_of
from .opaque_bytes import opaque_pieces


def without_keys(table: ChunkTable) -> npt.NDArray[np.uint8]:
    """The bytes of a chunk, hidden ones as zeros. Call as `table.once(without_keys)`."""
    data: npt.NDArray[np.uint8] = table.shown.chunk.data.copy()
    data[table.shown.once(hidden_bytes)] = 0
    return data


def hides(table: ChunkTable, at: Int, stop: Int) -> Bool:
    """Whether any byte of data[at:stop] is hidden, bool[k]."""
    places = table.shown.once(hidden_bytes)
    return np.searchsorted(places, stop) > np.searchsorted(places, at)


def hidden_bytes(table: ChunkTable) -> Int:
    """Places of the bytes that are keys, may be part of one, or reveal one, ascending int64[k]. Call as `table.once(hidden_bytes)`."""
    data = table.chunk.data
    hidden = np.zeros(len(data), np.bool_)
    for field in fields_there(table):
        _, at, _, secret = keys_of(table, field)
        hidden[at[secret][:, None] + np.arange(max((bit % 8 + field.bits + 7) // 8 for bit in field.entries()))] = True
    reveals = table.once(revealing_rows)
    for field in checksum_fields(table.catalog):
        found = table.occurrences(field.owner)
        hidden[found.at[reveals[found.rows]][:, None] + np.arange(*field.span)] = True
    ignored = table.once(beside)
    if ignored is not None:
        hidden[ignored.at] = True
    located, messages = table.located, table.once(cut_messages)
    rows = np.flatnonzero(table.once(cut_keys) | messages)
    starts = np.max([table.chunk.offset[rows], located.at("grh")[rows], located.at("bth")[rows]], axis=0)
    stops = (table.chunk.offset + table.chunk.caplen)[rows]
    # Payload that does not start a message of a known service is data, which the tree also shows.
    shown = ~(messages | table.once(payloads_with_checksums))[rows] & (located.at("mad")[rows] < 0) & (located.at("payload")[rows] >= 0)
    first, last = np.where(shown, located.at("payload")[rows], stops), np.where(shown, located.payload_end[rows], stops)
    pieces = (
        *((found.at, found.stop) for found in table.once(_without_structure)),
        _behind(table, reveals), _with_checksums(table), (starts, first), (last, stops),
    )  # fmt: skip
    for low, high in zip(*map(np.concatenate, zip(*pieces, strict=True)), strict=True):
        hidden[low:high] = True
    return np.flatnonzero(hidden)


def revealing_rows(table: ChunkTable) -> Bool:
    """Rows whose checksums would reveal a hidden key: a CRC is linear, so it and the other bytes give 32 bits of the key. bool[n]"""
    found: Bool = table.once(cut_keys) | table.once(cut_messages) | table.once(_with_hidden)
    return found


def _with_hidden(table: ChunkTable) -> Bool:
    """Rows with hidden bytes in what could be read, bool[n]."""
    found = np.zeros(len(table), np.bool_)
    for field in fields_there(table):
        rows, at, _, hidden = keys_of(table, field)
        found[rows[hidden & (at < table.window)]] = True  # of messages put together, `opaque_bytes` has the packets
    for pieces in table.once(_without_structure):
        found[pieces.rows] = True
    ignored = table.once(unread_bits)
    if ignored is not None:
        found[ignored.rows] = True
    return found


def _without_structure(table: ChunkTable) -> tuple[Occurrences, ...]:
    """Bytes that are hidden although no structure shows a key there. Call as `table.once(_without_structure)`."""
    unread = filled(table.chunk.data, unread_bytes(table))
    return _pieces(table), unread, table.once(opaque_bytes), _skipped(table), table.once(opaque_pieces)


def _longer(table: ChunkTable) -> Bool:
    """Rows whose packet claims to be longer than its frame, which a mirror or a damaged length explains, bool[n]."""
    return table.located.length > table.chunk.length


def payloads_with_checksums(table: ChunkTable) -> Bool:
    """Rows with hidden bytes whose payload may end with the checksum, because the packet claims to be longer than its frame. bool[n].
    Call as `table.once(payloads_with_checksums)`.
    """
    located = table.located
    found: Bool = table.once(_with_hidden) & ((located.malformed != 0) | table.once(_longer)) & (located.at("icrc") < 0)
    return found


def _with_checksums(table: ChunkTable) -> tuple[Int, Int]:
    """Start and end of such payloads."""
    located, chunk = table.located, table.chunk
    rows = np.flatnonzero(table.once(payloads_with_checksums) & (located.at("payload") >= 0))
    return located.at("payload")[rows], (chunk.offset + chunk.caplen)[rows]


def hidden_checksums(table: ChunkTable, rows: Int, values: npt.NDArray[Any]) -> Bool:
    """Which checksums of these rows are hidden, bool[k]; 0 means no checksum and is shown."""
    hidden: Bool = table.shown.once(revealing_rows)[rows] & (values != 0)
    return hidden


@cache
def checksum_fields(catalog: Catalog) -> tuple[Field[Any], ...]:
    """All checksums of packets."""
    return tuple(field for struct in catalog.structs for field in struct.fields if field.holds == "checksum")


def _pieces(table: ChunkTable) -> Occurrences:
    """Pieces of records that may hold part of a key, unless they are zero."""
    pieces = table.occurrences(SARecordPiece)
    return filled(table.chunk.data, pieces.pick(table.once(with_keys)[pieces.rows]))


def _skipped(table: ChunkTable) -> Occurrences:
    """Parts of packets that are not read: in an IP fragment, or in a third tunnel."""
    at = table.located.at("skipped")
    rows = np.flatnonzero(at >= 0)
    return Occurrences(rows, at[rows], table.located.end[rows])


def _behind(table: ChunkTable, reveals: Bool) -> tuple[Int, Int]:
    """Start and end of the bytes after the packet in these rows: the rest of an ICRC that was cut off, perhaps the Ethernet checksum."""
    located, chunk = table.located, table.chunk
    rows = np.flatnonzero(reveals & (located.at("bth") >= 0))
    return located.behind[rows], (chunk.offset + chunk.caplen)[rows]


def cut_keys(table: ChunkTable) -> Bool:
    """Rows that may hold part of a structure with a key: malformed, cut off inside it, or, outside of tunnels, as long as nobody can
    know. bool[n]. Call as `table.once(cut_keys)`.
    """
    located = table.located
    found: Bool = (located.malformed != 0) | (table.once(_longer) & ~located.in_tunnel) | table.once(payloads_with_checksums)
    bth = located.at("bth")
    found |= (bth >= 0) & (bth + BTH.size + EXTENDED_SIZE[located.opcode] > located.limit)
    for (mgmt_class, attr_id), rows in table.attributes().items():
        mad = located.at("mad")[rows]
        room, opa = located.payload_end[rows] - mad, table.chunk.data[mad] == BASE_VERSION_OPA
        least = [_needed(table.catalog, mgmt_class, attr_id, version) for version in (BASE_VERSION_IB, BASE_VERSION_OPA)]
        found[rows[room < np.where(opa, least[1], least[0])]] = True
    return found


def with_keys(table: ChunkTable) -> Bool:
    """Rows with an SA attribute whose record holds a key, of which an RMPP segment may carry any part. bool[n]. Call as
    `table.once(with_keys)`.
    """
    found = np.zeros(len(table), np.bool_)
    for (mgmt_class, attr_id), rows in table.attributes().items():
        if mgmt_class == SA_CLASS:
            structs = (struct for _, struct in table.catalog.attributes.get((mgmt_class, attr_id), ()))
            found[rows] = any(holds_key(table.catalog, struct) for struct in structs)
    return found


@cache
def _needed(catalog: Catalog, mgmt_class: int, attr_id: int, version: int) -> int:
    """Bytes of a MAD needed to hold completely every structure with a key that it may carry; 0 for none."""
    sizes = [0]
    sizes += [form.size for form in catalog.formats.get((mgmt_class, version), ()) if holds_key(catalog, form)]
    for place, struct in catalog.attributes.get((mgmt_class, attr_id), ()):
        if place.base_version == version and holds_key(catalog, struct):
            sizes.append(catalog.start_of(place) + struct.size)
    return max(sizes)
