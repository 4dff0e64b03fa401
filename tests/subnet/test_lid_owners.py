"""Owners of LIDs over time, ranges and contested LIDs."""

from __future__ import annotations

from ibdissect.decode.history import History
from ibdissect.decode.identity import LidId
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.nodes import Port
from tests.cases import every


def port(subnet: Subnet, guid: int, frame: int = 1) -> Port:
    node, _ = subnet.node(guid, frame)
    return subnet.port(node, 1, frame)


def test_lids_of_an_lmc() -> None:
    subnet = Subnet()
    a = port(subnet, 1)
    assert subnet.assign(a, 8, 2, 10) is None
    assert [subnet.by_lid(lid) for lid in (7, 8, 11, 12)] == [None, a, a, None]
    subnet.assign(a, 8, 0, 20)
    assert subnet.by_lid(9) is None and subnet.by_lid(8) is a
    assert subnet.owner(9, 15) == (a, 10) and subnet.owner(9, 25)[0] is None


def test_reassigned_lid() -> None:
    subnet = Subnet()
    a, b = port(subnet, 1), port(subnet, 2)
    subnet.assign(a, 5, 0, 10)
    assert subnet.assign(b, 5, 0, 20) is a, "two ports claim it"
    assert subnet.owner(5, 19) == (a, 10) and subnet.owner(5, 20) == (b, 20)
    subnet.assign(a, 6, 0, 30)
    assert subnet.by_lid(5) is b, "that the first owner moves on takes nothing from the second"
    assert subnet.assign(a, 0, 0, 40) is None
    assert subnet.by_lid(6) is None and a.lid == 0
    assert subnet.changes(5, after=9) == {10, 20, 30, 40}, "the LID's and both owners'"
    assert subnet.changes(5, after=19) == {20, 30, 40}, "the first owner still had it in frame 19"
    assert subnet.changes(5, after=20) == set(), "what the first owner does later is not about this LID"
    assert subnet.changes(6, after=39) == {40} and subnet.changes(6, after=40) == set()


def test_lids_stop_at_multicast() -> None:
    subnet = Subnet()
    subnet.assign(port(subnet, 1), 0xBFFF, 7, 1)
    assert sorted(subnet.lids) == [0xBFFF]


@every(("lid", "lmc", "owned"), [(5, 0, [5]), (4, 1, [4, 5]), (4, 2, [4, 5, 6, 7]), (0xBFFE, 3, [0xBFFE, 0xBFFF]), (0, 3, [])])
def test_a_port_has_two_to_the_lmc_lids_below_multicast(lid: int, lmc: int, owned: list[int]) -> None:
    subnet = Subnet()
    subnet.assign(port(subnet, 1), lid, lmc, 3)
    assert [number for number in range(0xC010) if subnet.by_lid(number) is not None] == owned


def test_owners_of_a_lid_over_time() -> None:
    subnet = Subnet()
    a, b, c = (port(subnet, guid) for guid in (1, 2, 3))
    subnet.assign(a, 5, 0, 10)
    subnet.assign(b, 5, 0, 20)
    subnet.assign(c, 4, 0, 20)
    assert subnet.owners(5) == {a, b} and subnet.owners(5, 20) == {b} and subnet.owners(5, 19) == {a, b} and subnet.owners(6) == set()
    assert subnet.loops(7, 7, 30) and not subnet.loops(4, 5, 30) and not subnet.loops(6, 7, 30)
    subnet.assign(c, 4, 1, 30)
    assert subnet.loops(4, 5, 30) and not subnet.loops(4, 5, 29)


@every(("lid", "lmc", "meets"), [(3, 0, False), (4, 0, True), (7, 0, True), (8, 0, False), (2, 1, False), (0, 3, False), (8, 3, False)])
def test_a_lid_is_contested_while_two_ports_have_it(lid: int, lmc: int, meets: bool) -> None:
    """Ports with LIDs 4 to 7, and one that has others, until frame 40."""
    subnet = Subnet()
    new, old = port(subnet, 1), port(subnet, 2)
    for one in range(4, 8):
        subnet.lids.setdefault(one, History()).learn(old, 5)  # it is among their past owners
    subnet.assign(old, lid, lmc, 10)
    subnet.assign(new, 4, 2, 20)
    assert not subnet.contested(new, 30), "it never gets another"
    subnet.assign(old, 100, 0, 40)
    assert [subnet.contested(new, frame) for frame in (30, 39, 40)] == [meets, meets, False]
    assert not subnet.contested(new, 19)


def test_a_lid_that_was_given_away_is_not_kept() -> None:
    subnet = Subnet()
    a, b = port(subnet, 1), port(subnet, 2)
    assert subnet.kept(5, 1, 5) and subnet.who(5, 5) == LidId(5), "nobody is known to have it"
    subnet.assign(a, 5, 0, 10)
    subnet.assign(b, 5, 0, 20)
    assert subnet.kept(5, 5, 15), "it may have been that port's before it was shown"
    assert subnet.kept(5, 12, 19) and not subnet.kept(5, 12, 25)
    assert (subnet.who(5, 15), subnet.who(5, 25)) == (a.id, b.id) and a.id != b.id


@every("lmc", [0, 1, 2, 3])
def test_a_lid_is_contested_only_within_the_range_of_a_port(lmc: int) -> None:
    """Other ports with the first and the last LID, and with those beside them."""
    for lid, meets in ((15, False), (16, True), (16 + (1 << lmc) - 1, True), (16 + (1 << lmc), False)):
        subnet = Subnet()
        new, old = port(subnet, 1), port(subnet, 2)
        subnet.assign(old, lid, 0, 10)
        subnet.assign(new, 16, lmc, 20)
        subnet.assign(old, 100, 0, 40)
        assert subnet.contested(new, 30) is meets


def test_a_port_without_a_lid_is_not_contested() -> None:
    """Although somebody had LID 0 or 1, and gets another one."""
    for lid in (0, 1, 2):
        subnet = Subnet()
        new, old = port(subnet, 1), port(subnet, 2)
        subnet.assign(old, lid or 7, 0, 10)
        subnet.lids.setdefault(0, History()).learn(old, 10)
        subnet.assign(old, 100, 0, 40)
        assert not subnet.contested(new, 30)
