"""Equal packets are told apart by order and time, and left apart where neither can."""

from __future__ import annotations

from pathlib import Path

import pytest

from .world import CLIENT, World


@pytest.mark.slow
def test_repeated_packets(tmp_path: Path) -> None:
    """Keepalives repeat byte for byte; each is matched with itself, and the lost ones are lost."""
    world = World()
    world.conversation(60)
    for beat in range(40):
        before = "server" if beat in (7, 23) else None
        arrived = world.packet(3_000_000 + beat * 1_000_000, psn=9_000 + beat % 3, before=before)
        if before is None:
            world.packet(arrived + 500, back=True, opcode=0x11, psn=9_000 + beat % 3, syndrome=0x1F)
    said = world.result(tmp_path)
    numbers = {name: world.numbers(name) for name in world.points}
    for row in said["packets"]:
        assert len({numbers[name][frame - 1] for name, frame in zip(world.points, row, strict=True) if isinstance(frame, int)}) == 1
    assert [numbers["tap"][one["frame"] - 1] for one in said["lost"]] == sorted(world.lost) and len(world.lost) == 2


@pytest.mark.slow
def test_duplicates_of_a_mirror_are_one_sighting(tmp_path: Path) -> None:
    world = World()
    world.conversation(100)
    world.seen["tap"] += [(time + 900, frame, number) for time, frame, number in world.seen["tap"][::5]]
    rows = world.result(tmp_path)["packets"]
    assert len(rows) == world.sent and sum(isinstance(row[1], list) for row in rows) == 40


def test_a_copy_soon_after_a_duplicate_is_no_duplicate(tmp_path: Path) -> None:
    """A packet is sent again 5.2 us later; the mirror's duplicate of the first one is seen 2.7 us before it."""
    world = World(points=("client", "tap"))
    end = world.conversation(100)
    for psn in range(5_000, 5_010):
        for copy in range(2):
            world.packet(end + 1_000_000 * (psn - 4_999) + 5_200 * copy, psn=psn)
    at = {number: i for i, (_, _, number) in enumerate(world.seen["tap"])}
    doubled = [*range(0, 200, 5), *range(world.sent - 20, world.sent, 2)]
    world.seen["tap"] += [(time + 2_500, frame, number) for time, frame, number in (world.seen["tap"][at[i]] for i in doubled)]
    said = world.result(tmp_path)
    assert len(said["packets"]) == world.sent and not said["lost"]


@pytest.mark.slow
def test_both_sides_of_a_port_while_no_earlier_point_captures(tmp_path: Path) -> None:
    """The tap sees packets come and go, usually 1.5 us apart, but 8 us during a congestion that is over when the client captures."""
    world = World()
    world.conversation(300)
    middle = 3_000_000
    world.seen["client"] = [one for one in world.seen["client"] if one[0] > middle]

    def queued(time: int, frame: bytes) -> int:
        return 8_000 if time < middle - 200_000 and frame[26:30] == CLIENT else 0

    world.seen["tap"] += [(time + 1_500 + queued(time, frame), frame, number) for time, frame, number in world.seen["tap"]]
    world.seen["server"] = [(time + 1_500 + queued(time, frame), frame, number) for time, frame, number in world.seen["server"]]
    said = world.result(tmp_path)
    assert not said["lost"] and not said["ambiguous"]["losses"]


def test_copies_too_close_together_stay_apart(tmp_path: Path) -> None:
    """Two equal packets 30 ns apart, one arrives: which of them?"""
    world = World(points=("client", "server"))
    end = world.conversation(60)
    for copy, before in enumerate(("server", None)):
        world.packet(end + 50_000 + 30 * copy, psn=5_000, before=before)
    result = world.result(tmp_path)
    assert result["ambiguous"]["matches"] == 1 and not result["lost"]


@pytest.mark.slow
def test_a_late_stamp_does_not_bring_the_copy_before_further(tmp_path: Path) -> None:
    """A packet is lost and repeated; the client stamps the copy late, as others, so the tap seems to see the one before it."""
    world = World()
    world.conversation(400)
    for repeated in range(10):
        at = 10_000_000 + 300_000 * repeated
        world.packet(at, psn=7_000 + repeated, before="tap")
        world.packet(at + 19_000, psn=7_000 + repeated)
    client = sorted(world.seen["client"])
    late = (6_500 * (i % 40 == 1 or number >= 800) for i, (_, _, number) in enumerate(client))
    world.seen["client"] = [(time + by, frame, number) for by, (time, frame, number) in zip(late, client, strict=True)]
    world.seen["tap"] += [(time + 4_000, frame, number) for time, frame, number in world.seen["tap"]]  # both sides of a port
    world.conversation(40, time=20_000_000)
    result = world.result(tmp_path)
    assert all(world.numbers(one["point"])[one["frame"] - 1] in world.lost and one["after"] == "client" for one in result["lost"])
