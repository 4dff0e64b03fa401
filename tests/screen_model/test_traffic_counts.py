"""The time line keeps its sums when it stretches."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ibdissect.pipeline.check import CheckOptions
from tests import craft
from tests.screen_model.made import opened, studied


def test_time_line_stretches_and_keeps_the_sum(tmp_path: Path) -> None:
    """Of some packets a second apart, 100 at a time, and one from before the first: time runs backwards."""
    times = [1_700_000_000 * 10**9 + second * 10**9 for second in (*range(500), -1)]
    frame = craft.rc(0x04, bytes(8))
    (tmp_path / "x.pcapng").write_bytes(craft.interfaces_pcapng([(0, frame)] * len(times), times=times))
    model = opened(tmp_path / "x.pcapng")
    after = model.index.after
    model.index.after = lambda done, most: after(done, min(most, 100))  # type: ignore[method-assign]
    _, shot = studied(model, CheckOptions(rules=[]))
    line = shot.traffic.line
    assert line.packets.sum() == len(times) and line.octets.sum() == len(frame) * len(times)
    assert 2048 < line.used <= 4096 and line.worst(np.array([len(times)]), np.array([3]))[-1] == 3
