"""Two hosts that share the high word of their transaction ids are told apart by their low words, whatever the chunks."""

from __future__ import annotations

import numpy as np
import pytest

from ibdissect.subnet.route_senders import Senders
from tests.craft import smp
from tests.rules.findings import lint
from tests.subnet.made import ANSWER, GET, answer, node, switch

ENOUGH, FAR, MAX_SEQUENCES = 16, 1 << 16, 16

MASTER = [7 << 32 | 0x1000 + i for i in range(ENOUGH)]


def numbers(transactions: list[int], size: int = 1 << 20) -> list[int]:
    """The senders of transactions that come in chunks of a size."""
    senders, found = Senders(), list[int]()
    for start in range(0, len(transactions), size):
        found += senders.of(np.array(transactions[start : start + size], np.uint64)).tolist()
    return found


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_another_sequence_is_another_sender(size: int) -> None:
    tool = [7 << 32 | 0x1000 + FAR + ENOUGH + i for i in range(3)]
    mixed = [*MASTER, tool[0], MASTER[-1] + 1, *tool[1:], 8 << 32 | 5, MASTER[-1] + 2]
    assert numbers(mixed, size) == [*[7] * ENOUGH, 7 | 1 << 32, 7, *[7 | 1 << 32] * 2, 8, 7]


def test_what_goes_on_or_is_no_sequence_yet_is_the_same_sender() -> None:
    assert set(numbers([*MASTER, MASTER[-1] + FAR - 1])) == {7}
    assert numbers([*MASTER, MASTER[-1] + FAR])[-1] != 7
    assert set(numbers([*MASTER[:-1], MASTER[-2] + FAR])) == {7}, "a packet less, and it is no sequence"


def test_sequences_are_bounded() -> None:
    many = [number for k in range(1, MAX_SEQUENCES + 3) for number in range(7 << 32 | k * 2 * FAR, (7 << 32 | k * 2 * FAR) + ENOUGH)]
    assert len(set(numbers([*MASTER, *many]))) == MAX_SEQUENCES + 1


def test_of_an_earlier_packet() -> None:
    senders = Senders()
    senders.of(np.array([*MASTER, 7 << 32 | 0x500000], np.uint64))
    assert [senders.of_transaction(7 << 32 | low) for low in (0x1005, 0x500000)] == [7, 7 | 1 << 32]
    assert senders.of_transaction(9 << 32 | 1) == 9


def test_the_path_of_a_stranger_leads_elsewhere() -> None:
    """A combined route of another host with the same high word; from the sweeping host itself it is wrong (SMP005)."""

    def back(at: int, body: bytes, path: list[int], number: int) -> bytes:
        return smp(ANSWER, at, body, path=path, header={"transaction_id": MASTER[number]})

    sweep = [back(0x11, node(1), [], i) for i in range(ENOUGH)]
    sweep += [back(0x11, switch(2, 2, local_port_num=1), [1], 1), back(0x11, node(5), [1, 2], 2)]
    for low, found in ((0x1010, 1), (0x900000, 0)):
        combined = smp(GET, 0x11, path=[1, 2], dr={"hop_pointer": 2, "dr_dlid": 5}, dlid=0xFFFF, header={"transaction_id": 7 << 32 | low})
        assert len(lint([*sweep, answer(5, 0x11, node(5)), combined], "SMP005")) == found


def test_an_earlier_packet_is_of_the_sequence_that_it_is_near() -> None:
    senders = Senders()
    senders.of(np.array([*MASTER, 7 << 32 | 0x500000, 7 << 32 | 0x500010], np.uint64))
    low, high = MASTER[0] & 0xFFFFFFFF, MASTER[-1] & 0xFFFFFFFF
    near = {0x500000 - FAR: 0, 0x500000 - FAR + 1: 1, 0x500010 + FAR - 1: 1, 0x500010 + FAR: 0, high + FAR - 1: 0, low: 0}
    assert [senders.of_transaction(7 << 32 | at) for at in near] == [7 | other << 32 for other in near.values()]
    assert senders.of(np.array([], np.uint64)).tolist() == []


def test_a_step_back_is_as_far_as_a_step_on() -> None:
    master = [one + (1 << 20) for one in MASTER]
    assert numbers([*master, master[-1] - FAR + 1])[-1] == 7 and numbers([*master, master[-1] - FAR])[-1] != 7
