"""Which packets of a chunk belong to RC, UC, RD and XRC streams, and what do they say? Arrays, sorted by stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.capture.chunk import LINK_ERF
from ibdissect.record import record
from ibdissect.table.distinct import order_of
from ibdissect.table.front import Place
from ibdissect.table.locate import EXTENDED_AT, EXTENDED_SIZE, Bool, Int
from ibdissect.table.table import ChunkTable, gather
from ibdissect.wire.opcodes import OPCODES, RC, RD, UC, XRC
from ibdissect.wire.transport import BTH, RETH

U64 = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
SERVICE, OPERATION = 0xE0, 0x1F
READ_REQUEST, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE = range(0x0C, 0x13)
NO_MESSAGE, SEND, WRITE, READ = range(4)
_A, _B, _C = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
"""Odd multipliers that spread addresses and QP numbers over 64 bits."""


def _by_opcode() -> tuple[Bool, Bool, npt.NDArray[np.uint8], npt.NDArray[np.uint8], Bool]:
    """Per OpCode: in a stream, a response, the message it goes on with, the message it leaves open, starts a WRITE."""
    stream, response, starts_write = (np.zeros(256, np.bool_) for _ in range(3))
    goes_on, leaves = np.zeros(256, np.uint8), np.zeros(256, np.uint8)
    kinds = (("SEND", SEND), ("RDMA WRITE", WRITE), ("RDMA READ Response", READ))
    for code, opcode in OPCODES.items():
        if code & SERVICE not in (RC, UC, RD, XRC) or opcode.operation == "RESYNC":
            continue
        stream[code], response[code] = True, not opcode.request
        for name, kind in kinds:
            if opcode.operation.casefold().startswith(name.casefold()):
                part = opcode.operation[len(name) + 1 :].split()[0]
                goes_on[code] = kind if part in ("Middle", "Last") else NO_MESSAGE
                leaves[code] = kind if part in ("First", "Middle") else NO_MESSAGE
                starts_write[code] = kind == WRITE and part in ("First", "Only")
    return stream, response, goes_on, leaves, starts_write


IN_STREAM, IS_RESPONSE, GOES_ON, LEAVES, STARTS_WRITE = _by_opcode()
UNKNOWN = 0xFF
"""Stands for the OpCode in front of the first packet seen; no transport uses it."""
_TAG = np.array([code & SERVICE | bool(IS_RESPONSE[code]) for code in range(256)], np.uint8)
_IS_READ = (np.arange(256) & OPERATION) == READ_REQUEST
_ROOM = (BTH.size + EXTENDED_SIZE).astype(np.uint8)
_LOW24 = 0xFFFFFF
"""PSNs and queue pairs are the lower 24 bits of their words."""


def by_opcode(choice: npt.NDArray[Any], opcode: Bytes) -> npt.NDArray[Any]:
    """`choice[opcode]` of a table of 256 bytes or flags; seven times as fast."""
    return np.frombuffer(opcode.tobytes().translate(choice.tobytes()), choice.dtype)


@record(eq=True, frozen=False)
class Packets:
    """Packets of streams, sorted by stream and, within one, by frame; arrays of one length but where it is said otherwise."""

    rows: Int
    """Row of the chunk."""
    key: U64
    """Hash of source, destination, destination QP (RD: end-to-end context), service, and whether it is a response."""
    psn: Int
    opcode: Bytes
    length: Int
    """Payload bytes; -1 where the packet was cut off."""
    dma_length: Int
    """RETH.DMALen, -1 without a RETH."""
    syndrome: Int
    """AETH.Syndrome, -1 without an AETH."""
    msn: Int
    """AETH.MSN, -1 without an AETH."""
    dest_qp: Int
    """BTH.DestQP of each stream; of RD the end-to-end context."""
    starts: Int
    """Index of the first packet of each stream."""
    unproven: Bool
    """From a capture that may have missed packets without saying so (ERF as ibdump writes it)."""
    response: Bool
    goes_on: Bytes
    """The message that it goes on with, or NO_MESSAGE."""
    leaves: Bytes
    """The message that it leaves open, or NO_MESSAGE."""
    reads: Int
    """Indices of READ requests."""
    told: Int
    """Indices of packets with an AETH."""
    total: Int
    """Payload bytes in front of each packet, as far as known, and behind the last one: int64[n + 1]."""


def packets(table: ChunkTable) -> Packets | None:
    """The streams of a chunk; None when it has none."""
    loc = table.located
    bth = loc.start.get("bth")
    if bth is None:
        return None
    good = by_opcode(IN_STREAM, loc.opcode) & (loc.limit - bth >= by_opcode(_ROOM, loc.opcode))
    good &= bth >= 0
    rows = np.flatnonzero(good)
    if not len(rows):
        return None
    at, opcode = bth.take(rows), loc.opcode.take(rows)
    head = Place(loc.front, rows, at)
    words = head.part(4, 4), head.part(8, 4)
    dest, psn = (word.view(">u4")[:, 0].astype(np.int64) for word in words)
    dest &= _LOW24
    psn &= _LOW24
    has, word = _word(table, rows, head, opcode, "RDETH", 0)
    dest[has] = word & 0xFFFFFF
    key = dest.view(np.uint64) << np.uint64(8)
    key |= by_opcode(_TAG, opcode)
    key ^= _addresses(table, rows)
    key *= _A
    payload = loc.at("payload").take(rows)
    length = loc.payload_end.take(rows)
    length -= payload
    length *= payload >= 0
    if not loc.complete.all():
        length[~loc.complete[rows]] = -1
    dma, aeth = np.full((2, len(rows)), -1, np.int64)
    has, word = _word(table, rows, head, opcode, "RETH", RETH.dmalen.bit // 8)
    dma[has] = word
    has, word = _word(table, rows, head, opcode, "AETH", 0)
    aeth[has] = word
    order = order_of(key)
    key, opcode, aeth, length = key.take(order), opcode.take(order), aeth.take(order), length.take(order)
    starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    rows = rows.take(order)
    told = np.flatnonzero(aeth >= 0)
    msn = np.full(len(rows), -1, np.int64)
    msn[told] = aeth[told] & 0xFFFFFF
    total = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.maximum(length, 0), out=total[1:])
    return Packets(
        rows, key, psn.take(order), opcode, length, dma.take(order), aeth >> 24, msn, dest.take(order[starts]), starts,
        table.chunk.link.take(rows) == LINK_ERF, by_opcode(IS_RESPONSE, opcode), by_opcode(GOES_ON, opcode), by_opcode(LEAVES, opcode),
        np.flatnonzero(by_opcode(_IS_READ, opcode)), told, total,
    )  # fmt: skip


def _word(table: ChunkTable, rows: Int, head: Place, opcode: Bytes, name: str, offset: int) -> tuple[Int, Int]:
    """Which of `rows`, whose BTHs are `head`, carry an extended header, and the four bytes at `offset` in it as a number."""
    delta = EXTENDED_AT[name]
    has = np.flatnonzero(by_opcode(delta >= 0, opcode))
    before = delta.take(opcode.take(has)).astype(np.int64)
    if before.any():
        word = table.located.front.part(rows[has], head.at[has] + BTH.size + before + offset, 4).view(">u4")[:, 0]
    else:
        word = head.part(BTH.size + offset, 4).view(">u4")[:, 0].take(has)
    return has, word.astype(np.int64)


def _addresses(table: ChunkTable, rows: Int) -> U64:
    """Source and destination of each packet in one number: LIDs, else GIDs or IP addresses mixed."""
    loc, data = table.located, table.chunk.data
    out = np.zeros(len(rows), np.uint64)
    for name in ("ip4", "ip6", "grh", "lrh"):
        if name not in loc.start:
            continue
        start = loc.start[name].take(rows)
        there = start >= 0
        index: slice | Int = slice(None)
        if not there.all():
            index = np.flatnonzero(there)
        place = Place(loc.front, rows[index], start[index])
        if name in ("ip6", "grh"):
            words = gather(data, start[index] + 8, 32).view(np.uint64)
            mixed = words[:, 0] * _A
            for i in range(1, 4):
                mixed = (mixed ^ (mixed >> np.uint64(29)) ^ words[:, i]) * _B
        elif name == "lrh":
            mixed, near = (place.part(at, 4).view(">u2")[:, 1].astype(np.uint64) for at in (0, 4))
            mixed <<= np.uint64(16)
            mixed |= near
            mixed *= _B
        else:
            mixed = place.part(12, 8).view(np.uint64)[:, 0] * _B
        out[index] = mixed
    out ^= out >> np.uint64(32)
    out *= _C
    return out
