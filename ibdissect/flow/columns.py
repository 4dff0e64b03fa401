"""Which packets of a chunk belong to RC, UC and XRC streams, and what do they say? Arrays, sorted by stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ibdissect.capture.chunk import LINK_ERF
from ibdissect.table.locate import EXTENDED_AT, EXTENDED_SIZE, Bool, Int, u16, u24
from ibdissect.table.table import ChunkTable, gather
from ibdissect.wire.opcodes import OPCODES, RC, UC, XRC
from ibdissect.wire.transport import BTH

U64 = npt.NDArray[np.uint64]
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
        if code & SERVICE not in (RC, UC, XRC) or opcode.operation == "RESYNC":
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


@dataclass(slots=True)
class Packets:
    """Packets of streams, sorted by stream and, within one, by frame; all arrays of one length but `starts`."""

    rows: Int
    """Row of the chunk."""
    key: U64
    """Hash of source, destination, destination QP, service, and whether it is a response."""
    psn: Int
    opcode: npt.NDArray[np.uint8]
    length: Int
    """Payload bytes; -1 where the packet was cut off."""
    dma_length: Int
    """RETH.DMALen, -1 without a RETH."""
    syndrome: Int
    """AETH.Syndrome, -1 without an AETH."""
    msn: Int
    """AETH.MSN, -1 without an AETH."""
    dest_qp: Int
    starts: Int
    """Index of the first packet of each stream."""
    unproven: Bool
    """From a capture that may have missed packets without saying so (ERF as ibdump writes it)."""


def packets(table: ChunkTable) -> Packets | None:
    """The streams of a chunk; None when it has none."""
    loc, data = table.located, table.chunk.data
    bth = loc.start.get("bth")
    if bth is None:
        return None
    rows = np.flatnonzero((bth >= 0) & IN_STREAM[loc.opcode])
    if len(rows):
        at = bth[rows]
        which = table.first(BTH)[rows]
        dest, psn = (table.values(field)[which].astype(np.int64) for field in (BTH.destqp, BTH.psn))
        opcode = loc.opcode[rows]
        delta = EXTENDED_AT["RETH"][opcode].astype(np.int64)
        aeth = EXTENDED_AT["AETH"][opcode].astype(np.int64)
        room = loc.limit[rows] - at - 12
        fits = EXTENDED_SIZE[opcode] <= room
        if not fits.all():
            rows, at, dest, psn = rows[fits], at[fits], dest[fits], psn[fits]
            opcode, delta, aeth = opcode[fits], delta[fits], aeth[fits]
    if not len(rows):
        return None
    tag = (opcode & SERVICE).astype(np.uint64) | IS_RESPONSE[opcode]
    key = (_addresses(table, rows) ^ ((dest.astype(np.uint64) << np.uint64(8)) | tag)) * _A
    order = _order(key)
    rows, at, opcode, delta, aeth = rows[order], at[order], opcode[order], delta[order], aeth[order]
    key, dest, psn = key[order], dest[order], psn[order]
    dma = np.full(len(rows), -1, np.int64)
    has = np.flatnonzero(delta >= 0)
    start = at[has] + 12 + delta[has] + 12
    dma[has] = (u16(data, start) << 16) | u16(data, start + 2)
    syndrome, msn = np.full(len(rows), -1, np.int64), np.full(len(rows), -1, np.int64)
    has = np.flatnonzero(aeth >= 0)
    start = at[has] + 12 + aeth[has]
    syndrome[has], msn[has] = data[start], u24(data, start + 1)
    payload = loc.at("payload")[rows]
    length = np.where(payload >= 0, loc.payload_end[rows] - payload, 0)
    length[~loc.complete[rows]] = -1
    starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    return Packets(
        rows, key, psn, opcode, length, dma, syndrome, msn, dest, starts, table.chunk.link[rows] == LINK_ERF
    )  # fmt: skip


def _addresses(table: ChunkTable, rows: Int) -> U64:
    """Source and destination of each packet in one number: LIDs, else GIDs or IP addresses mixed."""
    loc, data = table.located, table.chunk.data
    out = np.zeros(len(rows), np.uint64)
    for name, source, size in (("ip4", 12, 4), ("ip6", 8, 16), ("grh", 8, 16), ("lrh", 2, 2)):
        if name not in loc.start:
            continue
        start = loc.start[name][rows]
        there = start >= 0
        index = slice(None) if there.all() else np.flatnonzero(there)
        at = start[index] + source
        if name == "lrh":  # DLID, length, SLID
            out[index] = ((u16(data, at) << 16) | u16(data, at + 4)).astype(np.uint64) * _B
        elif size == 4:
            out[index] = gather(data, at, 8).view(np.uint64).ravel() * _B
        else:
            words = gather(data, at, 32).view(np.uint64)
            mixed = words[:, 0] * _A
            for i in range(1, 4):
                mixed = (mixed ^ (mixed >> np.uint64(29)) ^ words[:, i]) * _B
            out[index] = mixed
    mixed = (out ^ (out >> np.uint64(32))) * _C
    return np.asarray(mixed, np.uint64)


def _order(key: U64) -> Int:
    """A stable order by key: 16 bits of it first, which sorts in linear time; all of it only where two streams share them."""
    short = (key >> np.uint64(48)).astype(np.uint16)
    order = np.argsort(short, kind="stable")
    sorted_key, sorted_short = key[order], short[order]
    mixed = (sorted_short[1:] == sorted_short[:-1]) & (sorted_key[1:] != sorted_key[:-1])
    if mixed.any():
        crowded = np.flatnonzero(np.isin(sorted_short, sorted_short[1:][mixed]))
        part = order[crowded]
        order[crowded] = part[np.lexsort((key[part], short[part]))]
    return order
