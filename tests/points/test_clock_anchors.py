"""Packets that let clocks be compared: steps found where they are, drift without queueing, repeated packets if there are no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibdissect.errors import CaptureError

from .world import World, behind


def segments(world: World, folder: Path) -> list[dict[str, Any]]:
    """The parts into which the clock of the second point is divided."""
    found: list[dict[str, Any]] = world.result(folder)["points"][1]["clock"]["segments"]
    return found


def starts(world: World, *steps: int) -> list[int]:
    """The first frame, and those that the server records first after its clock was set."""
    times = [time for time, _, _ in sorted(world.seen["server"])]
    return [1, *(1 + sum(time < step for time in times) for step in steps)]


@pytest.mark.slow
def test_steps_and_drift(tmp_path: Path) -> None:
    clock = behind(5_000_000, 120, {400_000_000: -30_000_000, 900_000_000: 2_000_000})
    world = World(points=("client", "server"), clocks={"server": clock})
    world.conversation(600, gap=2_000_000)
    found = segments(world, tmp_path)
    assert [one["first_frame"] for one in found] == starts(world, 400_000_000, 900_000_000)
    assert [one["drift_ppm"] for one in found] == pytest.approx([120] * 3, abs=0.5)


@pytest.mark.parametrize("steps", [{}, {200_000_000: 5_000_000}], ids=["no step", "a step"])
@pytest.mark.parametrize("hop", [120_000, 3_000_000])
def test_the_two_ways_of_a_long_path(tmp_path: Path, hop: int, steps: dict[int, int]) -> None:
    """Packets one way are late by the path's delay, those of the other way early: that is no step."""
    clock = behind(1_000_000, 0, steps)
    world = World(points=("client", "server"), clocks={"server": clock}, hop=hop)
    for psn in range(60):
        arrived = world.packet(psn * 7_000_000 + world.random.randrange(4_000_000), psn=psn, payload=psn.to_bytes(4, "big"))
        world.packet(arrived + 500, back=True, opcode=0x11, psn=psn, syndrome=0x1F)
    found = segments(world, tmp_path)
    assert [one["first_frame"] for one in found] == starts(world, *steps)
    offsets = [1_000_000, *(1_000_000 + by for by in steps.values())]
    assert [one["offset_ns"] for one in found] == pytest.approx(offsets, abs=hop)


@pytest.mark.slow
def test_a_step_between_two_flows_is_no_long_path(tmp_path: Path) -> None:
    """One ends where the other begins: the few packets that lie together differ by the step."""
    world = World(points=("client", "server"), clocks={"server": behind(1_000_000, 0, {197_000_000: 5_000_000})})
    for psn in range(130):
        world.packet(psn * 3_300_000, psn=psn, payload=psn.to_bytes(4, "big"), back=psn < 60)
    assert [one["first_frame"] for one in segments(world, tmp_path)] == starts(world, 197_000_000)


@pytest.mark.slow
def test_packets_that_only_repeat(tmp_path: Path) -> None:
    """Keepalives: the offset on which most pairs of equal packets agree."""
    world = World(points=("client", "server"), clocks={"server": behind(12_345_678_901)})
    time = 0
    for beat in range(40):
        world.packet(time, psn=beat % 3)
        time += 50_000_000 + world.random.randrange(20_000_000)
    said = world.result(tmp_path)
    (segment,) = said["points"][1]["clock"]["segments"]
    assert said["packets"] == [[frame, frame] for frame in range(1, 41)] and abs(segment["offset_ns"] - 12_345_678_901) < 5_000


def test_equal_packets_of_other_times_agree_on_nothing(tmp_path: Path) -> None:
    one, other = World(points=("one",)), World(points=("other",))
    for psn in range(40):
        one.packet(psn * 20_000_000, psn=psn)
        other.packet(psn * psn * 9_000_000, psn=psn)
    one.points, one.seen = ("one", "other"), {**one.seen, **other.seen}
    with pytest.raises(CaptureError, match=r"other\.pcap: 40 packets have the bytes of one in .*at times that do not agree"):
        one.result(tmp_path)
