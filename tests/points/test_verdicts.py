"""A loss is only claimed where it is certain: not behind a hole, outside a window, or on another path."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from ibdissect.capture.writing import CaptureWriter
from ibdissect.wire.numbers import MULTICAST_QP
from ibdissect.wire.opcodes import CNP_OPCODE
from tests.cases import few
from tests.craft import LINK_INFINIBAND, smp

from .world import ACKNOWLEDGE, SERVER_QP, START, UD_SEND, Fault, World, faults, said

UC_SEND = 0x24


@pytest.mark.slow
def test_a_hole_in_a_file_is_no_loss(tmp_path: Path) -> None:
    """The tap stops recording for a while; what is lost before and after is still certain."""
    world = World(points=("client", "server"))
    world.conversation(300, lost={20: "server", 250: "server"})
    world.seen["server"] = [one for one in world.seen["server"] if not 2_000_000 < one[0] < 3_000_000]
    said = world.result(tmp_path)
    numbers = world.numbers("client")
    assert [numbers[one["frame"] - 1] for one in said["lost"]] == sorted(world.lost)
    assert said["pairs"][0]["outside"] > 40


@pytest.mark.slow
def test_a_file_with_a_hole_proves_no_loss_elsewhere(tmp_path: Path) -> None:
    """Datagrams, which nobody answers, are missing in a file that pauses: it may have paused there, too."""
    for hole, lost in ((0, 8), (1_000_000, 0)):
        world = World(points=("client", "server"))
        world.conversation(300)
        for psn in range(8):
            world.packet(4_000_000 + 500 * psn, missing=["server"], opcode=UD_SEND, psn=psn, payload=bytes([psn] * 8))
        world.packet(4_500_000, opcode=UD_SEND, psn=8, payload=bytes(8))
        world.seen["server"] = [one for one in world.seen["server"] if not 2_000_000 < one[0] < 2_000_000 + hole]
        assert len(world.result(tmp_path)["lost"]) == lost


def test_outside_of_the_window(tmp_path: Path) -> None:
    world = World()
    end = world.conversation(100)
    world.seen["server"] = [one for one in world.seen["server"] if end // 4 < one[0] < end // 2]
    result = world.result(tmp_path)
    assert not result["lost"] and not result["not_captured"]
    assert any("only" in note for note in result["notes"])


@pytest.mark.slow
def test_a_tap_on_one_of_two_paths(tmp_path: Path) -> None:
    """Half of the packets go by another path: the tap has not lost them."""
    world = World()
    world.conversation(200, missing={psn: ["tap"] for psn in range(0, 200, 2)}, lost={70: "server"})
    result = world.result(tmp_path)
    assert [one["before"] for one in result["lost"]] == ["server"] and not result["not_captured"]


@pytest.mark.slow
def test_reordered_packets_are_counted(tmp_path: Path) -> None:
    world = World(points=("client", "server"))
    world.conversation(50)
    end = 10_000_000
    for psn in range(1_000, 1_010):
        world.packet(end + psn * 500, psn=psn)
    at = {number: i for i, (_, _, number) in enumerate(world.seen["server"])}
    time, frame, number = world.seen["server"][at[world.sent - 6]]
    world.seen["server"][at[world.sent - 6]] = time + 1_800, frame, number
    assert world.result(tmp_path)["pairs"][0]["reordered"] == 1


@pytest.mark.slow
def test_under_way_when_a_capture_stops(tmp_path: Path) -> None:
    """Packets that the client sent just before the server's capture stops would have come too late for it."""
    world = World(points=("client", "server"))
    start = world.conversation(60) + 50_000
    for psn in range(1_000, 1_400):
        world.packet(start + 100 * (psn - 1_000), psn=psn)
    world.seen["server"] = [one for one in world.seen["server"] if one[0] < start + 20_000]
    result = world.result(tmp_path)
    assert not result["lost"] and result["pairs"][0]["outside"] >= 190


@pytest.mark.slow
@pytest.mark.parametrize("step", [2, 3, 7])
@pytest.mark.parametrize("name", ["client", "tap", "server"])
def test_a_thinned_capture_proves_no_loss(tmp_path: Path, name: str, step: int) -> None:
    """A mirror that drops every second or third frame: what it lacks was not lost there, whether an answer tells so or not."""
    world = World()
    start = world.conversation(150, lost={20: "server", 90: "tap"})
    for psn in range(1_000, 1_100):
        world.packet(start + 20_000 * (psn - 999), opcode=UD_SEND, psn=psn)
    for number, sighting in enumerate(list(world.seen[name])):
        if number % step == 1:
            world.seen[name].remove(sighting)
    claimed = {world.numbers(one["point"])[one["frame"] - 1] for one in world.result(tmp_path)["lost"]}
    assert claimed <= world.lost.keys()


