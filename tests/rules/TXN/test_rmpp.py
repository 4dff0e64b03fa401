"""Transfers of several segments: is each fault one finding?"""

from __future__ import annotations

from tests.rules.findings import counted
from tests.rules.TXN.cases import DATA, FIRST, LAST, segment


def test_an_impossible_length_of_the_last_segment_is_not_also_compared_with_the_announced_one() -> None:
    assert counted([segment(DATA, 1, 100, flags=FIRST), segment(DATA, 2, 221, flags=LAST)], "TXN013") == [(2, 1)]
