"""A packet that was changed on the way is matched with itself, and not claimed as lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.points.result import packets, result
from tests.craft import flipped

from .world import World

IP, BTH = 14, 14 + 20 + 8


@pytest.mark.parametrize(("at", "name"), [(BTH + 3, "p_key"), (BTH + 12, "payload"), (IP + 19, "address")])
def test_changed_is_not_lost(tmp_path: Path, at: int, name: str) -> None:
    """PSN 40 is changed in front of the tap, PSN 30 in front of the server, which drops it and asks again; PSN 20 is lost."""
    world = World()
    world.conversation(80, lost={20: "server", 30: "server"})
    numbers = world.numbers("client")
    forty = next(number for _, frame, number in world.seen["client"] if frame[BTH] == 4 and frame[BTH + 11] == 40)
    for point in ("tap", "server"):
        seen = world.seen[point]
        world.seen[point] = [(time, flipped(frame, at, 0x55) if number == forty else frame, number) for time, frame, number in seen]
    thirty = max(world.lost)
    time, frame, _ = next(one for one in world.seen["tap"] if one[2] == thirty)
    world.seen["server"].append((time + 800, flipped(frame, at, 0x55), thirty))
    comparison = world.compare(tmp_path)
    said = result(comparison)
    assert [world.numbers(one["point"])[one["frame"] - 1] for one in said["lost"]] == [min(world.lost)]
    changed = {(pair["from"], pair["to"]): pair["changed"].get(name, 0) for pair in said["pairs"]}
    assert changed["client", "tap"] == 1 and changed["tap", "server"] == 1 and changed["client", "server"] == 2
    assert len(list(packets(comparison))) == len(numbers) == world.sent


def test_which_became_which(tmp_path: Path) -> None:
    """Two different packets with the same PSN within microseconds, one arrives changed: neither is claimed as lost."""
    world = World(points=("client", "server"))
    end = world.conversation(60)
    for copy in range(2):
        world.packet(end + 50_000 + 2_000 * copy, psn=5_000, payload=bytes([copy]) * 4, before="server")
    world.packet(end + 53_000, psn=5_000, payload=b"else", missing=["client"])
    result = world.result(tmp_path)
    assert not result["lost"] and result["ambiguous"]["losses"] == 2
    assert all("payload" not in pair["changed"] for pair in result["pairs"])
