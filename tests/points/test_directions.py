"""The point that packets pass first, known from timing, from hosts, and from losses, whatever the clocks say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import few

from .world import World, behind, said


def ways(paths: list[str]) -> tuple[set[tuple[str, str]], bool]:
    """Between which points packets passed, and whether anything shows in which order."""
    found = said(paths)
    assumed = any(note.startswith("Nothing shows whether") for note in found["notes"])
    return {(pair["from"], pair["to"]) for pair in found["pairs"]}, not assumed


@few("offset", [-5_000_000_000, 0, 5_000_000_000], fast=(0, 1))
def test_both_directions_tell(tmp_path: Path, offset: int) -> None:
    world = World(points=("client", "server"), clocks={"server": behind(offset, 80)})
    world.conversation(40, lost={20: "server"})
    found = said(world.write(tmp_path)[::-1])
    assert [point["name"] for point in found["points"]] == ["server", "client"]
    pairs = {(pair["from"], pair["to"]): (pair["lost"], pair["latency_ns"]["min"] > 600) for pair in found["pairs"]}
    assert pairs == {("client", "server"): (1, True), ("server", "client"): (0, True)}
    assert {(one["source"], one["from"]) for one in found["conversations"]} == {("10.0.0.1", "client"), ("10.0.1.2", "server")}
    assert not any("Nothing shows whether" in note for note in found["notes"])


def test_a_tap_that_sees_one_direction(tmp_path: Path) -> None:
    """It lies before the point at the receiver's host, and behind that at the sender's."""
    world = World()
    for psn in range(60):
        arrived = world.packet(psn * 20_000, psn=psn, payload=bytes(8))
        world.packet(arrived + 500, back=True, opcode=0x11, psn=psn, syndrome=0x1F, missing=["tap"])
    there = {("client", "tap"), ("client", "server"), ("tap", "server")}
    assert ways(world.write(tmp_path)) == (there | {("server", "client")}, True)


@pytest.mark.slow
def test_without_a_second_direction_losses_tell(tmp_path: Path) -> None:
    world = World(points=("late", "early"))
    for psn in range(30):
        world.packet(psn * 20_000, opcode=0x2A if psn else 0x04, psn=psn, before=None)
    assert ways(world.write(tmp_path)) == ({("late", "early")}, False), "as the command line has them"
    lone = World(points=("early",), random=world.random, seen=world.seen)
    lone.packet(700_000, psn=99)
    assert ways(world.write(tmp_path)) == ({("early", "late")}, True)
