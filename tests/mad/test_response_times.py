"""Response times are summed up as exactly as promised."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.mad.response_times import ERROR, ResponseTimes

MAX_EXACT = 1 << 18


@pytest.mark.slow
@given(st.lists(st.integers(0, 10**11), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_percentiles_are_exact_or_a_bucket_too_large(values: list[int], share: float) -> None:
    """The nearest rank; from the histogram alone never too small, and too large by less than its buckets are wide."""
    times, rough = ResponseTimes(Counter()), ResponseTimes(Counter(), kept=None)
    for value in values:
        times.add(np.array([value]))
        rough.add(np.array([value]))
    exact = sorted(values)[math.ceil(round(share * len(values), 6)) - 1]
    assert times.percentile(share) == exact <= rough.percentile(share) + 1 <= (exact + 1) * (1 + ERROR) + 1


@pytest.mark.parametrize(("more", "error"), [(0, 0), (1, 0.044)])
def test_percentiles_say_how_exact_they_are(more: int, error: float) -> None:
    times = ResponseTimes(Counter())
    times.add(np.full(MAX_EXACT, 1_022_000))
    times.add(np.full(more, 1_022_000))
    told = times.percentiles()
    assert told["percentile_error"] == error and 1_022_000 <= told["p50_ns"] <= 1_022_000 * (1 + error)
