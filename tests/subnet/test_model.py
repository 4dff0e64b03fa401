"""Nodes and ports, and what is evicted when there is no room."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.capture.opening import open_capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.subnet import FabricFollower, model
from ibdissect.subnet.m_keys import MKeyState
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.nodes import Node, Port, SmFacts
from ibdissect.subnet.p_keys import PKeys
from ibdissect.subnet.switch_tables import Forwarding
from tests.standard import DOWN

STATE_AT = 32


def port(subnet: Subnet, guid: int, frame: int = 1) -> Port:
    node, _ = subnet.node(guid, frame)
    return subnet.port(node, 1, frame)


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
        known.guard, known.p_keys = MKeyState(), PKeys()
        subnet.assign(known, 5, 1, -3)
        guard = known.guard
        if own:
            shown.guard = guard = MKeyState()
            subnet.assign(shown, 8, 0, 9)
        keys = known.p_keys
        assert (subnet.adopt(shown), subnet.adopt(shown)) == (True, False)
        assert shown.guard is guard and shown.p_keys is keys
        assert shown.lids.now == ((8, 0) if own else (5, 1)) and subnet.by_lid(6) is (None if own else shown)


def weighed(subnet: Subnet, guid: int, *blocks: int, others: int = 0) -> Node:
    """A switch with these blocks of the linear table, and as many of the other two."""
    node, _ = subnet.node(guid, 1)
    node.forwarding = node.forwarding or Forwarding()
    for block in blocks:
        node.forwarding.linear.learn(block, bytes(64), 5)
    for block in range(others):
        node.forwarding.learn_random(block, bytes(64), 5)
        node.forwarding.learn_multicast(block, bytes(64), 5)
    subnet.weigh(node)
    return node


def test_tables_of_all_switches_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their size: a linear table is as large as its last block, and a block of another table counts as four."""
    subnet = Subnet()
    first, second = weighed(subnet, 1, 0, 9), weighed(subnet, 2, 1, others=2)
    assert (first.weight, second.weight, subnet.weight) == (10, 2 + 16, 28)
    weighed(subnet, 1, 10)
    assert (first.weight, subnet.weight) == (11, 29)
    monkeypatch.setattr(model, "MAX_BLOCKS", 31)
    third = weighed(subnet, 3, 1)
    assert subnet.weight == 31 and first.alive, "so many are allowed"
    weighed(subnet, 3, 2)
    assert not first.alive and second.alive and subnet.weight == 21 and subnet.dropped == {"nodes": 1}
    weighed(subnet, 2, 12)
    assert second.alive and not third.alive and subnet.dropped == {"nodes": 2}, "the oldest one is spared while it grows"
    third = weighed(subnet, 3, 2)
    weighed(subnet, 3, 700)
    assert not second.alive and third.alive and subnet.weight == 701, "the only one stays"
    subnet.drop(third)
    assert subnet.weight == 0


def test_a_dropped_node_is_known_until_its_chunk_ends() -> None:
    subnet = Subnet()
    a, b = port(subnet, 1, 3), port(subnet, 2, 4)
    subnet.assign(a, 8, 1, 5)
    a.face(b, 6)
    b.face(a, 6)
    subnet.drop(a.node, 20)
    assert (subnet.by_slot(a.node.slot), subnet.by_key(a.key), subnet.by_lid(9)) == (a.node, a, None)
    assert subnet.owner(9, 19) == (a, 5) and subnet.owner(9, 20) == (None, 0) and subnet.owner(7, 19) == (None, 0)
    assert (b.facing_at(19)[0], b.facing_at(20)[0]) == (a, None)
    assert [len(list(subnet.nodes_at(frame))) for frame in (2, 3, 4, 19, 20)] == [0, 1, 2, 2, 1]
    assert [set(subnet.ports_at(frame)) for frame in (3, 20)] == [{a}, {b}]
    assert [subnet.last_drop(frame) for frame in (19, 20, 99)] == [0, 20, 20]
    subnet.next_chunk()
    assert subnet.by_slot(a.node.slot) is None and subnet.by_key(a.key) is None and subnet.last_drop(5) == 20
    assert subnet.by_key(b.key) is b and subnet.by_key(b.key + 1) is None and subnet.node(1, 30)[1]
    subnet.drop(b.node)
    assert subnet.by_lid(8) is None and subnet.port_count == 0


