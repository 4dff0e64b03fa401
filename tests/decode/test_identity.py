"""Identities are equal exactly where they name the same port, route or subscription; LIDs that can be one port's."""

from __future__ import annotations

from ibdissect.decode.addresses import End, lid_end
from ibdissect.decode.identity import NodeId, PairId, PortId, Side, TransferId, one_block, one_range
from tests.cases import every


def test_a_port_has_one_number() -> None:
    port = PortId(NodeId(70000), 255)
    assert PortId.of(port.key) == port and port.key == 70000 << 8 | 255
    assert PortId.of(port.key + 1) == PortId(NodeId(70001), 0)


ONE, OTHER = lid_end(1), lid_end(2)


@every(
    ("back", "method", "ends", "response"),
    [(False, 0x12, (ONE, OTHER), 0), (False, 0x92, (ONE, OTHER), 0x80), (True, 0x12, (OTHER, ONE), 0x80), (True, 0x92, (OTHER, ONE), 0)],
)
def test_both_directions_are_one_transfer(back: bool, method: int, ends: tuple[End, End], response: int) -> None:
    wanted = TransferId(3, 7, Side.of(ends[0]), Side.of(ends[1]), response)
    assert TransferId.of(3, 7, ONE, OTHER, method, back=back) == wanted


def test_virtual_ports_that_share_a_lid_have_transfers_of_their_own() -> None:
    virtual = lid_end(2)
    virtual.gid = bytes(15) + b"\7"
    assert TransferId.of(3, 7, ONE, OTHER, 0x92) != TransferId.of(3, 7, ONE, virtual, 0x92)


@every(
    ("one", "other", "same"),
    [(32, 33, True), (32, 34, True), (5, 9, False), (1, 2, False), (1, 3, False), (2, 3, True), (128, 255, True), (127, 128, False),
     (256, 383, True), (256, 384, False), (7, 7, True)],
)  # fmt: skip
def test_lids_of_one_range(one: int, other: int, same: bool) -> None:
    """The base LID is a multiple of their number, and not 0."""
    assert one_range(one, other) is one_range(other, one) is same


def test_lids_of_one_block() -> None:
    assert one_block(1, 127) and not one_block(127, 128)


def test_the_bounds_of_ranges_and_blocks() -> None:
    """0 is no LID; seven bits of the LID count at most."""
    assert [one_range(0, lid) for lid in (0, 1, 64)] == [False] * 3 and one_range(1, 1)
    assert [one_range(0x80, 0x80 ^ 1 << bit) for bit in range(9)] == [True] * 7 + [False] * 2
    assert [one_block(0x80, 0x80 ^ 1 << bit) for bit in range(9)] == [True] * 7 + [False] * 2


def test_a_side_is_told_apart_by_its_gid() -> None:
    """Virtual ports and routers share a LID."""
    end, virtual = lid_end(5), lid_end(5)
    virtual.gid = b"\xfe\x80" + bytes(13) + b"\x07"
    assert end == virtual and Side.of(end) != Side.of(virtual) and str(Side.of(virtual)).startswith("fe80::")
    assert Side.of(lid_end(5, 1)) != Side.of(end) == Side.of(lid_end(5))


def test_the_other_direction_of_a_pair() -> None:
    there = PairId((1, b"a"), (2, b"b"))
    assert there.back == PairId((2, b"b"), (1, b"a")) and there.back.back == there != there.back
