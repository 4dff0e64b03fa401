"""Proofs by answers: cumulative ACKs over the wrap of PSNs, copies that prove nothing, the NAK that asks for a packet."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from ibdissect.points.acknowledged import PlaceFinder, ProvenArrivals
from ibdissect.points.flows import PointFlow, PointFlows
from ibdissect.points.transmissions import Transmissions

SEND, READ, RESPONSE, ACKNOWLEDGE, UD = 0x04, 0x0C, 0x10, 0x11, 0x64
ACK, NAK, RNR = 0x1F, 0x60, 0x20
LAST = (1 << 24) - 1
Packet = tuple[int, int, int]


def flows(*, others: int = 0) -> PointFlows:
    found = PointFlows()
    far = [PointFlow(bytes([0, i]), bytes([1, i]), 5) for i in range(others)]
    found.known = [*far, PointFlow(b"a", b"b", 5), PointFlow(b"b", b"a", 4)]
    return found


def transmissions(known: PointFlows, packets: list[tuple[int, int, int, int, int]], times: Sequence[int] = ()) -> Transmissions:
    """(OpCode, PSN, syndrome, transaction, asks) in order of time; READ responses are answers, too."""
    n, first = len(packets), len(known.known) - 2
    opcode, psn, syndrome, transaction, asks = np.array(packets, np.int64).reshape(-1, 5).T
    flow = first + ((opcode == ACKNOWLEDGE) | (opcode == RESPONSE) | (asks == 2))
    none, time = np.zeros(n, np.bool_), np.array(times or range(n), np.int64)
    return Transmissions(
        np.arange(n), time, np.ones((n, 1), np.int32), np.zeros((n, 1), np.int64), np.zeros((n, 1, 11), np.int16),
        flow.astype(np.int32), psn.astype(np.int32), opcode.astype(np.uint8), syndrome.astype(np.int16), transaction.astype(np.uint32),
        asks.astype(np.uint8), np.zeros(n, np.uint16), none, none, none,
    )  # fmt: skip


def proofs(*packets: tuple[int, ...], block: int = 1000, others: int = 0, times: Sequence[int] = ()) -> list[list[bool]]:
    """(OpCode, PSN, syndrome, ...) in order of time, read in blocks -> answered, refused, resent."""
    known = flows(others=others)
    whole = [(*one, 0, 0)[:5] for one in packets]
    blocks = [transmissions(known, whole[at : at + block], times[at : at + block]) for at in range(0, len(whole), block)]
    connections = PlaceFinder(known)
    places = [connections.places(one) for one in blocks]
    answers = ProvenArrivals(known, connections.late)
    found = [answers.proofs(one, place) for one, place in zip(blocks[::-1], places[::-1], strict=True)][::-1]
    return [np.concatenate([getattr(one, name) for one in found]).tolist() for name in ("answered", "refused", "resent")]


def test_an_ack_confirms_all_before_it() -> None:
    answered, _, _ = proofs((SEND, LAST, -1), (SEND, 0, -1), (SEND, 1, -1), (ACKNOWLEDGE, 0, ACK), (SEND, 2, -1))
    assert answered == [True, True, False, False, False]


@pytest.mark.parametrize("block", [2, 1000])
def test_what_an_rnr_nak_answers_has_arrived(block: int) -> None:
    """The sender repeats it for want of a buffer, not because it was lost."""
    answered, _, resent = proofs((SEND, 1, -1), (ACKNOWLEDGE, 1, RNR), (SEND, 1, -1), (SEND, 2, -1), block=block)
    assert answered == [True, False, False, False] and not any(resent)
    answered, _, resent = proofs((SEND, 1, -1), (ACKNOWLEDGE, 0, RNR), (SEND, 1, -1), (SEND, 2, -1), block=block)
    assert not any(answered) and resent == [True, False, False, False]


@pytest.mark.parametrize("block", [2, 1000])
@pytest.mark.parametrize(
    ("next_psn", "later", "arrived"), [(3, 10_000_000_001, True), (3, 10_000_000_000, False), (1, 11_000_000_000, False)]
)
def test_data_that_nobody_asks_for_again_has_arrived(block: int, next_psn: int, later: int, arrived: bool) -> None:
    """A requester that goes on for ten seconds has found out that some is missing."""
    packets = (READ, 1, -1), (RESPONSE, 1, ACK), (READ, 2, -1), (RESPONSE, 2, ACK), (ACKNOWLEDGE, 2, ACK), (READ, next_psn, -1)
    answered, _, _ = proofs(*packets, block=block, times=(0, 0, 0, 0, 0, later))
    assert (answered[1], answered[3]) == (arrived, arrived)
    assert not answered[4], "an acknowledgement that is lost is not asked for"


def test_which_copy_was_answered_is_unknown() -> None:
    answered, _, _ = proofs((SEND, 1, -1), (SEND, 2, -1), (SEND, 1, -1), (SEND, 2, -1), (SEND, 3, -1), (ACKNOWLEDGE, 3, ACK))
    assert answered == [False, False, False, False, True, False]


def test_a_nak_asks_for_the_last_copy_before_it() -> None:
    answered, refused, resent = proofs(
        (SEND, 1, -1), (SEND, 2, -1), (SEND, 3, -1), (ACKNOWLEDGE, 2, NAK), (SEND, 2, -1), (SEND, 3, -1), (ACKNOWLEDGE, 3, ACK)
    )
    assert refused == [False, True, False, False, False, False, False] and resent == refused
    assert answered == [True] + [False] * 6
    assert not any(proofs((SEND, 1, -1), (ACKNOWLEDGE, 1, RNR))[1])


def test_any_number_of_flows() -> None:
    assert proofs((SEND, 7, -1), (ACKNOWLEDGE, 7, ACK), others=200)[0] == [True, False]


@pytest.mark.parametrize("block", [1, 2, 3, 7, 50])
def test_blocks_prove_what_the_whole_proves(block: int) -> None:
    """Copies, NAKs and answers in other blocks than the packets that they tell of. A stream of answers needs a block with requests."""
    chosen = random.Random(block)
    start: list[tuple[int, ...]] = [(SEND, LAST - 30, -1), (ACKNOWLEDGE, LAST - 30, ACK)] * 50
    sent, psn = list(start), LAST - 20
    for _ in range(300):
        if chosen.random() < 0.1:
            sent.append((ACKNOWLEDGE, (psn - 2) & LAST, NAK))
            psn -= chosen.randrange(1, 3)
        elif chosen.random() < 0.3:
            sent.append((ACKNOWLEDGE, (psn - 1) & LAST, ACK))
        sent.append((SEND, psn & LAST, -1))
        psn += 1
    whole, parts = proofs(*sent), proofs(*sent, block=max(block, 2))
    after = len(start)
    assert [one[after:] for one in parts] == [one[after:] for one in whole]
    assert all(any(one) for one in whole)


@pytest.mark.parametrize("block", [1, 2, 100])
def test_mads_that_were_sent_once_and_answered(block: int) -> None:
    """Answered, sent twice, never answered."""
    ask, answer, twice = (UD, 0, -1, 5, 1), (UD, 0, -1, 5, 2), (UD, 0, -1, 6, 1)
    answered, _, _ = proofs(ask, answer, twice, twice, (UD, 0, -1, 6, 2), (UD, 0, -1, 7, 1), block=block)
    assert answered == [True, False, False, False, False, False]
