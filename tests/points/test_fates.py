"""Lost packets of a connection are told with their place, and requests that arrived are told apart."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from ibdissect.points.fates import Tries, _is_reply, _is_try, _try
from tests.cases import every
from tests.craft import build, erf_pcap, mad, rc
from tests.diagnosis.lab import diagnosis

from .told import MS, PSN, ends_only, only, sent, silence, told
from .world import ACK, ACKNOWLEDGE, SERVER, UD_SEND, World

REQ_ID = 0x10


def test_each_loss_has_its_place_and_its_first_frame(tmp_path: Path) -> None:
    world = World()
    world.conversation(120, lost={12: "server", 40: "tap", 77: "server"})
    world.packet(100 * MS, psn=500, back=True, opcode=0x11, syndrome=0x1F, before="client")
    found = only(world, tmp_path)
    frames = {name: {number: frame for frame, number in enumerate(world.numbers(name), 1)} for name in ("client", "tap")}
    places = {"tap": ("client", 0, 1, 1), "server": ("tap", 1, 2, 2)}
    wanted = []
    for before, (last, after, to, packets) in places.items():
        first = min(frames[last][number] for number, point in world.lost.items() if point == before)
        wanted.append({"to": 1, "after": after, "before": to, "packets": packets, "first_frame": first})
    assert [one for one in found["lost"] if one["to"] == 1] == wanted


@pytest.mark.slow
def test_a_loss_belongs_to_the_connection_that_was_there(tmp_path: Path) -> None:
    """Queue pairs that are used again, with far PSNs: a loss at the end of the first life, or in the first frame of the second."""
    for late, early in ((True, False), (False, True), (True, True)):
        world = World()
        end = world.conversation(120, lost={119: "tap"} if late else {})
        world.conversation(120, time=end + 40 * MS, psn=300_000, lost={300_000: "tap"} if early else {})
        lives = [one for one in told(world, tmp_path)["connections"] if one["transport"] == "RC"]
        assert [sum(each["packets"] for each in one.get("lost", ()) if each["after"] == 0) for one in lives] == [late, early]


@pytest.mark.parametrize(
    ("psn", "missing", "after", "said"),
    [
        (PSN, False, True, "8 answers of 10.0.1.2, from frame "),
        (PSN + 1, False, True, "8 answers of 10.0.1.2, from frame "),
        (PSN - 1, False, True, "which shows no answer either"),  # of the request before
        (PSN, True, True, "which shows no answer either"),  # an end behind the client has them: it just missed them
        (PSN, False, False, "which shows no answer either"),  # they were sent before the request was
    ],
    ids=["its own", "a later one", "an earlier one", "missed", "too early"],
)
def test_an_answer_that_did_not_come(tmp_path: Path, psn: int, missing: bool, after: bool, said: str) -> None:
    world = silence(world=World(points=("host", "client", "server") if missing else ("client", "server")))
    if missing:  # the host's own capture lacks what it sends
        world.seen["host"] = [one for one in world.seen["host"] if one[1][26:30] == SERVER]
    for number in range(8):
        time = (sent(world)[number] if after else number * MS) + 5_000
        gone: dict[str, Any] = {"missing": ["client"]} if missing else {"before": "client"}
        world.packet(time, back=True, opcode=ACKNOWLEDGE, psn=psn, syndrome=ACK, **gone)
    assert said in only(world, tmp_path)["why"]


def test_what_a_point_lacks_without_proof_is_unknown(tmp_path: Path) -> None:
    """The server's capture misses two packets that it provably got: that it lacks others does not prove that they were lost."""
    world = silence(lost=dict.fromkeys(range(8), "server"), world=ends_only())
    world.seen["server"] = [one for i, one in enumerate(world.seen["server"]) if i not in (30, 60)]
    found = only(world, tmp_path)
    assert not found["lost"] and "none of them between" not in found["why"]


