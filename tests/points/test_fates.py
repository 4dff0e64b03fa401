"""Is it told where the packets of a connection were lost, and which of its requests arrived?"""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.diagnosis.connection import LostPackets
from ibdissect.points.fates import SILENT, Fate, fates
from ibdissect.points.same_connections import same_connections
from tests.points.test_diagnosed import MS, diagnoses, silence
from tests.points.world import World


def only(world: World, folder: Path) -> Fate:
    comparison, found = diagnoses(world, folder)
    (fate,) = fates(comparison, same_connections(found, comparison.clocks))
    return fate


def test_each_loss_has_its_place_and_its_first_frame(tmp_path: Path) -> None:
    world = World()
    world.conversation(120, lost={12: "server", 40: "tap", 77: "server"})
    world.packet(100 * MS, psn=500, back=True, opcode=0x11, syndrome=0x1F, before="client")
    fate = only(world, tmp_path)
    assert fate.passed == [0, 1, 2] and fate.places == [0, 1, 2] and not fate.tries and not fate.unknown
    frames = {number: frame for frame, number in enumerate(world.numbers("tap"), 1)}
    behind = [number for number, point in world.lost.items() if point == "server"]
    assert LostPackets(1, 1, 2, 2, min(frames[number] for number in behind)) in fate.lost
    assert [(each.after, each.before, each.packets) for each in fate.lost if each.to == 1] == [(0, 1, 1), (1, 2, 2)]


@pytest.mark.parametrize("arrive", [0, 3, 8])
def test_each_sending_is_followed(arrive: int, tmp_path: Path) -> None:
    fate = only(silence(lost={n: "server" for n in range(8 - arrive)}), tmp_path)
    (tries,) = [one for one in fate.tries.values() if one.point == 0]
    assert tries.told.cause in SILENT and tries.sent == 8
    assert (tries.arrived[1], tries.arrived[2], tries.lost[1, 2]) == (8, arrive, 8 - arrive) and not tries.replies


def test_answers_that_another_point_has_are_those_that_were_lost_on_the_way_back(tmp_path: Path) -> None:
    fate = only(silence(answered="client"), tmp_path)
    tries = fate.tries[0]
    assert {point: len(frames) for point, frames in tries.replies.items()} == {1: 8, 2: 8}