@pytest.mark.slow
def test_one_missing_packet_proves_nothing(tmp_path: Path) -> None:
    """A point that has all packets of which an answer tells may well have missed one of the others; of many the network lost some."""
    for count, claimed in ((1, 0), (12, 12)):
        world = World(points=("client", "server"))
        start = world.conversation(60)
        for psn in range(1_000, 1_060):
            gone = "server" if psn % 5 == 0 and psn < 1_000 + 5 * count else None
            world.packet(start + 20_000 * (psn - 999), opcode=UD_SEND, psn=psn, before=gone)
        assert len(world.result(tmp_path)["lost"]) == claimed


@few("lids", [False, True], ids=["permissive LIDs", "LIDs that change where LID routing ends"], fast=(1,))
def test_how_far_a_directed_route_was_followed(tmp_path: Path, lids: bool) -> None:
    """SMPs over four links, seen on the first, second and fourth: each is another frame on each of them. Some are lost after the second."""
    seen: dict[str, list[tuple[int, bytes]]] = {"sm": [], "middle": [], "leaf": []}
    links = {"sm": 0, "middle": 1, "leaf": 3}
    lost = {7, 30, 31}
    for tid in range(60):
        for back in (False, True):
            for name, link in links.items():
                passed = (not back and not (tid in lost and link > 1)) or (back and tid not in lost)
                if passed:
                    time = tid * 1_000_000 + (500_000 - 700 * link if back else 700 * link)
                    seen[name].append((time, _directed(tid, link, back=back, lid=5 if lids and link == 0 else 0xFFFF)))
    paths = []
    for name, frames in seen.items():
        paths.append(str(tmp_path / f"{name}.pcap"))
        with CaptureWriter(paths[-1]) as writer:
            for time, frame in sorted(frames):
                writer.write(frame, link=LINK_INFINIBAND, time_ns=START + time)
    found = said(paths)
    assert [(one["after"], one["before"], one["hop"], one["hops"]) for one in found["lost"]] == [("middle", "leaf", 2, 4)] * 3
    forth = next(pair for pair in found["pairs"] if (pair["from"], pair["to"]) == ("sm", "leaf"))
    assert (forth["matched"], forth["lost"], forth["changed"]) == (57, 3, {"hop_pointer": 57})
    assert {(pair["from"], pair["to"]) for pair in found["pairs"]} == {(a, b) for a in links for b in links if a != b}
    (told,) = {entry.words["proof"] for entry in faults(paths)[1]["PTS001"]}
    assert told.endswith("(last seen on link 2 of 4 of its directed route)")


def _directed(tid: int, link: int, *, back: bool, lid: int) -> bytes:
    """A Get or its answer on one link of a route of four; the return path grows on the way there."""
    known = 4 if back else link + 1
    return smp(
        0x81 if back else 1, 0x11, path=[1, 2, 3, 4], header={"transaction_id": tid},
        dr={"hop_pointer": link + 1, "return_path": bytes([0, *[9] * known])}, slid=lid, dlid=lid, bth={"psn": tid},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("missing", "named", "certain"), [(0, "tap", "tap"), (60, "tap", "server"), (2, "server", "server")])
def test_a_tap_that_misses_packets_is_not_named_as_the_place(tmp_path: Path, missing: int, named: str, certain: str) -> None:
    """Both the tap and the server lack packets that the client sent. They may have passed the tap if it misses some; if it misses few, that
    is unlikely.
    """
    world = World()
    start = world.conversation(200, lost={psn: "server" for psn in range(20, 200, 20)})
    for psn in range(1_000, 1_060):
        world.packet(start + 20_000 * (psn - 999), psn=psn, before="tap" if psn % 10 == 0 else None)
    if missing:
        world.seen["tap"] = [one for number, one in enumerate(sorted(world.seen["tap"])) if number % missing]
    said = world.result(tmp_path)
    after_client = [one for one in said["lost"] if one["after"] == "client"]
    assert len(after_client) >= 6 and {one["before"] for one in after_client} == {named}
    assert {one.get("at_the_latest", one["before"]) for one in after_client} == {certain}


LOST = range(25, 90, 7)
"""Packets of 100 that a point lacks each by itself."""


