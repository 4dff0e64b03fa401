"""Do the tables of switches and ports contain what was shown, block by block?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.fabric.follow import FabricFollower
from ibdissect.fabric.groups import MAX_MEMBERS, GroupFacts, Groups
from ibdissect.fabric.tables import ALL_INPUTS, KEPT_MULTICAST, Forwarding, Linear, Qos
from tests import craft
from tests.table.made import native_table, tables_of

from .made import ANSWER, node, switch

KNOWN = [craft.smp(ANSWER, 0x11, switch(2, ports=4), path=[1]), craft.smp(ANSWER, 0x11, node(5), path=[1, 2])]


def test_linear_table() -> None:
    table = Linear()
    assert table.port(5) == (255, 0) and len(table) == 0
    assert table.learn(1, bytes([3]) + b"\xff" * 63, 10)
    assert not table.learn(1, bytes([3]) + b"\xff" * 63, 20), "no news"
    assert table.port(64) == (3, 10) and table.port(65) == (255, 10)
    assert table.port(5) == (255, 0), "block 0 was never shown"
    assert list(table.entries()) == [(64, 3)] and len(table) == 1
    assert not table.learn(768, bytes(64), 30), "multicast LIDs are not in it"


def test_multicast_table() -> None:
    tables = Forwarding()
    tables.learn_multicast(0x10000001, b"\x00\x03" + bytes(62), 5)
    tables.learn_multicast(1, b"\x80\x01" + bytes(62), 6)
    assert list(tables.routes()) == [(0xC020, (0, 15, 16, 17))]
    for block in range(3 * KEPT_MULTICAST):
        tables.learn_multicast(block, bytes(64), 7)
        tables.learn_random(block, bytes(64), 7)
    assert len(tables.multicast) == len(tables.random) == KEPT_MULTICAST


def test_sl_to_vl() -> None:
    qos = Qos()
    even, other = bytes(8), bytes([0x12, *bytes(7)])
    assert qos.vl(0, 3) is None
    qos.learn_map(0, even, 5)
    qos.learn_map(2, even, 6)
    assert (qos.vl(0, 1), qos.vl(2, 1), qos.vl(1, 1)) == (0, 0, None)
    qos.learn_map(2, other, 7)
    assert (qos.vl(0, 1), qos.vl(2, 0), qos.vl(2, 1), qos.frame) == (0, 1, 2, 7)
    qos.learn_map(2, even, 8)
    assert qos.vl(2, 1) == 0
    qos.learn_arbitration(3, b"\1" * 64, 9)
    assert qos.arbitration == (b"", b"", b"\1" * 64, b"") and qos.frame == 9


def test_groups() -> None:
    groups = Groups()
    group = groups.learn(b"g" * 16, GroupFacts(0xC001, 0xFFFF, 0xB1B, 4, 3, 0), 5)
    assert groups.learn(b"g" * 16, GroupFacts(0xC001, 0xFFFF, 0, 4, 3, 0), 6) is group
    assert group.facts.now is not None and (group.facts.now.q_key, group.facts.since) == (0xB1B, 5), "a hidden key"
    groups.join(group, b"a" * 16, 1, 7)
    groups.join(group, b"a" * 16, 1, 8)
    assert group.members == {b"a" * 16: (1, 7)}
    groups.join(group, b"a" * 16, 0, 9)
    assert not group.members
    for number in range(MAX_MEMBERS + 10):
        groups.join(group, number.to_bytes(16, "big"), 1, 10)
    assert len(group.members) == MAX_MEMBERS


def shown(path: list[int], modifier: int, entry: int) -> bytes:
    return craft.smp(ANSWER, 0x17, bytes([entry]) * 8, path=path, modifier=modifier)


def learnt(frames: list[bytes], window: int) -> dict[tuple[int, int], Any]:
    """Tables, inputs and frame by node and output port."""
    follower = FabricFollower()
    for table in tables_of(craft.erf_pcap(KNOWN + frames), window):
        list(follower.feed(table))
    return {
        (port.node.guid, port.number): (port.qos.first, port.qos.inputs, port.qos.others, port.qos.frame)
        for port in follower.subnet.ports()
        if port.qos is not None
    }


TABLES = st.builds(
    shown, st.sampled_from([[1], [1, 2]]), st.sampled_from([0x0101, 0x0102, 0x0201, 0x0400, 0x0501, 0x10101, 0x20001]), st.integers(0, 2)
)


@pytest.mark.slow
@given(st.lists(TABLES, max_size=20))
def test_windows_change_nothing(frames: list[bytes]) -> None:
    assert learnt(frames, 16 << 20) == learnt(frames, 16)


def test_equal_tables_are_stored_once() -> None:
    frames = [shown([1], number << 8 | 1, 3) for number in range(5)]
    assert [value[1:] for value in learnt(frames, 16 << 20).values()] == [(0b11111, None, 7)]


def test_the_optimised_form_stands_for_many_tables() -> None:
    """Modifier bit 17: all input ports, bit 16: all output ports. A wildcard replaces what was known."""
    ports = 4
    every = (1 << ports + 1) - 1
    found = learnt([shown([1], 0x0102, 3), shown([1], 0x30000, 4)], 16 << 20)
    assert {number: value[:3] for (_, number), value in found.items()} == {n: (bytes([4]) * 8, every, None) for n in range(ports + 1)}
    found = learnt([shown([1], 0x0102, 3), shown([1], 0x20002, 4)], 16 << 20)
    assert [(number, value[0], value[1]) for (_, number), value in found.items()] == [(2, bytes([4]) * 8, every)]
    qos = Qos()
    for number, entries in ((1, b"a"), (2, b"b"), (ALL_INPUTS, b"c"), (ALL_INPUTS, b"d"), (2, b"e"), (ALL_INPUTS, b"f")):
        frame = 10 * len(qos.replaced) + qos.frame + 1
        if number == ALL_INPUTS:
            qos.learn_maps(range(3), entries, frame)
        else:
            qos.learn_map(number, entries, frame)
    assert {qos.map(number) for number in range(3)} == {b"f"}
    assert [qos.map_at(2, frame) for frame in sorted(qos.changes())][-1] == b"f"


def test_tables_of_a_node_that_gets_its_name_and_goes() -> None:
    show = craft.smp(ANSWER, 0x17, bytes(8), modifier=0x0101, path=[1])
    follower = FabricFollower()
    for frames in ([show], [show, craft.smp(ANSWER, 0x11, switch(2, ports=4), path=[1]), show]):
        table = native_table(frames)
        list(follower.feed(table))
    assert [(port.node.guid > 0, port.qos.inputs) for port in follower.subnet.ports() if port.qos is not None] == [(True, 0b10)]
