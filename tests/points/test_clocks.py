"""Clocks are found again: offset, drift, steps; the stated uncertainty holds the truth."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from ibdissect.points.clocks import Bounds, _refuted
from tests.commands import run

from .world import START, Clock, World, behind


@pytest.mark.slow
@pytest.mark.parametrize("steps", [{}, {1_500_000_000: -37_000_000}, {800_000_000: 250_000_000, 2_000_000_000: -250_000_900}])
def test_clocks_of_the_simulation(tmp_path: Path, steps: dict[int, int]) -> None:
    clocks = {"tap": behind(-7_200_000_000_123, 64), "server": behind(3_200_417, -20, steps)}
    world = World(clocks=clocks)
    world.conversation(300, gap=10_000_000)
    comparison = world.compare(tmp_path)
    for i, name in enumerate(world.points[1:], 1):
        segments = comparison.clocks.segments[i]
        assert len(segments) == (1 if name == "tap" else 1 + len(steps)) and all(segment.two_way for segment in segments)
        for frame, (true, _, _) in enumerate(sorted(world.seen[name]), 1):
            own = START + clocks[name](true)
            segment = [one for one in segments if one.first_frame <= frame][-1]
            offset = segment.offset_ns + segment.drift * (own - segment.at_ns)
            assert abs(offset - (own - START - true)) <= min(segment.uncertainty_ns, 1_700), (name, frame)


def test_stamps_of_a_batch_are_late(tmp_path: Path) -> None:
    """One direction is stamped late, in batches: that is no offset."""
    world = World(points=("client", "server"))
    for burst in range(60):
        for psn in range(burst * 4, burst * 4 + 4):
            arrived = world.packet(burst * 1_000_000 + psn % 4 * 3_000, psn=psn, payload=psn.to_bytes(4, "big"))
            world.packet(arrived + 500, back=True, opcode=0x11, psn=psn, syndrome=0x1F)
    late = [(max(time, time // 1_000_000 * 1_000_000 + 40_000) if number % 24 < 8 else time, frame, number)
            for time, frame, number in world.seen["server"]]  # fmt: skip
    world.seen["server"] = late
    (segment,) = world.compare(tmp_path).clocks.segments[1]
    assert abs(segment.offset_ns) < 1_000


@pytest.mark.parametrize(("late", "expected"), [(slice(640, 672), []), (slice(640, 1280), [640])], ids=["a burst of late stamps", "a step"])
def test_small_steps(late: slice, expected: list[int]) -> None:
    """Packets of both directions, one every microsecond, that need 500 ns; some stamps are 10 us late."""
    row = np.arange(1280)
    above = row % 2 == 0
    offset = np.where(above, 500, -500)
    offset[late] += 10_000
    assert _refuted(Bounds(row.astype(np.int32), row * 1000, offset, above, np.zeros(1280, np.int64)), [0], 0.0, 1) == expected


@pytest.mark.slow
@pytest.mark.parametrize("years", [(-1, 1), (-56, 0), (-56, 78)])
@pytest.mark.parametrize("seed", range(4))
def test_stamps_without_sense(tmp_path: Path, seed: int, years: tuple[int, int]) -> None:
    """Stamps of both points jump by years, forth and back: clocks whose offsets and drifts no 64 bits hold."""

    def jumping(name: str) -> Clock:
        return lambda time: time + Random(f"{name}{time // 250_000}{seed}").randint(*years) * 31_557_600 * 10**9

    world = World(points=("client", "server"), clocks={name: jumping(name) for name in ("client", "server")})
    for psn in range(200):
        world.packet(psn * 5_000, psn=psn, payload=psn.to_bytes(4, "big"))
    comparison = world.compare(tmp_path)
    for found in comparison.clocks.times:
        times = found.astype(object)
        assert max(abs(times)) <= 4_600_000_000_000_000_000 and max(times) - min(times) <= 2 * ((1 << 61) - 1)


@pytest.mark.slow
def test_ordinary_stamps_a_year_apart_and_out_of_order(shared: Path) -> None:
    one, other = (str(shared / f"attack/stamps-{name}.pcap") for name in "AB")
    for pair in ((one, other), (other, one)):
        assert run("points", *pair, text=True).stderr == "" and run("points", *pair).returncode in (0, 1)