@pytest.mark.parametrize(("opcode", "queue_pair", "code"), [(UD_SEND, 0x77, "PTS001"), (CNP_OPCODE, SERVER_QP, "PTS005")])
@few(("shown", "sure"), [(range(0), False), (range(25), False), (range(90, 100), False), (range(100), True)], fast=(2, 3))
def test_what_a_point_recorded_of_a_flow(
    tmp_path: Path, opcode: int, queue_pair: int, code: str, shown: Collection[int], sure: bool
) -> None:
    """A point's filter may leave out notifications, or another queue pair, and a flow may take another way: losses are sure between packets
    of it that the point has."""
    lacking = [number for number in range(100) if number in LOST or number not in shown]
    found = datagrams(tmp_path, lacking, opcode=opcode, dest_qp=queue_pair)[code]
    assert len(found) == len(lacking) and {one.sure for one in found} == {sure}


@pytest.mark.parametrize(("queue_pair", "sure"), [(MULTICAST_QP, False), (0x77, True)])
def test_groups_have_members_that_come_and_go(tmp_path: Path, queue_pair: int, sure: bool) -> None:
    """Switches forward a group only to its members: what a point lacks of it need not be lost, and of a queue pair it is."""
    found = datagrams(tmp_path, LOST, dest_qp=queue_pair)["PTS001"]
    assert len(found) == len(LOST) and {one.sure for one in found} == {sure}


@few("opcode", [UD_SEND, UC_SEND], fast=(0,))
@pytest.mark.parametrize(("every", "sure"), [(2, False), (3, False), (7, True)])
def test_datagrams_that_take_several_ways(tmp_path: Path, opcode: int, every: int, sure: bool) -> None:
    """Adaptive routing sprays a flow, and a connection of another service level stays on the way past the point, which has all of it."""
    lacking = range(25, 95, every)
    found = datagrams(tmp_path, lacking, opcode=opcode)["PTS001"]
    assert len(found) == len(lacking) and {one.sure for one in found} == {sure}


@pytest.mark.parametrize(("gap", "sure"), [(40_000, True), (200, False)])
def test_a_recorder_that_drops_a_burst(tmp_path: Path, gap: int, sure: bool) -> None:
    """Ten datagrams that follow each other at once are one accident of a recorder that cannot keep up; ten by themselves are not."""
    found = datagrams(tmp_path, range(45, 55), gap=gap)["PTS001"]
    assert len(found) == 10 and {one.sure for one in found} == {sure}


def datagrams(
    folder: Path, lacking: Collection[int], *, gap: int = 40_000, opcode: int = UD_SEND, dest_qp: int = 0x77
) -> dict[str, list[Fault]]:
    """What is found of 100 packets beside a conversation of which the second point has everything. `lacking`: those that it lacks."""
    world = World(points=("client", "server"))
    world.conversation(300)
    for number in range(100):
        missing = ["server"] if number in lacking else []
        world.packet(1_010_000 + gap * number, missing=missing, psn=number, payload=bytes([number] * 16), opcode=opcode, dest_qp=dest_qp)
    return world.faults(folder)[0]


@pytest.mark.slow
def test_answers_that_may_be_of_several_connections(tmp_path: Path) -> None:
    """Eight queue pairs that all begin with PSN 0: whose answers are whose is unknown. From PSN 200 on requests of one take another way."""
    world = World(points=("client", "server"))
    for psn in range(400):
        for number in range(8):
            missing = ["server"] if number == 7 and psn >= 200 else []
            asked = {"psn": psn, "payload": bytes([number]) + psn.to_bytes(4, "big"), "dest_qp": 0x100 + number}
            arrived = world.packet(40_000 * psn + 3_000 * number, missing=missing, **asked)
            world.packet(arrived + 500, back=True, opcode=ACKNOWLEDGE, psn=psn, syndrome=0x1F, dest_qp=0x200 + number)
    assert not any(one.sure for point in world.faults(tmp_path) for one in point.get("PTS001", ()))


@pytest.mark.parametrize(("points", "around", "sure"), [
    (("client", "tap"), 3, True), (("client", "tap"), 12, False), (("client", "tap", "server"), 12, True)])  # fmt: skip
def test_adaptive_routing_around_the_only_point_behind(tmp_path: Path, points: tuple[str, ...], around: int, sure: bool) -> None:
    """A packet that the receiver asks for may come late, past a point that lacks many packets that arrived; the next one may miss some."""
    world = World(points=points)
    late = {psn: "tap" for psn in (60, 160, 260)}
    elsewhere = {psn: [points[1]] for psn in range(10, 10 + 20 * around, 20)}
    world.conversation(300, lost=late, missing={psn: where for psn, where in elsewhere.items() if psn not in late})
    found = world.faults(tmp_path)[0]["PTS001"]
    assert len(found) == 3 and {one.sure for one in found} == {sure}
