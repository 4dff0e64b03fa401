"""CRC verdicts over columns are those of one packet at a time, and silent where there is nothing to check."""

from __future__ import annotations

import io
import random
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ibdissect import c_code as native_part
from ibdissect.capture.opening import open_capture
from ibdissect.decode import ChunkTable, crcs
from ibdissect.wire import crc
from tests.cases import every, few
from tests.conftest import a_third_of, shared_captures
from tests.craft import erf_pcap, ethernet_pcap, native, roce2

GID = bytes.fromhex("fe80" + "00" * 13 + "01")


def tables(capture: bytes | Path) -> Iterator[ChunkTable]:
    """The chunks of a capture in memory or on disk."""
    reader = open_capture(io.BytesIO(capture) if isinstance(capture, bytes) else str(capture))
    for chunk in reader.chunks():
        yield ChunkTable(chunk)


def verdict(frame: bytes, *, ethernet: bool = False) -> tuple[bool, bool]:
    """(ICRC bad, ICRC zero) of one frame."""
    (table,) = tables((ethernet_pcap if ethernet else erf_pcap)([frame]))
    found = crcs.icrc(table)
    return bool(found.bad[0]), bool(found.zero[0])


def one_at_a_time(table: ChunkTable, row: int) -> int:
    """The right ICRC of a row by the declarations in `wire.crc`."""
    loc, data = table.located, table.chunk.data
    end = int(loc.at("icrc")[row])

    def cut(name: str) -> bytes:
        return data[int(loc.at(name)[row]) : end].tobytes()

    if loc.at("lrh")[row] >= 0:
        return crc.icrc_native(cut("lrh"), bool(loc.at("grh")[row] >= 0))
    if loc.at("udp")[row] >= 0:
        return crc.icrc_roce2(cut("ip4" if loc.at("ip4")[row] >= 0 else "ip6"))
    return crc.icrc_roce1(cut("grh"))


CAPTURES = [path for path in shared_captures() if path.stat().st_size < 1_500_000]


@pytest.mark.parametrize("path", a_third_of(CAPTURES), ids=lambda path: path.name)
def test_columns_agree_with_single_packets(path: Path) -> None:
    checked = 0
    for table in tables(path):
        found = crcs.icrc(table)
        loc, data = table.located, table.chunk.data
        for row in np.flatnonzero((loc.at("icrc") >= 0) & ~loc.snapped).tolist():
            at = int(loc.at("icrc")[row])
            stored = int.from_bytes(data[at : at + 4].tobytes(), "little")
            right = stored == one_at_a_time(table, row)
            assert (found.bad[row] or found.zero[row]) == (not right)
            checked += 1
        sealed = crcs.vcrc(table)
        for row in np.flatnonzero(loc.at("vcrc") >= 0).tolist():
            at = int(loc.at("vcrc")[row])
            stored = int.from_bytes(data[at : at + 2].tobytes(), "little")
            assert (sealed.bad[row] or sealed.zero[row]) == (stored != crc.vcrc(data[table.chunk.offset[row] : at].tobytes()))
    assert checked


@pytest.mark.parametrize(("name", "frames"), [("netem_corrupt.pcap", 11), ("k612_netem_mess.pcap", 2), ("fmt_snaplen96.pcap", 0)])
def test_corruption_in_recorded_captures(shared: Path, name: str, frames: int) -> None:
    """Numbers of the captures' own index, which were counted by another program."""
    found = [crcs.icrc(table) for table in tables(shared / "captures/rxe" / name)]
    assert sum(int(one.bad.sum()) for one in found) == frames
    assert not any(one.zero.any() for one in found)


@pytest.mark.slow
def test_every_bit_counts_unless_it_is_masked() -> None:
    frame = native(payload=b"payload.", grh={"sgid": GID, "dgid": GID})
    free = set(range(8 * 8)) | set(range(8 * 8 + 4, 12 * 8)) | set(range(15 * 8, 16 * 8)) | set(range(52 * 8, 53 * 8))
    for bit in range(8 * 8 + 4, (len(frame) - 6) * 8):
        byte = bit // 8
        if byte in (12, 13, 14, 48):  # lengths, next header and the OpCode say where the ICRC is
            continue
        changed = bytearray(frame)
        changed[byte] ^= 0x80 >> bit % 8
        assert verdict(bytes(changed))[0] == (bit not in free), f"byte {byte}"


