"""Do windows carry every byte once, and do broken compressed streams end instead of raising?"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.capture import stream
from ibdissect.capture.opening import open_capture
from ibdissect.capture.stream import FileBytes, ObjectBytes, Windows, read_up_to, unpacked, zstd_library
from ibdissect.errors import CaptureError
from tests.capture.built import Packet, pcap, pcap_rows, read, rows_of

Pack = Callable[[bytes], bytes]
PACKS: list[Pack] = [gzip.compress, lzma.compress, zstd_library().compress, bz2.compress]
NAMES = ["gzip", "xz", "zstd", "bzip2"]
if find_spec("lz4") is not None:
    PACKS.append(import_module("lz4.frame").compress)
    NAMES.append("lz4")
MADE = [Packet(1_600_000_000 + n, n, random.Random(n).randbytes(700)) for n in range(100)]


@given(st.binary(max_size=400), st.integers(1, 90), st.booleans(), st.data())
def test_windows_lose_nothing(blob: bytes, size: int, live: bool, data: st.DataObject) -> None:
    windows = Windows(ObjectBytes(io.BytesIO(blob)), "x", size, live=live)
    at, used, need = 0, 0, 0
    while not windows.final:
        windows.advance(used, need)
        at += used
        assert windows.base == at
        assert windows.raw[: windows.filled].tobytes() == blob[at : at + windows.filled]
        assert len(windows.raw) >= windows.filled + stream.SLACK
        assert windows.filled >= min(need, len(blob) - at)
        used = data.draw(st.integers(0, windows.filled))
        need = data.draw(st.integers(0, 300))
    assert at + windows.filled == len(blob)


def test_two_readers_of_a_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(range(100)))
    with path.open("rb") as file:
        one, two = FileBytes(file.fileno()), FileBytes(file.fileno())
        assert read_up_to(one, 60) == bytes(range(60))
        assert read_up_to(two, 500) == bytes(range(100))
        assert read_up_to(one, 500) == bytes(range(60, 100))


def test_an_object_that_can_only_read() -> None:
    class Bare:
        def __init__(self) -> None:
            self.left = [b"abc", b"de", b""]

        def read(self, size: int) -> bytes:
            return self.left.pop(0)

    assert read_up_to(ObjectBytes(Bare(), b"head"), 50) == b"headabcde"


@pytest.mark.parametrize("pack", PACKS, ids=NAMES)
def test_members_one_behind_the_other(pack: Pack) -> None:
    packed = io.BytesIO(pack(b"one") + pack(b"two" * 9000) + pack(b"three"))
    assert read_up_to(unpacked(ObjectBytes(packed), "x"), 1 << 20) == b"one" + b"two" * 9000 + b"three"


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


@pytest.mark.slow
def test_a_bomb_costs_no_memory() -> None:
    # 64 MiB of zeros are zero-length records; only a few windows may be alive at a time.
    bomb = io.BytesIO(gzip.compress(pcap([]) + bytes(64 << 20), 1))
    frames = 0
    for chunk in open_capture(bomb, window=1 << 16).chunks():
        assert len(chunk.data) <= 1 << 16
        frames += len(chunk)
    assert frames == (64 << 20) // 16


def test_an_xz_stream_may_not_claim_any_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MEMORY", 1 << 20)
    with pytest.raises(CaptureError, match="xz data breaks here"):
        open_capture(io.BytesIO(lzma.compress(pcap(MADE), preset=9)))


def test_without_zstd_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = zstd_library().compress(pcap(MADE))
    monkeypatch.setitem(sys.modules, zstd_library().__name__, None)
    with pytest.raises(CaptureError, match=r"zstd; pip install backports\.zstd"):
        open_capture(io.BytesIO(packed))


def test_a_read_error_names_the_path(tmp_path: Path) -> None:
    class Broken(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def read1(self, size: int | None = -1) -> bytes:
            if self.tell() >= 100:
                raise OSError(5, os.strerror(5))
            return super().read1(min(size or 0, 100))

    reader = open_capture(Broken(pcap(MADE)))
    with pytest.raises(CaptureError, match=r"file object: cannot be read: .+"):
        rows_of(reader)


def test_fresh_memory_for_every_window() -> None:
    reader = open_capture(io.BytesIO(pcap(MADE)), window=4000)
    chunks = list(reader.chunks())
    assert len(chunks) > 5
    assert not any(np.shares_memory(one.data, two.data) for one, two in pairwise(chunks))
    assert b"".join(chunk.frame_bytes(row) for chunk in chunks for row in range(len(chunk))) == b"".join(p.data for p in MADE)


def test_lz4_that_is_not_installed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.pcap.lz4").write_bytes(stream.LZ4 + bytes(20))
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    with pytest.raises(CaptureError, match="is compressed with lz4; pip install lz4, or unpack it first"):
        open_capture(str(tmp_path / "x.pcap.lz4"))
