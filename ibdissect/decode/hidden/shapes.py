"""Payloads that look like what holds keys, on queue pairs of which nothing is known.

A management datagram (UD) may go to any queue pair, if an agent redirected its sender. The queue pairs of SMC-R are agreed over TCP, in a
handshake that the capture may lack. Such a payload is not read, for it may be anything; it is hidden, so that it need not be.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ibdissect.engine.locate import UD_SEND_ONLY
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.encapsulation import ETHERTYPE_IPV4, ETHERTYPE_IPV6
from ibdissect.wire.mad import BASE_VERSION_IB, BASE_VERSION_OPA, MAD
from ibdissect.wire.ulp import smc_llc
from ibdissect.wire.ulp.ipoib import IPoIB
from ibdissect.wire.unread_carriers import marks

from ..locate import Int
from ..services import STARTS_MESSAGE
from .unreadable_fields import holds_key

if TYPE_CHECKING:
    from ..chunk_table import ChunkTable

MAD_SIZE = 256
"""Bytes of a management datagram of InfiniBand; those of Omni-Path have up to 2,048."""


def alike(table: ChunkTable) -> Iterator[tuple[Int, Int, Int]]:
    """Row, start and end of what may be a key in such payloads."""
    located, data = table.located, table.chunk.data
    payload, end = located.at("payload"), located.payload_end
    rows = np.flatnonzero((payload >= 0) & (located.at("bth") >= 0) & (located.at("mad") < 0) & STARTS_MESSAGE[located.opcode])
    rows = rows[end[rows] - payload[rows] >= LEAST]
    if not len(rows):
        return
    at, size, cut = payload[rows], (end - payload)[rows], located.snapped[rows]
    first, second, third = (data[at + i].astype(np.int64) for i in range(3))
    managed = (first == BASE_VERSION_IB) & ((size == MAD_SIZE) | (cut & (size < MAD_SIZE)))
    managed |= (first == BASE_VERSION_OPA) & (third == BASE_VERSION_OPA)
    managed &= _classes(table.catalog)[second] & (located.opcode[rows] & 0xFE == UD_SEND_ONLY)
    yield rows[managed], (at + MAD.size)[managed], end[rows[managed]]
    linked = (second == smc_llc.SIZE) & ((size == smc_llc.SIZE) | (cut & (size < smc_llc.SIZE))) & np.isin(first, list(smc_llc.TYPES))
    linked |= (first >> 4 == smc_llc.VERSION_2) & ((second << 8 | third) == size)
    linked &= first != smc_llc.DATA_CONTROL
    known, services, _ = table.messages()
    linked &= ~np.isin(rows, known[services == smc_llc.SERVICE])
    yield rows[linked], (at + smc_llc.SMCMessage.size)[linked], end[rows[linked]]


LEAST = 4
"""No message is shorter."""


def carried(table: ChunkTable) -> Iterator[tuple[Int, Int, Int]]:
    """Row, start and end of packets with a mark of what holds keys, in payloads that begin as IP over InfiniBand does."""
    located, data = table.located, table.chunk.data
    payload, end = located.at("payload"), located.payload_end
    rows = np.flatnonzero((payload >= 0) & (located.at("bth") >= 0) & STARTS_MESSAGE[located.opcode])
    rows = rows[end[rows] - payload[rows] > IPoIB.size]
    at = payload[rows]
    version = data[at + IPoIB.size] >> 4
    for ethertype, number in ((ETHERTYPE_IPV4, 4), (ETHERTYPE_IPV6, 6)):
        header = np.frombuffer(ethertype.to_bytes(2, "big"), np.uint8)
        some = rows[(data[at] == header[0]) & (data[at + 1] == header[1]) & (version == number)]
        words = marks(table.catalog.roce_ports)
        bytes_of = [data[a:b].tobytes() for a, b in zip(payload[some].tolist(), end[some].tolist(), strict=True)]
        some = some[np.array([any(word in one for word in words) for one in bytes_of], np.bool_)]
        yield some, payload[some] + IPoIB.size, end[some]


@cache
def _classes(catalog: Catalog) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which management classes have keys, bool[256]."""
    found = np.zeros(256, np.bool_)
    for (mgmt_class, _), forms in catalog.formats.items():
        found[mgmt_class] |= any(holds_key(catalog, form) for form in forms)
    for (mgmt_class, _), placed in catalog.attributes.items():
        found[mgmt_class] |= any(holds_key(catalog, struct) for _, struct in placed)
    return found
