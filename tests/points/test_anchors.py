"""Packets that let clocks be compared: steps found where they are, drift without queueing, repeated packets if there are no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ibdissect.points.anchors import Anchors, anchors, drift_of, seen_once
from ibdissect.points.reading import Point, read_points

from .world import World, behind


def compared(world: World, folder: Path) -> tuple[Anchors, list[Point]]:
    points, _ = read_points(world.write(folder))
    return anchors(points, seen_once(points), 0, 1), points


@pytest.mark.slow
def test_steps_and_drift(tmp_path: Path) -> None:
    clock = behind(5_000_000, 120, {400_000_000: -30_000_000, 900_000_000: 2_000_000})
    world = World(points=("client", "server"), clocks={"server": clock})
    world.conversation(600, gap=2_000_000)
    found, points = compared(world, tmp_path)
    time = points[1].seen.time[found.second]
    true = np.array([when for when, _, _ in sorted(world.seen["server"])])[points[1].seen.frame[found.second] - 1]
    assert (found.segment == (true >= 400_000_000).astype(int) + (true >= 900_000_000)).all()
    assert drift_of(found, time, found.flow) == pytest.approx(120e-6, abs=5e-7)


@pytest.mark.parametrize("steps", [{}, {200_000_000: 5_000_000}], ids=["no step", "a step"])
@pytest.mark.parametrize("hop", [120_000, 3_000_000])
def test_the_two_ways_of_a_long_path(tmp_path: Path, hop: int, steps: dict[int, int]) -> None:
    """Packets one way are late by the path's delay, those of the other way early: that is no step."""
    clock = behind(1_000_000, 0, steps)
    world = World(points=("client", "server"), clocks={"server": clock}, hop=hop)
    for psn in range(60):
        arrived = world.packet(psn * 7_000_000 + world.random.randrange(4_000_000), psn=psn, payload=psn.to_bytes(4, "big"))
        world.packet(arrived + 500, back=True, opcode=0x11, psn=psn, syndrome=0x1F)
    found, points = compared(world, tmp_path)
    true = np.array([when for when, _, _ in sorted(world.seen["server"])])[points[1].seen.frame[found.second] - 1]
    assert len(found) == 120 and (found.segment == ((true >= 200_000_000) if steps else 0)).all()


def test_a_step_between_two_flows_is_no_long_path(tmp_path: Path) -> None:
    """One ends where the other begins: the few packets that lie together differ by the step."""
    world = World(points=("client", "server"), clocks={"server": behind(1_000_000, 0, {197_000_000: 5_000_000})})
    for psn in range(130):
        world.packet(psn * 3_300_000, psn=psn, payload=psn.to_bytes(4, "big"), back=psn < 60)
    found, points = compared(world, tmp_path)
    true = np.array([when for when, _, _ in sorted(world.seen["server"])])[points[1].seen.frame[found.second] - 1]
    assert len(found) == 130 and (found.segment == (true >= 197_000_000)).all()


def test_packets_that_only_repeat(tmp_path: Path) -> None:
    """Keepalives: the offset on which most pairs of equal packets agree."""
    world = World(points=("client", "server"), clocks={"server": behind(12_345_678_901)})
    time = 0
    for beat in range(40):
        world.packet(time, psn=beat % 3)
        time += 50_000_000 + world.random.randrange(20_000_000)
    found, _ = compared(world, tmp_path)
    assert len(found) == 40 and (abs(found.delay - 12_345_678_901) < 5_000).all()


def test_equal_packets_of_other_times_agree_on_nothing(tmp_path: Path) -> None:
    one, other = World(points=("one",)), World(points=("other",))
    for psn in range(40):
        one.packet(psn * 20_000_000, psn=psn)
        other.packet(psn * psn * 9_000_000, psn=psn)
    one.points, one.seen = ("one", "other"), {**one.seen, **other.seen}
    found, _ = compared(one, tmp_path)
    assert not len(found)
