"""Rows are grouped by their columns exactly, whatever the numbers are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import astuple

from ibdissect.decode import rows as row_tools
from ibdissect.decode.rows import (
    SLOTS,
    Columns,
    Entry,
    by_value,
    common,
    digest,
    digest_at,
    distinct_values,
    groups,
    is_in,
    keys_of,
    members,
    mix,
    order_of,
    parts,
    places_in,
    python_values,
    run_starts,
    slot,
    slot_of_hash,
)
from tests.cases import every

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


class Pair(Columns):
    """Two columns."""

    left: Any
    right: Any


def test_columns_are_taken_and_joined_together() -> None:
    one, two = Pair(np.arange(4), np.arange(4) * 10), Pair(np.array([9]), np.array([90]))
    assert [column.tolist() for column in astuple(one.take(np.array([2, 0])))] == [[2, 0], [20, 0]]
    assert [column.tolist() for column in astuple(one.take(np.array([False, True, False, True])))] == [[1, 3], [10, 30]]
    both = Pair.joined(one, two, one)
    assert both.left.tolist() == [0, 1, 2, 3, 9, 0, 1, 2, 3] and both.right.tolist() == [value * 10 for value in both.left.tolist()]
    entry = Entry(both, 4)
    assert (entry.left, entry.right) == (9, 90) and type(entry.left) is int


def test_a_hash_depends_on_every_column_and_its_place() -> None:
    """For more columns than there are multipliers; columns of zeros at the end add nothing."""
    rows = np.eye(20, dtype=np.int64)
    hashes = mix(list(rows.T)).tolist()
    assert len({*hashes, *mix([np.array([2, 3]), np.array([0, 0])]).tolist()}) == 22
    some = [np.array([5, 0, 7]), np.array([1, 2, 0])]
    assert mix(some).tolist() == mix([*some, np.zeros(3, np.int64)]).tolist() != mix(some[::-1]).tolist()
    assert mix([column.astype(np.uint8) for column in some]).tolist() == mix(some).tolist()
    assert mix([column[1:] for column in some]).tolist() == mix(some).tolist()[1:]


def test_a_digest_depends_on_every_byte() -> None:
    for size in (8, 24, 64):
        block = np.zeros((size * 8 + 1, size), np.uint8)
        for bit in range(size * 8):
            block[bit, bit // 8] = 1 << bit % 8
        assert len({*digest(block).tolist()}) == size * 8 + 1
        assert digest(block[3:5]).tolist() == digest(block).tolist()[3:5]
    data = np.frombuffer(bytes(range(1, 200)), np.uint8)
    twice = np.concatenate([data, data])
    at = np.array([0, 5, 150], np.int64)
    for size in (1, 7, 8, 9, 40):
        found = digest_at(twice, at, size).tolist()
        assert found == digest_at(twice, at + len(data), size).tolist() and len({*found}) == 3
        assert found[0] != digest_at(twice, at, size + 1).tolist()[0]


@every("step", [1, 2, 64, 256, 1 << 16, 1 << 24])
def test_slots_are_spread(step: int) -> None:
    """Of numbers in any even distance: with as many as there are slots, hardly any slot has more than a few."""
    place = slot(np.arange(SLOTS, dtype=np.int64) * step)
    assert place.min() >= 0 and place.max() < SLOTS and np.bincount(place).max() <= 12


def test_a_slot_is_sixteen_bits_of_a_hash() -> None:
    hashes = np.array([0xFFFF_0001_8002_7FFF, 0, 1 << 63], np.uint64)
    assert slot_of_hash(hashes).tolist() == [0xFFFF, 0, 0x8000] and slot_of_hash(hashes, 0).tolist() == [0x7FFF, 0, 0]
    assert slot_of_hash(hashes, 16).tolist() == [0x8002, 0, 0] and slot_of_hash(hashes).dtype == np.int64


@every("size", [0, 1, SLOTS // 4 - 1, SLOTS // 4, SLOTS])
def test_distinct_values_of_few_and_of_many(size: int) -> None:
    values = np.random.default_rng(size).integers(-5, 1 << 40, size)
    values[: size // 2] = values[size // 2 :][: size // 2]
    assert distinct_values(values) == sorted({*values.tolist()})


def test_runs_parts_and_members() -> None:
    assert [run_starts(np.array(values)).tolist() for values in ([3], [3, 3], [3, 4, 4, 3])] == [[0], [0], [0, 1, 3]]
    assert run_starts(np.array([], np.int64)).tolist() == [0]
    assert [part.tolist() for part in parts(np.arange(5), np.array([0, 2, 2]))] == [[0, 1], [], [2, 3, 4]]
    for number in (3, 4):
        found = members(np.array([2, 0, 2, 1, 0], np.int64), number)
        assert [one.tolist() for one in found[:4]] == [[1, 4], [3], [0, 2], []][: min(number, 4)] and len(found) == number
    wide = members(np.array([1 << 16, 0], np.int64), (1 << 16) + 1)
    assert (wide[0].tolist(), wide[1 << 16].tolist()) == ([1], [0])


def test_rows_as_keys() -> None:
    numbers, texts = np.array([1, 2]), np.array([[65, 66], [0, 67]], np.uint8)
    assert keys_of([numbers, texts], 2) == [(1, b"AB"), (2, b"\0C")] and keys_of([], 3) == [()] * 3
    assert python_values(texts) == [b"AB", b"\0C"] and python_values(numbers) == [1, 2]


def test_places_in_an_ascending_array() -> None:
    """The first of several equal ones; below the first, between, above the last, in nothing."""
    ascending = np.array([2, 4, 4, 9])
    assert places_in(ascending, np.array([1, 2, 3, 4, 8, 9, 10])).tolist() == [-1, 0, -1, 1, -1, 3, -1]
    assert places_in(ascending[:0], np.array([1, 2])).tolist() == [-1, -1] and places_in(ascending, ascending[:0]).tolist() == []
    assert [one.tolist() for one in common(np.array([2, 9, 11]), np.array([1, 2, 9]))] == [[2, 9], [0, 1], [1, 2]]
