"""Bytes of upper-layer messages that may be a key, and that no structure of the frame shows.

A SEND of several packets is one message. Its first packet has the structures that fit into it, and perhaps the beginning of one; what the
others hold is known only where the message ends, if none is missing. So what no structure covers is hidden in each of its packets, from
the first packet on, whether the message is put together or not. `ChunkTable.shown` has the message as a whole, where only keys are masked.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.places import CmPayload, Stream, TcpData, TcpPort
from ibdissect.wire.ulp.ip import TCP
from ibdissect.wire.ulp.smc import SMCHandshake

from ..bit_fields import any_set
from ..chunk_table import ChunkTable
from ..inner_structures import holds_key
from ..locate import Bool
from ..occurrences import NONE, Occurrences, filled, merged
from ..payloads import WRITES_ONE, about, served
from ..queue_pairs_with_keys import holds_keys
from ..services import IN_PARTS, IS_SEND
from ..tcp_segments import segments_of
from .key_like_payloads import marked

FILLED = 64
"""Ethernet fills frames up to so many bytes, its checksum included."""


def cut_messages(table: ChunkTable) -> Bool:
    """Rows whose payload starts a message of a known service but is truncated or malformed. bool[n]. Call as `table.once(cut_messages)`."""
    located = table.located
    found = np.zeros(len(table), np.bool_)
    found[table.messages()[0]] = True
    broken: Bool = located.snapped | (located.malformed != 0)
    return found & broken


def opaque_bytes(table: ChunkTable) -> Occurrences:
    """Bytes that may be a key of an upper layer, or part of one, unless they are zero; at most one piece for each row.

    Call as `table.once(opaque_bytes)`.
    """
    return filled(table.chunk.data, merged([_in_messages(table), *_in_streams(table), *_in_segments(table)]))


def _in_messages(table: ChunkTable) -> Occurrences:
    """The payloads of messages in several packets, and of messages that are cut off, without the bytes that structures cover."""
    located, found = table.located, np.zeros(len(table), np.bool_)
    for rows, services, sides in (table.services.messages(table, IN_PARTS), table.messages()):
        of = np.array(services, np.uint64), np.array(sides, np.int64)
        for place in _places(table.catalog) if len(rows) else ():
            found[rows[served(table, place, *of)]] = True
    found &= IN_PARTS[located.opcode] | table.once(cut_messages)
    rows = np.flatnonzero(found)
    if not len(rows):
        return NONE
    payload, stop = located.at("payload"), located.payload_end
    reach = stop.copy()
    for struct in _starting(table.catalog):
        there = table.occurrences(struct)
        there = there.pick(there.at == payload[there.rows])
        reach[there.rows] = np.minimum(reach[there.rows], there.at + struct.size)
        found[there.rows] = False
    return Occurrences(rows, np.where(found, payload, reach)[rows], stop[rows])


def of_other_types(table: ChunkTable) -> Iterator[Occurrences]:
    """On connections to services whose messages may hold a key, the payloads that no structure starts with, and what stands in the reserved
    bytes of the others."""
    located, (rows, services, _) = table.located, table.messages()
    of = np.zeros(len(rows), np.bool_)
    for place in _places(table.catalog) if len(rows) else ():
        of |= about(table, place, services)
    payload, known = located.at("payload"), np.zeros(len(table), np.bool_)
    for struct in _starting(table.catalog) if of.any() else ():
        there = table.occurrences(struct)
        there = there.pick((there.at == payload[there.rows]) & np.isin(there.rows, rows[of]))
        known[there.rows] = True
        yield from (Occurrences(there.rows, there.at + a, there.at + b) for a, b in _reserved(struct))
    rows = rows[of & ~known[rows]]
    yield Occurrences(rows, payload[rows], located.payload_end[rows])


def behind_packets(table: ChunkTable) -> Iterator[Occurrences]:
    """Of SENDs on connections to such services, what follows the payload in frames that go on behind the packet: where a length makes the
    packet end early, it is the rest of the message. Zeros that fill up a short frame of Ethernet are none.

    And all of the messages that may be such, but of which it is not known: over another path, with another time, after the end.
    """
    opcodes = IS_SEND | WRITES_ONE
    rows, services, _ = table.services.messages(table, opcodes, bare=True)
    rows = rows[holds_keys(table, np.array(services, np.uint64))]
    may_be = np.setdiff1d(table.services.keyed.rows(table, opcodes), rows)
    rows = rows[IS_SEND[table.located.opcode[rows]]]
    located, stops = table.located, table.chunk.offset + table.chunk.caplen
    begin, end = located.at("payload"), np.where(located.at("payload") >= 0, located.payload_end, located.limit)
    yield Occurrences(may_be, np.where(begin >= 0, begin, end)[may_be], stops[may_be])
    rows = rows[located.behind[rows] < stops[rows]]
    rows = rows[any_set(table.chunk.data, located.behind[rows], stops[rows]) | (table.chunk.caplen[rows] > FILLED)]
    yield Occurrences(rows, end[rows], stops[rows])


@cache
def _reserved(struct: StructType) -> tuple[tuple[int, int], ...]:
    """Where a structure has four reserved bytes or more: a message of another type would have a key there."""
    return tuple(field.span for field in struct.fields if field.kind == "pad" and field.bits >= 32)


def _in_streams(table: ChunkTable) -> Iterator[Occurrences]:
    """The payloads of SENDs, and the data of segments, of a stream, unless PDUs that begin and end in the packet cover it: others are in
    several, or unknown."""
    if not _streams(table.catalog):
        return
    sends, services, sides = table.services.messages(table, IS_SEND)
    of = np.array(services, np.uint64), np.array(sides, np.int64)
    for place, struct in _streams(table.catalog):
        if isinstance(place.over, TcpPort):
            found = segments_of(table, place.over.port)
            data = found.data
            yield found.unread
        else:
            rows = sends[served(table, place.over, *of)]
            data = Occurrences(rows, table.located.at("payload")[rows], table.located.payload_end[rows])
        there = table.occurrences(struct)
        covered = np.bincount(there.rows, (there.stop - there.at) * (there.at < table.window), minlength=len(table))[data.rows]
        yield data.pick(covered < data.stop - data.at)


def _in_segments(table: ChunkTable) -> Iterator[Occurrences]:
    """The data of TCP segments that end within a structure with a key, are the rest of a message, or follow one."""
    yield _behind(table)
    yield _marked(table)
    for owner, inner in table.catalog.inside.items():
        if not any(isinstance(place, TcpData) for place in owner.carried_by):
            continue
        for place, struct in inner:
            if holds_key(table.catalog, struct):
                found = table.occurrences(owner).pick(table.where(owner, place.when))
                at = found.at + place.field.bit // 8
                yield Occurrences(found.rows, at, found.stop).pick(at + struct.size > found.stop)


def _marked(table: ChunkTable) -> Occurrences:
    """What is behind the TCP header in segments with a mark of packets or messages with keys, unless they are read. Messages of SMC begin
    and end with its word: a segment may begin within one, or its header have a wrong length. Or TCP carries copies of packets."""
    found = table.occurrences(TCP)
    if not len(found):
        return NONE
    at, stop = found.at + TCP.size, np.maximum((table.chunk.offset + table.chunk.caplen)[found.rows], found.at + TCP.size)
    read = np.zeros(len(table), np.bool_)
    for struct in _over_tcp(table.catalog):
        read[table.occurrences(struct).rows] = True
    return Occurrences(found.rows, at, stop).pick(~read[found.rows] & marked(table, at, stop))


@cache
def _over_tcp(catalog: Catalog) -> tuple[StructType, ...]:
    """The structures that are found in segments."""
    placed = [(place, struct) for struct in catalog.structs for place in struct.carried_by]
    return tuple({one for place, one in placed if isinstance(place.over if isinstance(place, Stream) else place, TcpData | TcpPort)})


def _behind(table: ChunkTable) -> Occurrences:
    """What follows the message of SMC that a segment begins with, as its length says: perhaps another one, with a key."""
    found = table.occurrences(SMCHandshake)
    behind = found.at + np.maximum(table.values(SMCHandshake.length).astype(np.int64), SMCHandshake.size)
    return Occurrences(found.rows, behind, found.stop)


@cache
def _places(catalog: Catalog) -> tuple[CmPayload, ...]:
    """Where messages are carried that may hold a key."""
    return tuple({place for struct in _starting(catalog) if holds_key(catalog, struct) for place in _carrying(struct)})


@cache
def _starting(catalog: Catalog) -> tuple[StructType, ...]:
    """The structures that messages start with."""
    return tuple(struct for struct in catalog.structs if _carrying(struct))


def _carrying(struct: StructType) -> list[CmPayload]:
    return [place for place in struct.carried_by if isinstance(place, CmPayload)]


@cache
def _streams(catalog: Catalog) -> tuple[tuple[Stream, StructType], ...]:
    """The streams that may hold a key."""
    return tuple((place, struct) for place, struct in catalog.streams if holds_key(catalog, struct))
