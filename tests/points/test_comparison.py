"""`Comparison` finds again what a small world did: matches, losses, clocks, what no file shows."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from ibdissect.errors import CaptureError
from tests.cases import few
from tests.conftest import SHARED

from . import lost_packets
from .world import World, behind, said

SETS = sorted(path.parent for path in (SHARED / "points").rglob("truth.json*"))


@pytest.mark.slow
def test_losses_and_matches_are_those_of_the_simulation(tmp_path: Path) -> None:
    world = World(clocks={"tap": behind(-7_200_000_000_000, 40), "server": behind(3_000_000, -15)})
    world.conversation(120, lost={20: "server", 50: "tap", 80: "server"}, missing={30: ["tap"], 33: ["server"]})
    result = world.result(tmp_path)
    assert {(one["after"], one["before"]) for one in result["lost"]} == {("client", "tap"), ("tap", "server")}
    numbers = {name: world.numbers(name) for name in world.points}
    assert [numbers[one["point"]][one["frame"] - 1] for one in result["lost"]] == sorted(world.lost)
    assert {(one["missing_at"], one["why"]) for one in result["not_captured"]} == {("tap", "later-point"), ("server", "answered")}
    to_server = next(pair for pair in result["pairs"] if (pair["from"], pair["to"]) == ("client", "server"))
    assert (to_server["lost"], to_server["not_captured"], to_server["unknown"], to_server["outside"]) == (3, 1, 0, 0)
    assert to_server["changed"] == {"ttl": to_server["matched"]}
    for row in result["packets"]:
        assert len({numbers[name][frame - 1] for name, frame in zip(world.points, row, strict=True) if isinstance(frame, int)}) == 1


@pytest.mark.slow
def test_what_a_point_may_have_missed_is_no_loss(tmp_path: Path) -> None:
    """Cutting frames from a file loses nothing."""
    world = World(points=("client", "server"))
    world.conversation(200, missing={psn: ["server"] for psn in range(3, 200, 9)})
    result = world.result(tmp_path)
    assert not result["lost"] and len(result["not_captured"]) == 22


def test_equal_packets_that_could_not_be_told_apart_are_no_pause(tmp_path: Path) -> None:
    """The tap has three of each, the others two: which is which is unknown, so none shows that somebody missed it."""
    world = World()
    time = 20_000 + world.conversation(150)
    for psn in range(6):
        for copy in (0, 1):
            world.packet(time + 300 * psn + 2_000 * copy, psn=200 + psn, payload=bytes(8), twice={"tap"} if copy else ())
    world.packet(time + 100_000, psn=300, before="server")
    world.conversation(150, time=time + 200_000)
    result = world.result(tmp_path)
    assert result["ambiguous"]["matches"] and not any(pair["outside"] for pair in result["pairs"])
    assert [(one["before"], one["why"]) for one in result["lost"]] == [("server", "absent")], "a pause would leave it unknown"


def test_a_pair_that_shares_nothing(tmp_path: Path) -> None:
    one, other = World(points=("one",)), World(points=("other",))
    one.conversation(10)
    other.packet(0, psn=77, payload=b"something else")
    with pytest.raises(CaptureError, match=r"other.pcap: shares no packet with .*one.pcap; name"):
        said([*one.write(tmp_path), *other.write(tmp_path)])
    other.clocks["other"] = behind(10**12)
    with pytest.raises(CaptureError, match="and their times do not overlap"):
        said([*one.write(tmp_path), *other.write(tmp_path)])


def test_a_pair_of_which_every_packet_was_changed(tmp_path: Path) -> None:
    world = World(points=("client", "server"))
    for psn in range(60):
        world.packet(20_000 * psn, psn=psn, payload=bytes(8), changed={"server": {"p_key": 0x8001}})
    with pytest.raises(CaptureError, match=r"60 packets have the PSN, OpCode and queue pair .* rewrites all of it"):
        world.result(tmp_path)


@few("mirrored", ["client", "server"], fast=(1,))
def test_a_mirror_that_records_all_twice_too_far_apart(mirrored: str, tmp_path: Path) -> None:
    """The bytes are the same, so nothing rewrites them; half as far apart, they are copies."""
    for apart, refused in ((50_000, False), (150_000, True)):
        world = World(points=("client", "server"))
        for psn in range(60):
            world.packet(20_000 * psn, psn=psn, payload=bytes(8), twice={mirrored}, apart=apart)
        if not refused:
            assert world.result(tmp_path)["pairs"][0]["matched"] == 60
            continue
        with pytest.raises(CaptureError, match=rf"{mirrored}.pcap: has 60 of 60 packets several times, .* one direction"):
            world.result(tmp_path)


def test_the_captures_of_the_tutorial(tmp_path: Path) -> None:
    """They are what the world writes, so that the page can be made again."""
    for path in lost_packets.write(tmp_path):
        assert Path(path).read_bytes() == (lost_packets.FOLDER / Path(path).name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("folder", SETS, ids=lambda path: path.name)
def test_sets_with_the_truth(folder: Path) -> None:
    """The sets in ../shared/points, scored by the script beside them. In one of them nothing but two absences tells of two losses."""
    spec = importlib.util.spec_from_file_location("score", SHARED / "points/score.py")
    assert spec is not None and spec.loader is not None
    score = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(score)
    truth = score.load(str(folder))
    found = score.score(truth, json.loads(json.dumps(said([str(folder / point["file"]) for point in truth["points"]]))))
    assert found["score"] >= 98.5 and found["lost"]["fp"] == 0, re.sub(r"\s+", " ", json.dumps(found))
