"""A fact over time answers for the frame that is asked about."""

from __future__ import annotations

import numpy as np

from ibdissect.capture.records import ROWS
from ibdissect.decode.history import Clock, History
from ibdissect.engine.facts import KEPT

MANY = 64
"""With more values in one window, half of them are dropped at a time."""


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


def test_a_track_says_what_it_may_have_forgotten() -> None:
    track: History[int] = History()
    for step in range(1, KEPT + 1):
        track.learn(step, step * ROWS)
    assert not track.forgets(0), "all are kept, as nobody learnt anything before"
    for step in range(KEPT + 1, KEPT + 4):
        track.learn(step, step * ROWS)
    first = track.changes()[0]
    assert (track.forgets(first - 1), track.forgets(first)) == (True, False)


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


def test_a_clock_knows_the_times_of_a_chunk_and_of_the_frames_before_it() -> None:
    clock = Clock()
    assert (clock.first, clock.first_after(0)) == (1, 1)
    clock.take(1, np.array([10, 20, 30]))
    clock.take(4, np.array([40, 50]))
    assert [clock.time_of(frame) for frame in range(6)] == [10, 10, 20, 30, 40, 50]
    assert [clock.first_after(time) for time in (0, 10, 11, 40, 50)] == [1, 1, 2, 4, 5]
    clock.take(9, np.array([90, 95]))  # what is between was not read: nothing is kept
    assert clock.first == 9 and [clock.time_of(frame) for frame in (5, 9, 10)] == [90, 90, 95]
    clock.take(11, np.arange(100, 100 + ROWS))
    clock.take(11 + ROWS, np.array([7]))
    assert (clock.first, len(clock.times)) == (11, ROWS + 1) and clock.time_of(3) == 100
