"""Which packets of a chunk carry wrong CRCs? One call of a C function a packet; the bits that do not count are taken out afterwards.

A CRC is linear: crc(a ^ d) = crc(a) ^ z(d), where z starts and ends with zeros. So the raw bytes of a packet are summed as
they stand, and what masking would have changed in each masked byte is added from a table (byte value, bytes behind it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import repeat
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from ibdissect.record import record
from ibdissect.wire import crc

from .locate import Bool, Int
from .table import ChunkTable

NEAR, REACH = 512, 4608
"""Bytes behind a masked byte that the tables cover: MADs with all headers (a table quickly made), and packets of 4096 bytes payload. Longer
ones are masked one by one."""
ONES = b"\xff" * 8
"""What stands for the LRH where there is none, or where all of it may change."""


@record
class Checked:
    """Verdicts on one kind of CRC; rows without one (cut off, no such packet) are False in both."""

    bad: Bool
    """The CRC in the packet is neither right nor zero, bool[n]."""
    zero: Bool
    """The packet holds zero instead of its CRC: it was captured before the hardware filled it in, bool[n]."""


@record
class Sums:
    """CRCs of the packets that have one and are all there."""

    rows: Int
    """Rows of the chunk, int64[k], ascending."""
    at: Int
    """Where the CRC stands in `chunk.data`, int64[k]."""
    stored: npt.NDArray[np.uint32]
    """What stands there, uint32[k]."""
    wanted: npt.NDArray[np.uint32]
    """What should, uint32[k]."""


_ICRC: WeakKeyDictionary[ChunkTable, Checked] = WeakKeyDictionary()
_VCRC: WeakKeyDictionary[ChunkTable, Checked] = WeakKeyDictionary()


def icrc(table: ChunkTable) -> Checked:
    """ICRC of every packet that is all there: native (with GRH or not), RoCE v1, RoCE v2 over IPv4 and IPv6; computed once a chunk."""
    found = _ICRC.get(table)
    if found is None:
        found = _ICRC[table] = _verdicts(table, icrc_sums(table))
    return found


def vcrc(table: ChunkTable) -> Checked:
    """VCRC of every native packet that is all there and has one; computed once a chunk."""
    found = _VCRC.get(table)
    if found is None:
        found = _VCRC[table] = _verdicts(table, vcrc_sums(table))
    return found


def icrc_sums(table: ChunkTable) -> Sums:
    """The ICRCs of a chunk, from its bytes as they are now."""
    loc = table.located
    data = table.chunk.data
    place = loc.start.get("icrc")
    if place is None:
        return _NOTHING
    rows = np.flatnonzero((place >= 0) & ~loc.snapped)
    starts = np.empty(len(rows), np.int64)
    fix = np.zeros(len(rows), np.uint32)
    long = np.zeros(len(rows), np.bool_)
    ones_first = np.zeros(len(rows), np.bool_)
    known = np.zeros(len(rows), np.bool_)
    for part, start, masks in _kinds(table, rows):
        here = rows[part]
        known[part] = True
        starts[part], ones_first[part] = start, masks.ones
        end = place[here]
        big = end - start > REACH
        long[part] = big
        delta = np.zeros(len(here), np.uint32)
        reach = NEAR if (end - start <= NEAR).all() else REACH
        for at, mask in masks.bytes:
            value = data[at]
            delta ^= _behind(reach)[np.minimum(end - at - 1, reach - 1), (value | mask) ^ value]
        fix[part] = delta
    if not known.all():
        rows, starts, fix, long, ones_first = rows[known], starts[known], fix[known], long[known], ones_first[known]
    ends = place[rows]
    wanted = _sum(data, starts, ends, ones_first) ^ fix
    for i in np.flatnonzero(long).tolist():
        wanted[i] = _slow(table, int(rows[i]), data[starts[i] : ends[i]].tobytes())
    stored = np.ndarray((data.size - 3,), "<u4", data.data, 0, (1,))[ends]
    return Sums(rows, ends, stored, wanted)


def vcrc_sums(table: ChunkTable) -> Sums:
    """The VCRCs of a chunk, from its bytes as they are now."""
    loc, data = table.located, table.chunk.data
    at = loc.start.get("vcrc")
    if at is None:
        return _NOTHING
    rows = np.flatnonzero((at >= 0) & ~loc.snapped)
    starts, ends = table.chunk.offset[rows], at[rows]
    memory = data.data
    pieces = map(memory.__getitem__, map(slice, starts.tolist(), ends.tolist()))
    wanted = np.fromiter(map(crc.crc16(), pieces), np.uint32, len(rows))
    stored = np.ndarray((data.size - 1,), "<u2", data.data, 0, (1,))[ends].astype(np.uint32)
    return Sums(rows, ends, stored, wanted)


@record
class _Masks:
    ones: bool
    """Eight bytes of ones stand in front of the bytes summed."""
    bytes: list[tuple[Int, int]]
    """Offsets of a masked byte of each packet, and the bits of it that count as ones."""


def _kinds(table: ChunkTable, rows: Int) -> Iterator[tuple[Bool, Int, _Masks]]:
    """Packets by what stands in front of their BTH: which of `rows`, where the sum starts, what is masked."""
    loc, data = table.located, table.chunk.data
    nowhere = np.full(len(rows), -1, np.int64)
    at = {name: loc.start[name][rows] if name in loc.start else nowhere for name in ("lrh", "grh", "ip4", "ip6", "udp", "bth")}
    bth = at["bth"]
    native = at["lrh"] >= 0
    ip = (at["udp"] >= 0) & ~native
    four = ip & (at["ip4"] >= 0)
    if four.any():
        # Part of a datagram has no ICRC of its own.
        four &= data[np.maximum(at["ip4"] + 6, 0)] & 0x20 == 0
    plain = native & (at["grh"] < 0) & (at["udp"] < 0)
    if plain.any():
        start, b = at["lrh"][plain], bth[plain]
        yield plain, start, _Masks(False, [(start, 0xF0), (b + 4, 0xFF)])
    routed = (at["grh"] >= 0) & ~ip & (at["udp"] < 0)
    if routed.any():
        g, b = at["grh"][routed], bth[routed]
        yield routed, g, _Masks(True, [(g, 0x0F), *((g + i, 0xFF) for i in (1, 2, 3, 7)), (b + 4, 0xFF)])
    if four.any():
        i, u, b = at["ip4"][four], at["udp"][four], bth[four]
        masked = (i + 1, i + 8, i + 10, i + 11, u + 6, u + 7, b + 4)
        yield four, i, _Masks(True, [(where, 0xFF) for where in masked])
    six = ip & (at["ip6"] >= 0) & ~(at["ip4"] >= 0)
    if six.any():
        i, u, b = at["ip6"][six], at["udp"][six], bth[six]
        yield six, i, _Masks(True, [(i, 0x0F), *((where, 0xFF) for where in (i + 1, i + 2, i + 3, i + 7, u + 6, u + 7, b + 4))])


def _sum(data: npt.NDArray[np.uint8], starts: Int, ends: Int, ones_first: Bool) -> npt.NDArray[np.uint32]:
    """CRC-32 of each piece, behind eight bytes of ones where `ones_first`."""
    crc32 = _crc32()
    memory = data.data
    pieces = map(memory.__getitem__, map(slice, starts.tolist(), ends.tolist()))
    begin = crc32(ONES)
    if ones_first.all():
        return np.fromiter(map(crc32, pieces, repeat(begin)), np.uint32, len(starts))
    if not ones_first.any():
        return np.fromiter(map(crc32, pieces), np.uint32, len(starts))
    return np.fromiter(map(crc32, pieces, np.where(ones_first, begin, 0).tolist()), np.uint32, len(starts))


def _slow(table: ChunkTable, row: int, data: bytes) -> int:
    """The ICRC of a packet beyond the table's reach; `data` starts where the sum starts."""
    start = table.located.start
    if "lrh" in start and start["lrh"][row] >= 0:
        has_grh = "grh" in start and bool(start["grh"][row] >= 0)
        return crc.icrc_native(ONES + data, True) if has_grh else crc.icrc_native(data, False)
    if "udp" in start and start["udp"][row] >= 0:
        return crc.icrc_roce2(data)
    return crc.icrc_roce1(data)


