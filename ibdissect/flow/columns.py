"""Which packets of a chunk belong to RC, UC, RD and XRC streams, and what do they say? Arrays, sorted by stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ibdissect.capture.chunk import LINK_ERF
from ibdissect.table.distinct import order_of
from ibdissect.table.locate import EXTENDED_AT, EXTENDED_SIZE, Bool, Int
from ibdissect.table.table import ChunkTable, gather
from ibdissect.wire.opcodes import OPCODES, RC, RD, UC, XRC
from ibdissect.wire.transport import AETH, BTH, RDETH, RETH

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


@dataclass(slots=True)
class Packets:
    """Packets of streams, sorted by stream and, within one, by frame; all arrays of one length but `starts`."""

    rows: Int
    """Row of the chunk."""
    key: U64
    """Hash of source, destination, destination QP (RD: end-to-end context), service, and whether it is a response."""
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
    """BTH.DestQP; of RD the end-to-end context."""
    starts: Int
    """Index of the first packet of each stream."""
    unproven: Bool
    """From a capture that may have missed packets without saying so (ERF as ibdump writes it)."""


def packets(table: ChunkTable) -> Packets | None:
    """The streams of a chunk; None when it has none."""
    loc = table.located
    bth = loc.start.get("bth")
    if bth is None:
        return None
    rows = np.flatnonzero((bth >= 0) & IN_STREAM[loc.opcode])
    fits = EXTENDED_SIZE[loc.opcode[rows]] <= loc.limit[rows] - bth[rows] - BTH.size
    if not fits.all():
        rows = rows[fits]
    if not len(rows):
        return None
    at, opcode = bth[rows], loc.opcode[rows]
    words = loc.front.part(rows, at, BTH.size)[:, 4:].view(">u4")  # DestQP and PSN, each behind a byte of flags
    dest, psn = (words[:, i].astype(np.int64) & 0xFFFFFF for i in range(2))
    has, rdeth = _extended(table, rows, at, opcode, "RDETH", RDETH.size)
    dest[has] = rdeth.view(">u4")[:, 0] & 0xFFFFFF
    tag = (opcode & SERVICE).astype(np.uint64) | IS_RESPONSE[opcode]
    key = (_addresses(table, rows) ^ ((dest.astype(np.uint64) << np.uint64(8)) | tag)) * _A
    payload = loc.at("payload")[rows]
    length = np.where(payload >= 0, loc.payload_end[rows] - payload, 0)
    length[~loc.complete[rows]] = -1
    dma, syndrome, msn = (np.full(len(rows), -1, np.int64) for _ in range(3))
    has, reth = _extended(table, rows, at, opcode, "RETH", RETH.size)
    dma[has] = reth[:, 12:].view(">u4")[:, 0]
    has, aeth = _extended(table, rows, at, opcode, "AETH", AETH.size)
    word = aeth.view(">u4")[:, 0].astype(np.int64)
    syndrome[has], msn[has] = word >> 24, word & 0xFFFFFF
    order = order_of(key)
    key = key[order]
    starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    rows = rows[order]
    return Packets(
        rows, key, psn[order], opcode[order], length[order], dma[order], syndrome[order], msn[order], dest[order], starts,
        table.chunk.link[rows] == LINK_ERF,
    )  # fmt: skip


def _extended(table: ChunkTable, rows: Int, at: Int, opcode: Bytes, name: str, size: int) -> tuple[Int, Bytes]:
    """Which of `rows`, whose BTH is `at`, carry an extended header, and its bytes."""
    delta = EXTENDED_AT[name]
    has = np.flatnonzero((delta >= 0)[opcode])
    return has, table.located.front.part(rows[has], at[has] + BTH.size + delta[opcode[has]], size)


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
        if name == "lrh":
            words = loc.front.part(rows[index], at, 6).view(">u2").astype(np.uint64)  # DLID, length, SLID
            out[index] = ((words[:, 0] << np.uint64(16)) | words[:, 2]) * _B
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
