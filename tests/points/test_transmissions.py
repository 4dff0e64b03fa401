"""A transmission has its first sighting at each point, and the others are kept apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from .world import World


def test_first_and_repeated_sightings(tmp_path: Path) -> None:
    """Latencies count from first sightings, whatever the order of frames in the file, and so does what changed on the way."""
    world = World(points=("client", "server"))
    world.conversation(40)
    twice = world.seen["server"][::4]
    world.seen["server"] += [(time - 300, frame, number) for time, frame, number in twice]
    said = world.result(tmp_path)
    numbers = world.numbers("server")
    cells = [row[1] for row in said["packets"] if isinstance(row[1], list)]
    assert [[numbers[frame - 1] for frame in cell] for cell in cells] == [[number] * 2 for *_, number in twice]
    assert cells == [sorted(cell) for cell in cells] and len(said["packets"]) == world.sent
    first = {number: min(time for time, _, one in world.seen["server"] if one == number) for *_, number in twice}
    least = min(first[number] - time for time, _, number in world.seen["client"] if number in first and number % 2 == 0)
    assert said["pairs"][0]["latency_ns"]["min"] == pytest.approx(least, abs=300)
    assert {pair["from"]: pair["changed"] for pair in said["pairs"]} == {"client": {"ttl": 40}, "server": {"ttl": 40}}
