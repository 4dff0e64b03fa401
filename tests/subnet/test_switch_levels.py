"""Every node stands on its level, or hangs on its switch."""

from __future__ import annotations

from ibdissect.subnet.model import Subnet
from ibdissect.subnet.switch_levels import levels
from tests.pictures.looks import fat_tree
from tests.standard import CA, SWITCH


def test_a_fat_tree() -> None:
    found = levels(fat_tree(2, 3, 2), 100)
    names = {slot: node.name.decode() for slot, node in found.nodes.items()}
    assert [[names[slot] for slot in row] for row in found.switches] == [["spine0", "spine1"], ["leaf0", "leaf1", "leaf2"]]
    assert {names[leaf]: [names[slot] for slot in hosts] for leaf, hosts in found.hosts.items()} == {
        f"leaf{i}": [f"host{i}-0 HCA-1", f"host{i}-1 HCA-1"] for i in range(3)
    }
    assert len(found.cables) == 12 and not found.left_out


def test_little_room_and_nothing() -> None:
    found = levels(fat_tree(2, 3, 2), 6)
    assert found.left_out == 5 and sum(map(len, found.hosts.values())) == 1
    nothing = levels(Subnet(), 6)
    assert not (nothing.nodes or nothing.switches or nothing.hosts or nothing.cables)


def test_natural_order() -> None:
    """Numbers in names count, unless they are longer than any number of a switch."""
    subnet, names = Subnet(), ["3x", "a" + "9" * 30, "leaf", "leaf2", "leaf10"]
    for guid, name in enumerate(reversed(names), 1):
        node, _ = subnet.node(guid, 1)
        node.kind, node.name = SWITCH, name.encode()
    assert [node.name.decode() for node in levels(subnet, 9).nodes.values()] == names


def test_a_switch_apart_stands_on_the_lowest_level_and_a_host_apart_below_none() -> None:
    subnet = fat_tree(1, 2, 1)
    for guid, kind in ((0x900, SWITCH), (0x901, CA)):
        subnet.node(guid, 1)[0].kind = kind
    found = levels(subnet, 100)
    names = {slot: node.guid for slot, node in found.nodes.items()}
    assert [len(row) for row in found.switches] == [1, 3] and 0x900 in [names[slot] for slot in found.switches[1]]
    assert [names[slot] for slot in found.hosts[-1]] == [0x901] and len(found.hosts) == 3 and not found.left_out
    for most, left_out in ((0, 7), (1, 6), (6, 1), (7, 0)):
        assert levels(subnet, most).left_out == left_out and len(levels(subnet, most).nodes) == most


def test_switches_without_hosts_are_all_on_one_level() -> None:
    subnet = fat_tree(2, 2, 0)
    assert [len(row) for row in levels(subnet, 9).switches] == [4]
