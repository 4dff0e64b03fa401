"""Packets that overtake others are counted, in whatever blocks they come."""

from __future__ import annotations

import numpy as np

from ibdissect.points.losses_between_points import Reordering
from tests.cases import every


@every("block", [1, 2, 5, 100])
def test_reordered_by_rfc_4737(block: int) -> None:
    """Two flows; in the first, packets 3 and 4 come after 5, in the second all in order."""
    flow = np.array([0, 1, 0, 1, 0, 0, 0, 1, 0])
    sent = np.arange(1, 10)
    time = np.array([10, 11, 12, 13, 31, 32, 16, 17, 33])
    arrived = np.argsort(np.argsort(time)) + 1
    counted = Reordering(2)
    for at in range(0, 9, block):
        part = slice(at, at + block)
        counted.feed(flow[part], sent[part], arrived[part], time[part], int(sent[part][-1]))
    assert counted.result() == 2
