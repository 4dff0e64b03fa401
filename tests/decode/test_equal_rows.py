"""Rows are grouped by their columns exactly, whatever the numbers are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ibdissect.decode import equal_rows as row_tools
from ibdissect.decode.equal_rows import SLOTS, by_value, distinct_values, groups, slot
from tests.cases import every
from tests.craft import gmp
from tests.rules.findings import lint

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


@pytest.mark.slow
def test_many_random_rows() -> None:
    """As many rows as a window has."""
    rng = np.random.default_rng(7)
    _is_right(list(map(tuple, rng.integers(0, 40, (5000, 3)).tolist())))


@given(st.lists(st.sampled_from([-3, 0, 0, 0, 0, 7]) | st.integers(-300, 300), max_size=30) | st.lists(st.integers(0, 25), min_size=65))
@example([*range(40), *[5] * 400, *range(40)])
@example([*range(40), *[5, 6, 6, 7] * 99])
def test_each_number_comes_where_it_comes_first(numbers: list[int]) -> None:
    found = [(number, index.tolist()) for number, index in by_value(np.array(numbers, np.int64))]
    assert found == [(number, [i for i, one in enumerate(numbers) if one == number]) for number in dict.fromkeys(numbers)]


@every("step", [1, 2, 64, 256, 1 << 16, 1 << 24])
def test_slots_are_spread(step: int) -> None:
    """Of numbers in any even distance: with as many as there are slots, hardly any slot has more than a few."""
    place = slot(np.arange(SLOTS, dtype=np.int64) * step)
    assert place.min() >= 0 and place.max() < SLOTS and np.bincount(place).max() <= 12


@every("size", [0, 1, SLOTS // 4 - 1, SLOTS // 4, SLOTS])
def test_distinct_values_of_few_and_of_many(size: int) -> None:
    values = np.random.default_rng(size).integers(-5, 1 << 40, size)
    values[: size // 2] = values[size // 2 :][: size // 2]
    assert distinct_values(values) == sorted({*values.tolist()})


def test_requests_are_alike_only_if_all_of_their_bytes_are() -> None:
    """As the rule about floods of one request sees them: whatever byte differs, and who asks whom."""

    def flood(frames: Iterable[bytes]) -> bool:
        return bool(lint(list(frames), "TXN018"))

    def asked(i: int, body: bytes = b"", **more: Any) -> bytes:
        return gmp(4, 1, 0x12, body, header={"transaction_id": i + 1}, **more)

    assert flood(map(asked, range(101))) and not flood(map(asked, range(100)))
    for at in (0, 7, 8, 191):
        assert not flood(asked(i, bytes(at) + bytes([i]) + bytes(191 - at)) for i in range(101)), at
    assert not flood(asked(i, slid=1 + i % 2, dlid=2 - i % 2) for i in range(101))
