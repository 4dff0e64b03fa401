"""Transfers of several segments: each fault is one finding."""

from __future__ import annotations

import pytest

from ibdissect.decode.history import SECOND_NS
from tests.rules.findings import counted, lint
from tests.rules.TXN.cases import DATA, FIRST, GET, GET_RESP, LAST, MIDDLE, perf, segment


def test_an_impossible_length_of_the_last_segment_is_not_also_compared_with_the_announced_one() -> None:
    assert counted([segment(DATA, 1, 100, flags=FIRST), segment(DATA, 2, 221, flags=LAST)], "TXN013") == [(2, 1)]


def test_an_impossible_length_that_is_sent_again_is_one_finding() -> None:
    last = segment(DATA, 1, 221, flags=FIRST | LAST)
    assert counted([last, last, segment(DATA, 1, 221, flags=FIRST | LAST, transaction=8)], "TXN013") == [(1, 2), (3, 1)]


ASKED, ANSWERED = perf(GET, 1), perf(GET_RESP, 1)
ALONE, NEXT, FURTHER = (segment(DATA, number, 220, flags=MIDDLE) for number in (5, 6, 8))


@pytest.mark.parametrize(
    ("before", "segments", "severity"),
    [
        ([ASKED, ANSWERED], [ALONE, NEXT], "warning"),
        ([ANSWERED, ANSWERED], [ALONE, NEXT], "info"),  # what the receiver sends is not captured
        ([ASKED, ANSWERED], [ALONE, FURTHER], "info"),  # the transfer takes several paths, or the recorder lost segments
    ],
)
def test_a_transfer_whose_beginning_the_capture_lacks(before: list[bytes], segments: list[bytes], severity: str) -> None:
    frames = [*before, *segments]
    times = [0, SECOND_NS, *[(20 + i) * SECOND_NS for i in range(len(segments))]]
    assert [str(one.severity) for one in lint(frames, "TXN011", times=times, lost=())] == [severity]
