"""A fact over time answers for the frame that is asked about."""

from __future__ import annotations

from ibdissect.capture.records import ROWS
from ibdissect.decode.history import History
from ibdissect.engine.facts import KEPT, MANY


def test_what_held_when() -> None:
    track: History[str] = History()
    assert track.at(5) == (None, 0)
    assert track.learn("a", 10) and track.learn("b", 20)
    assert not track.learn("b", 30), "the same again is no news"
    assert [track.at(frame) for frame in (9, 10, 19, 20, 99)] == [(None, 0), ("a", 10), ("a", 10), ("b", 20), ("b", 20)]
    assert track.changes() == [10, 20]
    assert [track.changes_after(frame) for frame in (9, 10, 19, 20)] == [[20, 10], [20], [20], []]


def test_unknown_is_a_lesson_too() -> None:
    track: History[int] = History()
    track.learn(1, 10)
    track.learn(None, 20)
    track.learn(1, 30)
    assert [track.at(frame)[0] for frame in (15, 25, 35)] == [1, None, 1]


def test_only_the_last_are_kept() -> None:
    track: History[int] = History()
    for step in range(1, 21):
        track.learn(step, step * ROWS)
    assert len(track.past) == KEPT
    assert track.at((20 - KEPT) * ROWS) == (20 - KEPT, (20 - KEPT) * ROWS)
    assert track.at((20 - KEPT) * ROWS - 1) == (None, 0), "what was dropped is unknown, not guessed"


def test_of_many_half_is_dropped_at_a_time() -> None:
    track: History[int] = History()
    for step in range(1, 4 * MANY):
        track.learn(step, step)
    track.learn(-1, 10 * ROWS)
    assert MANY < len(track.past) < 3 * MANY and track.at(4 * MANY)[0] == 4 * MANY - 1
    for step in range(11, 11 + 2 * MANY):
        track.learn(step, step * ROWS)
    assert len(track.past) <= MANY


def test_all_of_a_window_are_kept() -> None:
    track: History[int] = History()
    for frame in range(1, 21):
        track.learn(frame, frame)
    assert [track.at(frame)[0] for frame in range(22)] == [None, *range(1, 21), 20]
    assert list(track.since_frame(18)) == [20, 19, 18]