@pytest.mark.parametrize(
    ("before", "lost", "said"),
    [(60, (4,), "1 of 3 sendings was lost between"), (30, (2, 4), "2 of 3 sendings were most likely lost between")],
)
def test_a_request_is_sent_again_with_its_transaction(tmp_path: Path, before: int, lost: tuple[int, ...], said: str) -> None:
    """REQs of two set-ups, each sent three times with PSNs of their own; the server's side has them all."""
    world = ends_only()
    time = world.conversation(before)
    for number in range(6):
        who = number % 2
        asked = build("REQ", local_communication_id=0xA0 + who, local_qpn=0x500 + who, service_id=0x10 + who)
        payload = mad(7, 3, REQ_ID, asked, transaction_id=0x70 + who)
        time += 100 * MS
        world.packet(time, opcode=UD_SEND, dest_qp=1, psn=700 + number, payload=payload, before="server" if number in lost else None)
    world.packet(time + 5_000 * MS, psn=60)
    first, second = (one["why"] for one in told(world, tmp_path)["connections"] if one["cause"] == "connect-unanswered")
    assert (
        "its REQ three times in 400 ms to service 0x0000000000000010 " in first
        and f"; {3 - len(lost)} of 3 sendings reached server" in first
    )
    assert first.endswith(f"; {said} client and server")
    assert "; all 3 sendings reached server" in second


@every(
    ("what", "value", "wanted"),
    [
        ("time", 5, True), ("time", 4, False), ("psn", 6, False), ("psn", 7 + (1 << 23) - 1, True), ("psn", 7 + (1 << 23), False),
        ("syndrome", -1, False), ("seen", True, False), ("passed", True, False), ("covered", False, False),
    ],
)  # fmt: skip
def test_bounds_of_an_answer_that_did_not_come(what: str, value: int, wanted: bool) -> None:
    """`passed`: a later point has it, so this one just missed it; `covered`: this one was capturing."""
    told = diagnosis(erf_pcap([rc(4, bytes(8), slid=1, dlid=2, bth={"psn": 7})])).connections[0]
    state = {"time": 5, "psn": 7, "syndrome": 0, "seen": False, "passed": False, "covered": True, what: value}
    column = {name: np.array([[one]] if name in ("seen", "passed", "covered") else [one]) for name, one in state.items()}
    block: Any = SimpleNamespace(packets=SimpleNamespace(**column), journey=SimpleNamespace(**column), seen=column["seen"])
    assert _is_reply(block, 0, Tries(0, told, 0, 7, 0, 5)) is wanted


@every(("opcode", "frame", "psn", "transaction", "tried"), [
    (0x04, 3, 7, 9, True), (0x04, 2, 7, 9, False), (0x04, 5, 7, 9, True), (0x04, 6, 7, 9, False), (0x04, 3, 8, 9, False),
    (0x64, 3, 8, 9, True), (0x64, 3, 7, 8, False),
])  # fmt: skip
def test_bounds_of_a_request_that_is_sent_again(opcode: int, frame: int, psn: int, transaction: int, tried: bool) -> None:
    told = diagnosis(erf_pcap([rc(4, bytes(8), slid=1, dlid=2, bth={"psn": 7})])).connections[0]
    told = replace(told, first_frame=3, last_frame=5)

    def block(frame: int, psn: int, transaction: int) -> Any:
        values = {"opcode": opcode, "flow": 1, "psn": psn, "transaction": transaction, "time": 77}
        columns = {name: np.array([one]) for name, one in values.items()}
        return SimpleNamespace(packets=SimpleNamespace(frame=np.array([[frame]]), **columns))

    tries = _try(block(3, 7, 9), 0, 0, told)
    assert (tries.psn, tries.transaction, tries.first_ns) == (7, 9 if opcode == 0x64 else 0, 77)
    assert _is_try(block(frame, psn, transaction), 0, tries) is tried
