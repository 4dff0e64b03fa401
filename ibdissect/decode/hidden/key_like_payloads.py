"""Payloads that look like what holds keys, on queue pairs of which nothing is known.

A management datagram (UD) may go to any queue pair, if an agent redirected its sender. The queue pairs of SMC-R are agreed over TCP, in a
handshake that the capture may lack. Such a payload is not read, for it may be anything; it is hidden, so that it need not be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ibdissect.wire.catalog import Catalog
from ibdissect.wire.encapsulation import ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPv4
from ibdissect.wire.mad import BASE_VERSION_IB, BASE_VERSION_OPA, MAD, MAD_SIZE
from ibdissect.wire.opcodes import UD_SEND_ONLY
from ibdissect.wire.ulp import smc_llc
from ibdissect.wire.ulp.ipoib import IPoIB
from ibdissect.wire.unread_carriers import marks

from ..bit_fields import value_at
from ..inner_structures import holds_key
from ..locate import Bool, Int
from ..occurrences import Occurrences
from ..services import STARTS_MESSAGE

if TYPE_CHECKING:
    from ..chunk_table import ChunkTable

LEAST = 4
"""No message is shorter."""


def alike(table: ChunkTable) -> Iterator[Occurrences]:
    """What may be a key in such payloads."""
    located, data = table.located, table.chunk.data
    payload, end = located.at("payload"), located.payload_end
    rows = np.flatnonzero((payload >= 0) & (located.at("bth") >= 0) & (located.at("mad") < 0) & STARTS_MESSAGE[located.opcode])
    rows = rows[end[rows] - payload[rows] >= LEAST]
    if not len(rows):
        return
    at, size, cut = payload[rows], (end - payload)[rows], located.snapped[rows]
    first, second, third = (value_at(data, at, field) for field in (MAD.base_version, MAD.mgmt_class, MAD.class_version))
    whole = MAD_SIZE[BASE_VERSION_IB]
    managed = (first == BASE_VERSION_IB) & ((size == whole) | (cut & (size < whole)))
    managed |= (first == BASE_VERSION_OPA) & (third == BASE_VERSION_OPA)
    managed &= _classes(table.catalog)[second] & (located.opcode[rows] & 0xFE == UD_SEND_ONLY)
    yield Occurrences(rows, at + MAD.size, end[rows]).pick(managed)
    linked = (second == smc_llc.SIZE) & ((size == smc_llc.SIZE) | (cut & (size < smc_llc.SIZE))) & np.isin(first, list(smc_llc.TYPES))
    linked |= (first >> 4 == smc_llc.VERSION_2) & ((second << 8 | third) == size)
    linked &= first != smc_llc.DATA_CONTROL
    known, services, _ = table.messages()
    linked &= ~np.isin(rows, known[services == smc_llc.SERVICE])
    yield Occurrences(rows, at + smc_llc.SMCMessage.size, end[rows]).pick(linked)


def carried(table: ChunkTable) -> Occurrences:
    """Packets with a mark of what holds keys, in payloads that begin as IP over InfiniBand does."""
    located, data = table.located, table.chunk.data
    payload, end = located.at("payload"), located.payload_end
    rows = np.flatnonzero((payload >= 0) & (located.at("bth") >= 0) & STARTS_MESSAGE[located.opcode])
    rows = rows[end[rows] - payload[rows] > IPoIB.size]
    kind, version = value_at(data, payload[rows], IPoIB.type), value_at(data, payload[rows] + IPoIB.size, IPv4.version)
    rows = rows[((kind == ETHERTYPE_IPV4) & (version == 4)) | ((kind == ETHERTYPE_IPV6) & (version == 6))]
    rows = rows[marked(table, payload[rows], end[rows])]
    return Occurrences(rows, payload[rows] + IPoIB.size, end[rows])


def marked(table: ChunkTable, at: Int, stop: Int) -> Bool:
    """Which of data[at:stop] have a mark of packets or messages with keys, bool[k]."""
    found = np.zeros(len(at), np.bool_)
    for word, places in table.once(_marks) if len(at) else ():
        found |= np.searchsorted(places, stop - len(word), "right") > np.searchsorted(places, at)
    return found


def _marks(table: ChunkTable) -> list[tuple[bytes, Int]]:
    """Each mark, and where it is in the frames of a chunk, ascending."""
    data = table.chunk.data[: table.window].data
    words = marks(table.catalog.roce_ports)
    return [(word, np.array([one.start() for one in re.finditer(re.escape(word), data)], np.int64)) for word in words]


@cache
def _classes(catalog: Catalog) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which management classes have keys, bool[256]."""
    found = np.zeros(256, np.bool_)
    for (mgmt_class, _), forms in catalog.formats.items():
        found[mgmt_class] |= any(holds_key(catalog, form) for form in forms)
    for (mgmt_class, _), placed in catalog.attributes.items():
        found[mgmt_class] |= any(holds_key(catalog, struct) for _, struct in placed)
    return found
