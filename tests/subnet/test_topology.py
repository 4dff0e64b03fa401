"""Links between ports, and what becomes uncertain when one is lost."""

from __future__ import annotations

from ibdissect.subnet.m_keys import MKey, MKeyState
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.nodes import Port
from ibdissect.subnet.p_keys import PKeys
from ibdissect.subnet.topology import ConnectedComponents, connect, disconnect, links
from tests.standard import CA, SWITCH

from .made import p_keys


def ports() -> tuple[Subnet, Port, Port, Port]:
    """A switch port and two adapters with keys."""
    subnet = Subnet()
    made = []
    for guid, kind in ((1, SWITCH), (2, CA), (3, CA)):
        node, _ = subnet.node(guid, 1)
        node.kind = kind
        one = subnet.port(node, 1, 1)
        one.guard, one.p_keys = MKeyState(), PKeys()
        one.guard.learn(MKey(7, 1, 0), 2)
        one.p_keys.learn(0, p_keys(0xFFFF), 2)
        made.append(one)
    return subnet, made[0], made[1], made[2]


def test_moved_cable() -> None:
    subnet, switch, a, b = ports()
    assert connect(switch, a, 5) == ()
    assert connect(a, switch, 6) == (), "the same link, seen from the other end"
    assert switch.peer_frame == 6
    assert connect(switch, b, 9) == ((switch, a),)
    assert list(links(subnet)) == [(switch, b)] and a.peer is None


def test_adapter_behind_a_lost_link_may_have_restarted() -> None:
    _, switch, a, _ = ports()
    connect(switch, a, 5)
    assert disconnect(switch, 9) is a
    assert a.guard is not None and a.guard.held.now is None and a.guard.held.at(8)[0] == MKey(7, 1, 0)
    assert a.p_keys is not None and a.p_keys.keys(9)[0] == set() and a.p_keys.keys(8)[0]
    assert switch.guard is not None and switch.guard.held.now == MKey(7, 1, 0), "a switch does not restart with a link"
    assert disconnect(switch, 10) is None


def test_cables_and_switches_join_ports() -> None:
    subnet, switch, a, b = ports()
    connect(switch, a, 5)
    assert (
        ConnectedComponents().join(subnet, switch, a)
        and ConnectedComponents().join(subnet, a, switch)
        and ConnectedComponents().join(subnet, b, b)
    )
    assert not ConnectedComponents().join(subnet, a, b)
    connect(subnet.port(switch.node, 2, 1), b, 6)
    assert ConnectedComponents().join(subnet, a, b) and ConnectedComponents().join(subnet, a, switch)


def test_an_adapter_joins_no_subnets() -> None:
    subnet, switch, a, b = ports()
    connect(switch, a, 5)
    other = subnet.port(a.node, 2, 1)
    connect(other, b, 6)
    found = ConnectedComponents()
    assert found.join(subnet, other, b) and not found.join(subnet, a, other) and not found.join(subnet, switch, b)


def test_both_ends_know_when_their_cable_was_seen_and_cut() -> None:
    _, switch, a, b = ports()
    connect(switch, a, 5)
    assert (switch.peer_frame, a.peer_frame) == (5, 5)
    connect(switch, a, 8)
    assert (switch.peer_frame, a.peer_frame, switch.cut, a.cut) == (8, 8, 0, 0)
    a.face(b, 9)  # one end saw another cable
    assert connect(switch, a, 10) == ((switch, a), (a, b)) and (switch.peer, a.peer) == (a, switch)
    disconnect(a, 20)
    assert (switch.cut, a.cut, switch.peer, a.peer) == (20, 20, None, None)
    disconnect(b, 30)
    assert b.cut == 30


def test_islands_of_ports_that_are_not_known() -> None:
    subnet, switch, _, b = ports()
    stranger = ports()[1]
    found = ConnectedComponents()
    assert (
        not found.join(subnet, stranger, stranger)
        and not found.join(subnet, stranger, b)
        and not found.join(subnet, b, stranger)
        and found.join(subnet, switch, switch)
    )
