"""The comparison says in plain words what limits its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.points import matching_in_windows, read_captures

from .world import World, behind, said


@pytest.mark.slow
@pytest.mark.parametrize(("flows", "told"), [(1, "1 group of them was split at its longest gap."), (2, "2 groups of them were split at")])
def test_one_and_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flows: int, told: str) -> None:
    """Equal packets without a pause in which a window could end."""
    monkeypatch.setattr(read_captures, "BLOCK", 16)
    monkeypatch.setattr(matching_in_windows, "REORDERED_NS", 100_000)
    world = World(points=("client", "server"))
    time = world.conversation(60)
    for number in range(450):
        for flow in range(flows):
            world.packet(time + 50_000 * number + 10_000 * flow, back=True, opcode=0x81, payload=bytes(16), dest_qp=0x100 + flow)
    assert any(told in note for note in said(world.write(tmp_path), window=50)["notes"])


def notes(world: World, folder: Path) -> str:
    return " ".join(world.result(folder)["notes"])


def test_clocks_that_are_hours_apart(tmp_path: Path) -> None:
    world = World(points=("client", "server"), clocks={"server": behind(-7_323_000_000_000)})
    world.conversation(60)
    assert "The clock of server is 2 h 2 min 3.000 s behind that of client." in notes(world, tmp_path)


def test_one_direction_only(tmp_path: Path) -> None:
    world = World(points=("client", "server"))
    for psn in range(30):
        world.packet(psn * 20_000, psn=psn)
    told = notes(world, tmp_path)
    assert "The clock of server is not known exactly, as packets pass in one direction only" in told
    assert "latencies are counted from the quickest packets, and up to 2 % of them may be negative" in told
    assert "Nothing shows whether packets pass client or server first" in told
    assert "Nothing shows that server captures all that passes it" in told


@pytest.mark.slow
def test_a_host_that_stamps_late(tmp_path: Path) -> None:
    world = World(points=("client", "server"), clocks={"client": lambda now: now + 60_000 * (now % 97 == 0)})
    world.conversation(200)
    assert "By their stamps, packets come to server up to 5" in notes(world, tmp_path)
    exact = World(points=("client", "server"))
    exact.conversation(200)
    assert "By their stamps" not in notes(exact, tmp_path)


@pytest.mark.slow
def test_a_point_that_misses_packets(tmp_path: Path) -> None:
    world = World()
    world.conversation(100, missing={psn: ["tap"] for psn in range(10, 100, 20)})
    assert "tap lacks 5 of " in notes(world, tmp_path)


@pytest.mark.slow
def test_a_point_that_misses_every_third_packet(tmp_path: Path) -> None:
    world = World()
    world.conversation(120, missing={psn: ["tap"] for psn in range(0, 120, 3)})
    assert "tap has less than 80 % of the packets between some addresses" in notes(world, tmp_path)
    whole = World()
    whole.conversation(120, missing={psn: ["tap"] for psn in range(0, 120, 30)})
    assert "has less than" not in notes(whole, tmp_path)
