"""Only requests followed by exactly one answer are matched by columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ibdissect.decode.rows import is_in, mix
from ibdissect.mad.single_answers import ANSWER, NOTHING, OTHER, REQUEST, pair

ROLES = {"?": REQUEST, "!": ANSWER, "x": OTHER, ".": NOTHING}


def matched(
    line: str, keys: Sequence[int], waiting: Sequence[int] = (), *, alike: bool = False
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Pairs, what waits, and the rest of datagrams with these roles and keys; `alike` gives all the same mark."""
    columns = [np.array(keys, np.uint64)]
    marks = np.zeros(len(keys), np.uint64) if alike else mix(columns)
    role = np.array([ROLES[letter] for letter in line], np.uint8)
    found = pair(marks, columns, role, mix([np.array(waiting, np.uint64)]))
    return list(zip(found.requests.tolist(), found.answers.tolist(), strict=True)), found.waits.tolist(), found.rest.tolist()


@pytest.mark.parametrize(
    ("line", "keys", "pairs", "waits", "rest"),
    [
        ("?!", [1, 1], [(0, 1)], [], []),
        ("?!", [1, 2], [], [0], [1]),
        ("??!!", [1, 2, 2, 1], [(1, 2), (0, 3)], [], []),
        ("?!?!?", [1] * 5, [(0, 1), (2, 3)], [], [4]),  # perhaps another try of what was answered
        ("??!", [1] * 3, [], [], [0, 1, 2]),  # another try
        ("?!!", [1] * 3, [], [], [0, 1, 2]),  # answered twice
        ("!?", [1] * 2, [], [], [0, 1]),
        ("?.!", [1] * 3, [(0, 2)], [], []),
        ("?x!", [1] * 3, [], [], [0, 1, 2]),
        ("", [], [], [], []),
    ],
)
def test_clean_pairs(line: str, keys: list[int], pairs: list[tuple[int, int]], waits: list[int], rest: list[int]) -> None:
    assert matched(line, keys) == (pairs, waits, rest)


def test_what_waits_from_before_goes_one_by_one() -> None:
    assert matched("?!?!", [1, 1, 2, 2], waiting=[1, 3]) == ([(2, 3)], [], [0, 1])


def test_keys_that_hash_alike_are_distinguished() -> None:
    assert matched("?!", [1, 2], alike=True) == ([], [], [0, 1])
    assert matched("?!", [1, 1], alike=True) == ([(0, 1)], [], [])


def test_columns_of_zeros_do_not_change_a_mark() -> None:
    rng = np.random.default_rng(1)
    columns = [rng.integers(0, 1 << 16, 500).astype(np.uint64) for _ in range(3)]
    marks = mix(columns)
    assert (mix([*columns, *[np.zeros(500, np.uint64)] * 9]) == marks).all() and len(set(marks.tolist())) == 500
    assert (mix([column[7:8] for column in columns]) == marks[7]).all()


def test_among() -> None:
    marks = np.array([5, 1, 9, 5], np.uint64)
    assert is_in(marks, np.array([9, 5, 10], np.uint64)).tolist() == [True, False, True, True]
    assert not is_in(marks, np.array([], np.uint64)).any()
