"""Slices add up to the time of a connection, and to the cells of a bar."""

from __future__ import annotations

import msgspec
import pytest

from ibdissect.diagnosis.connection import Connection, ConnectionTimes, Episode
from ibdissect.diagnosis.slices import KINDS, TimeSlice, episodes_in, slices, widths
from tests.diagnosis.lab import Lab


def one_with(times: ConnectionTimes | None, *episodes: Episode) -> Connection:
    lab = Lab()
    lab.good(0, 100, 2)
    return msgspec.structs.replace(lab.only(), times=times, episodes=episodes)


def test_slices_are_the_parts_that_took_time() -> None:
    found = slices(one_with(ConnectionTimes(1000, 100, 0, 250, 0, 650, 0)))
    assert [(each.part, each.ns, each.share) for each in found] == [
        ("transferring", 100, 0.1), ("rnr_wait", 250, 0.25), ("timeout", 650, 0.65),
    ]  # fmt: skip
    assert found[1].said == "waiting for receive buffers"
    assert slices(one_with(None)) == [] == slices(one_with(ConnectionTimes()))


def test_episodes_of_a_part() -> None:
    kinds = ("loss", "reordering", "timeout", "rnr", "idle")
    one = one_with(None, *(Episode(kind, 0, 1) for kind in kinds))
    found = {part: [each.kind for each in episodes_in(one, part)] for part in KINDS}
    assert found == {"loss_recovery": ["loss", "reordering"], "timeout": ["timeout"], "rnr_wait": ["rnr"], "idle_by_application": ["idle"]}
    assert episodes_in(one, "transferring") == []
    (late,) = episodes_in(one_with(None, Episode("timeout", 5, 6)), "loss_recovery")
    assert late.kind == "timeout"


def made(*ns: int) -> list[TimeSlice]:
    return [TimeSlice(str(i), "", each, each / sum(ns)) for i, each in enumerate(ns)]


@pytest.mark.parametrize(
    ("ns", "room", "cells"),
    [
        ((50, 50), 10, [5, 5]), ((1, 999), 10, [0, 10]), ((13, 987), 10, [1, 9]), ((12, 988), 10, [0, 10]), ((1, 1, 1), 10, [4, 3, 3]),
        ((10, 20, 70), 2, [0, 1, 1]), ((5, 5), 0, [0, 0]), ((), 10, []), ((20, 20, 20, 940), 10, [1, 1, 1, 7]),
    ],
)  # fmt: skip
def test_cells(ns: tuple[int, ...], room: int, cells: list[int]) -> None:
    assert widths(made(*ns), room) == cells
    assert sum(cells) == room or not ns
