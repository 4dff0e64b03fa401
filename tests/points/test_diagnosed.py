"""Each connection of several points is told once, by the one that knows, with where its packets were lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from ibdissect.diagnosis.connection import CapturePoint, Connection, Diagnosis
from ibdissect.diagnosis.summary import shared_causes
from ibdissect.diagnosis.text import points_text
from ibdissect.pipeline.diagnosing import diagnosed as diagnosed_alone
from ibdissect.pipeline.reading import open_reading
from ibdissect.points.comparison import Comparison
from ibdissect.points.diagnosed import _silent, diagnosed
from ibdissect.points.fates import Fate, Tries
from ibdissect.points.same_connections import Same
from tests.points.world import ACK, ACKNOWLEDGE, CLIENT, START, World, behind

MS = 1_000_000
PSN = 80


def silence(*, lost: dict[int, str] | None = None, answered: str | None = "", world: World | None = None) -> World:
    """A conversation, then a request that is sent eight times. `lost`: the sendings that get lost, and in front of which point;
    `answered`: the server acknowledges those that arrive, which is lost in front of a point; empty: it does not answer."""
    world = world or World(clocks={"tap": behind(-7_200_000_000_000, 40), "server": behind(3_200_417, -12)})
    time = world.conversation(PSN, gap=100_000) + MS
    for n in range(8):
        arrived = world.packet(time, psn=PSN, payload=bytes(32), before=(lost or {}).get(n))
        if answered:
            world.packet(arrived + 500, back=True, opcode=ACKNOWLEDGE, psn=PSN, syndrome=ACK, before=answered)
        time += 20 * MS
    world.packet(time + 400 * MS, back=True, opcode=0x64, psn=1, payload=bytes(8))  # the captures go on
    return world


def diagnoses(world: World, folder: Path) -> tuple[Comparison, list[Diagnosis]]:
    found = []
    for path in world.write(folder):
        with open_reading(path) as reading:
            found.append(diagnosed_alone(reading, path))
    return world.compare(folder), found


def told(world: World, folder: Path) -> Diagnosis:
    return diagnosed(*diagnoses(world, folder))


def only(world: World, folder: Path) -> Connection:
    (found,) = [one for one in told(world, folder).connections if one.transport == "RC"]
    return found


def test_requests_that_were_lost_say_between_which_points(tmp_path: Path) -> None:
    found = only(silence(lost=dict.fromkeys(range(8), "server")), tmp_path)
    assert (found.cause, found.point, found.blamed) == ("retries-exhausted", "client", None)
    assert found.why.endswith("; all 8 sendings were lost between tap and server")
    assert found.detail["lost_between"] == ["tap", "server"] and found.advice.startswith("Look between tap and server for what drops")
    assert [(other.capture, other.cause) for other in found.elsewhere] == [(1, "retries-exhausted"), (2, "healthy")]


def test_a_silent_responder_is_told_from_the_network(tmp_path: Path) -> None:
    found = only(silence(), tmp_path)
    assert "; all 8 sendings reached server, which shows no answer either: 10.0.1.2 is silent, or packets are lost behind" in found.why
    assert found.detail["reached"] == "server" and "lost_between" not in found.detail and found.blamed == 1
    some = only(silence(lost=dict.fromkeys(range(5), "server")), tmp_path)
    assert "3 of 8 sendings reached server, which shows no answer" in some.why
    assert some.why.endswith("; 5 of 8 sendings were lost between tap and server")


def ends_only() -> World:
    return World(points=("client", "server"))


def cut(world: World, name: str, keep: Callable[[int, int], bool]) -> World:
    """Leave out what a point captured; `keep`: by the time, and by how many times the request was sent until then."""
    tries = [time for time, frame, _ in world.seen["client"] if frame[26:30] == CLIENT][-8:]
    world.seen[name] = [one for one in world.seen[name] if keep(one[0], sum(time <= one[0] for time in tries))]
    return world


def test_what_follows_from_silence_is_not_said_where_another_point_shows_more(tmp_path: Path) -> None:
    """The last sending is followed by none, so that alone does not prove that it was lost; but no point behind has it."""
    for world, said in (
        (silence(lost=dict.fromkeys(range(8), "server"), world=ends_only()), "all 8 sendings were lost between client and server"),
        (silence(answered="client", world=ends_only()), "did not come to client: lost on the way back"),
    ):
        found = only(world, tmp_path)
        assert found.why.endswith(said) and found.guess not in found.why and "does not answer" in found.guess
    found = only(silence(world=ends_only()), tmp_path)
    assert found.guess in found.why and "; all 8 sendings reached server" in found.why


def test_each_place_where_sendings_were_lost_is_named(tmp_path: Path) -> None:
    lost = {**dict.fromkeys(range(3), "tap"), **dict.fromkeys(range(3, 8), "server")}
    found = only(silence(lost=lost), tmp_path)
    assert found.why.endswith("; 5 of 8 sendings were lost between tap and server, 3 between client and tap")
    assert found.detail["lost_between"] == ["tap", "server"]


def test_sendings_that_a_point_could_not_capture_are_not_lost(tmp_path: Path) -> None:
    world = cut(silence(world=ends_only()), "server", lambda _, tries: tries <= 5)
    found = only(world, tmp_path)
    assert "; 5 of 8 sendings reached server (server was not capturing while the other 3 were sent), which shows" in found.why


def test_a_point_that_misses_packets_proves_no_loss(tmp_path: Path) -> None:
    world = silence(lost=dict.fromkeys(range(8), "server"), world=ends_only())
    world.seen["server"] = [one for i, one in enumerate(world.seen["server"]) if i not in (30, 60)]
    found = only(world, tmp_path)
    assert found.why.endswith("; server shows none of them: lost on the way, or not captured there") and "lost_between" not in found.detail


def test_a_request_that_only_its_receiver_lacks_was_lost_between_no_points(tmp_path: Path) -> None:
    found = only(silence(world=ends_only()), tmp_path)
    tries = Tries(0, found, 0, PSN, 0, 0, sent=8, lost=Counter({(1, -1): 8}), missing=Counter({1: 0}))
    fate = Fate([0, 1], passed=[0, 1])
    assert _silent(found, Same({0: found}), fate, tries, ["client", "server"]) is found
    tries.lost[0, 1], tries.missing[1] = 4, 4
    told = _silent(found, Same({0: found}), fate, tries, ["client", "server"])
    assert told.why.endswith("4 of 8 sendings were lost between client and server (server was not capturing while the other 4 were sent)")
    tries.missing[1] = 7
    told = _silent(found, Same({0: found}), fate, tries, ["client", "server"])
    assert told.why.endswith("7 of 8 sendings were lost between client and server (server was not capturing while the other one was sent)")
    tries.arrived[1] = 1
    told = _silent(found, Same({0: found}), fate, tries, ["client", "server"])
    assert "; 1 of 8 sendings reached server, which shows no answer" in told.why
    assert told.why.endswith("; 4 of 8 sendings were lost between client and server")  # of the other three it is not certain
    tries.likely, tries.arrived[1] = True, 0
    assert " were most likely lost between " in _silent(found, Same({0: found}), fate, tries, ["client", "server"]).why


def test_clocks_are_told_as_exactly_as_they_are_known() -> None:
    point = CapturePoint("tap", "tap.pcap", 9, START, START, 0)
    for clock, doubt, said in (
        (0, 0, "the same"), (40_000, 40_000, "the same to within 40 us"), (-40_001, 40_000, "40 us behind (to within 40 us)"),
        (3_000_000, 30_000, "3 ms ahead"),
        (3_000_000, 30_001, "3 ms ahead (to within 30 us)"),
    ):  # fmt: skip
        whole = Diagnosis("", 0, [], [], [], START, START, (point, replace(point, clock_ns=clock, doubt_ns=doubt)))
        assert f"that of tap is {said}. " in points_text(whole)


def test_a_direction_that_another_point_has_is_not_asked_for(tmp_path: Path) -> None:
    """Each point captured what its host sends: together they have both directions."""
    world = World(points=("client", "server"))
    for start in (0, 40 * MS):
        world.conversation(100, time=start)
    world.seen["server"] = [one for one in world.seen["server"] if one[1][26:30] != CLIENT]
    whole = told(world, tmp_path)
    assert whole.connections and not [note for note in whole.notes if "Capture both" in note]


def test_answers_that_were_lost_on_the_way_back(tmp_path: Path) -> None:
    found = only(silence(answered="client"), tmp_path)
    assert found.cause == "retries-exhausted" and "all 8 sendings reached server; 8 answers of 10.0.1.2, from frame " in found.why
    assert found.why.endswith(" of tap on, did not come to client: lost on the way back")
    assert found.detail["lost_between"] == ["tap", "client"] and found.blamed is None


def test_what_a_point_misses_itself_is_no_loss(tmp_path: Path) -> None:
    """The server answers, the client has the answers: nothing is wrong, whatever the tap lacks."""
    world = World()
    world.conversation(200, missing={psn: ["tap"] for psn in range(20, 180, 7)})
    found = only(world, tmp_path)
    assert found.cause == "healthy" and found.why == "nothing is wrong" and not found.lost


def test_losses_that_were_recovered_say_where(tmp_path: Path) -> None:
    world = World()
    world.conversation(200, lost={12: "server", 40: "server"})
    found = only(world, tmp_path)
    assert (found.cause, found.advice) == ("healthy", "")
    assert "; 2 packets to 10.0.1.2 were lost between tap and server (the first is frame " in found.why


def test_losses_that_made_it_slow_say_where_to_look(tmp_path: Path) -> None:
    world = World()
    world.conversation(200, lost={12: "server", 40: "tap", 77: "server", 90: "server"}, gap=2 * MS)
    found = only(world, tmp_path)
    assert found.cause == "slow-by-loss" and found.advice.startswith("Look between tap and server for what drops packets")


def test_times_are_those_of_the_first_point(tmp_path: Path) -> None:
    """The tap, whose clock is two hours slow, tells of a connection that only it has whole."""
    world = silence()
    world.seen["client"] = [one for one in world.seen["client"] if one[1][26:30] == bytes([10, 0, 0, 1])]
    whole = told(world, tmp_path)
    (found,) = [one for one in whole.connections if one.transport == "RC"]
    assert found.point == "tap" and abs(found.start_ns - START) < MS and found.since_ns is not None and found.since_ns > START
    assert [point.name for point in whole.points] == ["client", "tap", "server"]
    assert abs(whole.points[1].clock_ns + 7_200_000_000_000) < MS and whole.start_ns - START < MS < whole.end_ns - START


def test_several_that_were_lost_between_the_same_points_are_said_once(tmp_path: Path) -> None:
    found = only(silence(lost=dict.fromkeys(range(8), "server")), tmp_path)
    (shared,) = shared_causes([found, found, replace(found, blamed=1, detail={})])
    assert (shared.host, shared.connections, shared.advice) == ("tap and server", 2, found.advice)
    assert shared.why == "requests or answers of 2 connections that nobody answered were lost between tap and server"
