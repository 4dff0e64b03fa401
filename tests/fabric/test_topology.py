"""Which ports are connected, and what becomes uncertain when a link is lost?"""

from __future__ import annotations

from ibdissect.fabric.keys import Guard, MKey
from ibdissect.fabric.model import CA, SWITCH, Port, Subnet
from ibdissect.fabric.partitions import PKeys
from ibdissect.fabric.topology import connect, disconnect, joined, links

from .made import p_keys


def ports() -> tuple[Subnet, Port, Port, Port]:
    """A switch port and two adapters with keys."""
    subnet = Subnet()
    made = []
    for guid, kind in ((1, SWITCH), (2, CA), (3, CA)):
        node, _ = subnet.node(guid, 1)
        node.kind = kind
        one = subnet.port(node, 1, 1)
        one.guard, one.p_keys = Guard(), PKeys()
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


def test_cables_join_nodes() -> None:
    subnet, switch, a, b = ports()
    connect(switch, a, 5)
    assert joined(switch.node, a.node) and joined(a.node, switch.node) and joined(b.node, b.node)
    assert not joined(a.node, b.node)
    connect(subnet.port(switch.node, 2, 1), b, 6)
    assert joined(a.node, b.node)
