"""Is what a whole window is asked for found in the same stretches as one by one?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibdissect.table.compare import holding

letters = st.text("abAB.", max_size=40).map(str.encode)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(letters, max_size=8), st.lists(st.integers(0, 3), min_size=8, max_size=8), letters.filter(len))
def test_as_one_by_one(parts: list[bytes], gaps: list[int], needle: bytes) -> None:
    data, at, stop = b"ab", [], []
    for part, gap in zip(parts, gaps, strict=False):
        at.append(len(data))
        data += part
        stop.append(len(data))
        data += b"abA"[:gap]
    needle = needle[:4]
    wanted = [needle in data[a:b] for a, b in zip(at, stop, strict=True)]
    array = np.frombuffer(data, np.uint8)
    starts, stops = np.array(at, np.int64), np.array(stop, np.int64)
    assert holding(array, starts, stops, needle).tolist() == wanted
    assert holding(array, starts[::-1], stops[::-1], needle).tolist() == wanted[::-1]
    assert not holding(array, starts, stops, b"").any()
