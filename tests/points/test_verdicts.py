"""Is a loss only claimed where it is certain: not behind a hole, outside a window, or on another path?"""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.points.result import result

from .world import UD_SEND, World


def test_a_hole_in_a_file_is_no_loss(tmp_path: Path) -> None:
    """The tap stops recording for a while; what is lost before and after is still certain."""
    world = World(points=("client", "server"))
    world.conversation(300, lost={20: "server", 250: "server"})
    world.seen["server"] = [one for one in world.seen["server"] if not 2_000_000 < one[0] < 3_000_000]
    comparison = world.compare(tmp_path)
    said = result(comparison)
    numbers = world.numbers("client")
    assert [numbers[one["frame"] - 1] for one in said["lost"]] == sorted(world.lost)
    assert said["pairs"][0]["outside"] > 40


def test_outside_of_the_window(tmp_path: Path) -> None:
    world = World()
    end = world.conversation(100)
    world.seen["server"] = [one for one in world.seen["server"] if end // 4 < one[0] < end // 2]
    result = world.result(tmp_path)
    assert not result["lost"] and not result["not_captured"]
    assert any("only" in note for note in result["notes"])


def test_a_tap_on_one_of_two_paths(tmp_path: Path) -> None:
    """Half of the packets go by another path: the tap has not lost them."""
    world = World()
    world.conversation(200, missing={psn: ["tap"] for psn in range(0, 200, 2)}, lost={70: "server"})
    result = world.result(tmp_path)
    assert [one["before"] for one in result["lost"]] == ["server"] and not result["not_captured"]


def test_reordered_packets_are_counted(tmp_path: Path) -> None:
    world = World(points=("client", "server"))
    world.conversation(50)
    end = 10_000_000
    for psn in range(1_000, 1_010):
        world.packet(end + psn * 500, psn=psn)
    at = {number: i for i, (_, _, number) in enumerate(world.seen["server"])}
    time, frame, number = world.seen["server"][at[world.sent - 6]]
    world.seen["server"][at[world.sent - 6]] = time + 1_800, frame, number
    assert world.result(tmp_path)["pairs"][0]["reordered"] == 1


def test_under_way_when_a_capture_stops(tmp_path: Path) -> None:
    """Packets that the client sent just before the server's capture stops would have come too late for it."""
    world = World(points=("client", "server"))
    start = world.conversation(60) + 50_000
    for psn in range(1_000, 1_400):
        world.packet(start + 100 * (psn - 1_000), psn=psn)
    world.seen["server"] = [one for one in world.seen["server"] if one[0] < start + 20_000]
    result = world.result(tmp_path)
    assert not result["lost"] and result["pairs"][0]["outside"] >= 190


@pytest.mark.parametrize("step", [2, 3, 7])
@pytest.mark.parametrize("name", ["client", "tap", "server"])
def test_a_thinned_capture_proves_no_loss(tmp_path: Path, name: str, step: int) -> None:
    """A mirror that drops every second or third frame: what it lacks was not lost there, whether an answer tells so or not."""
    world = World()
    start = world.conversation(150, lost={20: "server", 90: "tap"})
    for psn in range(1_000, 1_100):
        world.packet(start + 20_000 * (psn - 999), opcode=UD_SEND, psn=psn)
    for number, sighting in enumerate(list(world.seen[name])):
        if number % step == 1:
            world.seen[name].remove(sighting)
    claimed = {world.numbers(one["point"])[one["frame"] - 1] for one in world.result(tmp_path)["lost"]}
    assert claimed <= world.lost.keys()


def test_one_missing_packet_proves_nothing(tmp_path: Path) -> None:
    """A point that has all packets of which an answer tells may well have missed one of the others; of many the network lost some."""
    for count, claimed in ((1, 0), (12, 12)):
        world = World(points=("client", "server"))
        start = world.conversation(60)
        for psn in range(1_000, 1_060):
            gone = "server" if psn % 5 == 0 and psn < 1_000 + 5 * count else None
            world.packet(start + 20_000 * (psn - 999), opcode=UD_SEND, psn=psn, before=gone)
        assert len(world.result(tmp_path)["lost"]) == claimed
