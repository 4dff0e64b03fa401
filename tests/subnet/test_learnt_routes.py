"""Ends of directed routes, and when they are uncertain."""

from __future__ import annotations

import pytest

from ibdissect.subnet import learnt_routes
from ibdissect.subnet.learnt_routes import Routes
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.nodes import Node, Origin
from ibdissect.subnet.topology import connect, disconnect
from tests.cases import every
from tests.standard import CA, SWITCH

ROUTE = "the node at a directed route"


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


def test_a_placeholder_in_the_place_of_another_voids_no_route() -> None:
    """A node answers before its NodeInfo is seen, is found along another route, and answers along the first one again."""
    subnet, ways, origin, nodes = made()
    first, again = subnet.node(0, 11)[0], subnet.node(0, 21)[0]
    ways.learn(origin, b"\5", first, 0, 11)
    ways.learn(origin, b"\5\6", nodes[3], 1, 12)
    subnet.drop(first, 20)
    ways.learn(origin, b"\5", again, 0, 21)
    hop = ways.directed(origin, b"\5\6")
    assert hop is not None and hop.node is nodes[3]
    ways.learn(origin, b"\5", nodes[1], 3, 22)
    assert ways.directed(origin, b"\5\6") is None, "a node that is known may be another"


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
    monkeypatch.setattr(learnt_routes, "MAX_HOPS", 10)
    monkeypatch.setattr("ibdissect.subnet.nodes.MAX_HOPS", 10)
    monkeypatch.setattr(learnt_routes, "MAX_ORIGINS", 2)
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
    monkeypatch.setattr(learnt_routes, "MAX_TURNS", 2)
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


