"""Compiled and interpreted facts keep the same values."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ibdissect.engine import facts
from tests.engine.plain import plain

ROWS = 1 << 17

interpreted = plain("facts")
CHANGES = st.lists(st.tuples(st.sampled_from([None, 1, 2, b"x"]), st.sampled_from([1, 2, ROWS - 1, ROWS, ROWS + 1])), max_size=200)


@given(CHANGES)
def test_compiled_and_interpreted_facts_are_the_same(changes: list[tuple[object, int]]) -> None:
    one: Any = facts.Fact()
    other: Any = interpreted.Fact()
    frame = 0
    for value, step in changes:
        frame += step
        assert one.learn(value, frame) == other.learn(value, frame)
        assert (one.now, one.since, one.past) == (other.now, other.since, other.past)
    for asked in {0, frame + 1, *(since + by for since in one.changes_after(-1) for by in (-1, 0, 1))}:
        assert one.at(asked) == other.at(asked) == latest(one, asked)
        assert one.since_frame(asked) == other.since_frame(asked)
        assert one.changes_after(asked) == other.changes_after(asked) == [since for since in one.changes_after(-1) if since > asked]


def latest(fact: Any, frame: int) -> tuple[object, int]:
    """The value at a frame, found step by step."""
    values = [*fact.past, (fact.now, fact.since)]
    return next(((value, since) for value, since in reversed(values) if since <= frame), (None, 0))


def test_values_are_kept_for_a_window() -> None:
    for kind in (facts.Fact, interpreted.Fact):
        fact = kind()
        for frame in range(1, 7):
            fact.change(frame, frame)
        assert len(fact.past) == 5, "all values of the last window"
        fact.change(7, 2 + ROWS)
        assert fact.past[0] == (2, 2)
        fact.change(8, 2 + 2 * ROWS)
        assert len(fact.past) == 5 and fact.past[0] == (3, 3), "one goes for each that comes"
        assert not facts.NONE
