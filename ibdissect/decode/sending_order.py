"""The order in which packets were sent. Captures of several queues write neighbours down in another order than their times say."""

from __future__ import annotations

import numpy as np

from .locate import Int

WITHIN_NS = 10_000_000
"""A packet may be recorded at most this much after later ones. What lies farther back was sent when the clock had been set back."""


def in_time(times: Int) -> Int | None:
    """The order of packets by time, int64[n]; packets with equal times keep their order. None if they are in order as they are."""
    steps = np.diff(times)
    if not (steps < 0).any():
        return None
    stretch = np.zeros(len(times), np.int64)
    stretch[1:] = np.cumsum(times[1:] < np.maximum.accumulate(times)[:-1] - WITHIN_NS)
    return np.lexsort((times, stretch))
