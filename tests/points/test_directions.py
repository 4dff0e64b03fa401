"""The point that packets pass first, known from timing, from hosts, and from losses, whatever the clocks say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ibdissect.points.directions import Directions
from ibdissect.points.reading import read_points

from .world import World, behind


@pytest.mark.parametrize("offset", [-5_000_000_000, 0, 5_000_000_000])
def test_both_directions_tell(tmp_path: Path, offset: int) -> None:
    world = World(points=("client", "server"), clocks={"server": behind(offset, 80)})
    world.conversation(40)
    directions = Directions(*read_points(world.write(tmp_path)[::-1]))
    assert directions.two_way[0, 1] and not directions.assumed
    client = directions.source[0]
    assert directions.sign[0, 1, client] == -directions.sign[1, 0, client] != 0
    points = directions.points
    assert [point.name for point in points] == ["server", "client"]
    assert directions.sign[1, 0, directions.source[points[1].seen.flow[0]]] == 1


def test_a_tap_that_sees_one_direction(tmp_path: Path) -> None:
    """It lies before the point at the receiver's host, and behind that at the sender's."""
    world = World()
    for psn in range(60):
        arrived = world.packet(psn * 20_000, psn=psn, payload=bytes(8))
        world.packet(arrived + 500, back=True, opcode=0x11, psn=psn, syndrome=0x1F, missing=["tap"])
    points, flows = read_points(world.write(tmp_path))
    directions = Directions(points, flows)
    sender = directions.source[points[0].seen.flow[0]]
    assert directions.sign[:, :, sender].tolist() == [[0, 1, 1], [-1, 0, 1], [-1, -1, 0]]


def test_without_a_second_direction_losses_tell(tmp_path: Path) -> None:
    world = World(points=("late", "early"))
    for psn in range(30):
        world.packet(psn * 20_000, opcode=0x2A if psn else 0x04, psn=psn, before=None)
    lone = World(points=("early",), random=world.random, seen=world.seen)
    lone.packet(700_000, psn=99)
    directions = Directions(*read_points(world.write(tmp_path)))
    assert not directions.two_way.any() and directions.sign[1, 0].max() == 1 and not directions.assumed
    assert np.count_nonzero(directions.sign[0, 1] > 0) == 0
