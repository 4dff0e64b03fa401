"""Requests that are followed by exactly one answer are matched by columns, and tell what they tell one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from ibdissect.mad.single_answers import pair
from tests import craft
from tests.traffic.test_statistics import counted

KINDS = {"?": 0x01, "!": 0x81, "x": 0x05}
"""The method of a request, an answer and a trap."""


def capture(line: str, keys: Sequence[int]) -> bytes:
    """Datagrams of these kinds, a second apart, with these transaction IDs; a dot is another packet."""
    frames = []
    for kind, key in zip(line, keys, strict=True):
        ends = {"slid": 2, "dlid": 1} if kind == "!" else {"slid": 1, "dlid": 2}
        head = {"transaction_id": key}
        frames.append(craft.rc(0x04, bytes(8)) if kind == "." else craft.gmp(4, KINDS[kind], 0x12, header=head, **ends))
    return craft.erf_pcap(frames, step_ns=1_000_000_000)


def told(data: bytes, window: int) -> list[tuple[int, int, int, int]]:
    """How many requests were answered, were not, and came again; and the longest time in seconds."""
    found = counted(data, window)["response_times"]
    return [(one["answered"], one["unanswered"], one["retries"], one.get("max_ns", 0) // 10**9) for one in found]


@pytest.mark.parametrize(
    ("line", "keys", "expected"),
    [
        ("?!", [1, 1], (1, 0, 0, 1)), ("?!", [1, 2], (0, 1, 0, 0)), ("??!!", [1, 2, 2, 1], (2, 0, 0, 3)), ("?!?!?", [1] * 5, (2, 1, 0, 1)),
        ("??!", [1] * 3, (1, 0, 1, 1)), ("?!!", [1] * 3, (1, 0, 0, 1)), ("!?", [1] * 2, (0, 1, 0, 0)), ("?.!", [1] * 3, (1, 0, 0, 2)),
        ("?x!", [1] * 3, (1, 0, 0, 2)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("window", [1, 1 << 20])
def test_lines(line: str, keys: list[int], expected: tuple[int, ...], window: int) -> None:
    """A window of one byte has one packet: none is matched by columns."""
    assert told(capture(line, keys), window) == [expected]


@pytest.mark.slow
def test_random_lines_tell_the_same_matched_by_columns_and_one_by_one() -> None:
    rnd, wrong = random.Random(1), []
    for _ in range(15):
        line = "".join(rnd.choices("??!!x.", k=12))
        data = capture(line, rnd.choices([1, 2, 3], k=12))
        if len({str(told(data, window)) for window in (1, 1500, 1 << 20)}) > 1:
            wrong.append(line)
    assert wrong == []


def pairs(kinds: str, keys: Sequence[int], marks: Sequence[int]) -> list[tuple[int, int]]:
    """Requests and answers, by their places."""
    columns, roles = [np.array(keys, np.uint64)], np.array([1 + "?!".index(kind) for kind in kinds], np.uint8)
    found = pair(np.array(marks, np.uint64), columns, roles, np.zeros(0, np.uint64))
    return list(zip(found.requests.tolist(), found.answers.tolist(), strict=True))


def test_keys_that_hash_alike_are_distinguished() -> None:
    """Marks are hashes of the columns: equal ones alone make no pair."""
    assert (pairs("?!", [1, 2], [0, 0]), pairs("?!", [1, 1], [0, 0])) == ([], [(0, 1)])


def test_pairs_come_in_the_order_of_answers() -> None:
    assert pairs("??!!", [1, 2, 2, 1], [1, 2, 2, 1]) == [(1, 2), (0, 3)]
