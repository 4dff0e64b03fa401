"""Windows carry every byte once."""

from __future__ import annotations

import io
import os
import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.capture.opening import open_capture
from ibdissect.capture.windows import SLACK, FileBytes, ObjectBytes, Windows, read_up_to
from ibdissect.errors import CaptureError
from tests.capture.built import Packet, pcap, rows_of

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
        assert len(windows.raw) >= windows.filled + SLACK
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
