"""`shown` knows what counted at each SMP: before a fact was shown, after it changed, of whom, and since when."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.earlier_answers import attributes_of, others
from ibdissect.subnet.events import ChunkFollowed
from ibdissect.subnet.file_lines import line_number
from ibdissect.subnet.nodes import SwitchFacts
from ibdissect.subnet.shown_before import is_own, may_be_asked, shown
from ibdissect.wire.sm import NodeDescription, NodeInfo, SwitchInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import LinearForwardingTable
from ibdissect.wire.spec import Field
from tests.decode.made import native_table
from tests.standard import LINEAR, NODE_INFO, PORT_INFO, SL_TO_VL, SWITCH_INFO

from .made import answer, ask, history, node, port_info, switch, switch_info

SWITCH, HOST = answer(5, NODE_INFO, switch(5)), answer(6, NODE_INFO, node(6))
FACTS = SwitchFacts(*[0] * len(SwitchFacts._fields))
LATER = 64
"""The first frame of a second chunk."""


def feed(history: Any, follower: FabricFollower, *frames: bytes, first: int = 1) -> Any:
    table = ChunkTable(replace(native_table(frames).chunk, first=first))
    (event,) = [event for event in follower.feed(table) if isinstance(event, ChunkFollowed)]
    return history.of(event)


def told(smps: Any, field: Field[int]) -> list[tuple[int, int]]:
    found = shown(smps, field)
    return [(value if since else -1, since) for value, since in zip(found.values.tolist(), found.since.tolist(), strict=True)]


def capable(entries: int) -> bytes:
    return answer(5, SWITCH_INFO, switch_info(linear_fdb_cap=entries))


def test_a_capability_counts_from_its_frame_on() -> None:
    tables, follower = others(LINEAR)(), FabricFollower()
    asked, of_host = ask(5, LINEAR), ask(6, LINEAR)
    smps = feed(tables, follower, SWITCH, HOST, asked, capable(1024), asked, capable(1024), asked, capable(512), asked, of_host)
    assert told(smps, SwitchInfo.linear_fdb_cap) == [(-1, 0), (1024, 4), (1024, 4), (512, 8), (-1, 0)]
    assert told(smps, NodeInfo.num_ports) == [(8, 1)] * 4 + [(1, 2)]
    assert told(smps, NodeInfo.node_type) == [(2, 1)] * 4 + [(1, 2)]
    smps = feed(tables, follower, asked, ask(7, LINEAR), capable(2048), asked, first=LATER)
    assert told(smps, SwitchInfo.linear_fdb_cap) == [(512, 8), (-1, 0), (2048, LATER + 2)]
    assert told(smps, NodeInfo.node_type) == [(2, 1), (-1, 0), (2, 1)]
    (switch_,) = [node for node in follower.subnet.slots.values() if node.kind == 2]
    switch_.switch.change(None, 2 * LATER)
    assert told(feed(tables, follower, asked, first=3 * LATER), SwitchInfo.linear_fdb_cap) == [(-1, 0)], "no longer certain"


def test_the_port_that_is_meant() -> None:
    """A table of lanes selects an output port of a switch; elsewhere the port through which the SMP arrived is meant."""
    lanes, other, follower = others(SL_TO_VL)(), others(LINEAR)(), FabricFollower()
    ports = ((0, 5, 1), (3, 0, 2), (4, 0, 3))
    infos = [answer(5, PORT_INFO, port_info(lid, operational_vls=vls), modifier=port) for port, lid, vls in ports]
    infos.append(answer(6, PORT_INFO, port_info(6, operational_vls=4)))
    asked = [ask(lid, SL_TO_VL, modifier=modifier) for lid, modifier in ((5, 0x103), (5, 0x304), (5, 9), (6, 3))]
    smps = feed(lanes, follower, SWITCH, HOST, *infos, *asked, ask(5, LINEAR, modifier=3))
    assert told(smps, PortInfo.operational_vls) == [(2, 4), (3, 5), (-1, 0), (4, 6)]
    assert told(other.of(smps.event), PortInfo.operational_vls) == [(1, 3)]


def test_an_attribute_of_its_own_is_what_was_answered_before() -> None:
    infos, follower = history(PortInfo), FabricFollower()
    bodies = [port_info(6, lmc=lmc) for lmc in (1, 1, 2)]
    smps = feed(infos, follower, HOST, *(answer(6, PORT_INFO, body) for body in bodies))
    assert told(smps, PortInfo.lmc) == [(-1, 0), (1, 2), (1, 3)]


def test_what_may_be_asked() -> None:
    assert may_be_asked(PortInfo.lid, (LINEAR,)) and may_be_asked(NodeInfo.partition_cap, (LINEAR,))
    assert may_be_asked(SwitchInfo.life_time_value, (SWITCH_INFO,)) and not may_be_asked(SwitchInfo.life_time_value, (PORT_INFO,))
    assert not may_be_asked(SwitchInfo.life_time_value, (SWITCH_INFO, LINEAR))


def test_what_a_file_says_counts_from_the_first_frame_on() -> None:
    """Of each node what is said of it."""
    tables, follower = others(LINEAR)(), FabricFollower()
    feed(tables, follower, *(answer(lid, NODE_INFO, switch(lid)) for lid in (5, 6, 7)))
    for one, entries in zip(follower.subnet.slots.values(), (100, 200, 300), strict=True):
        one.switch.learn(FACTS._replace(linear_fdb_cap=entries), line_number(0, 3))
    smps = feed(tables, follower, *(ask(lid, LINEAR) for lid in (7, 5, 6)), first=2)
    assert shown(smps, SwitchInfo.linear_fdb_cap).values.tolist() == [300, 100, 200]
    assert (shown(smps, SwitchInfo.linear_fdb_cap).since == line_number(0, 3)).all()


@pytest.mark.parametrize("seed", range(12))
def test_what_counted_agrees_with_a_plain_walk(seed: int) -> None:
    """Two switches say what they can, in any order and in chunks of any size; each request is compared with what each said last."""
    rnd = random.Random(seed)
    tables, follower = others(LINEAR)(), FabricFollower()
    said: dict[tuple[Field[int], int], tuple[int, int]] = {}
    wanted: dict[Field[int], list[tuple[int, int]]] = {}
    fields = (SwitchInfo.linear_fdb_cap, NodeInfo.num_ports, PortInfo.operational_vls, NodeInfo.node_type)
    frame = 1
    for _ in range(5):
        frames, wanted = list[bytes](), {field: [] for field in fields}
        first = frame
        for _ in range(rnd.randrange(1, 14)):
            lid, number = rnd.choice((5, 6)), rnd.randrange(1, 4)
            if (NodeInfo.node_type, lid) not in said:
                frames.append(answer(lid, NODE_INFO, switch(lid, number)))
                said[NodeInfo.node_type, lid], said[NodeInfo.num_ports, lid] = (2, frame), (number, frame)
            else:
                what = rnd.randrange(5)
                if what == 0:
                    frames.append(answer(lid, NODE_INFO, switch(lid, number)))
                elif what == 1:
                    frames.append(answer(lid, SWITCH_INFO, switch_info(linear_fdb_cap=number)))
                elif what == 2:
                    frames.append(answer(lid, PORT_INFO, port_info(lid, operational_vls=number)))
                else:
                    frames.append(ask(lid, LINEAR, modifier=number))
                    for field in fields:
                        wanted[field].append(said.get((field, lid), (-1, 0)))
                    number = 0
                field = (NodeInfo.num_ports, SwitchInfo.linear_fdb_cap, PortInfo.operational_vls)[what] if what < 3 else None
                if field is not None and said.get((field, lid), (0, 0))[0] != number:
                    said[field, lid] = number, frame
            frame += 1
        smps = feed(tables, follower, *frames, first=first)
        for field in fields if len(smps) else ():
            assert told(smps, field) == wanted[field], field


@pytest.mark.parametrize(
    ("field", "asked"),
    [
        (PortInfo.lid, True), (PortInfo.m_key, True), (NodeInfo.node_type, True), (NodeInfo.num_ports, True), (NodeInfo.node_guid, False),
        (SwitchInfo.linear_fdb_cap, True), (SwitchInfo.linear_fdb_top, False), (NodeDescription.node_string, False),
        (LinearForwardingTable.port, False),
    ],
)  # fmt: skip
def test_what_is_kept_of_other_attributes(field: Field[int], asked: bool) -> None:
    """Whatever the SMP is about; numbers only, one a field."""
    assert may_be_asked(field, (SL_TO_VL,)) is may_be_asked(field, (SL_TO_VL, LINEAR)) is asked
    assert is_own(field.owner, attributes_of(field.owner)) and not is_own(field.owner, (SL_TO_VL,))
    assert not is_own(field.owner, (*attributes_of(field.owner), SL_TO_VL))
