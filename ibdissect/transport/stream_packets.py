"""Packets of a chunk in RC, UC and XRC streams, with their values, as arrays sorted by stream."""

from __future__ import annotations

import numpy as np
from msgspec import Struct as Record

from ibdissect.capture.gather import Bytes, looked_up
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.addresses import sides_hash
from ibdissect.decode.equal_rows import SPREAD, U64, order_of, run_starts
from ibdissect.decode.header_cache import FieldReader
from ibdissect.decode.locate import EXTENDED_AT, EXTENDED_SIZE
from ibdissect.decode.payload_sizes import payload_sizes
from ibdissect.engine import opcode_parts
from ibdissect.wire.headers import AETH, BTH, RETH
from ibdissect.wire.opcodes import SERVICE

IN_STREAM, IS_RESPONSE, STARTS_WRITE = (
    np.frombuffer(one, np.bool_) for one in (opcode_parts.IN_STREAM, opcode_parts.IS_RESPONSE, opcode_parts.STARTS_WRITE)
)
GOES_ON, LEAVES_OPEN = (np.frombuffer(one, np.uint8) for one in (opcode_parts.GOES_ON, opcode_parts.LEAVES_OPEN))
_TAG = np.array([code & SERVICE | bool(IS_RESPONSE[code]) for code in range(256)], np.uint8)
_HEADERS_SIZE = (BTH.size + EXTENDED_SIZE).astype(np.uint8)
_LOW24 = 0xFFFFFF
"""PSNs and queue pairs are the lower 24 bits of their words."""


class Packets(Record):
    """Packets of streams, sorted by stream, then by frame; arrays of equal length unless noted otherwise. Their users call it `p`."""

    rows: Int
    """Row of the chunk."""
    key: U64
    """Hash of source and destination (LID and GID, network), destination QP, service, and whether it is a response."""
    psn: Int
    opcode: Bytes
    length: Int
    """Payload bytes on the wire; -1 if no header says."""
    dma_length: Int
    """RETH.DMALen, -1 without a RETH, or where it is cut off."""
    syndrome: Int
    """AETH.Syndrome, -1 without an AETH, or where it is cut off."""
    dest_qp: Int
    """BTH.DestQP of each stream."""
    starts: Int
    """Index of the first packet of each stream."""


def cut_off(table: ChunkTable) -> Int:
    """Rows of stream packets whose extended headers are cut off by the snap length: only their PSNs and OpCodes are known."""
    loc = table.located
    bth = loc.start.get("bth")
    if bth is None:
        return np.empty(0, np.int64)
    return np.flatnonzero((bth >= 0) & looked_up(loc.opcode, IN_STREAM) & (loc.limit - bth < looked_up(loc.opcode, _HEADERS_SIZE)))


def packets(table: ChunkTable) -> Packets | None:
    """The packets of streams in a chunk; None if there are none."""
    loc = table.located
    bth = loc.start.get("bth")
    if bth is None:
        return None
    good = looked_up(loc.opcode, IN_STREAM) & ((loc.limit - bth >= looked_up(loc.opcode, _HEADERS_SIZE)) | loc.snapped)
    good &= bth >= 0
    rows = np.flatnonzero(good)
    if not len(rows):
        return None
    at, opcode = bth.take(rows), loc.opcode.take(rows)
    head = FieldReader(loc.front, rows, at)
    words = head.part(4, 4), head.part(8, 4)
    dest, psn = (word.view(">u4")[:, 0].astype(np.int64) for word in words)
    dest &= _LOW24
    psn &= _LOW24
    key = dest.view(np.uint64) << np.uint64(8)
    key |= looked_up(opcode, _TAG)
    key ^= sides_hash(table, rows)
    key *= SPREAD
    payload = loc.at("payload").take(rows)
    length = loc.payload_end.take(rows)
    length -= payload
    length *= payload >= 0
    length += (-length & 3) * (looked_up(opcode, LEAVES_OPEN) > 0)  # First and Middle packets have no pad bytes, whatever their headers say
    if not loc.complete.all():
        cut = np.flatnonzero(~loc.complete.take(rows))
        length[cut] = payload_sizes(table, rows[cut])
    dma, aeth = np.full((2, len(rows)), -1, np.int64)
    for struct, offset, found in ((RETH, RETH.dmalen.bit // 8, dma), (AETH, 0, aeth)):
        has, word = _word(table, rows, head, opcode, struct, offset)
        found[has] = word
    order = order_of(key)
    key = key.take(order)
    starts = run_starts(key)
    return Packets(
        rows.take(order), key, psn.take(order), opcode.take(order), length.take(order), dma.take(order), aeth.take(order) >> 24,
        dest.take(order[starts]), starts,
    )  # fmt: skip


def _word(table: ChunkTable, rows: Int, head: FieldReader, opcode: Bytes, struct: type[AETH] | type[RETH], offset: int) -> tuple[Int, Int]:
    """Which of `rows` (their BTHs are `head`) have a whole extended header, and its four bytes at `offset` as int64."""
    delta, limit = EXTENDED_AT[struct.__name__], table.located.limit
    has = np.flatnonzero(looked_up(opcode, delta >= 0))
    before = delta.take(opcode.take(has)).astype(np.int64)
    if table.located.snapped.any():
        there = head.at[has] + BTH.size + before + struct.size <= limit.take(rows[has])
        has, before = has[there], before[there]
    if before.any():
        word = table.located.front.part(rows[has], head.at[has] + BTH.size + before + offset, 4).view(">u4")[:, 0]
    else:
        word = head.part(BTH.size + offset, 4).view(">u4")[:, 0].take(has)
    return has, word.astype(np.int64)
