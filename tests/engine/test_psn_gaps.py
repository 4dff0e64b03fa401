"""Gaps and their fate, and distances of PSNs."""

from __future__ import annotations

import pytest

from ibdissect.engine import psn_gaps
from ibdissect.engine.psn_gaps import Gap, GapTotal, added, asked_for, distance, filled, went_back


def test_distance_wraps() -> None:
    assert distance(0, 0xFFFFFF) == 1 and distance(0xFFFFFF, 0) == -1 and distance(5, 5) == 0
    assert distance(1 << 23, 0) == -(1 << 23) and distance((1 << 23) - 1, 0) == (1 << 23) - 1


def parts(psn: int, start: int = 10, count: int = 3) -> list[tuple[int, int]]:
    gaps, total = [Gap(start, count, 2, 0, 1)], GapTotal(count=1)
    found = filled(gaps, total, psn, 5, 0)
    assert total.count == len(gaps) and found is (sum(gap.count for gap in gaps) == count - 1)
    return [(gap.start, gap.count) for gap in gaps]


def test_a_late_packet_leaves_two_gaps_one_or_none() -> None:
    assert parts(11) == [(10, 1), (12, 1)] and parts(10) == [(11, 2)] and parts(12) == [(10, 2)] and parts(10, count=1) == []
    assert parts(9) == [(10, 3)] and parts(13) == [(10, 3)]
    assert parts(0, start=0xFFFFFF) == [(0xFFFFFF, 1), (1, 1)]


def test_the_oldest_gap_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psn_gaps, "MAX_GAPS", 2)
    gaps, total = [Gap(1, 1, 2, 0, 1), Gap(3, 1, 3, 0, 2)], GapTotal(count=2)
    gaps.append(Gap(5, 1, 4, 0, 3))
    added(gaps, total, 1, 4, 0)
    assert [gap.start for gap in gaps] == [3, 5] and (total.count, total.dropped.count) == (2, 1)


def test_what_is_asked_for_is_marked() -> None:
    for psn, wanted in ((9, False), (10, True), (12, True), (13, False)):
        gap = Gap(10, 3, 2, 0, 1)
        asked_for([gap], psn, 7)
        assert (gap.requested, gap.requested_ns) == (wanted, 7 if wanted else 0)


def test_who_repeats_later_psns_sent_those_of_the_gap() -> None:
    for psn, time_ns, wanted in ((11, 0, True), (10, 0, False), (9, 999_999, False), (9, 1_000_000, True)):
        gap = Gap(10, 1, 2, 0, 1)
        went_back([gap], psn, time_ns)
        assert gap.passed is wanted, (psn, time_ns)
