"""Ends of directed routes, and when they are uncertain."""

from __future__ import annotations

import pytest

from ibdissect.subnet import directed_routes
from ibdissect.subnet.directed_routes import Routes
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.nodes import CA, SWITCH, Node, Origin
from ibdissect.subnet.topology import connect, disconnect


def made() -> tuple[Subnet, Routes, Origin, list[Node]]:
    """CA 1 port 1 - port 3 of switch 2, port 4 - port 1 of CA 3; the routes up to there came back."""
    subnet = Subnet()
    nodes = []
    for guid, kind in ((1, CA), (2, SWITCH), (3, CA), (4, CA)):
        node, _ = subnet.node(guid, 1)
        node.kind = kind
        nodes.append(node)
    ways = Routes(subnet)
    origin = ways.origin(7)
    for path, node, entered in ((b"", nodes[0], 1), (b"\1", nodes[1], 3), (b"\1\4", nodes[2], 1)):
        ways.learn(origin, path, node, entered, 10)
        near = ways.before(origin, path, 10)
        if near is not None:
            connect(near, subnet.port(node, entered, 1), 10)
    return subnet, ways, origin, nodes


def test_known_route() -> None:
    _, ways, origin, nodes = made()
    hop = ways.directed(origin, b"\1\4")
    assert hop is not None and (hop.node, hop.entered) == (nodes[2], 1) and ways.sure(origin, b"\1\4", hop)
    assert ways.directed(origin, b"\1\5") is None


def test_along_cables() -> None:
    _, ways, origin, nodes = made()
    back = ways.directed(origin, b"\1\3")
    assert back is not None and (back.node, back.entered) == (nodes[0], 1), "out again by the port it came in"
    assert ways.directed(origin, b"\1\4\1") is None, "an adapter does not pass SMPs on"


def test_a_changed_prefix_voids_longer_routes() -> None:
    _, ways, origin, nodes = made()
    ways.learn(origin, b"\1", nodes[3], 1, 20)
    assert ways.directed(origin, b"\1\4") is None
    ways.learn(origin, b"\1", nodes[1], 3, 30)
    hop = ways.directed(origin, b"\1")
    assert hop is not None and hop.ambiguous and not ways.sure(origin, b"\1", hop), "A, B, A: two origins, or a loose cable"


def test_lost_link_makes_the_route_uncertain() -> None:
    subnet, ways, origin, nodes = made()
    hop = ways.directed(origin, b"\1\4")
    assert hop is not None
    disconnect(nodes[1].ports[4], 20)
    assert not ways.sure(origin, b"\1\4", hop)
    connect(nodes[1].ports[4], nodes[2].ports[1], 30)
    assert ways.sure(origin, b"\1\4", hop)
    nodes[1].unsure = 40
    assert not ways.sure(origin, b"\1\4", hop), "the switch says that some link changed"
    subnet.drop(nodes[2])
    assert ways.directed(origin, b"\1\4") is None


def test_origins_do_not_share_routes() -> None:
    _, ways, _, _ = made()
    assert ways.directed(ways.origin(8), b"\1\4") is None


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directed_routes, "MAX_HOPS", 10)
    monkeypatch.setattr("ibdissect.subnet.nodes.MAX_HOPS", 10)
    monkeypatch.setattr(directed_routes, "MAX_ORIGINS", 2)
    subnet, ways, _, nodes = made()
    other = ways.origin(8)
    for i in range(20):
        ways.learn(other, bytes([9, i]), nodes[2], 1, 50 + i)
    assert ways.count <= 10 and len(other.hops) <= 10 and subnet.dropped["routes"]
    ways.origin(9)
    ways.origin(10)
    assert len(ways.origins) == 2 and subnet.dropped["origins"]


@pytest.mark.parametrize("paths", [2, 3])
def test_many_changed_prefixes_void_all_older_routes(monkeypatch: pytest.MonkeyPatch, paths: int) -> None:
    """As many as the bound are remembered; one more, and nothing is known of the routes before."""
    monkeypatch.setattr(directed_routes, "MAX_TURNS", 2)
    _, ways, origin, nodes = made()
    for turn in (0, 1, 2):
        for path in range(paths):
            ways.learn(origin, bytes([20 + path]), nodes[turn], 1, 100 + 10 * turn + path)
    assert (sorted(origin.turns), origin.valid_since) == (([b"\x14", b"\x15"], 0) if paths == 2 else ([b"\x15", b"\x16"], 121))
    assert (ways.directed(origin, b"\1\4") is not None) is (paths == 2)


def test_the_ports_at_both_ends() -> None:
    subnet, ways, origin, nodes = made()
    subnet.port(nodes[1], 0, 1)
    assert ways.ends(7, b"\1", 15) == (nodes[0].ports[1], nodes[1].ports[0]), "port 0 of a switch takes its SMPs"
    assert ways.ends(8, b"\1", 15) == (None, None)
    assert ways.ends(7, b"\1\4", 5) == (nodes[0].ports[1], nodes[2].ports[1]), "learnt later, and never otherwise"
    origin.home.learn((nodes[3], 1), 20)
    subnet.port(nodes[3], 1, 1)
    assert [ways.ends(7, b"\1\4", frame)[0] for frame in (5, 15, 25)] == [None, nodes[0].ports[1], nodes[3].ports[1]]
    ways.learn(origin, b"\1\4", nodes[3], 1, 30)
    ways.learn(origin, b"\1\4", nodes[2], 1, 40)
    assert ways.ends(7, b"\1\4", 50)[1] is None, "two origins, or a loose cable"
