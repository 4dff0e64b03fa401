"""The time line keeps its sums when it stretches."""

from __future__ import annotations

import numpy as np

from ibdissect.screen_model.traffic_counts import TimeLine


def test_time_line_stretches_and_keeps_the_sum() -> None:
    line = TimeLine()
    times = np.arange(0, 10**12, 10**9, dtype=np.int64) + 1_700_000_000 * 10**9
    for part in np.array_split(times, 7):
        line.feed(part, np.full(len(part), 100, np.int64))
    line.feed(times[:1] - 10**9, np.full(1, 100, np.int64))  # time runs backwards
    assert line.packets.sum() == len(times) + 1 and line.octets.sum() == 100 * (len(times) + 1)
    assert line.used <= 4096 and line.worst(np.array([len(times) + 1]), np.array([3]))[-1] == 3
