"""Ports and nodes: the name of a port, whom it faced at a frame, and nodes that may be of two subnets."""

from __future__ import annotations

from msgspec.structs import replace

from ibdissect.decode.history import History
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.nodes import Node, NodeFacts, Origin, Port, SwitchFacts
from ibdissect.subnet.p_keys import PKeys
from ibdissect.wire.sm_port import PortInfo
from tests import craft
from tests.cases import every
from tests.standard import CA, ROUTER, SWITCH

STATE_AT = 32


def test_a_port_is_named_with_the_lid_that_it_had() -> None:
    node = Node(0x10, 0, 1)
    port = Port(node, 2, 1)
    assert str(port) == "0x0000000000000010 port 2" and str(Port(Node(0, 1, 1), 0, 1)) == "an unknown node"


def test_a_cable_is_known_from_its_frame_on() -> None:
    near, far = Port(Node(1, 0, 1), 1, 1), Port(Node(2, 1, 1), 1, 1)
    near.face(None, 3)
    assert near.facing_at(4) == (None, 0)
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


@every(
    ("base", "lmc", "shown", "owned", "unknown"),
    [
        (8, 0, True, {8}, set()), (8, 2, True, {8, 9, 10, 11}, set()), (0, 0, True, set(), set(range(20))),
        (8, 1, False, {8, 9}, {10, 11, 12, 13, 14, 15}),
    ],
)  # fmt: skip
def test_which_lids_a_port_owns(base: int, lmc: int, shown: bool, owned: set[int], unknown: set[int]) -> None:
    """A NodeRecord has no LMC: then the port may have further ones that some LMC joins to the first."""
    port = Port(Node(1, 0, 1), 1, 1)
    port.lids = History()
    port.lids.learn((base, lmc) if base else None, 5)
    if shown:
        port.infos.learn(bytes(64), 5)
    found = {lid: port.owns(lid, 9) for lid in range(20)}
    assert {lid for lid, one in found.items() if one} == owned and {lid for lid, one in found.items() if one is None} == unknown
    assert port.owns(8, 4) is None and port.lid == base


@every(
    ("kind", "number", "switch", "facts", "listed", "capacity"),
    [
        (SWITCH, 3, 7, 9, 5, 7), (SWITCH, 3, 0, 9, 5, 5), (SWITCH, 3, None, 9, 0, None), (SWITCH, 0, 7, 9, 5, 9), (CA, 1, 7, 9, 5, 9),
        (CA, 1, 7, 0, 5, 5),
        (CA, 1, 7, None, 0, None), (0, 1, 7, 9, 5, 5), (0, 1, 7, 9, 0, None),
    ],
)  # fmt: skip
def test_how_many_p_keys_a_port_holds(
    kind: int, number: int, switch: int | None, facts: int | None, listed: int, capacity: int | None
) -> None:
    """External ports of a switch as many as its SwitchInfo says, others as NodeInfo says, else as a file says."""
    node = Node(1, 0, 1)
    node.kind = kind
    port = Port(node, number, 1)
    if switch is not None:
        node.switch.learn(SwitchFacts(*[0] * len(SwitchFacts._fields))._replace(partition_enforcement_cap=switch), 5)
    if facts is not None:
        node.facts.learn(NodeFacts(0, facts), 5)
    port.p_keys = PKeys()
    port.p_keys.size = listed
    assert port.p_key_capacity(9) == capacity
    port.p_keys = None
    assert port.p_key_capacity(9) == (None if capacity == listed else capacity)


@every(
    ("info", "vl", "kind", "drops"),
    [
        (None, 15, CA, True), ({"vl_cap": 2, "is_sl_mapping_supported": 1}, 15, CA, True),
        ({"vl_cap": 1, "is_sl_mapping_supported": 1}, 15, CA, False),
        ({"vl_cap": 2, "is_sl_mapping_supported": 0}, 15, CA, False), (None, 14, CA, False), (None, 15, SWITCH, False),
        (None, 15, ROUTER, True),
        (None, None, CA, False),
    ],
)  # fmt: skip
def test_which_ports_drop_what_they_send(info: dict[str, int] | None, vl: int | None, kind: int, drops: bool) -> None:
    node, subnet = Node(1, 0, 1), Subnet()
    node.kind = kind
    port = Port(node, 1, 1)
    if vl is not None:
        subnet.lanes(port).learn_map(0, bytes([vl] * 8), 5)  # SL 1, 3, .. to this VL, the others to 0
    if info is not None:
        port.infos.learn(craft.build(PortInfo, 64, **info), 5)
    assert port.drops(1, 9) is drops and not port.drops(0, 9) and subnet.lanes(port) is subnet.lanes(port) and subnet.mapped


def test_a_virtual_port_shares_the_lid() -> None:
    port = Port(Node(1, 0, 1), 1, 1)
    port.guid = 7
    assert not port.may_share_lid(9, 9)
    for supported in (0, 1):
        port.infos.learn(craft.build(PortInfo, 64, is_virtualization_supported=supported), 5 + supported)
    assert [port.may_share_lid(guid, 9) for guid in (0, 7, 9)] == [False, False, True] and not port.may_share_lid(9, 5)


def test_names_of_ports() -> None:
    node = Node(0x10, 3, 1)
    port, other = Port(node, 2, 1), Port(Node(0, 1, 1), 0, 1)
    port.lids = History()
    port.lids.learn((7, 0), 5)
    port.lids.learn((9, 1), 8)
    names = [port.name_at(frame) for frame in (4, 5, 7, 8)]
    assert names == [f"0x0000000000000010 port 2{lid}" for lid in ("", " (LID 7)", " (LID 7)", " (LID 9)")] and str(port) == names[-1]
    other.guid = 0x77
    assert str(other) == "port 0x0000000000000077" and (port.key, port.is_endport, port.lid, other.lid) == (3 << 8 | 2, True, 9, 0)
    node.kind = SWITCH
    assert not port.is_endport and Port(node, 0, 1).is_endport and Port(node, 0, 1).m_key is None


def test_what_a_node_is_from_a_frame_on() -> None:
    node = Node(0x10, 3, 1)
    assert (node.num_ports, node.partition_cap, node.facts_at(9), node.tables() is node.tables()) == (0, 0, (NodeFacts(0, 0), 0), True)
    facts = NodeFacts(4, 32)
    for frame, value, changed in ((5, facts, 0), (6, facts, 0), (7, replace(facts, num_ports=5), 7)):
        node.learn(node.facts, value, frame)
        assert node.changed == changed
    assert (node.num_ports, node.partition_cap, node.facts_at(6)) == (5, 32, (facts, 5))
    port = Port(node, 1, 1)
    assert port.state == 0 and port.info is None
    port.infos.learn(bytes(STATE_AT) + b"\xf4" + bytes(63 - STATE_AT), 5)
    assert (port.state, port.info_frame, port.info_at(4)) == (4, 5, (None, 0)) and port.info is not None


def test_nobody_knows_what_a_port_without_a_lid_owns() -> None:
    port = Port(Node(1, 0, 1), 1, 1)
    assert [port.owns(lid, 9) for lid in (0, 1, 5, 0xBFFF)] == [None] * 4 and not port.has_had(0, 9) and not port.has_had(5, 9)
    assert (port.lid, port.m_key, port.info, port.state, port.peer) == (0, None, None, 0, None)
