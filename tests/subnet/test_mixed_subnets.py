"""Contradictions that prove that a capture mixes two subnets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ibdissect.subnet.learnt_routes import Routes
from ibdissect.subnet.mixed_subnets import Contradictions
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.nodes import Node, Origin
from ibdissect.subnet.topology import connect
from tests.cases import every
from tests.standard import CA

KIND, LID, ROUTE, SIZE = "the type of a node", "the port with a LID", "the node at a directed route", "the size of a node"

OWN = b""
"""The route without hops."""


def changes(*facts: tuple[str, object], back: int = 0) -> Contradictions:
    """Each fact goes from one value to another, the first `back` of them back again; frames count from 1."""
    found, frame = Contradictions(), 0
    for was, now, some in ((1, 2, facts), (2, 1, facts[:back])):
        for kind, key in some:
            frame += 1
            found.note(kind, key, (key, was), (key, now), frame, certain=kind == KIND or key == OWN)
    return found


def test_facts_of_two_kinds_return_to_earlier_values() -> None:
    found = changes((ROUTE, b"\1"), (LID, 1), (LID, 2), (ROUTE, b"\2"), back=1)
    assert found.mixed and found.frame == 5
    assert found.examples() == [(LID, 2), (ROUTE, 5)]


def test_one_subnet_that_changes_is_not_mixed() -> None:
    for one in (
        changes((LID, 1), (LID, 2), (ROUTE, b"\1"), (ROUTE, b"\2")),  # rebuilt: nothing returns
        changes((LID, 1), (LID, 2), (LID, 3), (LID, 4), back=4),  # a manager reassigns LIDs, twice
        changes((LID, 1), (LID, 2), (LID, 3), (ROUTE, b"\1"), back=3),  # and somebody moves a cable
        changes((LID, 1), (ROUTE, b"\1"), back=2),  # a switch is replaced, and put back
        changes((KIND, 1), (ROUTE, b"\1"), (LID, 1)),  # a NodeInfo was lost
    ):
        assert not one.mixed


@pytest.mark.parametrize(("others", "mixed"), [((b"\4", b"\3"), False), ((8, 9), True)])
def test_cables_that_are_swapped_and_swapped_back(others: tuple[object, object], mixed: bool) -> None:
    """The manager assigns LIDs anew in between. In two subnets other nodes stand at these routes, not the same ones."""
    found, routes = Contradictions(), (b"\3", b"\4")
    moves = [*zip(routes, routes, others, strict=True), *zip(routes, others, routes, strict=True)]
    for frame, (route, was, now) in enumerate(moves, 3):
        found.note(ROUTE, route, was, now, frame)
        found.note(LID, frame, was, now, frame)
    assert found.mixed is mixed


def test_two_managers_of_one_subnet_with_the_same_transaction_ids() -> None:
    """The routes of one lead to the other, which two subnets would not do."""
    for path, back, related in ((b"\1\3", b"", True), (b"", b"", False), (b"", b"\1\4", False)):
        subnet = Subnet()
        ways = Routes(subnet)
        one, other = (subnet.node(guid, 1)[0] for guid in (1, 2))
        ways.learn(ways.origin(7), b"", one, 1, 1)
        ways.learn(ways.origin(7), path, other, 1, 2)
        ways.learn(ways.origin(7), back, one, 1, 2)
        assert not subnet.contradictions.related
        ways.learn(ways.origin(7), b"", other, 1, 3)
        assert subnet.contradictions.related == related


@pytest.mark.parametrize(("port", "apart"), [(2, True), (1, False)])
def test_an_adapter_with_a_port_in_each_subnet(port: int, apart: bool) -> None:
    """Two managers that meet at one port are of one subnet."""
    subnet = Subnet()
    ways = Routes(subnet)
    both, near, far = (subnet.node(guid, 1)[0] for guid in (1, 2, 3))
    both.kind = CA
    for sender, here, entered in ((7, near, 1), (8, far, port)):
        ways.learn(ways.origin(sender), b"\1", here, 1, 1)
        ways.learn(ways.origin(sender), b"\1\2", both, entered, 2)
    assert near.apart(far) is apart


def test_two_managers_without_routes_to_themselves() -> None:
    """On a wire, a manager's first switch and the port to it show where it is; the routes of one lead to the other's adapter."""
    for path, related in ((b"\1\2\3", True), (b"", False)):
        subnet = Subnet()
        ways = Routes(subnet)
        near, far, one, other = (subnet.node(guid, 1)[0] for guid in (1, 2, 3, 4))
        connect(subnet.port(near, 5, 1), subnet.port(one, 1, 1), 1)
        connect(subnet.port(far, 6, 1), subnet.port(other, 1, 1), 1)
        ways.learn(ways.origin(7), b"\1", near, 5, 1)
        if path:
            ways.learn(ways.origin(7), path, other, 1, 2)
        ways.learn(ways.origin(7), b"\1", far, 6, 3)
        assert subnet.contradictions.related == related


def test_an_adapter_that_answers_as_a_switch_is_no_change() -> None:
    assert changes((ROUTE, OWN), (KIND, 1)).mixed
    assert not changes((ROUTE, OWN), (ROUTE, b"\1"), (LID, 1)).mixed  # the manager moved
    assert changes((LID, 1), (LID, 2), (ROUTE, b"\1"), (KIND, 1)).mixed


@every(
    ("facts", "back", "mixed"),
    [
        (((ROUTE, 1), (ROUTE, 2), (LID, 1)), 1, 0), (((ROUTE, 1), (ROUTE, 2), (LID, 1), (LID, 2)), 1, 5), (((ROUTE, 1), (ROUTE, 2),
        (ROUTE, 3), (ROUTE, 4)), 4, 0),
        (((ROUTE, OWN), (KIND, 1)), 0, 2), (((KIND, 1), (KIND, 2), (KIND, 3), (LID, 1)), 0, 4), (((ROUTE, 1), (KIND, 1), (LID, 1),
        (LID, 2)), 0, 4),
    ],
)  # fmt: skip
def test_how_much_proves_two_subnets(facts: tuple[tuple[str, object], ...], back: int, mixed: int) -> None:
    """Four facts of two kinds, one of which nothing explains, or two that nothing explains; what comes later is not asked."""
    found = changes(*facts, back=back)
    assert (found.frame, found.mixed) == (mixed, mixed > 0)
    if mixed:
        assert found.times == {mixed: 0}
        found.note(SIZE, 1, 1, 2, mixed + 9)
        assert (SIZE, 1) not in found.before and found.frame == mixed


def apart(number: int) -> list[Node]:
    """Nodes that as many senders found, without any in common."""
    nodes = []
    for guid in range(1, number + 1):
        node = Node(guid, guid, 1)
        Origin(guid).reach(node)
        nodes.append(node)
    return nodes


@every(("lids", "frame"), [((5,), 0), ((5, 6), 8), ((5, 5), 0), ((5, 6, 7), 8), ((5, 5, 6), 9)])
def test_lids_of_nodes_that_different_senders_found(lids: tuple[int, ...], frame: int) -> None:
    one, other = apart(2)
    found = Contradictions()
    for at, lid in enumerate(lids, 7):
        found.shared_lid(lid, one, other, at)
    assert (found.frame, found.mixed) == (frame, frame > 0) and len(found.lids) == len({*lids})
    found.shared_lid(99, one, one, 50)
    assert all(lid != 99 for lid, *_ in found.lids), "one node is not apart from itself"


def test_as_many_lids_are_kept_as_the_bound_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.subnet.mixed_subnets.MAX_CONTRADICTIONS", 3)
    one, other = apart(2)
    found = Contradictions()
    for lid in range(5):
        found.shared_lid(lid, one, other, 10 + lid)
    assert [lid for lid, *_ in found.lids] == [0, 1, 2] and [*found.times] == [10, 11, 12]
    chunk: Any = SimpleNamespace(first=11, time_ns=np.array([70, 80]))
    found.note_times(chunk)
    assert found.times == {10: 0, 11: 70, 12: 80}


def test_which_node_was_displaced() -> None:
    found = Contradictions()
    found.note(ROUTE, b"\1", 7, 8, 3)
    found.note(LID, 5, 9, 8, 4)
    assert [found.displaced(guid) for guid in (7, 8, 9)] == [True, False, False] and found.examples() == [(ROUTE, 3), (LID, 4)]
