"""Packets are put in the order of their times, but only neighbours."""

from __future__ import annotations

import numpy as np

from ibdissect.decode.sending_order import in_time
from tests.cases import every

WITHIN_NS = 10_000_000


@every(("times", "order"), [
    ([], None), ([1, 1, 2], None), ([2, 1, 3], [1, 0, 2]), ([5, 7, 5, 6], [0, 2, 3, 1]),
    ([WITHIN_NS, 0, 1], [1, 2, 0]),
    ([WITHIN_NS + 1, 0, 1], None),  # the clock was set back
])  # fmt: skip
def test_order(times: list[int], order: list[int] | None) -> None:
    found = in_time(np.array(times, np.int64))
    assert (found.tolist() if found is not None else None) in (order, [*range(len(times))] if order is None else order)


@every("times", [[1, 3, 2, 2, 4], [5, 4, 3], [WITHIN_NS + 1, 0, 1, WITHIN_NS + 2, 3], [WITHIN_NS + 5, 6, 4, 7], [WITHIN_NS + 5, 5, 4, 7]])
def test_neighbours_are_put_in_order_within_each_stretch(times: list[int]) -> None:
    """A new stretch begins with each packet that is too far back."""
    found = in_time(np.array(times, np.int64))
    stretch, latest, number = [], 0, 0
    for time in times:
        number += time < latest - WITHIN_NS
        latest = max(latest, time)
        stretch.append(number)
    assert found is not None and found.tolist() == sorted(range(len(times)), key=lambda i: (stretch[i], times[i]))
