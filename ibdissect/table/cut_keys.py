"""In which frames may bytes that no structure accounts for be those of a key?"""

from __future__ import annotations

from functools import cache

import numpy as np

from ibdissect.wire.catalog import Catalog, StructType

from .locate import EXTENDED_SIZE, Bool
from .table import ChunkTable

_SUBNET_ADM, _OPA, _IB = 0x03, 0x80, 1


def cut_keys(table: ChunkTable) -> Bool:
    """Rows in which a structure that holds a key may be there in part: broken ones, and those cut off inside it. bool[n]"""
    return table.once(_cut)


def cut_messages(table: ChunkTable) -> Bool:
    """Rows whose payload starts a message of a known service and is not there whole. bool[n]"""
    return table.once(_messages)


def with_keys(table: ChunkTable) -> Bool:
    """Rows with an SA record that holds a key, of which an RMPP segment may carry any part. bool[n]"""
    return table.once(_records)


def _cut(table: ChunkTable) -> Bool:
    located = table.located
    found: Bool = located.malformed != 0
    bth = located.at("bth")
    found |= (bth >= 0) & (bth + 12 + EXTENDED_SIZE[located.opcode] > located.limit)
    for (mgmt_class, attr_id), rows in table.attributes().items():
        mad = located.at("mad")[rows]
        room, opa = located.payload_end[rows] - mad, table.chunk.data[mad] == _OPA
        least = [_needed(table.catalog, mgmt_class, attr_id, version) for version in (_IB, _OPA)]
        found[rows[room < np.where(opa, least[1], least[0])]] = True
    return found


def _messages(table: ChunkTable) -> Bool:
    located = table.located
    found = np.zeros(len(table), np.bool_)
    found[table.messages()[0]] = True
    broken: Bool = located.snapped | (located.malformed != 0)
    return found & broken


def _records(table: ChunkTable) -> Bool:
    found = np.zeros(len(table), np.bool_)
    for (mgmt_class, attr_id), rows in table.attributes().items():
        if mgmt_class == _SUBNET_ADM:
            structs = (struct for _, struct in table.catalog.attributes.get((mgmt_class, attr_id), ()))
            found[rows] = any(_holds_key(table.catalog, struct) for struct in structs)
    return found


@cache
def _needed(catalog: Catalog, mgmt_class: int, attr_id: int, version: int) -> int:
    """Bytes of a MAD that hold whole all structures with keys that may be in it; 0 for none."""
    sizes = [0]
    sizes += [form.size for form in catalog.formats.get((mgmt_class, version), ()) if _holds_key(catalog, form)]
    for place, struct in catalog.attributes.get((mgmt_class, attr_id), ()):
        if place.base_version == version and _holds_key(catalog, struct):
            data_at = place.data_at if place.data_at is not None else catalog.data_at(mgmt_class, version)
            sizes.append(data_at + struct.size)
    return max(sizes)


@cache
def _holds_key(catalog: Catalog, struct: StructType) -> bool:
    """Whether a structure, one inside it, or one that may explain its bytes has a field for a key."""
    inside = [field.of for field in struct.fields if field.of is not None] + [other for _, other in catalog.inside.get(struct, ())]
    return any(field.secret for field in struct.fields) or any(_holds_key(catalog, other) for other in inside)
