"""Slices add up to the time of a connection, and to the cells of a bar."""

from __future__ import annotations

from msgspec.structs import replace

from ibdissect.diagnosis.time_bars import TimeSlice, slices, widths
from tests.cases import every
from tests.diagnosis.lab import Lab, spent


def test_slices_are_the_parts_that_took_time() -> None:
    lab = Lab()
    lab.good(0, 100, 2)
    one = lab.only()
    found = slices(spent(one, 1000, transferring=100, rnr_wait=250, timeout=650))
    assert [(each.part, each.ns, each.share) for each in found] == [
        ("transferring", 100, 0.1), ("rnr_wait", 250, 0.25), ("timeout", 650, 0.65),
    ]  # fmt: skip
    assert found[1].said == "waiting for receive buffers"
    assert slices(replace(one, times=None)) == [] == slices(spent(one, 0))


def made(*ns: int) -> list[TimeSlice]:
    return [TimeSlice(str(i), "", each, each / sum(ns)) for i, each in enumerate(ns)]


@every(
    ("ns", "room", "cells"),
    [
        ((50, 50), 10, [5, 5]), ((1, 999), 10, [0, 10]), ((13, 987), 10, [1, 9]), ((12, 988), 10, [0, 10]), ((1, 1, 1), 10, [4, 3, 3]),
        ((10, 20, 70), 2, [0, 1, 1]), ((5, 5), 0, [0, 0]), ((), 10, []), ((20, 20, 20, 940), 10, [1, 1, 1, 7]),
    ],
)  # fmt: skip
def test_cells(ns: tuple[int, ...], room: int, cells: list[int]) -> None:
    assert widths(made(*ns), room) == cells
    assert sum(cells) == room or not ns
