"""Captures of several queues write neighbours down in another order than their times say; what lies farther back is another time."""

from __future__ import annotations

import io
from itertools import permutations

import pytest

import ibdissect
from tests.cases import every
from tests.craft import gmp, interfaces_pcapng

START_NS, WITHIN_NS = 1_700_000_000_000_000_000, 10_000_000


def query(number: int, attribute: int = 0x1D) -> bytes:
    return gmp(4, 1, attribute, header={"transaction_id": number}, slid=1, dlid=2)


def reply(number: int, attribute: int = 0x1D) -> bytes:
    return gmp(4, 0x81, attribute, header={"transaction_id": number}, slid=2, dlid=1)


def matched(times: list[int], *pairs: tuple[int, int]) -> list[bool]:
    """Whether an answer is that of a request, for the places of request and answer among packets with these times: one second after the
    other, in front of which an agent answers other requests."""
    every = [(make(100 + i), i * 1_000_000_000 + after) for i in range(10) for make, after in ((query, 0), (reply, 1000))]
    first = len(every) + 1
    for number, (ask, answer) in enumerate(pairs):
        made = {ask: query(1000 + number, 0x12), answer: reply(1000 + number, 0x12)}
        every += [(made.get(i, query(2000 + 9 * number + i)), (10 + number) * 1_000_000_000 + time) for i, time in enumerate(times)]
    data = interfaces_pcapng([(0, frame) for frame, _ in every], times=[START_NS + time for _, time in every])
    with ibdissect.open(io.BytesIO(data)) as opened:
        column = opened.table()["ibdissect.request_frame"]
    found = dict(zip(column.frame.tolist(), column.value.tolist(), strict=True))
    begin = [first + number * len(times) for number in range(len(pairs))]
    return [found.get(at + answer) == at + ask for at, (ask, answer) in zip(begin, pairs, strict=True)]


@pytest.mark.slow
@every(("times", "found"), [
    ([0, 1], False), ([5, 5], False), ([2, 1], True), ([WITHIN_NS, 0], True),
    ([WITHIN_NS + 1, 0], False),  # the clock was set back
])  # fmt: skip
def test_an_answer_that_is_written_down_in_front_of_its_request(times: list[int], found: bool) -> None:
    """Packets with equal times keep their order."""
    assert matched(times, (1, 0)) == [found] and matched(sorted(times), (0, 1)) == [True]


@every("times", [[1, 3, 2, 2, 4], [5, 4, 3], [WITHIN_NS + 1, 0, 1, WITHIN_NS + 2, 3], [WITHIN_NS + 5, 6, 4, 7], [WITHIN_NS + 5, 5, 4, 7]])
def test_neighbours_are_put_in_order_within_each_stretch(times: list[int]) -> None:
    """A new stretch begins with each packet that is too far back."""
    stretch, latest, number = [], 0, 0
    for time in times:
        number += time < latest - WITHIN_NS
        latest = max(latest, time)
        stretch.append(number)
    order = sorted(range(len(times)), key=lambda i: (stretch[i], times[i]))
    pairs = list(permutations(range(len(times)), 2))
    assert matched(times, *pairs) == [order.index(ask) < order.index(answer) for ask, answer in pairs]
