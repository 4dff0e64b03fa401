"""The tables of switches and ports contain what was shown, block by block."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.subnet import FabricFollower
from ibdissect.subnet.multicast_groups import GroupFacts, Groups
from ibdissect.subnet.switch_tables import Forwarding, Linear, Qos, lane_of
from tests import craft
from tests.cases import every
from tests.decode.made import native_table, tables_of

from .made import ANSWER, node, switch

ROWS, MAX_MEMBERS, ALL_INPUTS, KEPT_MULTICAST, KEPT_RANDOM, LINEAR_BLOCKS = 1 << 17, 4096, -1, 1024, 1024, 768

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
    assert len(group.members) == groups.members == MAX_MEMBERS


def test_arbitration_is_of_the_port_that_the_modifier_names() -> None:
    """A switch's external port in the lower half, the part of the table in the upper; parts 0 and 5 do not exist."""
    follower = FabricFollower()
    frames = [craft.smp(ANSWER, 0x18, bytes([part, 9]) * 32, path=[1], modifier=part << 16 | 3) for part in (0, 1, 4, 5)]
    for table in tables_of(craft.erf_pcap(KNOWN + frames)):
        list(follower.feed(table))
    held = {port.number: port.qos.arbitration for port in follower.subnet.ports() if port.qos is not None}
    assert held == {3: (bytes([1, 9]) * 32, b"", b"", bytes([4, 9]) * 32)}


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


def test_bounds_of_a_linear_table() -> None:
    """The last block that there is, the last LID of a block, the same block again."""
    table = Linear()
    assert not table.learn(LINEAR_BLOCKS, bytes(64), 1) and not len(table.ports)
    assert table.learn(LINEAR_BLOCKS - 1, bytes(range(64)), 2) and len(table.ports) == 0xC000 and len(table.frames) == 768
    assert (table.port(0xBFFF), table.port(0xBFC0), table.port(0xBFBF), table.port(0xC000)) == ((63, 2), (0, 2), (255, 0), (255, 0))
    assert table.learn(0, b"\xff" * 63 + b"\7", 3) and (table.port(63), table.port(62), table.port(64)) == ((7, 3), (255, 3), (255, 0))
    assert (len(table), list(table.entries())[:2]) == (65, [(63, 7), (0xBFC0, 0)])
    assert not table.learn(0, b"\xff" * 63 + b"\7", 4) and table.port(63) == (7, 3)
    assert table.learn(0, bytes(64), 5) and table.port(63) == (0, 5) and len(table) == 128


def test_blocks_of_the_other_tables() -> None:
    """Positions are sixteen ports apart, blocks thirty-two LIDs; a block that is shown again keeps its frame unless it changed."""
    tables = Forwarding()
    for modifier, masks in ((0x10000000, b"\0\1" + bytes(62)), (0x00000000, bytes(62) + b"\x80\0"), (0xF00001FF, bytes(62) + b"\x80\1")):
        assert tables.learn_multicast(modifier, masks, 5)
    assert list(tables.routes()) == [(0xC000, (16,)), (0xC01F, (15,)), (0xC000 + 0x1FF * 32 + 31, (240, 255))]
    assert tables.learn_random(3, bytes(64), 5) and tables.learn_random(3, bytes(64), 6) and tables.random[3] == (bytes(64), 5)
    assert tables.learn_random(3, b"\1" * 64, 7) and tables.random[3] == (b"\1" * 64, 7) and tables.size == 4 * 4
    for block in range(KEPT_RANDOM - 1):
        assert tables.learn_random(100 + block, bytes(64), 8)
    assert not tables.learn_random(9999, bytes(64), 9) and tables.learn_random(3, bytes(64), 9) and tables.random[3][1] == 9


ONE, TWO, THREE = (bytes([n]) * 8 for n in (0x01, 0x23, 0xF4))


def test_lanes_of_a_table() -> None:
    assert [lane_of(bytes.fromhex("0123456789abcdef"), sl) for sl in range(16)] == list(range(16))


def test_what_a_port_mapped_at_a_frame() -> None:
    qos = Qos()
    qos.learn_map(3, ONE, 10)
    qos.learn_map(3, ONE, 11)
    qos.learn_map(0, TWO, 12)
    assert list(qos.numbers()) == [0, 3] and (qos.map(0), qos.map(3), qos.map(1), qos.map(4)) == (TWO, ONE, None, None)
    assert (qos.since, qos.frame, qos.changes(), qos.tables()) == (12, 12, {12}, {ONE, TWO})
    qos.learn_map(3, THREE, 20)
    qos.learn_map(3, ONE, 30)
    assert [qos.map_at(3, frame) for frame in (11, 12, 19, 20, 29, 30)] == [None, ONE, ONE, THREE, THREE, ONE]
    assert [qos.map_at(0, frame) for frame in (12, 25)] == [TWO, TWO] and qos.map_at(1, 25) is None
    assert [qos.maps_frame(frame) for frame in (12, 19, 20, 29, 30, 99)] == [12, 12, 20, 20, 30, 30]
    assert qos.tables() == {ONE, TWO, THREE} and qos.changes() == {12, 20, 30}
    qos.learn_map(0, ONE, 40)
    assert qos.others == {} and qos.map(0) == ONE and (qos.vl(0, 0), qos.vl(0, 1), qos.vl(1, 0)) == (0, 1, None)


