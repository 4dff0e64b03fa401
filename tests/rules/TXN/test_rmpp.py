"""Transfers of several segments: each fault is one finding."""

from __future__ import annotations

from tests.rules.findings import counted
from tests.rules.TXN.cases import DATA, FIRST, LAST, segment


def test_an_impossible_length_of_the_last_segment_is_not_also_compared_with_the_announced_one() -> None:
    assert counted([segment(DATA, 1, 100, flags=FIRST), segment(DATA, 2, 221, flags=LAST)], "TXN013") == [(2, 1)]


def test_an_impossible_length_that_is_sent_again_is_one_finding() -> None:
    last = segment(DATA, 1, 221, flags=FIRST | LAST)
    assert counted([last, last, segment(DATA, 1, 221, flags=FIRST | LAST, transaction=8)], "TXN013") == [(1, 2), (3, 1)]
