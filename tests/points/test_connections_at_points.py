"""Each connection of several points is told once, by the one that knows, with where its packets were lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import run

from .told import MS, cut, ends_only, only, sent, silence, told
from .world import CLIENT, START, UD_SEND, World, behind

GUESS = "QP 0x000045 there does not answer, or what 10.0.0.1 sends to it is lost"
"""What one capture alone makes of silence."""


def test_requests_that_were_lost_say_between_which_points(tmp_path: Path) -> None:
    found = only(silence(lost=dict.fromkeys(range(8), "server")), tmp_path)
    assert (found["cause"], found["capture"], found["blamed"]) == ("retries-exhausted", 0, None)
    assert found["why"].endswith("; all 8 sendings were lost between tap and server")
    assert found["detail"]["lost_between"] == ["tap", "server"] and found["advice"].startswith("Look between tap and server for what drops")
    assert [(other["capture"], other["cause"]) for other in found["elsewhere"]] == [(1, "retries-exhausted"), (2, "healthy")]


def test_a_silent_responder_is_told_from_the_network(tmp_path: Path) -> None:
    found = only(silence(), tmp_path)
    assert "; all 8 sendings reached server, which shows no answer either: 10.0.1.2 is silent, or packets are lost behind" in found["why"]
    assert found["detail"]["reached"] == "server" and "lost_between" not in found["detail"] and found["blamed"] == 1
    some = only(silence(lost=dict.fromkeys(range(5), "server")), tmp_path)
    assert "3 of 8 sendings reached server, which shows no answer" in some["why"]
    assert some["why"].endswith("; 5 of 8 sendings were lost between tap and server")


@pytest.mark.slow
def test_what_follows_from_silence_is_not_said_where_another_point_shows_more(tmp_path: Path) -> None:
    """The last sending is followed by none, so that alone does not prove that it was lost; but no point behind has it."""
    for world, said in (
        (silence(lost=dict.fromkeys(range(8), "server"), world=ends_only()), "all 8 sendings were lost between client and server"),
        (silence(answered="client", world=ends_only()), "did not come to client: lost on the way back"),
    ):
        found = only(world, tmp_path)
        assert found["why"].endswith(said) and GUESS not in found["why"]
    found = only(silence(world=ends_only()), tmp_path)
    assert GUESS in found["why"] and "; all 8 sendings reached server" in found["why"]


def test_each_place_where_sendings_were_lost_is_named(tmp_path: Path) -> None:
    lost = {**dict.fromkeys(range(3), "tap"), **dict.fromkeys(range(3, 8), "server")}
    found = only(silence(lost=lost), tmp_path)
    assert found["why"].endswith("; 5 of 8 sendings were lost between tap and server, 3 between client and tap")
    assert found["detail"]["lost_between"] == ["tap", "server"]


def test_sendings_that_a_point_could_not_capture_are_not_lost(tmp_path: Path) -> None:
    world = cut(silence(world=ends_only()), "server", lambda _, tries: tries <= 5)
    found = only(world, tmp_path)
    assert "; 5 of 8 sendings reached server (server was not capturing while the other 3 were sent), which shows" in found["why"]


def test_a_point_that_misses_packets_proves_no_loss(tmp_path: Path) -> None:
    world = silence(lost=dict.fromkeys(range(8), "server"), world=ends_only())
    world.seen["server"] = [one for i, one in enumerate(world.seen["server"]) if i not in (30, 60)]
    found = only(world, tmp_path)
    assert found["why"].endswith("; server shows none of them: lost on the way, or not captured there")
    assert "lost_between" not in found["detail"]


@pytest.mark.slow
def test_sendings_while_the_point_behind_did_not_capture(tmp_path: Path) -> None:
    """Those are not said to be lost; where others arrived, of what became of them nothing is said."""
    for captured, first, said in (
        (4, 0, "4 of 8 sendings were lost between client and server (server was not capturing while the other 4 were sent)"),
        (7, 0, "7 of 8 sendings were lost between client and server (server was not capturing while the other one was sent)"),
        (5, 1, "; 4 of 8 sendings were lost between client and server"),
    ):
        world = silence(lost=dict.fromkeys(range(first, 8), "server"), world=ends_only())
        for number, time in enumerate(sent(world)):
            world.packet(time + 5 * MS, back=True, opcode=UD_SEND, psn=number)
        found = only(cut(world, "server", lambda _, tries, most=captured: tries <= most), tmp_path)  # type: ignore[misc]
        assert found["why"].endswith(said) and ("; 1 of 8 sendings reached server" in found["why"]) is bool(first)


@pytest.mark.parametrize(("own", "hop", "said"), [
    (-39_000, 40_000, "the same to within 40 us"), (-40_500, 39_800, "40.5 us behind (to within 39.8 us)"),
    (3_000_000, 29_500, "3 ms ahead"), (3_000_000, 30_000, "3 ms ahead (to within 30 us)"),
])  # fmt: skip
def test_clocks_are_told_as_exactly_as_they_are_known(tmp_path: Path, own: int, hop: int, said: str) -> None:
    world = World(points=("client", "tap"), clocks={"tap": behind(own)}, hop=hop)
    world.conversation(40, gap=200_000)
    text = run("diagnose", "--points", *world.write(tmp_path), text=True).stdout
    assert f"that of tap is {said}. " in text


@pytest.mark.slow
def test_a_direction_that_another_point_has_is_not_asked_for(tmp_path: Path) -> None:
    """Each point captured what its host sends: together they have both directions."""
    world = World(points=("client", "server"))
    for number in range(8):
        world.conversation(100, time=40 * MS * number, psn=300_000 * number, qps=(0x100 + number, 0x200 + number))
    world.seen["server"] = [one for one in world.seen["server"] if one[1][26:30] != CLIENT]
    paths = world.write(tmp_path)
    assert "Capture both" not in run("diagnose", "--points", *paths, text=True).stdout


def test_answers_that_were_lost_on_the_way_back(tmp_path: Path) -> None:
    found = only(silence(answered="client"), tmp_path)
    assert found["cause"] == "retries-exhausted" and "all 8 sendings reached server; 8 answers of 10.0.1.2, from frame " in found["why"]
    assert found["why"].endswith(" of tap on, did not come to client: lost on the way back")
    assert found["detail"]["lost_between"] == ["tap", "client"] and found["blamed"] is None


def test_what_a_point_misses_itself_is_no_loss(tmp_path: Path) -> None:
    """The server answers, the client has the answers: nothing is wrong, whatever the tap lacks."""
    world = World()
    world.conversation(200, missing={psn: ["tap"] for psn in range(20, 180, 7)})
    found = only(world, tmp_path)
    assert found["cause"] == "healthy" and found["why"] == "nothing is wrong" and not found["lost"]


def test_losses_that_were_recovered_say_where(tmp_path: Path) -> None:
    world = World()
    world.conversation(200, lost={12: "server", 40: "server"})
    found = only(world, tmp_path)
    assert (found["cause"], found["advice"]) == ("healthy", "")
    assert "; 2 packets to 10.0.1.2 were lost between tap and server (the first is frame " in found["why"]


def test_losses_that_made_it_slow_say_where_to_look(tmp_path: Path) -> None:
    world = World()
    world.conversation(200, lost={12: "server", 40: "tap", 77: "server", 90: "server"}, gap=2 * MS)
    found = only(world, tmp_path)
    assert found["cause"] == "slow-by-loss" and found["advice"].startswith("Look between tap and server for what drops packets")


def test_times_are_those_of_the_first_point(tmp_path: Path) -> None:
    """The tap, whose clock is two hours slow, tells of a connection that only it has whole."""
    world = silence()
    world.seen["client"] = [one for one in world.seen["client"] if one[1][26:30] == bytes([10, 0, 0, 1])]
    whole = told(world, tmp_path)
    (found,) = [one for one in whole["connections"] if one["transport"] == "RC"]
    assert found["capture"] == 1 and abs(found["start_ns"] - START) < MS and found["since_ns"] > START
    assert [point["name"] for point in whole["captures"]] == ["client", "tap", "server"]
    assert abs(whole["captures"][1]["clock_ns"] + 7_200_000_000_000) < MS


def test_several_that_were_lost_between_the_same_points_are_said_once(tmp_path: Path) -> None:
    """Of a third one the host is to blame."""
    world = World()
    for number, lost in enumerate(("server", "server", "")):
        qps = 0x100 + number, 0x200 + number
        silence(lost=dict.fromkeys(range(8), lost) if lost else None, world=world, qps=qps, first=1_000 * number, start=7_000 * number)
    found = told(world, tmp_path)
    causes = [one for one in found["summary"]["causes"] if one["host"] == "tap and server"]
    advice = {one["advice"] for one in found["connections"] if "lost_between" in one["detail"]}
    assert [(one["connections"], {one["advice"]}) for one in causes] == [(2, advice)]
    assert causes[0]["why"] == "requests or answers of 2 connections that nobody answered were lost between tap and server"
