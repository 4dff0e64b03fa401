"""The result names each packet's frames, and what points lack."""

from __future__ import annotations

from pathlib import Path

import pytest

from .world import World


def test_frames_of_every_packet(tmp_path: Path) -> None:
    world = World(points=("client", "server"))
    world.conversation(80, lost={5: "server"}, missing={7: ["server"]})
    doubled = world.seen["server"][::4]
    world.seen["server"] += [(time + 700, frame, number) for time, frame, number in doubled]
    said = world.result(tmp_path)
    numbers = {name: world.numbers(name) for name in world.points}
    rows = said["packets"]
    assert len(rows) == world.sent
    for row in rows:
        cells = ([cell] if isinstance(cell, int) else cell or [] for cell in row)
        assert len({numbers[name][frame - 1] for name, cell in zip(world.points, cells, strict=True) for frame in cell}) == 1
    assert sum(isinstance(row[1], list) for row in rows) == len(doubled)
    (one,) = said["not_captured"]
    assert (one["point"], one["missing_at"], one["why"]) == ("client", "server", "answered")


@pytest.mark.slow
def test_a_packet_that_is_lost_later_passed_the_points_before(tmp_path: Path) -> None:
    """The list of what files lack counts as the pairs of points do."""
    world = World(points=("client", "tap", "spine", "server"))
    world.conversation(80, lost={5: "server"}, missing={5: ["tap"]})
    said = world.result(tmp_path)
    listed = [(one["point"], one["missing_at"], one["why"]) for one in said["not_captured"]]
    assert listed == [("spine", "tap", "later-point"), ("server", "tap", "later-point")]  # its second try arrived
    counts = {(pair["from"], pair["to"]): pair["not_captured"] for pair in said["pairs"]}
    assert len(said["lost"]) == 1 and counts["client", "tap"] == sum(counts.values()) == 2
