"""Is the time from a request to its acknowledgement measured, and only where it is certain?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ibdissect.flow.exchanges import Times
from ibdissect.study import ack_times as module
from ibdissect.study.ack_times import ack_times
from tests.craft import erf_pcap, native, rc
from tests.pictures.looks import portrait


def acked(psn: int) -> bytes:
    return rc(0x11, ext={"AETH": {"syndrome": 0x1F, "msn": 1}}, slid=5, dlid=3, bth={"destqp": 0x60, "psn": psn})


def sent(psn: int) -> bytes:
    return native(0x04, bytes(16), slid=3, dlid=5, bth={"destqp": 0x50, "psn": psn})


def measured(folder: Path, frames: list[bytes]) -> dict[int, Times]:
    path = folder / "a.pcap"
    path.write_bytes(erf_pcap(frames))
    with portrait(path) as found:
        (one,) = found.shot.conversations
        assert one.near_qp == 0x60 and one.far_qp == 0x50
        return ack_times(found.model, found.study.streams, [one])


@pytest.mark.parametrize("step", [1 << 16, 3])
def test_each_acknowledged_request_counts_once(step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP", step)
    frames = [sent(1), acked(1), sent(2), sent(3), acked(2), acked(3), acked(3)]
    times = measured(tmp_path, frames)[0]
    gap = times.least
    assert times.count == 3 and times.most == 2 * gap > 0


def test_a_repeated_request_says_nothing(tmp_path: Path) -> None:
    assert measured(tmp_path, [sent(1), acked(1), sent(2), sent(2), acked(2)])[0].count == 1


def test_without_pairs_nothing_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "b.pcap"
    path.write_bytes(erf_pcap([sent(1), sent(2)]))
    with portrait(path) as found:
        assert ack_times(found.model, found.study.streams, found.shot.conversations) == {}


def test_matching_by_key() -> None:
    found: dict[int, Times] = {}
    asked = np.array([[(6 << 24) + 1, (7 << 24) + 1, (6 << 24) + 2], [100, 200, 300]])
    module._match(asked, np.array([(6 << 24) + 1, (7 << 24) + 1, (6 << 24) + 9]), np.array([150, 190, 999]), found)
    assert found == {3: Times(Counter({module_bucket(50): 1}), 1, 50, 50)}


def module_bucket(ns: int) -> int:
    return int(np.log2(ns + 1.0) * 16)
