"""Are response times summed up as exactly as promised?"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.flow.exchanges import Times


@pytest.mark.slow
@given(st.lists(st.integers(0, 10**11), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_percentiles_are_exact_to_a_bucket(values: list[int], share: float) -> None:
    times = Times(Counter())
    for value in values:
        times.add(np.array([value]))
    ordered = sorted(values)
    exact = ordered[max(0, -int(-share * len(values) // 1) - 1)]
    assert exact <= times.percentile(share) + 1 <= exact * 1.05 + 3
