"""What is a port called, whom did it face at a frame, and which nodes may be of two subnets?"""

from __future__ import annotations

from ibdissect.fabric.nodes import SWITCH, UNCABLED, Node, Origin, Port


def test_a_port_is_named_with_the_lid_that_it_had() -> None:
    node = Node(0x10, 0, 1)
    port = Port(node, 2, 1)
    assert str(port) == "0x0000000000000010 port 2" and str(Port(Node(0, 1, 1), 0, 1)) == "an unknown node"


def test_a_cable_is_known_from_its_frame_on() -> None:
    near, far = Port(Node(1, 0, 1), 1, 1), Port(Node(2, 1, 1), 1, 1)
    near.face(None, 3)
    assert near.facing is UNCABLED, "no history for ports without a cable"
    near.face(far, 5)
    assert near.facing_at(4) == (None, 0) and near.facing_at(6) == (far, 5)


def test_a_lost_link_is_remembered() -> None:
    node = Node(1, 0, 1)
    near, far = Port(node, 1, 1), Port(Node(2, 1, 1), 1, 1)
    node.ports = {1: near, 2: Port(node, 2, 1)}
    near.face(far, 5)
    near.face(None, 8)
    near.face(far, 11)
    assert [after for after in range(12) if node.lost_link(after, 20)] == [*range(8)]
    assert not node.lost_link(0, 8) and node.lost_link(0, 9)


def test_the_keys_of_a_switch_are_at_its_port_0() -> None:
    node = Node(1, 0, 1)
    node.ports = {0: Port(node, 0, 1), 3: Port(node, 3, 1)}
    assert node.manager(3) is node.ports[3]
    node.kind = SWITCH
    assert node.manager(3) is node.ports[0]


def test_nodes_are_apart_until_an_origin_leads_to_both() -> None:
    one, other = Node(1, 0, 1), Node(2, 1, 1)
    first, second = Origin(1), Origin(2)
    first.reach(one)
    second.reach(other)
    assert one.apart(other)
    second.reach(one)
    assert not one.apart(other)


def test_what_was_never_shown_has_no_frame() -> None:
    assert Port(Node(1, 0, 1), 1, 1).info_at(9) == (None, 0)