def test_the_oldest_origin_goes_when_there_are_too_many_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of its routes at once; of an origin that is alone, the oldest route."""
    monkeypatch.setattr(learnt_routes, "MAX_HOPS", 3)
    monkeypatch.setattr("ibdissect.subnet.nodes.MAX_HOPS", 3)
    subnet = Subnet()
    ways = Routes(subnet)
    node, _ = subnet.node(1, 1)
    ends = [ways.learn(ways.origin(sender), path, node, 1, 5) for sender, path in ((7, b"\1"), (7, b"\2"), (8, b"\1"))]
    assert [(one.node, one.entered, one.frame) for one in ends] == [(node, 1, 5)] * 3
    assert (ways.count, subnet.dropped) == (3, {})
    ways.learn(ways.origin(9), b"\1", node, 1, 6)
    assert ([*ways.origins], ways.count, subnet.dropped) == ([8, 9], 2, {"routes": 1})
    ways.learn(ways.origin(9), b"\2", node, 1, 6)
    assert (ways.count, subnet.dropped) == (3, {"routes": 1})
    ways.learn(ways.origin(9), b"\3", node, 1, 7)
    ways.learn(ways.origin(9), b"\4", node, 1, 7)
    assert ([*ways.origins], [*ways.origins[9].hops], ways.count) == ([9], [b"\2", b"\3", b"\4"], 3)
    assert subnet.dropped == {"routes": 3}


def test_a_route_that_leads_back_is_ambiguous() -> None:
    """Not where it leads to one node after the other, nor where only the port differs by which it enters."""
    subnet = Subnet()
    ways = Routes(subnet)
    origin, nodes = ways.origin(7), [subnet.node(guid, 1)[0] for guid in (1, 2, 3, 4)]
    hop = ways.learn(origin, b"\1", nodes[0], 1, 5)
    assert ways.end_of(7, b"\1") is hop and ways.end_of(8, b"\1") is None and ways.end_of(7, b"\2") is None
    told = []
    for frame, (number, entered) in enumerate(((1, 1), (2, 1), (2, 4), (1, 1), (3, 1)), 6):
        assert ways.learn(origin, b"\1", nodes[number], entered, frame) is hop
        told.append((hop.node.guid, hop.entered, hop.frame, hop.ambiguous))
        assert ways.turned and ways.end_of(7, b"\1") is None, "longer routes may be void"
    assert told == [(2, 1, 6, False), (3, 1, 7, False), (3, 4, 8, False), (2, 1, 9, True), (4, 1, 10, True)]


@every(("path", "certain"), [(b"", True), (b"\1", False)])
@every(("before", "after"), [(1, 2), (0, 2), (1, 0)])
def test_another_node_at_a_route_contradicts_what_was_known(path: bytes, certain: bool, before: int, after: int) -> None:
    """If both are known; for the route without a hop nothing within one subnet explains it."""
    subnet = Subnet()
    ways = Routes(subnet)
    one, other = (subnet.node(guid, 1)[0] for guid in (before, after))
    ways.learn(ways.origin(7), path, one, 1, 5)
    ways.learn(ways.origin(7), path, other, 1, 6)
    known = subnet.contradictions
    assert dict(known.before) == ({(ROUTE, (7, path)): (1, 6)} if before and after else {})
    assert known.certain is (certain and bool(before and after))
    homes = known.homes
    assert (homes is not None and homes[1:] == (one, other)) if certain and before and after else homes is None


def test_the_own_nodes_of_a_sender_are_those_behind_its_first_hop() -> None:
    """Only the first two count; it matters whether a route led to the second one."""
    for more in ((), (b"\1\2",)):
        subnet, ways, origin, nodes = made()
        third, _ = subnet.node(9, 1)
        connect(subnet.port(nodes[3], 1, 1), subnet.port(nodes[1], 5, 1), 11)
        for path in more:
            ways.learn(origin, path, nodes[3], 1, 12)
        ways.learn(origin, b"\1", nodes[1], 5, 13)
        assert subnet.contradictions.homes is None, "the same node, entered by another port"
        subnet, ways, origin, nodes = made()
        fifth, _ = subnet.node(5, 1)
        connect(subnet.port(nodes[3], 1, 1), subnet.port(third, 5, 1), 11)
        ways.learn(origin, b"\1\2", fifth, 1, 12)
        for path in more:
            ways.learn(origin, path, nodes[3], 1, 12)
        ways.learn(origin, b"\1", third, 5, 13)
        homes = subnet.contradictions.homes
        assert homes is not None and homes[1:] == (nodes[0], nodes[3]) and subnet.contradictions.met is bool(more)
        ways.learn(origin, b"", fifth, 1, 14)
        assert subnet.contradictions.homes is homes


@every("what", ["the end", "a hop", "a dead hop", "the sender", "another port", "another node", "no cable", "no port", ""])
def test_what_makes_a_route_uncertain(what: str) -> None:
    subnet, ways, origin, nodes = made()
    hop, middle = origin.hops[b"\1\4"], origin.hops[b"\1"]
    subnet.port(nodes[2], 2, 1)
    if what in ("the end", "a hop"):
        (hop if what == "the end" else middle).ambiguous = True
    elif what == "a dead hop":
        middle.node.alive = False
    elif what == "the sender":
        origin.shared = 9
    elif what == "another port":
        connect(nodes[1].ports[4], nodes[2].ports[2], 20)
    elif what == "another node":
        connect(nodes[1].ports[4], subnet.port(nodes[3], 1, 1), 20)
    elif what == "no cable":
        disconnect(nodes[1].ports[4], 20)
    elif what == "no port":
        del nodes[1].ports[4]
    assert ways.sure(origin, b"\1\4", hop) is not bool(what)


@pytest.mark.parametrize(("unsure", "sure"), [(9, True), (10, True), (11, False)])
def test_a_cable_that_was_shown_after_a_report_of_changes_is_sure(unsure: int, sure: bool) -> None:
    """The link was shown in frame 10."""
    _, ways, origin, nodes = made()
    nodes[1].unsure = unsure
    assert ways.sure(origin, b"\1\4", origin.hops[b"\1\4"]) is sure


def test_a_route_without_known_hops_between_is_sure() -> None:
    _, ways, origin, nodes = made()
    del origin.hops[b"\1"]
    disconnect(nodes[1].ports[4], 20)
    assert ways.sure(origin, b"\1\4", origin.hops[b"\1\4"]) is True


def test_a_port_by_its_lid() -> None:
    subnet, ways, _, nodes = made()
    subnet.assign(nodes[2].ports[1], 5, 1, 12)
    assert [(one.node, one.entered, one.frame) for lid in (5, 6) if (one := ways.by_lid(lid)) is not None] == [(nodes[2], 1, 12)] * 2
    assert [ways.by_lid(lid) for lid in (0, 4, 7, 0xBFFF, 0xC000, 0xFFFF)] == [None] * 6


def test_routes_that_ended() -> None:
    subnet, ways, origin, nodes = made()
    assert [ways.lost(origin, path) for path in (b"", b"\1", b"\1\4", b"\7")] == [False] * 4
    ways.cut(20)
    disconnect(nodes[1].ports[4], 20)
    assert [ways.lost(origin, path) for path in (b"", b"\1", b"\1\4", b"\7")] == [False, False, True, False]
    nameless, _ = subnet.node(0, 1)
    ways.learn(origin, b"\1\4\2", nameless, 1, 10)
    assert ways.lost(origin, b"\1\4\2") is False


def test_two_hosts_with_one_number() -> None:
    """The first contradiction counts, and only between known nodes."""
    for guids, shared in (((1, 2, 3), 6), ((1, 1, 2), 7), ((1, 0, 1), 0), ((0, 1, 0), 0)):
        subnet = Subnet()
        ways = Routes(subnet)
        for frame, guid in enumerate(guids, 5):
            ways.learn_home(ways.origin(7), subnet.node(guid, 1)[0], 1, frame)
        assert ways.origin(7).shared == shared


@every(("before", "known", "shared"), [(1, 21, 6), (21, 21, 0), (1, 0, 0), (0, 21, 0)])
@every(("kind", "own"), [(CA, 3), (SWITCH, 0)])
def test_a_home_with_another_lid_than_the_node_that_answers_there_is_another_hosts(
    before: int, known: int, shared: int, kind: int, own: int
) -> None:
    """A capture that begins behind the NodeInfo of one of two managers whose transaction ids begin alike."""
    subnet = Subnet()
    ways = Routes(subnet)
    origin = ways.origin(7)
    unnamed, node = subnet.node(0, 1)[0], subnet.node(9, 1)[0]
    node.kind = kind
    for one, number, lid in ((unnamed, 0, before), (node, own, known)):
        subnet.assign(subnet.port(one, number, 1), lid, 0, 2)
    ways.learn(origin, b"", unnamed, 0, 5)
    ways.learn(origin, b"", node, 3, 6)
    assert origin.shared == shared
