"""Compressed streams are read to their end, and broken ones end instead of raising."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from ibdissect.capture import compressed
from ibdissect.capture.compressed import zstd_library
from ibdissect.capture.opening import open_capture
from ibdissect.errors import CaptureError
from tests.capture.built import Packet, pcap, pcap_rows, read

Pack = Callable[[bytes], bytes]
PACKS: list[Pack] = [gzip.compress, lzma.compress, zstd_library().compress, bz2.compress]
NAMES = ["gzip", "xz", "zstd", "bzip2"]
if find_spec("lz4") is not None:
    PACKS.append(import_module("lz4.frame").compress)
    NAMES.append("lz4")
MADE = [Packet(1_600_000_000 + n, n, random.Random(n).randbytes(700)) for n in range(100)]


@pytest.mark.parametrize("pack", PACKS, ids=NAMES)
def test_members_one_behind_the_other(pack: Pack) -> None:
    whole = pcap(MADE)
    rows, reader = read(pack(whole[:100]) + pack(whole[100:-300]) + pack(whole[-300:]))
    assert rows == pcap_rows(MADE) and not reader.damage


@pytest.mark.slow
@pytest.mark.parametrize("pack", PACKS, ids=NAMES)
def test_broken_compression_keeps_what_came_before(pack: Pack) -> None:
    made = MADE if PACKS.index(pack) < 3 else MADE * 30  # others lose the block that is cut
    packed, expected = pack(pcap(made)), pcap_rows(made)
    rows, reader = read(packed[: len(packed) * 3 // 4])
    assert len(rows) > len(made) // 4 or pack is zstd_library().compress
    assert rows == expected[: len(rows)] and len(rows) < len(expected)
    assert [damage.kind for damage in reader.damage] in (["cut-off"], [] if not rows else ["cut-off"])


def test_the_break_is_named() -> None:
    packed = bytearray(gzip.compress(pcap(MADE)))
    packed[-8] ^= 1
    rows, reader = read(bytes(packed))
    assert len(rows) > 90
    assert "gzip data breaks here" in reader.damage[0].reason


@pytest.mark.parametrize("pack", PACKS, ids=NAMES)
def test_members_are_read_one_after_the_other(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any size, with empty ones between them, in whatever pieces they arrive; of gzip and xz with zeros behind them."""
    whole = pcap(MADE[:8])
    padding = bytes(4) if NAMES[PACKS.index(pack)] in ("gzip", "xz") else b""
    packed = b"".join(pack(whole[i : i + 160]) + pack(b"") + padding for i in range(0, len(whole), 160))
    for piece in (1, 50, compressed.COMPRESSED_PIECE):
        monkeypatch.setattr(compressed, "COMPRESSED_PIECE", piece)
        rows, reader = read(packed)
        assert rows == pcap_rows(MADE[:8]) and not reader.damage


@pytest.mark.parametrize("pack", PACKS, ids=NAMES)
@pytest.mark.parametrize("empty", [True, False], ids=["empty", "one byte"])
def test_very_many_small_members_are_damage(pack: Pack, empty: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """19 of them, and 200 more, of which each holds a record, or nothing."""
    monkeypatch.setattr(compressed, "MOST_SMALL", 20)
    small = Packet(1_600_000_000, 5, b"abc")
    members = [pack(b"")] * 19 if empty else [pack(bytes([byte])) for byte in pcap([small])[24:]]
    assert len(members) == 19
    for size, ends in ((0, True), (compressed.SMALL - 30, True), (compressed.SMALL, False)):
        large = [Packet(1_600_000_001, 0, bytes(size - 16))] if size else []
        rows, reader = read(pack(pcap(MADE[:3])) + b"".join(members) + pack(pcap(large)[24:]) * 200)
        whole = pcap_rows([*MADE[:3], *([] if empty else [small]), *large * 200])
        assert rows == whole[: len(rows)] and bool(reader.damage) == ends and (rows == whole) == (not ends or not size)
        assert not ends or "parts, more than 20 of them smaller than 256 bytes" in reader.damage[0].reason


@pytest.mark.slow
def test_a_bomb_costs_no_memory() -> None:
    # 64 MiB of zeros are zero-length records; only a few windows may be alive at a time.
    bomb = io.BytesIO(gzip.compress(pcap([]) + bytes(64 << 20), 1))
    frames = 0
    for chunk in open_capture(bomb, window=1 << 16).chunks():
        assert len(chunk.data) <= 1 << 16
        frames += len(chunk)
    assert frames == (64 << 20) // 16


@pytest.mark.slow
def test_an_xz_stream_may_not_claim_any_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "MEMORY", 1 << 20)
    with pytest.raises(CaptureError, match="xz data breaks here"):
        open_capture(io.BytesIO(lzma.compress(pcap(MADE), preset=9)))


def test_without_zstd_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = zstd_library().compress(pcap(MADE))
    monkeypatch.setitem(sys.modules, zstd_library().__name__, None)
    with pytest.raises(CaptureError, match=r"zstd; pip install backports\.zstd"):
        open_capture(io.BytesIO(packed))


def test_lz4_that_is_not_installed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.pcap.lz4").write_bytes(compressed.LZ4 + bytes(20))
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    with pytest.raises(CaptureError, match="is compressed with lz4; pip install lz4, or unpack it first"):
        open_capture(str(tmp_path / "x.pcap.lz4"))
