"""Who owns a LID, and what is evicted when there is no room?"""

from __future__ import annotations

import pytest

from ibdissect.fabric import model
from ibdissect.fabric.keys import Guard
from ibdissect.fabric.model import Subnet
from ibdissect.fabric.nodes import Port
from ibdissect.fabric.partitions import PKeys


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


def test_oldest_node_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "MAX_NODES", 3)
    subnet = Subnet()
    ports = [port(subnet, guid) for guid in (1, 2, 3)]
    for lid, one in enumerate(ports, 1):
        subnet.assign(one, lid, 0, lid)
    port(subnet, 4)
    assert sorted(subnet.nodes) == [2, 3, 4] and subnet.dropped == {"nodes": 1}
    assert subnet.by_lid(1) is None and subnet.by_lid(2) is ports[1]
    assert subnet.port_count == 3


def test_ports_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "MAX_PORTS", 4)
    subnet = Subnet()
    first, _ = subnet.node(1, 1)
    second, _ = subnet.node(2, 1)
    for number in range(3):
        subnet.port(first, number, 1)
    for number in range(3):
        subnet.port(second, number, 1)
    assert subnet.port_count == 3 and not first.alive and second.alive


def test_a_node_takes_what_files_said_of_its_port_and_keeps_what_it_showed() -> None:
    for own in (False, True):
        subnet = Subnet()
        known, shown = port(subnet, 1), port(subnet, 2)
        known.guid = shown.guid = 7
        subnet.without_node[7] = known
        known.guard, known.p_keys = Guard(), PKeys()
        subnet.assign(known, 5, 1, -3)
        guard = known.guard
        if own:
            shown.guard = guard = Guard()
            subnet.assign(shown, 8, 0, 9)
        keys = known.p_keys
        assert subnet.adopt(shown) and not subnet.adopt(shown)
        assert shown.guard is guard and shown.p_keys is keys
        assert shown.lids.now == ((8, 0) if own else (5, 1)) and subnet.by_lid(6) is (None if own else shown)


@pytest.mark.parametrize(
    ("lid", "lmc", "owned"), [(5, 0, [5]), (4, 1, [4, 5]), (4, 2, [4, 5, 6, 7]), (0xBFFE, 3, [0xBFFE, 0xBFFF]), (0, 3, [])]
)
def test_a_port_has_two_to_the_lmc_lids_below_multicast(lid: int, lmc: int, owned: list[int]) -> None:
    subnet = Subnet()
    subnet.assign(port(subnet, 1), lid, lmc, 3)
    assert [number for number in range(0xC010) if subnet.by_lid(number) is not None] == owned
