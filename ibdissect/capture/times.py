"""The range of times that packets may have, so that nothing that is computed from them wraps around.

Times are int64 nanoseconds since 1970. All containers give times within FAR of 1970, so the difference of any two fits. What computes
with differences of differences, as `points` does, first brings its times within NEAR_NS of one another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]

SECOND_NS = 1_000_000_000
FAR = 4_600_000_000
"""Seconds before and after 1970: from 1824 to 2115. The 32 bits of pcap and ERF end in 2106; a pcapng may claim more and gets this."""
FAR_NS = FAR * SECOND_NS
NEAR_NS = (1 << 61) - 1
"""73 years."""


def nanoseconds(seconds: Times, rest: Times) -> Times:
    """Times of whole seconds, whatever they are, and nanoseconds below one second."""
    times: Times = np.clip(seconds, -FAR, FAR) * SECOND_NS + rest
    return times


def near(times: Times, origin: int) -> Times:
    """Times within NEAR_NS of `origin`; those beyond are moved to the border."""
    return np.clip(times, max(origin - NEAR_NS, -FAR_NS), min(origin + NEAR_NS, FAR_NS))


def earlier(times: Times, by_ns: int, more_ns: npt.NDArray[np.floating[Any]]) -> Times:
    """Times moved back by a number of nanoseconds and some more each; no further than FAR."""
    moved: Times = np.clip(times - min(max(by_ns, -FAR_NS), FAR_NS), -FAR_NS, FAR_NS)
    more = np.clip(np.rint(np.nan_to_num(more_ns)), -FAR_NS, FAR_NS).astype(np.int64)
    moved = np.clip(moved - more, -FAR_NS, FAR_NS)
    return moved
