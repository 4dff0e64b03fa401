"""Lost packets of a connection are told with their place, and requests that arrived are told apart."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from ibdissect.diagnosis.connection import LostPackets
from ibdissect.points.fates import Fate, Tries, _is_reply, _is_try, _try, fates
from ibdissect.points.same_connections import Same, same_connections
from tests.craft import erf_pcap, rc
from tests.diagnosis.lab import diagnosis
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
    assert tries.told.cause == "retries-exhausted" and tries.sent == 8
    assert (tries.arrived[1], tries.arrived[2], tries.lost[1, 2]) == (8, arrive, 8 - arrive) and not tries.replies


def test_answers_that_another_point_has_are_those_that_were_lost_on_the_way_back(tmp_path: Path) -> None:
    fate = only(silence(answered="client"), tmp_path)
    tries = fate.tries[0]
    assert {point: len(frames) for point, frames in tries.replies.items()} == {1: 8, 2: 8}


def test_a_loss_belongs_to_the_connection_that_was_there(tmp_path: Path) -> None:
    """Queue pairs that are used again: the first and the last frame count, too."""
    world = World()
    world.conversation(120, lost={12: "server", 40: "tap", 77: "server"})
    comparison, found = diagnoses(world, tmp_path)
    (same,) = same_connections(found, comparison.clocks)
    frames = sorted(each.first_frame for each in fates(comparison, [same])[0].lost if each.after == 0)
    (lost,) = frames  # in front of the tap, in the client's capture
    for first, last, wanted in ((1, lost, 1), (1, lost - 1, 0), (lost, 999, 1), (lost + 1, 999, 0)):
        part = Same({0: replace(same.at[0], first_frame=first, last_frame=last)}, {0: same.spans[0]})
        (fate,) = fates(comparison, [part])
        assert sum(each.packets for each in fate.lost if each.after == 0) == wanted


@pytest.mark.parametrize(
    ("what", "value", "wanted"),
    [
        ("time", 5, True), ("time", 4, False), ("psn", 6, False), ("psn", 7 + (1 << 23) - 1, True), ("psn", 7 + (1 << 23), False),
        ("syndrome", -1, False), ("seen", True, False), ("passed", True, False), ("covered", False, False),
    ],
)  # fmt: skip
def test_an_answer_that_did_not_come(what: str, value: int, wanted: bool) -> None:
    """`passed`: a later point has it, so this one just missed it; `covered`: this one was capturing."""
    told = diagnosis(erf_pcap([rc(4, bytes(8), slid=1, dlid=2, bth={"psn": 7})])).connections[0]
    state = {"time": 5, "psn": 7, "syndrome": 0, "seen": False, "passed": False, "covered": True, what: value}
    column = {name: np.array([[one]] if name in ("seen", "passed", "covered") else [one]) for name, one in state.items()}
    block: Any = SimpleNamespace(packets=SimpleNamespace(**column), journey=SimpleNamespace(**column), seen=column["seen"])
    assert _is_reply(block, 0, Tries(0, told, 0, 7, 0, 5)) is wanted


def test_what_a_point_lacks_without_proof_is_unknown(tmp_path: Path) -> None:
    """The server's capture misses two packets that it provably got: that it lacks others does not prove that they were lost."""
    world = silence(lost=dict.fromkeys(range(8), "server"), world=World(points=("client", "server")))
    world.seen["server"] = [one for i, one in enumerate(world.seen["server"]) if i not in (30, 60)]
    fate = only(world, tmp_path)
    assert fate.unknown == fate.tries[0].missing[1] == 8 and not fate.lost and fate.passed == [0, 1]


@pytest.mark.parametrize(("opcode", "frame", "psn", "transaction", "tried"), [
    (0x04, 3, 7, 9, True), (0x04, 2, 7, 9, False), (0x04, 5, 7, 9, True), (0x04, 6, 7, 9, False), (0x04, 3, 8, 9, False),
    (0x64, 3, 8, 9, True), (0x64, 3, 7, 8, False),
])  # fmt: skip
def test_a_request_is_sent_again_with_its_psn_or_its_transaction(opcode: int, frame: int, psn: int, transaction: int, tried: bool) -> None:
    told = diagnosis(erf_pcap([rc(4, bytes(8), slid=1, dlid=2, bth={"psn": 7})])).connections[0]
    told = replace(told, first_frame=3, last_frame=5)

    def block(frame: int, psn: int, transaction: int) -> Any:
        values = {"opcode": opcode, "flow": 1, "psn": psn, "transaction": transaction, "time": 77}
        columns = {name: np.array([one]) for name, one in values.items()}
        return SimpleNamespace(packets=SimpleNamespace(frame=np.array([[frame]]), **columns))

    tries = _try(block(3, 7, 9), 0, 0, told)
    assert (tries.psn, tries.transaction, tries.first_ns) == (7, 9 if opcode == 0x64 else 0, 77)
    assert _is_try(block(frame, psn, transaction), 0, tries) is tried
