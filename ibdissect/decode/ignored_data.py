"""Bits of requests and answers that receivers ignore. Such bits are usually left over from earlier packets.

datagram                          | ignored                                              | source
Get of subnet management          | all data                                             | IBA 14.2.4
SA query with no ComponentMask    | all data                                             | IBA 15.4.4
SA query with a ComponentMask     | components that the mask does not name               | IBA 15.4.4
Get of performance management     | all but port and counter select                      | IBA 16.1.3
later segments of an RMPP query   | all data, except the GIDs of a MultiPathRecord       | IBA 13.6.2
ACK, STOP, ABORT of RMPP          | what follows the headers                             | IBA 13.6.2
SA answer that failed             | its record; OpenSM repeats the record of the request | IBA 15.2.2

Where all data is ignored, no structure is found and nothing is learnt; the bytes are hidden like a key. Vendor attributes may use them.
Where a part is ignored, the attribute is found. Its ignored bits are zero for followers, rules and `scrub` (`as_read`), absent for
filters and columns, and hidden in trees and bytes. The record of an answer that failed is only in `ChunkTable.shown`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct as Record
from msgspec import structs

from ibdissect.capture.chunk import Chunk
from ibdissect.capture.gather import Bytes, gather, u16
from ibdissect.wire import numbers
from ibdissect.wire.catalog import StructType
from ibdissect.wire.mad import BASE_VERSION_IB, BASE_VERSION_OPA, MAD, RMPP
from ibdissect.wire.sa import SAFormat, component_fields, components_of
from ibdissect.wire.spec import Field, field_named

from .bit_fields import extract, value_at
from .equal_rows import places_in
from .header_cache import Unread
from .locate import Bool, Int
from .occurrences import Occurrences

if TYPE_CHECKING:
    from .chunk_table import ChunkTable

WITH_STATUS = numbers.SMP_CLASSES | {numbers.PM_CLASS, numbers.BM_CLASS, numbers.DM_CLASS, numbers.CC_CLASS}
"""Classes beside the SA whose answers carry an attribute or a status that says why not."""
QUERY_CLASSES = numbers.SMP_CLASSES | {numbers.SA_CLASS, numbers.PM_CLASS}
"""Classes whose requests may carry data that no receiver reads."""
MASK_AT, MASK_END = SAFormat.component_mask.span
QUERIES = {numbers.SA_CLASS: (numbers.GET, numbers.GET_TABLE, numbers.GET_TRACE, numbers.GET_MULTI), numbers.PM_CLASS: (numbers.GET,)}
"""Methods of requests that name a part of the attribute."""
CHOOSING = ("op_code", "port_select", "counter_select", "counter_select2")
"""Fields of performance management that say which counters of which port are meant."""


def unread(table: ChunkTable) -> Bool:
    """Rows with a request of whose data nothing is read, bool[n]. Call as `table.once(unread)`."""
    found = np.zeros(len(table), np.bool_)
    data = table.chunk.data
    for (mgmt_class, attr_id), rows in table.attributes().items():
        known = table.catalog.attributes.get((mgmt_class, attr_id), ())
        if mgmt_class not in QUERY_CLASSES or attr_id >= numbers.FIRST_VENDOR or not known:
            continue
        at = table.located.at("mad")[rows]
        method = data[at + 3]
        asks = method == numbers.GET
        if mgmt_class == numbers.SA_CLASS:
            whole = at + MASK_END <= table.located.payload_end[rows]
            rows, at = rows[whole], at[whole]
            asks = _unread_of_sa(table, at)
        elif mgmt_class == numbers.PM_CLASS:
            asks &= (data[at] == BASE_VERSION_IB) & (not any(_chosen(struct).any() for _, struct in known))
        found[rows[asks]] = True
    return found


def _unread_of_sa(table: ChunkTable, mad: Int) -> Bool:
    """Which of these MADs have only unread data."""
    data = table.chunk.data
    method, (kind, number) = data[mad + MAD.method.span[0]], segment(data, mad)
    asks = np.isin(method, QUERIES[numbers.SA_CLASS])
    blank = ~data[mad[:, None] + np.arange(MASK_AT, MASK_END)].any(axis=1)
    later = (method != numbers.GET_MULTI) & (kind == numbers.DATA) & (number > 1)
    found: Bool = (asks & (blank | later)) | (kind > numbers.DATA)
    return found


def segment(data: Bytes, mad: Int) -> tuple[Int, Int]:
    """RMPPType and SegmentNumber of MADs with an RMPP header. Without the flag Active nobody reads that header (IBA 13.6.2.1; kernel
    core/mad_rmpp.c): an ACK, STOP or ABORT is none then. Types of data stay, so that a segment is never taken for a whole record.
    """
    kind, number, active = (value_at(data, mad + MAD.size, field) for field in (RMPP.rmpp_type, RMPP.segment_number, RMPP.active))
    return np.where((kind > numbers.DATA) & (active == 0), 0, kind), number


class IgnoredBits(Record, frozen=True, eq=False):
    """The bits in the requests of a chunk that no receiver reads."""

    at: Int
    """Offsets in the chunk's data of the bytes with such bits, ascending int64[m]."""
    bits: Bytes
    """Those bits of each byte, uint8[m]."""

    def of(self, at: Int) -> Bytes:
        """The unread bits of the bytes at these offsets, uint8 of the same shape."""
        place = places_in(self.at, at)
        return np.where(place >= 0, self.bits[place], np.uint8(0))

    def touches(self, at: Int, size: int) -> bool:
        """Whether any of the `size` bytes at these offsets has such bits."""
        return bool((np.searchsorted(self.at, at) < np.searchsorted(self.at, at + size)).any())

    def cleared(self, data: bytes, at: int) -> bytes:
        """Bytes that begin at an offset, with zeros for the unread bits."""
        low, high = np.searchsorted(self.at, [at, at + len(data)])
        if low == high:
            return data
        found = np.frombuffer(data, np.uint8).copy()
        found[self.at[low:high] - at] &= ~self.bits[low:high]
        return found.tobytes()


