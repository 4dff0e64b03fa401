"""Are packets put in the order of their times, but only neighbours?"""

from __future__ import annotations

import numpy as np
import pytest

from ibdissect.table.order import WITHIN_NS, in_time


@pytest.mark.parametrize(("times", "order"), [
    ([], None), ([1, 1, 2], None), ([2, 1, 3], [1, 0, 2]), ([5, 7, 5, 6], [0, 2, 3, 1]),
    ([WITHIN_NS, 0, 1], [1, 2, 0]),
    ([WITHIN_NS + 1, 0, 1], None),  # the clock was set back
])  # fmt: skip
def test_order(times: list[int], order: list[int] | None) -> None:
    found = in_time(np.array(times, np.int64))
    assert (found.tolist() if found is not None else None) in (order, [*range(len(times))] if order is None else order)
