"""A port is one number, and LIDs may be one port's while nobody has shown its LMC."""

from __future__ import annotations

import pytest

from ibdissect.decode.identity import NodeId, PortId
from tests import craft
from tests.cases import every
from tests.rules.findings import lint
from tests.rules.made.traps import trap


def test_a_port_has_one_number() -> None:
    port = PortId(NodeId(70000), 255)
    assert PortId.of(port.key) == port and PortId.of(port.key + 1) == PortId(NodeId(70001), 0)


def issued(lid: int, issuer: int) -> bool:
    """Whether a trap that one LID sends and another issued is faulty."""
    return bool(lint([trap(128, slid=lid, issuer_lid=issuer)], "TRP001"))


def answered(asked: int, sender: int) -> bool:
    """Whether an answer from another LID than the one that was asked is faulty."""
    return bool(lint([craft.gmp(4, 1, 0x12, slid=1, dlid=asked), craft.gmp(4, 0x81, 0x12, slid=sender, dlid=1)], "TXN005"))


@pytest.mark.slow
@every(
    ("one", "other", "same"),
    [(32, 33, True), (32, 34, True), (5, 9, False), (1, 2, False), (1, 3, False), (2, 3, True), (128, 255, True), (127, 128, False),
     (256, 383, True), (256, 384, False), (7, 7, True)],
)  # fmt: skip
def test_lids_of_one_range(one: int, other: int, same: bool) -> None:
    """The base LID is a multiple of their number, and not 0."""
    assert issued(one, other) is issued(other, one) is not same


def test_the_bounds_of_ranges_and_blocks() -> None:
    """Seven bits of the LID count at most; of an answer, the base LID need not be a multiple of the number."""
    assert [issued(0x180, 0x180 ^ 1 << bit) for bit in range(9)] == [False] * 7 + [True] * 2
    assert [answered(0x180, 0x180 ^ 1 << bit) for bit in range(9)] == [False] * 7 + [True] * 2
    assert not answered(2, 127) and answered(127, 128)
