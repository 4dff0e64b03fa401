"""The index gives back every frame, in any order, and joins the small chunks of a pipe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ibdissect.capture.chunk import SetMember
from ibdissect.capture.index import FrameIndex
from ibdissect.capture.opening import open_capture
from tests.conftest import REPO
from tests.screen_model import made
from tests.screen_model.made import TOTAL


@pytest.mark.parametrize("name", ["pkey-lab.pcap", "opensm-first-sweep.pcap", "rxe-rping.pcap", "mkey-enforced.pcap.gz"])
def test_index_gives_back_every_frame(name: str) -> None:
    path = REPO / "captures" / name
    packed = name.endswith(".gz")
    with open_capture(str(path), window=3000) as reader, FrameIndex(None if packed else [SetMember(str(path), 1, 0)]) as index:
        for chunk in reader.chunks():
            index.add(chunk)
        for chunk in reader.chunks():
            again = index.chunk(range(chunk.first, chunk.first + len(chunk)))
            for field in ("caplen", "length", "time_ns", "link", "interface"):
                assert np.array_equal(getattr(again, field), getattr(chunk, field)), field
            assert [again.frame_bytes(i) for i in range(len(chunk))] == [chunk.frame_bytes(i) for i in range(len(chunk))]
            assert np.array_equal(again.offset - again.pseudo, chunk.offset - chunk.pseudo) or (chunk.pseudo < 0).any()
        scattered = sorted({1, index.frames, index.frames // 2, index.frames // 3 + 1})
        assert [index.chunk([n]).frame_bytes(0) for n in scattered] == [
            index.chunk(scattered).frame_bytes(i) for i in range(len(scattered))
        ]
        assert len(index.after(index.frames)) == 0
        with pytest.raises(KeyError):
            index.time_ns(index.frames + 1)


def test_index_joins_the_small_chunks_of_a_pipe(tmp_path: Path) -> None:
    data = made.capture(tmp_path, repeat=20).read_bytes()
    with open_capture(str(made.capture(tmp_path, repeat=20)), window=400) as reader, FrameIndex(None) as index:
        chunks = list(reader.chunks())
        for chunk in chunks:
            index.add(chunk)
        assert len(chunks) > 50 and index.frames == 20 * TOTAL
        assert len(index.after(0, 1 << 20)) == index.frames  # one block
        assert index.chunk([7 * TOTAL + 7]).frame_bytes(0) == made.frames()[6]
    assert len(data) > 0
