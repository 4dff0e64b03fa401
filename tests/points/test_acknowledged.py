"""Proofs by answers: cumulative ACKs over the wrap of PSNs, copies that prove nothing, the NAK that asks for a packet."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from ibdissect.points import matching_in_windows, read_captures
from tests.craft import mad

from .world import ACK, ACKNOWLEDGE, NAK, UD_SEND, World, said

SEND, READ, RESPONSE, RNR = 0x04, 0x0C, 0x10, 0x20
LAST = (1 << 24) - 1
ASKER, ANSWERER = 0x77, 0x78
APART = 10_000
"""Nanoseconds from one packet to the next."""
Packet = tuple[int, int, int]
"""OpCode, PSN, syndrome."""


def proofs(
    folder: Path, *packets: Packet, times: Sequence[int] = (), before: Sequence[Packet] = (), every: int = 1, window: int = 1000,
) -> list[str]:  # fmt: skip
    """What is said of each of some packets of a connection, of which only their sender captured every `every`th but acknowledgements.

    `before`: packets that both have.
    """
    world = World(points=("client", "server"))
    start, shown = world.conversation(30, psn=5_000) + 100_000, world.sent + len(before)
    for number, (opcode, psn, syndrome) in enumerate((*before, *packets), -len(before)):
        back = opcode in (ACKNOWLEDGE, RESPONSE)
        lacks = () if number < 0 or number % every or opcode == ACKNOWLEDGE else ("client",) if back else ("server",)
        time = start + (times[number] if times and number >= 0 else APART * (number + len(before)))
        what = {"syndrome": syndrome} if back else {}
        payload = bytes(4) if opcode in (SEND, RESPONSE) else b""
        world.packet(time, back=back, opcode=opcode, psn=psn, missing=lacks, payload=payload, dest_qp=ANSWERER if back else ASKER, **what)
    world.packet(time + 20_000, psn=9_999)
    found, told = said(world.write(folder), window=window), dict[int, str]()
    for one in (*found["not_captured"], *found["lost"]):
        likely = " likely" if one.get("certainty") == "likely" else ""
        told[world.numbers(one["point"])[one["frame"] - 1]] = one["why"] + likely
    return [told.get(shown + number, "") for number in range(len(packets))]


def in_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let packets be read and matched in windows of few."""
    monkeypatch.setattr(read_captures, "BLOCK", 16)
    monkeypatch.setattr(matching_in_windows, "REORDERED_NS", APART)


@pytest.mark.slow
def test_an_ack_confirms_all_before_it(tmp_path: Path) -> None:
    found = proofs(tmp_path, (SEND, LAST, -1), (SEND, 0, -1), (SEND, 1, -1), (ACKNOWLEDGE, 0, ACK), (SEND, 2, -1))
    assert found == ["answered", "answered", "", "", ""]


@pytest.mark.slow
def test_what_an_rnr_nak_answers_has_arrived(tmp_path: Path) -> None:
    """The sender repeats it for want of a buffer, not because it was lost."""
    assert proofs(tmp_path, (SEND, 1, -1), (ACKNOWLEDGE, 1, RNR), (SEND, 1, -1), (SEND, 2, -1))[0] == "answered"
    found = proofs(tmp_path, (SEND, 1, -1), (ACKNOWLEDGE, 0, RNR), (SEND, 1, -1), (SEND, 2, -1))
    assert found == ["absent", "", "absent likely", "absent likely"], "that it was sent again proves the loss"


@pytest.mark.parametrize(
    ("next_psn", "later", "arrived"),
    [(3, 10_000_040_000, True), (3, 10_000_000_000, False), (1, 11_000_000_000, False)],
)
def test_data_that_nobody_asks_for_again_has_arrived(tmp_path: Path, next_psn: int, later: int, arrived: bool) -> None:
    """A requester that goes on for ten seconds has found out that some is missing."""
    packets = (READ, 1, -1), (RESPONSE, 1, ACK), (READ, 2, -1), (RESPONSE, 2, ACK), (ACKNOWLEDGE, 2, ACK), (READ, next_psn, -1)
    shown = [one for psn in range(LAST - 40, LAST) for one in ((READ, psn, -1), (RESPONSE, psn, ACK))]
    found = proofs(tmp_path, *packets, before=shown, times=[900_000 + time for time in (0, 10_000, 20_000, 30_000, 34_000, later)])
    assert [found[number] == "answered" for number in (1, 3)] == [arrived] * 2
    assert found[4] != "answered", "an acknowledgement that is lost is not asked for"


