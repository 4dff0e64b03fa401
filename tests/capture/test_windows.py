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
from ibdissect.errors import CaptureError
from tests.capture.built import Packet, Pipe, pcap, pcap_rows, rows_of

MADE = [Packet(1_600_000_000 + n, n, random.Random(n).randbytes(700)) for n in range(100)]


@pytest.mark.slow
@given(st.lists(st.integers(0, 300), min_size=1, max_size=20), st.integers(1, 900), st.booleans())
def test_windows_lose_nothing(sizes: list[int], size: int, piped: bool) -> None:
    """Also where a record is longer than a window, in whatever pieces a pipe delivers it."""
    made = [Packet(1_600_000_000 + n, n, random.Random(n).randbytes(length)) for n, length in enumerate(sizes)]
    capture = pcap(made)
    with open_capture(Pipe(capture) if piped else io.BytesIO(capture), window=size) as reader:
        assert rows_of(reader) == pcap_rows(made) and not reader.damage


def test_two_readers_of_a_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Nor does what somebody else reads from its descriptor."""
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(MADE))
    with open_capture(path, window=3000) as one, open_capture(path, window=5000) as two:
        both = zip(one.chunks(), two.chunks(), strict=False)
        assert all(chunk.frame_bytes(0) == MADE[chunk.first - 1].data for pair in both for chunk in pair)
        assert rows_of(one) == rows_of(two) == pcap_rows(MADE)


def test_an_object_that_can_only_read() -> None:
    class Bare:
        left = pcap(MADE)

        def read(self, size: int) -> bytes:
            piece, self.left = self.left[: min(size, 777)], self.left[min(size, 777) :]
            return piece

    with open_capture(Bare()) as reader:  # type: ignore[arg-type]
        assert rows_of(reader) == pcap_rows(MADE)


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