def test_one_table_for_many_inputs() -> None:
    qos = Qos()
    qos.learn_maps(range(4), ONE, 10)
    assert list(qos.numbers()) == [0, 1, 2, 3] and (qos.since, qos.frame, qos.replaced) == (10, 10, ())
    qos.learn_maps(range(4), ONE, 11)
    assert (qos.since, qos.frame, qos.replaced) == (10, 10, ())
    qos.learn_maps(range(4), TWO, 20)
    assert [qos.map_at(port, frame) for port in (0, 3) for frame in (19, 20)] == [ONE, TWO] * 2
    assert (qos.since, qos.frame) == (10, 20) and qos.replaced == ((20, ALL_INPUTS, ONE),)
    qos.learn_maps([2], ONE, 30)
    assert (qos.map(2), qos.map(3), qos.others) == (ONE, TWO, {2: ONE})
    qos.learn_maps(range(4), THREE, 40)
    assert {qos.map(port) for port in range(4)} == {THREE} and qos.replaced[-1][:2] == (40, 3)
    wider = Qos()
    wider.learn_maps(range(3), ONE, 10)
    wider.learn_maps(range(2), TWO, 20)
    assert [wider.map(port) for port in range(4)] == [TWO, TWO, ONE, None]
    wider.learn_maps(range(5), TWO, 30)
    assert {wider.map(port) for port in range(5)} == {TWO} and wider.since == 30


def test_earlier_tables_are_kept_as_long_as_a_window_may_be() -> None:
    for learn, kept in ((Qos.learn_map, "replaced"), (Qos.learn_arbitration, "outdated")):
        qos = Qos()
        size = 8 if kept == "replaced" else 64
        found = []
        for number, frame in enumerate((1, 2, 3, 2 + ROWS, 3 + ROWS)):
            learn(qos, 1, bytes([number + 1]) * size, frame)
            found.append([change[0] for change in getattr(qos, kept) if change[0] > 1])
        assert found == [[], [2], [2, 3], [3, 2 + ROWS], [2 + ROWS, 3 + ROWS]], kept


def test_arbitration_at_a_frame() -> None:
    qos, low, high = Qos(), b"\1" * 64, b"\2" * 64
    qos.learn_arbitration(1, low, 10)
    qos.learn_arbitration(4, high, 20)
    qos.learn_arbitration(4, high, 25)
    assert [qos.arbitration_at(frame) for frame in (9, 10, 19, 20)] == [
        (b"",) * 4, (low, b"", b"", b""), (low, b"", b"", b""), (low, b"", b"", high)
    ]  # fmt: skip
    assert qos.frame == 20


def test_how_long_earlier_tables_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """For as many frames as a window may have, by whichever way the tables are learnt."""
    monkeypatch.setattr("ibdissect.subnet.switch_tables.ROWS", 10)
    for frame in (14, 15, 16, 19):
        for at_once in (False, True):
            qos = Qos()
            for number, at in enumerate((1, 5, frame)):
                entries = bytes([number]) * 8
                if at_once:
                    qos.learn_maps([0, 1], entries, at)
                else:
                    qos.learn_map(0, entries, at)
                qos.learn_arbitration(1, bytes([number + 1]) * 64, at)
            expected = [at for at in (5, frame) if at > frame - 10]
            assert [since for since, *_ in qos.replaced] == expected and [since for since, _ in qos.outdated][-len(expected) :] == expected
            assert qos.map_at(0, frame - 1) == bytes([1]) * 8 and qos.map_at(0, frame) == bytes([2]) * 8
            assert qos.arbitration_at(frame - 1)[0] == bytes([2]) * 64 and qos.arbitration_at(frame)[0] == bytes([3]) * 64


@every("seed", range(20))
def test_lanes_agree_with_a_plain_list_of_what_was_shown(seed: int) -> None:
    """Tables of some input ports, one by one or all at once; asked for every frame once all are known."""
    rnd, qos, shown_ = random.Random(seed), Qos(), list[dict[int, bytes]]()
    inputs, now = range(rnd.randrange(1, 4)), dict[int, bytes]()
    for frame in range(1, 30):
        entries = bytes([rnd.randrange(3)]) * 8
        if rnd.random() < 0.3:
            qos.learn_maps(inputs, entries, frame)
            now = dict.fromkeys(inputs, entries)
        elif rnd.random() < 0.6:
            number = rnd.choice(inputs)
            qos.learn_map(number, entries, frame)
            now = {**now, number: entries}
        shown_.append(now)
        assert {number: qos.map(number) for number in inputs} == {number: now.get(number) for number in inputs}
        assert sorted(qos.numbers()) == sorted(now) and set(now.values()) <= qos.tables() if now else not qos.inputs
    first = next((frame for frame, known in enumerate(shown_, 1) if len(known) == len(inputs)), 99)
    for frame, known in enumerate(shown_, 1):
        if frame >= first:
            assert [qos.map_at(number, frame) for number in inputs] == [known[number] for number in inputs], frame
            assert [qos.vl(number, 1) for number in inputs] == [lane_of(now[number], 1) for number in inputs]
        else:
            assert all(qos.map_at(number, frame) is None for number in inputs)
    changed = {frame for frame in range(first + 1, 30) if shown_[frame - 1] != shown_[frame - 2]}
    assert {frame for frame in qos.changes() if frame > first} == changed
    for frame in range(first, 30):
        assert qos.maps_frame(frame) == max((one for one in changed if one <= frame), default=qos.since)


@every("sl", range(16))
def test_the_lane_of_each_service_level(sl: int) -> None:
    """Two in a byte, the even one in its upper half."""
    table = bytes(16 * (2 * i) % 256 | (15 - i) for i in range(8))
    assert lane_of(table, sl) == int(table.hex()[sl], 16)
