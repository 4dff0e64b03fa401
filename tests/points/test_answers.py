"""What do answers prove? Cumulative ACKs over the wrap of PSNs, copies that prove nothing, the NAK that asks for a packet."""

from __future__ import annotations

import numpy as np

from ibdissect.points.answers import Packets, proofs_of
from ibdissect.points.columns import Flow, Flows

SEND, ACKNOWLEDGE, UD = 0x04, 0x11, 0x64
ACK, NAK, RNR = 0x1F, 0x60, 0x20
LAST = (1 << 24) - 1


def proofs(*packets: tuple[int, int, int]) -> tuple[list[bool], list[bool]]:
    """(OpCode, PSN, syndrome) in order of time -> answered, refused."""
    flows = Flows()
    flows.known = [Flow(b"a", b"b", 5, ("a", "b")), Flow(b"b", b"a", 4, ("b", "a"))]
    opcode, psn, syndrome = (np.array(column) for column in zip(*packets, strict=True))
    flow = (opcode == ACKNOWLEDGE).astype(np.int64)
    none = np.zeros(len(flow), np.uint64)
    found = proofs_of(Packets(flow, psn, opcode.astype(np.uint8), syndrome, none, none.astype(np.uint8)), flows, flows.merged())
    return found.answered.tolist(), found.refused.tolist()


def test_an_ack_confirms_all_before_it() -> None:
    answered, _ = proofs((SEND, LAST, -1), (SEND, 0, -1), (SEND, 1, -1), (ACKNOWLEDGE, 0, ACK), (SEND, 2, -1))
    assert answered == [True, True, False, False, False]


def test_of_copies_it_is_unknown_which_one_came() -> None:
    answered, _ = proofs((SEND, 1, -1), (SEND, 2, -1), (SEND, 1, -1), (SEND, 2, -1), (SEND, 3, -1), (ACKNOWLEDGE, 3, ACK))
    assert answered == [False, False, False, False, True, False]


def test_a_nak_asks_for_the_last_copy_before_it() -> None:
    answered, refused = proofs(
        (SEND, 1, -1), (SEND, 2, -1), (SEND, 3, -1), (ACKNOWLEDGE, 2, NAK), (SEND, 2, -1), (SEND, 3, -1), (ACKNOWLEDGE, 3, ACK)
    )
    assert refused == [False, True, False, False, False, False, False]
    assert answered == [True] + [False] * 6
    assert not any(proofs((SEND, 1, -1), (ACKNOWLEDGE, 1, RNR))[1])


def test_any_number_of_flows() -> None:
    flows = Flows()
    others = [Flow(bytes([0, i]), bytes([1, i]), 5, ("", "")) for i in range(200)]
    flows.known = [*others, Flow(b"b", b"a", 4, ("", "")), Flow(b"a", b"b", 5, ("", ""))]
    flow, psn, syndrome = np.array([[201, 200], [7, 7], [-1, ACK]], np.int32)
    opcode, none = np.array([SEND, ACKNOWLEDGE], np.uint8), np.zeros(2, np.uint8)
    found = proofs_of(Packets(flow, psn, opcode, syndrome, none.astype(np.uint32), none), flows, flows.merged())
    assert found.answered.tolist() == [True, False]