def unread_bits(table: ChunkTable) -> Unread | None:
    """The same bits by row, for the columns of attributes. Call as `table.once(unread_bits)`."""
    found = table.once(beside)
    if found is None:
        return None
    rows = np.flatnonzero(table.located.at("mad") >= 0)
    at = table.located.at("mad")[rows]
    of = np.searchsorted(at, found.at, "right") - 1
    some = np.zeros(len(rows), np.bool_)
    some[of] = True
    place = found.at - at[of]
    bits = np.zeros((int(some.sum()), int(place.max()) + 2), np.uint8)
    bits[(np.cumsum(some) - 1)[of], place] = found.bits
    return Unread(rows[some], at[some], bits)


def beside(table: ChunkTable) -> IgnoredBits | None:
    """The unread bits of a chunk's requests; None if all are zero, as they should be. Call as `table.once(beside)`."""
    parts = []
    for (mgmt_class, attr_id), rows in table.attributes().items():
        for place, struct in table.catalog.attributes.get((mgmt_class, attr_id), ()) if mgmt_class in QUERIES else ():
            named = components_of(struct) if mgmt_class == numbers.SA_CLASS else _chosen(struct).any()
            if named and place.base_version == BASE_VERSION_IB and attr_id < numbers.FIRST_VENDOR:
                parts.append(_beside(table, rows, mgmt_class, table.catalog.start_of(place), struct))
    if not any(len(at) for at, _ in parts):
        return None
    at, bits = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(at, kind="stable")
    places, first = np.unique(at[order], return_index=True)
    return IgnoredBits(places, np.bitwise_or.reduceat(bits[order], first))


def _beside(table: ChunkTable, rows: Int, mgmt_class: int, start: int, struct: StructType) -> tuple[Int, Bytes]:
    """The bytes of an attribute's requests that have unread bits, and these bits of each."""
    data, mad, stop = table.chunk.data, table.located.at("mad")[rows], table.located.payload_end[rows]
    good = (data[mad] == BASE_VERSION_IB) & (mad + start < stop) & np.isin(data[mad + 3], QUERIES[mgmt_class])
    rows, mad, stop = rows[good], mad[good], stop[good]
    if mgmt_class == numbers.SA_CLASS:
        mask = extract(gather(data, mad + MASK_AT, MASK_END - MASK_AT), 0, 64)
        kind, number = segment(data, mad)
        good = (mask != 0) & ((kind == 0) | ((kind == numbers.DATA) & (number == 1)))
        rows, mad, stop, mask = rows[good], mad[good], stop[good], mask[good]
        read = np.zeros((len(rows), struct.size), np.uint8)
        for place, named in enumerate(_components(struct)):
            read[(mask >> np.uint64(place) & np.uint64(1)) != 0] |= named
    else:
        read = _chosen(struct)[None]
    width = max(SAFormat.size - start, struct.size)
    ignored = np.full((len(rows), width), 0xFF, np.uint8)
    ignored[:, : struct.size] = ~read
    if struct.fields[-1].kind == "rest":
        ignored[:, struct.size :] = 0
    carried = table.located.front.part(rows, mad + start, width) & ignored
    some = np.flatnonzero(carried.any(axis=1))  # few have such bits
    at = (mad + start)[some, None] + np.arange(width)
    carried, ignored = carried[some], ignored[some]
    carried[at >= stop[some, None]] = 0
    ignored[at >= stop[some, None]] = 0
    for part in (slice(0, struct.size), slice(struct.size, None)):  # the record, and what follows it
        ignored[~carried[:, part].any(axis=1), part] = 0
    return at[ignored != 0], ignored[ignored != 0]


