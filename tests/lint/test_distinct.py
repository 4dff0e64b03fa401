"""Are the flows of a chunk told apart as NumPy tells distinct rows apart?"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.lint.engine import _distinct

ROWS = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.tuples(*[st.sampled_from((0, 1, 2, 0xFFFF, 2**63, 2**64 - 1))] * width), min_size=1, max_size=40)
)


@given(ROWS)
def test_same_groups_as_unique_rows(rows: list[tuple[int, ...]]) -> None:
    keys = np.array(rows, np.uint64)
    first, inverse = _distinct(keys)
    _, want, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    assert sorted(first.tolist()) == sorted(want.tolist())
    assert [first[i] for i in inverse.tolist()] == [want[i] for i in number.ravel().tolist()]
