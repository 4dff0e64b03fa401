"""Clocks are found again: offset, drift, steps; the stated uncertainty holds the truth."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.commands import run

from .world import ACK, ACKNOWLEDGE, START, Clock, World, behind


@pytest.mark.slow
@pytest.mark.parametrize("steps", [{}, {1_500_000_000: -37_000_000}, {800_000_000: 250_000_000, 2_000_000_000: -250_000_900}])
def test_clocks_of_the_simulation(tmp_path: Path, steps: dict[int, int]) -> None:
    clocks = {"tap": behind(-7_200_000_000_123, 64), "server": behind(3_200_417, -20, steps)}
    world = World(clocks=clocks)
    world.conversation(300, gap=10_000_000)
    said = world.result(tmp_path)
    assert not any("not known exactly" in note for note in said["notes"])
    for i, name in enumerate(world.points[1:], 1):
        segments = said["points"][i]["clock"]["segments"]
        assert len(segments) == (1 if name == "tap" else 1 + len(steps))
        for frame, (true, _, _) in enumerate(sorted(world.seen[name]), 1):
            own = START + clocks[name](true)
            segment = [one for one in segments if one["first_frame"] <= frame][-1]
            offset = segment["offset_ns"] + segment["drift_ppm"] * 1e-6 * (own - segment["at_ns"])
            assert abs(offset - (own - START - true)) <= min(segment["uncertainty_ns"], 1_700), (name, frame)


@pytest.mark.slow
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
    (segment,) = world.result(tmp_path)["points"][1]["clock"]["segments"]
    assert abs(segment["offset_ns"]) < 1_000


@pytest.mark.parametrize(
    ("late", "expected"),
    [pytest.param(range(640, 672), [1], id="a burst of late stamps", marks=pytest.mark.slow),
     pytest.param(range(640, 1280), [1, 641], id="a step")],
)  # fmt: skip
def test_small_steps(tmp_path: Path, late: range, expected: list[int]) -> None:
    """Packets of both directions, one every microsecond; some of the server's stamps are 10 us late."""
    world = World(points=("client", "server"), hop=500)
    for psn in range(640):
        world.packet(psn * 2_000, psn=psn)
        world.packet(psn * 2_000 + 1_000, psn=psn, back=True, opcode=ACKNOWLEDGE, syndrome=ACK)
    seen = sorted(world.seen["server"])
    world.seen["server"] = [(time + 10_000 * (i in late), frame, number) for i, (time, frame, number) in enumerate(seen)]
    assert [one["first_frame"] for one in world.result(tmp_path)["points"][1]["clock"]["segments"]] == expected


@pytest.mark.slow
def test_packets_that_cross_at_a_step(tmp_path: Path) -> None:
    """The tap's clock is set, and compared with that of the server, which packets of both directions pass in another order."""
    world = World(clocks={"tap": behind(0, steps={225_000: 20_000_000}), "server": behind(5_000_000)})
    world.conversation(1500, gap=300, missing={psn: ["tap" if psn % 4 else "client"] for psn in range(0, 1500, 5)})
    segments = world.result(tmp_path)["points"][1]["clock"]["segments"]
    before, after = (segments[i]["offset_ns"] for i in (0, -1))
    assert after - before == pytest.approx(20_000_000, abs=10_000)


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
    said = world.result(tmp_path)
    latencies = [time for pair in said["pairs"] for time in pair["latency_ns"].values() if time is not None]
    assert latencies and max(map(abs, latencies)) <= 2 * ((1 << 61) - 1)
    assert len(said["packets"]) >= 200


@pytest.mark.slow
def test_ordinary_stamps_a_year_apart_and_out_of_order(shared: Path) -> None:
    one, other = (str(shared / f"attack/stamps-{name}.pcap") for name in "AB")
    for pair in ((one, other), (other, one)):
        assert run("points", *pair, text=True).stderr == "" and run("points", *pair).returncode in (0, 1)