@lru_cache(maxsize=256)
def _chosen(struct: StructType) -> Bytes:
    """The bits of an attribute of performance management that a Get reads."""
    fields = (field_named(struct, name) for name in CHOOSING)
    return _bits(struct, [(field.bit, field.bits) for field in fields if field is not None and field.count == 1])


@lru_cache(maxsize=256)
def _components(struct: StructType) -> tuple[Bytes, ...]:
    """The bits of each component of a record."""
    found = []
    for name in components_of(struct):
        path, entry = component_fields(struct, name), name.partition("[")[2].rstrip("]")
        bits = path[-1].bits * (1 if entry else path[-1].count) if path else 0
        found.append(_bits(struct, [(sum(field.bit for field in path) + int(entry or 0) * bits, bits)]))
    return tuple(found)


def _bits(struct: StructType, spans: list[tuple[int, int]]) -> Bytes:
    """The bytes of a structure with these bits set: the first of each run, and how many."""
    number = 0
    for bit, bits in spans:
        number |= ((1 << bits) - 1) << (struct.size * 8 - bit - bits)
    return np.frombuffer(number.to_bytes(struct.size, "big"), np.uint8)


def as_read(table: ChunkTable) -> Chunk:
    """The chunk as receivers read it: unread bits of requests are zero. Call as `table.once(as_read)`."""
    found = table.once(beside)
    if found is None:
        return table.chunk
    data = table.chunk.data.copy()
    data[found.at] &= ~found.bits
    return structs.replace(table.chunk, data=data, front=None)


def is_read(table: ChunkTable, field: Field[Any], at: Int) -> Bool | None:
    """Whether a field is read in the structures that begin at `at`, bool[k, entries]; None if no bit of the chunk is ignored."""
    found = table.once(beside)
    if found is None or field.kind == "rest":
        return None
    entries = []
    for bit in field.entries():
        low, high = bit // 8, (bit + field.bits + 7) // 8
        mask = field_mask(bit % 8, field.bits)
        entries.append(~(found.of(at[:, None] + np.arange(low, high)) & mask).any(axis=1))
    return np.stack(entries, axis=1)


def field_mask(bit: int, bits: int) -> Bytes:
    """The bytes that a field of `bits` bits touches, with the field's bits set; it begins at `bit` of the first byte."""
    size = (bit + bits + 7) // 8
    return np.frombuffer((((1 << bits) - 1) << (size * 8 - bit - bits)).to_bytes(size, "big"), np.uint8)


def failed(table: ChunkTable) -> Bool:
    """Rows with an SA answer that failed, bool[n]. Call as `table.once(failed)`."""
    return _without_data(table, frozenset({numbers.SA_CLASS}), numbers.NO_DATA)


def undefined(table: ChunkTable) -> Bool:
    """Rows with another answer whose status says that it failed: what its attribute holds means nothing (IBA 13.4.7), bool[n]. Classes of
    vendors may have a use for it. Call as `table.once(undefined)`.
    """
    return _without_data(table, WITH_STATUS, numbers.NO_DATA & numbers.STATUS)


def _without_data(table: ChunkTable, classes: frozenset[int], bits: int) -> Bool:
    """Rows with an answer of these classes that has one of these bits in its status, bool[n]."""
    found = np.zeros(len(table), np.bool_)
    for (mgmt_class, _), rows in table.attributes().items():
        if mgmt_class in classes:
            at = table.located.at("mad")[rows]
            answers = (table.chunk.data[at + MAD.method.span[0]] & numbers.RESPONSE_BIT) != 0
            found[rows] = answers & ((u16(table.chunk.data, at + MAD.status.span[0]) & bits) != 0)
    return found


def unread_bytes(table: ChunkTable) -> Occurrences:
    """The data of `unread` requests."""
    found = attribute_bytes(table, np.flatnonzero(table.once(unread)))
    return found.pick(found.at < found.stop)


def attribute_bytes(table: ChunkTable, rows: Int) -> Occurrences:
    """The bytes for an attribute in the MADs of some rows."""
    mad = table.located.at("mad")[rows]
    heads = table.chunk.data[mad].astype(np.int64) << 8 | table.chunk.data[mad + 1]
    at, stop = mad.copy(), table.located.payload_end[rows]
    for head in np.unique(heads).tolist():
        field = table.catalog.data_of(head & 0xFF, BASE_VERSION_OPA if head >> 8 == BASE_VERSION_OPA else BASE_VERSION_IB)
        here = heads == head
        at[here] += field.span[0] if field is not None else MAD.size
        if field is not None and field.kind != "rest":  # the path of a directed route follows
            stop[here] = np.minimum(stop[here], mad[here] + field.span[1])
    return Occurrences(rows, at, stop)
