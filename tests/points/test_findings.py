"""Captures of several points give the findings of the family PTS, and their near misses give none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases import few

from .world import ACKNOWLEDGE, UD_SEND, World

CNP = 0x81


def fault_counts(tmp_path: Path, points: tuple[str, ...] = ("client", "tap", "server"), **what: Any) -> dict[tuple[str, str, bool], int]:
    """How often each (point, code, whether it is sure) is found when `what` happens to one packet in a hundred."""
    world = World(points=points)
    start = world.conversation(100)
    for psn in range(500, 504):
        arrived = world.packet(start + 100_000 * (psn - 499), psn=psn, payload=bytes(8), **(what if psn == 501 else {}))
        world.packet(arrived + 500, back=True, opcode=ACKNOWLEDGE, psn=psn, syndrome=0x1F)
    return {
        (point, code, one.sure): len(entries)
        for point, of_point in zip(points, world.faults(tmp_path), strict=True) for code, entries in of_point.items() for one in entries
    }  # fmt: skip


@pytest.mark.parametrize(("what", "expected"), [
    ({"changed": {"tap": {"p_key": 0x8001}}}, {("tap", "PTS003", True): 1}),
    ({"changed": {"server": {"flipped": 0x40}}}, {("server", "PTS003", False): 1, ("server", "PTS004", True): 1}),
    ({"twice": ("tap", "server")}, {("tap", "PTS002", True): 1, ("server", "PTS002", True): 1}),
    ({"twice": ("server",)}, {("server", "PTS002", False): 1}),
    ({"twice": ("client", "tap", "server")}, {}),
    ({"twice": ("tap", "server"), "apart": 50_000}, {("tap", "PTS002", False): 1, ("server", "PTS002", False): 1}),  # asked for by a NAK
    ({"twice": ("tap", "server"), "apart": 50_000, "opcode": UD_SEND}, {("tap", "PTS002", True): 1, ("server", "PTS002", True): 1}),
    ({"twice": ("tap", "server"), "opcode": CNP}, {("tap", "PTS002", False): 1, ("server", "PTS002", False): 1}),
    ({"twice": ("tap", "server"), "opcode": UD_SEND, "dest_qp": 0xFFFFFF}, {("tap", "PTS002", False): 1, ("server", "PTS002", False): 1}),
    ({"missing": ("tap",)}, {}),
    ({}, {}),
])  # fmt: skip
def test_one_packet(tmp_path: Path, what: dict[str, Any], expected: dict[tuple[str, str, bool], int]) -> None:
    assert fault_counts(tmp_path, **what) == expected


def test_losses_and_lost_notifications(tmp_path: Path) -> None:
    """CNPs on their way back to the client; what the tap lacks was not lost."""
    world = World()
    time = world.conversation(120, lost={20: "server"}, missing={30: ["tap"]})
    for number in range(40):
        world.packet(time + 300_000 * number, back=True, opcode=CNP, payload=bytes(16), before="tap" if number % 4 == 0 else None)
    found = world.faults(tmp_path)
    assert [{code: len(entries) for code, entries in one.items()} for one in found] == [{}, {"PTS001": 1}, {"PTS005": 10}]


@pytest.mark.parametrize(
    ("points", "every", "sure"),
    [(("client", "server"), 4, False), (("client", "tap", "server"), 4, True), (("client", "tap", "server"), 20, False)],
)
def test_answers_of_a_way_that_nothing_tests(tmp_path: Path, points: tuple[str, ...], every: int, sure: bool) -> None:
    """A point that has all requests may record the answers worse; behind a tap that has enough of the others they are lost."""
    world, time = World(points=points), 0
    for psn in range(400):
        arrived = world.packet(time, psn=psn, payload=psn.to_bytes(4, "big"))
        if psn % every == 3:
            before = points[-2] if psn % 40 == 23 else None
            world.packet(arrived + 500, back=True, opcode=ACKNOWLEDGE, psn=psn, syndrome=0x1F, before=before)
        time += 20_000
    found = [one for known in world.faults(tmp_path) for one in known.get("PTS001", ())]
    assert [(one.sure, one.words["proof"].startswith("most likely, as ")) for one in found] == [(sure, not sure)] * len(found) and found


@few(("marked", "twin", "expected"), [
    ({"tap": {"ecn": 3}}, "", [0, 0, 20]),
    ({"server": {"ecn": 3}}, "", [0, 0, 20]),
    ({"client": {"ecn": 3}}, "", [0, 0, 0]),
    ({}, "", [0, 0, 0]),
    ({"tap": {"ecn": 3}}, "notified", [0, 0, 0]),
    ({"tap": {"ecn": 3}}, "thinned", [0, 0, 0]),
    ({"tap": {"ecn": 3}}, "short", [0, 0, 0]),
], fast=(0, 1, 4, 5, 6))  # fmt: skip
def test_marks_without_notification(tmp_path: Path, marked: dict[str, dict[str, Any]], twin: str, expected: list[int]) -> None:
    """Twins: marked before the first point, a CNP, a server that misses a packet it answered, an end within a second."""
    world = World()
    start = world.conversation(60, missing={30: ["server"]} if twin == "thinned" else None)
    for psn in range(500, 520):
        arrived = world.packet(start + 10_000 * (psn - 499), psn=psn, ecn=2, changed=marked)
        world.packet(arrived + 500, back=True, opcode=ACKNOWLEDGE, psn=psn, syndrome=0x1F)
    if twin == "notified":
        world.packet(start + 400_000, back=True, opcode=CNP, payload=bytes(16))
    world.conversation(10, time=start + (500_000_000 if twin == "short" else 1_500_000_000))
    told = [[int(entry.words["packets"].split()[0]) for entry in one.get("PTS006", [])] for one in world.faults(tmp_path)]
    assert [sum(counts) for counts in told] == expected
