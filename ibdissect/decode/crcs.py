"""ICRCs and VCRCs of a chunk: the packets whose CRCs are wrong.

`c_code.sums` computes them in C for a whole chunk. If it was not built, zlib and anycrc are called once per packet; the bytes that the
ICRC masks with ones are masked in a copy of the chunk's data.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect import c_code
from ibdissect.capture.gather import AT_ONCE, Bytes, Words, unaligned
from ibdissect.wire import crc
from ibdissect.wire.encapsulation import IPv6

from .chunk_table import ChunkTable
from .locate import Bool, Int

ONES = b"\xff" * 8
"""Replaces the LRH if there is none, or if all of it may change."""


class CrcResults(Record, frozen=True, eq=False):
    """Results for one kind of CRC; rows without it (truncated, or another packet type) are False in both."""

    bad: Bool
    """The CRC is wrong and not zero, bool[n]."""
    zero: Bool
    """The CRC is wrong and zero: the packet was captured before the hardware filled it in, bool[n]."""
    rows: Int
    """Rows with such a CRC, int64[k], ascending."""


class PacketCrcs(Record, frozen=True, eq=False):
    """CRCs of the completely captured packets that have one."""

    rows: Int
    """Rows of the chunk, int64[k], ascending."""
    at: Int
    """Offset of the CRC in `chunk.data`, int64[k]."""
    stored: npt.NDArray[np.uint32]
    """The CRC in the packet, uint32[k]."""
    wanted: npt.NDArray[np.uint32]
    """The computed CRC, uint32[k]."""


def icrc(table: ChunkTable) -> CrcResults:
    """Check the ICRC of every complete packet: native, RoCE v1, RoCE v2 over IPv4 and IPv6. Call as `table.once(icrc)`."""
    return _verdicts(table, table.once(icrc_sums))


def vcrc(table: ChunkTable) -> CrcResults:
    """Check the VCRC of every complete native packet that has one. Call as `table.once(vcrc)`."""
    return _verdicts(table, vcrc_sums(table))


def wrong_icrcs(table: ChunkTable, rows: Int) -> Bool:
    """Whether the ICRCs of some rows are wrong, bool[len(rows)]; zero counts as not filled in, as in `icrc`."""
    some = len(rows) < len(table) >> 1 and not table.has(icrc)
    return (_verdicts(table, icrc_sums(table, rows)) if some else table.once(icrc)).bad[rows]


def icrc_sums(table: ChunkTable, some: Int | None = None) -> PacketCrcs:
    """The ICRCs of a chunk, or of some of its rows, from its current bytes."""
    loc, data = table.located, table.chunk.data
    place = loc.start.get("icrc")
    if place is None:
        return _NOTHING
    there = (place >= 0) & ~loc.snapped
    rows = np.flatnonzero(there) if some is None else np.sort(some[there[some]])
    kinds, starts = _kinds(table, rows)
    if not (known := kinds < UNKNOWN).all():
        rows, kinds, starts = rows[known], kinds[known], starts[known]
    ends = place.take(rows)
    if c_code.sums is None:
        return PacketCrcs(rows, ends, unaligned(data, "<u4")[ends].astype(np.uint32), _one_by_one(table, rows, kinds, starts, ends))
    return PacketCrcs(rows, ends, *_by_parts(c_code.sums.icrcs, data, "<u4", ends, starts, ends, kinds))


def vcrc_sums(table: ChunkTable) -> PacketCrcs:
    """The VCRCs of a chunk, from its current bytes."""
    loc, data = table.located, table.chunk.data
    at = loc.start.get("vcrc")
    if at is None:
        return _NOTHING
    rows = np.flatnonzero((at >= 0) & ~loc.snapped)
    starts, ends = table.chunk.offset.take(rows), at.take(rows)
    if c_code.sums is None:
        wanted = np.fromiter(map(crc.crc16(), _pieces(data, starts, ends)), np.uint32, len(rows))
        return PacketCrcs(rows, ends, unaligned(data, "<u2")[ends].astype(np.uint32), wanted)
    return PacketCrcs(rows, ends, *_by_parts(c_code.sums.vcrcs, data, "<u2", ends, starts, ends))


def _by_parts(sums: Callable[..., None], data: Bytes, dtype: str, ends: Int, *columns: npt.NDArray[Any]) -> tuple[Words, Words]:
    """The CRCs in the packets, and those that a function of `c_code.sums` computes from `columns`; uint32[k] each.

    Those of some packets at a time are read while these packets are in the CPU cache.
    """
    stored, wanted = np.empty((2, len(ends)), np.uint32)
    found = unaligned(data, dtype)
    for first in range(0, len(ends), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        sums(data, *(column[part] for column in columns), wanted[part])
        stored[part] = found[ends[part]]
    return stored, wanted


NATIVE, ROUTED, ROCE_IP4, ROCE_IP6, UNKNOWN = range(5)
"""The headers before the BTH: LRH, GRH (native or RoCE v1), IPv4 or IPv6 with UDP; the same numbers as in `c_code/sums.c`."""
MASKED = {
    NATIVE: ("lrh", {0: 0xF0}, {4: 0xFF}),
    ROUTED: ("grh", {0: 0x0F, 1: 0xFF, 2: 0xFF, 3: 0xFF, 7: 0xFF}, {4: 0xFF}),
    ROCE_IP4: ("ip4", {1: 0xFF, 8: 0xFF, 10: 0xFF, 11: 0xFF}, {-2: 0xFF, -1: 0xFF, 4: 0xFF}),
    ROCE_IP6: ("ip6", {0: 0x0F, 1: 0xFF, 2: 0xFF, 3: 0xFF, 7: 0xFF}, {-2: 0xFF, -1: 0xFF, 4: 0xFF}),
}
"""The header where the sum starts, and the bits masked with ones: by offset from that header, and by offset from the BTH (`wire.crc`)."""


def _kinds(table: ChunkTable, rows: Int) -> tuple[npt.NDArray[np.uint8], Int]:
    """The headers before the BTH of each row (NATIVE ... UNKNOWN), uint8[k], and where its sum starts, int64[k]."""
    start, nowhere = table.located.start, np.full(len(rows), -1, np.int64)
    at = {name: start[name].take(rows) if name in start else nowhere for name in ("lrh", "grh", "ip4", "ip6", "udp")}
    native_packet, over_udp, four = at["lrh"] >= 0, at["udp"] >= 0, at["ip4"] >= 0
    ip = over_udp & ~native_packet
    whole = four.copy()
    if four.any():
        whole &= table.located.front.part(rows, np.maximum(at["ip4"] + 6, 0), 1)[:, 0] & 0x20 == 0  # a fragment has no ICRC of its own
    kinds, starts = np.full(len(rows), UNKNOWN, np.uint8), np.zeros(len(rows), np.int64)
    for kind, which in (
        (NATIVE, native_packet & (at["grh"] < 0) & ~over_udp),
        (ROUTED, (at["grh"] >= 0) & ~over_udp),
        (ROCE_IP4, ip & whole),
        (ROCE_IP6, ip & (at["ip6"] >= 0) & ~four & (at["udp"] == at["ip6"] + IPv6.size)),  # what else is masked is not known
    ):
        np.copyto(kinds, kind, where=which)
        np.copyto(starts, at[MASKED[kind][0]], where=which)
    return kinds, starts


def _one_by_one(table: ChunkTable, rows: Int, kinds: npt.NDArray[np.uint8], starts: Int, ends: Int) -> npt.NDArray[np.uint32]:
    """ICRCs with one zlib call per packet, uint32[k]."""
    data, bth = table.chunk.data.copy(), table.located.at("bth")[rows]
    for kind, (_, from_start, from_bth) in MASKED.items():
        here = kinds == kind
        for base, masks in ((starts[here], from_start), (bth[here], from_bth)):
            for offset, mask in masks.items():
                data[base + offset] |= mask
    begin = np.where(kinds == NATIVE, 0, zlib.crc32(ONES)).tolist()
    return np.fromiter(map(zlib.crc32, _pieces(data, starts, ends), begin), np.uint32, len(rows))


def _pieces(data: npt.NDArray[np.uint8], starts: Int, ends: Int) -> Iterator[memoryview]:
    return map(data.data.__getitem__, map(slice, starts.tolist(), ends.tolist()))


_NOTHING = PacketCrcs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint32))


def _verdicts(table: ChunkTable, sums: PacketCrcs) -> CrcResults:
    bad, zero = np.zeros(len(table), np.bool_), np.zeros(len(table), np.bool_)
    wrong = np.flatnonzero(sums.stored != sums.wanted)
    if len(wrong):
        bad[sums.rows[wrong]], zero[sums.rows[wrong]] = sums.stored[wrong] != 0, sums.stored[wrong] == 0
    return CrcResults(bad, zero, sums.rows)