def test_local_packet_masks_the_lane_only() -> None:
    frame = bytearray(native(payload=b"payload.", lrh={"vl": 3}))
    frame[0] ^= 0xF0
    assert verdict(bytes(frame)) == (False, False)
    frame[1] ^= 0x10
    assert verdict(bytes(frame)) == (True, False)


def test_roce_version_1() -> None:
    packet = native(payload=b"payload.", grh={"sgid": GID, "dgid": GID})[8:-2]
    frame = bytes(12) + b"\x89\x15" + packet + bytes(20)
    assert verdict(frame, ethernet=True) == (False, False)
    changed = bytearray(frame)
    changed[-25] ^= 1
    assert verdict(bytes(changed), ethernet=True) == (True, False)


def ipv4_with_options() -> bytes:
    """A RoCE v2 frame whose IPv4 header has 8 bytes of options."""
    frame = roce2(payload=b"payload.")
    ip, rest = bytearray(frame[14:34]), frame[34:-4]
    ip[0] = 0x47
    ip[2:4] = struct.pack(">H", len(rest) + 4 + 28)
    masked = bytearray(b"\xff" * 8 + bytes(ip) + b"\1" * 8 + rest)
    for at in (9, 16, 18, 19, 42, 43, 48):
        masked[at] = 0xFF
    return frame[:14] + bytes(ip) + b"\1" * 8 + rest + struct.pack("<I", zlib.crc32(masked))


def test_ipv4_options_move_the_masked_bytes() -> None:
    assert verdict(ipv4_with_options(), ethernet=True) == (False, False)


def test_jumbo_frames() -> None:
    rng = random.Random(1)
    frame = roce2(payload=rng.randbytes(9000))
    assert verdict(frame, ethernet=True) == (False, False)
    changed = bytearray(frame)
    changed[5000] ^= 4
    assert verdict(bytes(changed), ethernet=True) == (True, False)


def test_what_cannot_be_checked_is_left_alone() -> None:
    whole = native(payload=b"payload.")
    (table,) = tables(erf_pcap([whole[:-6] + bytes(6), whole[:30]]))
    assert crcs.icrc(table).zero.tolist() == [True, False]
    assert not crcs.icrc(table).bad.any()
    assert not crcs.vcrc(table).bad.any()
    fragment = bytearray(roce2(payload=b"payload."))
    fragment[20] |= 0x20
    assert verdict(bytes(fragment), ethernet=True) == (False, False)
    (empty,) = tables(ethernet_pcap([bytes(60)]))
    assert not crcs.icrc(empty).bad.any() and not crcs.vcrc(empty).bad.any()


def packets_of_every_kind() -> bytes:
    """Native packets with and without GRH, of lengths around the pieces that the C part folds, and longer than a path MTU."""
    rnd = random.Random(7)
    lengths = [*range(0, 200, 4), 1024, 4096, 4612, 8000]
    return erf_pcap([native(payload=rnd.randbytes(length), grh={} if i % 2 else None) for i, length in enumerate(lengths)])


@pytest.mark.skipif(native_part.sums is None, reason="ibdissect was built without a compiler")
@few("fold", [True, False], fast=(1,))
def test_c_and_python_sum_alike(fold: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert native_part.sums is not None
    before = native_part.sums.fold(fold)
    try:
        captures = [packets_of_every_kind(), *(path for path in CAPTURES if path.stat().st_size < 100_000)]
        in_c = [(crcs.icrc_sums(table).wanted, crcs.vcrc_sums(table).wanted) for capture in captures for table in tables(capture)]
        monkeypatch.setattr(native_part, "sums", None)
        in_python = [(crcs.icrc_sums(table).wanted, crcs.vcrc_sums(table).wanted) for capture in captures for table in tables(capture)]
    finally:
        monkeypatch.undo()
        native_part.sums.fold(before)
    assert sum(len(one[0]) for one in in_c) >= 50
    for one, other in zip(in_c, in_python, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])


@pytest.mark.skipif(native_part.sums is None, reason="ibdissect was built without a compiler")
@every(("start", "end", "kind"), [(-1, 4, 0), (8, 4, 0), (0, 101, 0), (0, 100, 9)])
def test_the_c_part_refuses_what_does_not_lie_in_its_data(start: int, end: int, kind: int) -> None:
    assert native_part.sums is not None
    where = np.array([start]), np.array([end])
    with pytest.raises(ValueError, match="entry 0 does not lie in the data"):
        native_part.sums.icrcs(bytes(100), *where, np.array([kind], np.uint8), np.empty(1, np.uint32))
