"""Lost packets of a connection are told with their place, and requests that arrived are told apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.craft import build, mad

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