_NOTHING = Sums(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint32))


def _verdicts(table: ChunkTable, sums: Sums) -> Checked:
    bad, zero = np.zeros(len(table), np.bool_), np.zeros(len(table), np.bool_)
    wrong = sums.stored != sums.wanted
    bad[sums.rows], zero[sums.rows] = wrong & (sums.stored != 0), wrong & (sums.stored == 0)
    return Checked(bad, zero)


@cache
def _behind(reach: int) -> npt.NDArray[np.uint32]:
    """uint32[reach, 256]: what byte `b` followed by `k` zero bytes sums to, without ones before and after."""
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, (first >> 1) ^ np.uint32(0xEDB88320), first >> 1).astype(np.uint32)
    after, bits = first.tolist(), []
    row = [after[1 << bit] for bit in range(8)]
    for _ in range(reach):
        bits.append(row)
        row = [value >> 8 ^ after[value & 0xFF] for value in row]
    of_bit, table = np.array(bits, np.uint32), np.zeros((reach, 256), np.uint32)
    for bit in range(8):  # a byte sums to what its bits sum to
        table[:, 1 << bit : 2 << bit] = table[:, : 1 << bit] ^ of_bit[:, bit : bit + 1]
    return table


@cache
def _crc32() -> Callable[..., Any]:
    """The fastest CRC-32 at hand: isal's where it is installed."""
    try:
        from isal import isal_zlib
    except ImportError:
        import zlib

        return zlib.crc32
    found: Callable[..., Any] = isal_zlib.crc32
    return found
