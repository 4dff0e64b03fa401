"""The index gives back every frame, in any order, and joins the small chunks of a pipe."""

from __future__ import annotations

from pathlib import Path

import pytest

import ibdissect
from ibdissect.capture.opening import open_capture
from tests.capture.built import Pipe, rows_of
from tests.cases import every
from tests.conftest import REPO
from tests.screen_model import made
from tests.screen_model.made import TOTAL


@every("name", ["pkey-lab.pcap", "opensm-first-sweep.pcap", "rxe-rping.pcap", "mkey-enforced.pcap.gz"])
def test_index_gives_back_every_frame(name: str) -> None:
    path = REPO / "captures" / name
    with open_capture(str(path), window=3000) as reader:
        rows = rows_of(reader)
    with ibdissect.open(str(path)) as capture:
        last = len(rows)
        for number in (last, 1, last // 2, last // 3 + 1, *range(2, last)[:: max(1, last // 12)]):
            frame = capture.frame(number)
            time_ns, _, _, data, link, _, pseudo = rows[number - 1]
            assert (frame.number, frame.time_ns, frame.data, frame.link) == (number, time_ns, data, link)
        assert capture.dissect(last).layers[0].label == ("ERF" if pseudo else "Ethernet")
        with pytest.raises(IndexError):
            capture.frame(last + 1)


def test_index_joins_the_small_chunks_of_a_pipe(tmp_path: Path) -> None:
    data = made.capture(tmp_path, repeat=20).read_bytes()
    with ibdissect.open(Pipe(data)) as capture:
        assert sum(1 for _ in capture) == 20 * TOTAL