@pytest.mark.slow
def test_which_copy_was_answered_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they are matched in different windows."""
    found = proofs(tmp_path, (SEND, 1, -1), (SEND, 2, -1), (SEND, 1, -1), (SEND, 2, -1), (SEND, 3, -1), (ACKNOWLEDGE, 3, ACK))
    assert found == ["", "", "", "", "answered", ""]
    in_windows(monkeypatch)
    packets = (SEND, 1, -1), *((SEND, psn, -1) for psn in range(2, 41)), (SEND, 1, -1), (ACKNOWLEDGE, 40, ACK)
    assert proofs(tmp_path, *packets, every=40, window=8)[0] == "absent"


@pytest.mark.slow
def test_a_nak_asks_for_the_last_copy_before_it(tmp_path: Path) -> None:
    packets = (SEND, 1, -1), (SEND, 2, -1), (SEND, 3, -1), (ACKNOWLEDGE, 2, NAK), (SEND, 2, -1), (SEND, 3, -1), (ACKNOWLEDGE, 3, ACK)
    assert proofs(tmp_path, *packets) == ["answered", "nak likely", "", "", "", "", ""]
    assert proofs(tmp_path, (SEND, 1, -1), (ACKNOWLEDGE, 1, RNR)) == ["answered", ""]


@pytest.mark.slow
def test_windows_prove_what_the_whole_proves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies, NAKs and answers in other windows than the packets that they tell of."""
    chosen, sent, psn = random.Random(3), list[Packet](), LAST - 20
    for _ in range(50):
        if chosen.random() < 0.1:
            sent.append((ACKNOWLEDGE, (psn - 2) & LAST, NAK))
            psn -= chosen.randrange(1, 3)
        elif chosen.random() < 0.3:
            sent.append((ACKNOWLEDGE, (psn - 1) & LAST, ACK))
        sent.append((SEND, psn & LAST, -1))
        psn += 1
    whole = proofs(tmp_path, *sent, every=7)
    assert {"answered", ""} <= {*whole}
    paths = [str(tmp_path / f"{name}.pcap") for name in ("client", "server")]
    once = said(paths)
    in_windows(monkeypatch)
    assert said(paths, window=20) == once


@pytest.mark.slow
def test_mads_that_were_sent_once_and_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answered, sent twice, never answered."""
    world = World(points=("client", "server"))
    time = world.conversation(30)
    shown = world.sent
    for transaction, answer in ((5, False), (5, True), (6, False), (6, False), (6, True), (7, False)):
        for beat in range(0 if answer else 10):  # between two requests are windows' ends
            world.packet(time + 10_000 * beat, psn=10_000 + world.sent - shown, missing=() if beat else ["server"])
        time += 50_000 if answer else 320_000
        payload = mad(0x03, 0x81 if answer else 1, 0x35, transaction_id=transaction, size=64)
        missing = () if answer else ("server",)
        world.packet(time, back=answer, opcode=UD_SEND, payload=payload, dest_qp=1, psn=world.sent, missing=missing)
    world.packet(time + 50_000, psn=9_999)
    in_windows(monkeypatch)
    found = said(world.write(tmp_path), window=8)["not_captured"]
    frames = [frame for _, frame, number in sorted(world.seen["client"]) if frame[42 + 5 : 42 + 8] == b"\0\0\1"]
    client = sorted(world.seen["client"])
    assert [frames.index(client[one["frame"] - 1][1]) for one in found if client[one["frame"] - 1][1] in frames] == [0]
