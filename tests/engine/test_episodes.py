"""Skipped positions, gaps and episodes are kept as they are, within their bounds."""

from __future__ import annotations

from array import array

import pytest

from ibdissect.engine import episodes
from ibdissect.engine.episodes import beyond, close_episode, count_again, fill, open_episode, skip
from tests.engine.plain import plain

LOSS, MAX_ALL, RNR, TIMEOUT = "loss", 100_000, "rnr", "timeout"


class Trouble:
    """What the functions take of a direction."""

    def __init__(self) -> None:
        self.episodes: list[list[object]] = []
        self.dropped = 0
        self.gaps = plain("answer_times").Gaps()
        self.path, self.room = self, plain("waiting_packets").Room()


def test_a_hole_is_filled_from_any_side() -> None:
    holes: list[list[int]] = []
    assert not skip(holes, 5, 9, 1) and not skip(holes, 9, 9, 1)
    assert not fill(holes, 4, 5) and not fill(holes, 9, 10)
    assert fill(holes, 6, 7) and holes == [[5, 6], [7, 9]]
    assert fill(holes, 5, 6) and fill(holes, 8, 9) and holes == [[7, 8]]
    assert not fill(holes, 6, 7)


def test_holes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "MAX_HOLES", 2)
    holes: list[list[int]] = []
    assert [skip(holes, 10 * i, 10 * i + 1, 1) for i in range(3)] == [0, 0, 1] and holes == [[10, 11], [20, 21]]
    assert skip(holes, 30, 31, 0) == 1 and holes == [[20, 21], [30, 31]]


def test_gaps_beyond_a_round_trip() -> None:
    half = Trouble()
    for gap in (0, 10, 10, 1000, 5_000_000):
        assert not half.gaps.add(half.room, gap, 1 << 40)
    assert beyond(half, 100) == (5_001_020, 900 + 4_999_900)
    for _ in range(2):
        half.gaps.add(half.room, 500, 500)  # as long as a round trip: number and sum
    assert beyond(half, 100) == (5_002_020, 900 + 4_999_900 + 800)
    assert beyond(half, 1 << 40) == (5_002_020, 0)


def test_a_ring_grows_in_order() -> None:
    wider = plain("waiting_packets").wider
    assert list(wider(memoryview(array("q", [5, 6, 1, 2, 3, 4])), 1, 2)) == [1, 2, 3, 4, 5, 6] + [0] * 6
    assert list(wider(memoryview(array("q")), 0, 2)) == [0] * 8


def test_episodes_end_when_another_begins() -> None:
    half = Trouble()
    open_episode(half, LOSS, 10, 10)
    count_again(half.episodes)
    count_again(half.episodes)
    open_episode(half, TIMEOUT, 20, 30)
    open_episode(half, RNR, 40, 40)
    close_episode(half, 45)
    close_episode(half, 50)
    assert half.episodes == [[LOSS, 10, 20, 2], [TIMEOUT, 20, 30, 0], [RNR, 40, 45, 0]]


def test_episodes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "MAX_EPISODES", 1)
    half = Trouble()
    open_episode(half, LOSS, 10, 10)
    open_episode(half, LOSS, 20, 20)
    assert (len(half.episodes), half.dropped, half.room.episodes) == (1, 1, MAX_ALL - 1)
    half.episodes, half.room.episodes = [], 0
    open_episode(half, LOSS, 10, 10)
    assert (half.episodes, half.dropped) == ([], 2)