def test_a_dropped_node_without_a_frame_is_forgotten_for_earlier_frames() -> None:
    subnet = Subnet()
    a, b = port(subnet, 1, 3), port(subnet, 2, 4)
    subnet.assign(a, 8, 1, 5)
    subnet.assign(b, 4, 0, 5)
    a.face(b, 6)
    b.face(a, 6)
    subnet.drop(a.node)
    assert [*subnet.lids] == [4] and [subnet.owner(lid, 19) for lid in (8, 9, 4)] == [(None, 0), (None, 0), (b, 5)]
    assert b.facing_at(19)[0] is None and subnet.last_drop(99) == 0


def test_a_port_is_as_old_as_its_first_frame() -> None:
    subnet = Subnet()
    one = port(subnet, 1, 9)
    for frame, known in ((10, 9), (9, 9), (8, 8)):
        assert subnet.port(one.node, 1, frame) is one and one.frame == known
    assert subnet.node(0, 1)[1] and subnet.node(0, 1)[1] and subnet.port_count == 1


def test_the_only_node_may_have_more_ports_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "MAX_PORTS", 1)
    subnet = Subnet()
    only = port(subnet, 1)
    assert subnet.port(only.node, 2, 1) is subnet.port(only.node, 2, 1) and only.node.alive and subnet.port_count == 2
    port(subnet, 2)
    assert not only.node.alive and subnet.port_count == 1 and subnet.dropped == {"nodes": 1}


def test_what_is_shown_again_is_no_news() -> None:
    """The frame of a fact is that of its first showing."""
    subnet = Subnet()
    one, other = port(subnet, 1), port(subnet, 2)
    subnet.assign(one, 8, 1, 10)
    assert subnet.assign(one, 8, 1, 20) is None and subnet.owner(9, 30) == (one, 10) and one.lids.since == 10
    subnet.assign(other, 8, 0, 40)
    assert subnet.assign(one, 8, 1, 50) is other and subnet.owner(8, 60) == (one, 50)


def test_a_subnet_was_read_by_what_was_shown_until_then(repo: Path) -> None:
    """What later frames of a sweep show says nothing of earlier ones; at its end all was read."""
    follower = FabricFollower()
    for chunk in open_capture(str(repo / "captures/opensm-first-sweep.pcap")).chunks():
        list(follower.feed(ChunkTable(chunk)))
    frames = range(0, chunk.first + len(chunk), 9)
    found = [follower.subnet.swept(frame) for frame in frames]
    assert all(since <= frame for frame, (_, since) in zip(frames, found, strict=True))
    complete = [whole for whole, _ in found]
    assert not complete[0] and complete == sorted(complete)


def test_ports_that_come_later_do_not_make_an_earlier_frame_younger() -> None:
    subnet = Subnet()
    node, _ = subnet.node(1, 1)
    for number, frame in ((1, 1), (2, 50)):
        subnet.port(node, number, frame).infos.learn(bytes(STATE_AT) + bytes([DOWN]), frame)
    assert [subnet.swept(frame) for frame in (1, 49, 50)] == [(False, 1), (False, 1), (False, 50)]


def test_since_when_a_manager_is_what_it_is() -> None:
    """Another priority or LID does not count; a state that it had before does, as does what nobody knows."""
    sm = Subnet().sm(7)
    assert (sm.now, sm.at(9)) == (SmFacts(0, 0, 0), (None, 0))
    states = (
        (2, SmFacts(3, 1, 5)),
        (4, SmFacts(3, 2, 5)),
        (6, SmFacts(3, 2, 6)),
        (8, SmFacts(2, 2, 6)),
        (10, SmFacts(3, 2, 6)),
        (12, None),
    )
    for frame, facts in states:
        sm.facts.change(facts, frame)
    told = [sm.at(frame) for frame in (1, 2, 3, 5, 7, 8, 9, 10, 11, 12)]
    assert [since for _, since in told] == [0, 2, 2, 2, 2, 8, 8, 10, 10, 12]
    assert [facts.state if facts else None for facts, _ in told] == [None, 3, 3, 3, 3, 2, 2, 3, 3, None]
