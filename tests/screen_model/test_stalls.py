"""The stalls of a ladder are found, named, and drawn to one scale."""

from __future__ import annotations

import msgspec

from ibdissect.diagnosis.connection import Connection, Episode
from ibdissect.screen_model.ladder import LadderStep
from ibdissect.screen_model.stalls import stalls
from tests.diagnosis.lab import MS, US, Lab


def steps(*times: int, again: tuple[int, ...] = ()) -> list[LadderStep]:
    return [LadderStep(i + 1, time, "a", "b", "", "again" if i in again else "") for i, time in enumerate(times)]


def one_with(*episodes: Episode) -> Connection:
    lab = Lab()
    lab.good(0, 100, 2)
    return msgspec.structs.replace(lab.only(), episodes=episodes)


def test_stalls_are_gaps_that_are_much_longer_than_most() -> None:
    found = stalls(steps(0, 5 * US, 10 * US, 10 * US + 39 * US, 10 * US + 39 * US + 40 * US))
    assert {i: each.ns for i, each in found.items()} == {4: 40 * US}
    assert stalls(steps(0, MS, 2 * MS, 3 * MS)) == {} == stalls([]) == stalls(steps(5)) == stalls(steps(5, 5))
    assert stalls(steps(0, 100, 200, 300, 10_299)) == {} and stalls(steps(0, 100, 200, 300, 10_300))[4].ns == 10_000


def test_all_are_drawn_to_one_scale() -> None:
    found = stalls(steps(0, US, 2 * US, 3 * US, 8 * MS, 9 * MS, 9 * MS + US, 13 * MS))
    assert [each.lines for each in found.values()] == [8, 1, 4]
    times = (0, US, 2 * US, 3 * US, 160 * MS, 165 * MS)
    assert [each.lines for each in stalls(steps(*times)).values()] == [8]
    assert [each.lines for each in stalls(steps(*times), one_with(Episode("rnr", 160 * MS, 165 * MS))).values()] == [8, 1]
    many = [0]
    for _ in range(60):
        many += [many[-1] + US, many[-1] + 2 * US, many[-1] + 3 * US, many[-1] + 10 * MS]
    assert {each.lines for each in stalls(steps(*many)).values()} == {1}


def test_what_it_waited_for() -> None:
    times = (0, US, 2 * US, 3 * US, 10 * MS, 20 * MS, 30 * MS)
    found = stalls(steps(*times, again=(5,)), one_with(Episode("timeout", 3 * US, 10 * MS)))
    assert [(each.kind, each.what) for each in found.values()] == [
        ("timeout", "waiting for a time-out"), ("", "until it was sent again"), ("", "no packet"),
    ]  # fmt: skip
    found = stalls(steps(*times), one_with(Episode("rnr", 10 * MS, 20 * MS), Episode("idle", 20 * MS, 30 * MS)))
    assert [each.kind for each in found.values()] == ["", "rnr", "idle"]
