"""Are rows grouped by their columns exactly, whatever the numbers are?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ibdissect.table import rows as row_tools
from ibdissect.table.rows import by_value, common, groups, is_in, order_of

ROWS = st.lists(st.tuples(*[st.sampled_from([0, 1, 2, 0xFFFF, 1 << 40, (1 << 64) - 1])] * 3), min_size=1, max_size=60)


def _is_right(rows: list[tuple[int, ...]]) -> None:
    keys = np.array(rows, np.uint64)
    first, inverse = groups(list(keys.T))
    for row, group in enumerate(inverse.tolist()):
        assert rows[first[group]] == rows[row]
    assert sorted(first.tolist()) == sorted({rows.index(row) for row in rows})


@given(ROWS)
def test_rows_are_alike_exactly_when_their_numbers_are(rows: list[tuple[int, ...]]) -> None:
    _is_right(rows)


@given(ROWS)
def test_rows_that_hash_alike_are_distinguished(rows: list[tuple[int, ...]]) -> None:
    usual, row_tools.mix = row_tools.mix, lambda columns: np.zeros(len(columns[0]), np.uint64)
    try:
        _is_right(rows)
    finally:
        row_tools.mix = usual


@given(st.lists(st.integers(0, 70) | st.integers(0, (1 << 64) - 1), max_size=80))
def test_the_order_is_stable_also_for_keys_that_differ_in_low_bits(keys: list[int]) -> None:
    found = order_of(np.array(keys, np.uint64))
    assert found.tolist() == sorted(range(len(keys)), key=lambda i: keys[i])


@pytest.mark.slow
def test_many_random_rows() -> None:
    """As many rows as a window has."""
    rng = np.random.default_rng(7)
    _is_right(list(map(tuple, rng.integers(0, 40, (5000, 3)).tolist())))
    for count in (5000, 200_000):
        many = rng.integers(0, (1 << 64) - 1, count, np.uint64)
        assert np.array_equal(order_of(many), np.argsort(many, kind="stable"))


@given(*[st.lists(st.integers(-5, 40), unique=True)] * 2)
def test_common_values_are_those_of_intersect1d(left: list[int], right: list[int]) -> None:
    a, b = (np.array(sorted(values), np.int64) for values in (left, right))
    for mine, wanted in zip(common(a, b), np.intersect1d(a, b, assume_unique=True, return_indices=True), strict=True):
        assert mine.tolist() == wanted.tolist()


@given(*[st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-5, 5))] * 2)
def test_numbers_that_are_held_are_those_of_isin(numbers: list[int], some: list[int]) -> None:
    assert is_in(np.array(numbers, np.int64), np.array(some, np.int64)).tolist() == [number in some for number in numbers]


@given(st.lists(st.sampled_from([-3, 0, 0, 0, 0, 7]) | st.integers(-300, 300), max_size=30) | st.lists(st.integers(0, 25), min_size=65))
@example([*range(40), *[5] * 400, *range(40)])
@example([*range(40), *[5, 6, 6, 7] * 99])
def test_each_number_comes_where_it_comes_first(numbers: list[int]) -> None:
    found = [(number, index.tolist()) for number, index in by_value(np.array(numbers, np.int64))]
    assert found == [(number, [i for i, one in enumerate(numbers) if one == number]) for number in dict.fromkeys(numbers)]
