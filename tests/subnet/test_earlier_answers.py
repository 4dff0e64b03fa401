"""Earlier answers of the same port, across chunks, ports and limits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.subnet import FabricFollower, earlier_answers
from ibdissect.subnet.earlier_answers import DescriptionsRecorded, NodesRecorded, PortGuids, combined
from ibdissect.subnet.events import ChunkFollowed
from ibdissect.wire.sa_records import NodeRecord
from ibdissect.wire.sm import LedInfo, NodeDescription, NodeInfo, SMInfo, SwitchInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import PKeyTable
from tests import craft
from tests.cases import every
from tests.decode.made import native_table, tables_of

from .made import ANSWER, GET, SET, answer, ask, history, node, p_keys, port_info, switch, switch_info


def feed(infos: Any, follower: FabricFollower, *frames: bytes) -> Any:
    """One more chunk of the same capture (frame numbers start anew, the order of feeding counts)."""
    table = native_table(frames)
    (event,) = [event for event in follower.feed(table) if isinstance(event, ChunkFollowed)]
    return infos.of(event)


def counted(number: int, lid: int = 5) -> bytes:
    return answer(lid, 0x15, port_info(lid, p_key_violations=number))


def test_before() -> None:
    infos, follower = history(PortInfo), FabricFollower()
    first = feed(infos, follower, answer(5, 0x11, node(5)), answer(6, 0x11, node(6)), counted(1), counted(9, 6), counted(2),
                 ask(5, 0x15, method=SET, body=port_info(5)), counted(3))  # fmt: skip
    assert first.since.tolist() == [0, 0, 3, 5, 5], "a Set teaches nothing"
    assert first.was(PortInfo.p_key_violations).tolist() == [0, 0, 1, 2, 2]
    assert first.now(PortInfo.p_key_violations).tolist() == [1, 9, 2, 0, 3]
    assert first.sets.tolist() == [False, False, False, True, False] and first.number.tolist() == [1] * 5
    assert infos.of(first.event) is first
    assert [infos.answers(key) for key in first.key[:2].tolist()] == [[3, 5, 7], [4]]
    assert infos.answers(int(first.key[0]) + 1) == []


def test_across_chunks() -> None:
    """The last answer of an earlier chunk is remembered; asking for another frame of the same chunk finds what held there."""
    infos, follower = history(PortInfo), FabricFollower()
    feed(infos, follower, answer(5, 0x11, node(5)), counted(1))
    pad = [craft.native(bth={"psn": i}) for i in range(4)]
    second = feed(infos, follower, *pad, counted(7), counted(8))
    assert second.since.tolist() == [2, 5] and second.was(PortInfo.p_key_violations).tolist() == [1, 7]
    bodies, since = infos.at(second.key, second.frames + 1)
    assert since.tolist() == [5, 6] and PortInfo(bodies[1].tobytes()).p_key_violations == 8


def test_unknown_nodes_teach_nothing() -> None:
    infos = history(PortInfo)
    found = feed(infos, FabricFollower(), ask(5, 0x15), ask(5, 0x15))
    assert found.key.tolist() == [-1, -1] and found.since.tolist() == [0, 0]


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier_answers, "MAX_KEPT", 2)
    infos, follower = history(PortInfo), FabricFollower()
    names = [answer(lid, 0x11, node(lid)) for lid in (5, 6, 7)]
    feed(infos, follower, *names, counted(1, 5), counted(1, 6), counted(1, 7))
    pad = [craft.native(bth={"psn": i}) for i in range(6)]
    found = feed(infos, follower, *pad, counted(2, 5), counted(2, 6), counted(2, 7))
    assert found.since.tolist() == [0, 5, 6], "the oldest went"
    assert (infos.dropped.count, infos.dropped.frame) == (1, 7), "at the first answer of that chunk"


def test_each_port_of_a_switch_has_tables_of_its_own() -> None:
    """The modifier of a switch's table holds the port above the block."""
    places = [1 << 16, 2 << 16, 1 << 16 | 1, 1 << 16, 255 << 16]
    tables = [answer(5, 0x16, p_keys(0xFFFF), modifier=place) for place in places]
    found = feed(history(PKeyTable), FabricFollower(), answer(5, 0x11, switch(5)), *tables)
    assert found.since.tolist() == [0, 0, 0, 2, 0]


@pytest.mark.parametrize(
    ("method", "name", "taught"), [(ANSWER, b"a", [2]), (ANSWER, b"", []), (GET, b"a", [])], ids=["answer", "without-a-name", "request"]
)
def test_only_answers_of_the_sa_tell_what_a_node_is_called(method: int, name: bytes, taught: list[int]) -> None:
    """A request may hold any record, and the manager knows the node before its name."""
    names, follower = DescriptionsRecorded(), FabricFollower()
    record = craft.build(NodeRecord, lid=5)[:4] + node(5)[:40] + name.ljust(64, b"\0")
    frames = [answer(5, 0x11, node(5)), craft.ud(craft.sa_mad(method, 0x11, record, mask=(1 << 21) - 1))]
    (event,) = [event for event in follower.feed(native_table(frames)) if isinstance(event, ChunkFollowed)]
    names.first(event, history(NodeDescription).of(event))
    assert names._answers.frame.tolist() == taught


@pytest.mark.parametrize("most", [1, 2, 3])
def test_as_many_are_remembered_as_the_limit_says(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(earlier_answers, "MAX_KEPT", most)
    infos, follower = history(PortInfo), FabricFollower()
    feed(infos, follower, *(answer(lid, 0x11, node(lid)) for lid in (5, 6)), counted(1, 6), counted(1, 5))
    found = feed(infos, follower, *[craft.native()] * 4, counted(2, 5), counted(2, 6), ask(5, 0x15))
    assert found.since.tolist() == [4, 3 if most > 1 else 0, 5]
    assert (infos.dropped.count, infos.dropped.frame) == ((0, 0) if most > 1 else (1, 5))


@pytest.mark.parametrize(
    ("kind", "guids", "keys"),
    [(partial(history, NodeInfo), {"node_guid": 7}, [7, -1, -1]), (PortGuids, {"port_guid": 1 << 63}, [-1 << 63, -1, -1])],
)
def test_answers_with_a_guid_have_it_as_key(kind: Callable[[], Any], guids: dict[str, int], keys: list[int]) -> None:
    """Neither requests nor zeros."""
    none = node(5, node_guid=0, port_guid=0)
    found = feed(
        kind(), FabricFollower(), answer(5, 0x11, node(5, **guids)), ask(5, 0x11, method=SET, body=node(5, **guids)), answer(5, 0x11, none)
    )
    assert found.key.tolist() == keys


def test_attributes_without_history() -> None:
    found = feed(history(LedInfo), FabricFollower(), answer(5, 0x11, switch(5)), answer(5, 0x31, bytes(64)), answer(5, 0x31, bytes(64)))
    assert (found.key.tolist(), found.since.tolist(), found.about_ports) == ([-1, -1], [0, 0], False)


@every(
    ("kind", "modifier", "entered", "number"),
    [(node, 0, 1, 1), (node, 3, 1, 3), (node, 0x1FF, 1, 0xFF), (node, 0x100, 1, 1), (switch, 0, 4, 0), (switch, 7, 4, 7)],
)
def test_the_port_that_a_modifier_selects(kind: Any, modifier: int, entered: int, number: int) -> None:
    """Its low byte; 0 is the port that the SMP entered, or a switch's own."""
    frames = [answer(5, 0x11, kind(5, local_port_num=entered)), answer(5, 0x15, port_info(5), modifier=modifier)]
    found = feed(history(PortInfo), FabricFollower(), *frames)
    assert found.number.tolist() == [number] and found.about_ports


@every("frames", [1, 2, 3, 4, 5])
def test_what_was_known_at_a_frame(frames: int) -> None:
    """Answers of two ports in turn: the last one before, never that of the other port."""
    infos, follower = history(PortInfo), FabricFollower()
    found = feed(infos, follower, *[answer(lid, 0x11, node(lid)) for lid in (5, 6)], *[counted(n, 5 + n % 2) for n in range(frames)])
    last = feed(infos, follower, *[craft.native()] * 9, ask(5, 0x15), ask(6, 0x15), ask(9, 0x15))
    assert found.since.tolist() == [3 + n - 2 if n >= 2 else 0 for n in range(frames)]
    newest = {n % 2: 3 + n for n in range(frames)}
    assert last.since.tolist() == [newest[0], newest.get(1, 0), 0]
    assert last.was(PortInfo.p_key_violations).tolist() == [newest[0] - 3, newest.get(1, 3) - 3, 0]


def test_a_record_before_the_first_answer_of_a_node() -> None:
    """It counts for the first answer only, not for requests, nor for nodes that nobody knows."""
    nodes, records, follower = history(NodeInfo), NodesRecorded(), FabricFollower()
    record = craft.build(NodeRecord, lid=5)[:4] + node(5, device_id=3)[:40] + bytes(64)
    told = craft.ud(craft.sa_mad(0x81, 0x11, record, mask=(1 << 21) - 1))
    frames = [
        told,
        ask(5, 0x11),
        answer(5, 0x11, node(5)),
        answer(5, 0x11, node(5)),
        answer(6, 0x11, node(6)),
        answer(7, 0x11, node(7, node_guid=0)),
    ]
    (event,) = [event for event in follower.feed(native_table(frames)) if isinstance(event, ChunkFollowed)]
    first = records.first(event, nodes.of(event))
    assert (first.frames.tolist(), first.since.tolist(), first.recorded) == ([3, 5], [1, 0], True)
    assert first.was(NodeInfo.device_id).tolist() == [3, 0]


def test_what_was_known_at_a_frame_long_before_others_answered() -> None:
    """Neither an answer of another port before it, nor a later one of the same port."""
    infos, follower = history(PortInfo), FabricFollower()
    names = [answer(lid, 0x11, node(lid)) for lid in (5, 6, 7)]
    found = feed(infos, follower, *names, *[counted(n, lid) for n in range(9) for lid in (5, 6, 7)])
    keys = found.key[:3]
    assert [infos.at(keys, np.full(3, frame))[1].tolist() for frame in (4, 5, 6, 7, 8)] == [
        [0, 0, 0], [4, 0, 0], [4, 5, 0], [4, 5, 6], [7, 5, 6],
    ]  # fmt: skip


def smps_of(history: Any, *frames: bytes) -> Any:
    return feed(history, FabricFollower(), *frames)


def test_what_each_port_has() -> None:
    """Port 0 of a switch has no link, an external one no capabilities of its own; of unknown nodes only what all ports have is certain."""
    shown = [answer(5, 0x15, port_info(5), modifier=number) for number in (0, 1)]
    others = answer(6, 0x11, node(6)), answer(6, 0x15, port_info(6)), ask(9, 0x15)
    found = smps_of(history(PortInfo), answer(5, 0x11, switch(5)), *shown, *others)
    assert found.have(PortInfo.neighbor_mtu).tolist() == [False, True, True, False]
    assert found.have(PortInfo.capability_mask).tolist() == [True, False, True, True]
    assert found.have(NodeInfo.node_type).tolist() == [True] * 4, "nothing says that some ports lack it"
    switches = smps_of(history(SwitchInfo), answer(5, 0x11, switch(5)), answer(5, 0x12, bytes(64)))
    assert switches.have(PortInfo.neighbor_mtu).tolist() == [True], "no attribute of ports"
    assert found.now(PortInfo.lid) is found.now(PortInfo.lid), "columns are kept"


def test_one_smp_of_a_column() -> None:
    """All that rules ask of it are plain numbers."""
    frames = [answer(5, 0x11, switch(5)), answer(5, 0x12, switch_info()), counted(3), counted(4), answer(5, 0x15, port_info(5), modifier=2)]
    infos = smps_of(history(PortInfo), *frames, ask(9, 0x15))
    assert [one.i for one in infos.each(np.array([True, False, True, True]))] == [0, 2, 3]
    first, second, third, asked = infos.each(np.ones(4, np.bool_))
    assert (first.frame, second.frame, second.time_ns - first.time_ns) == (3, 4, 1_000_000)
    assert frames[2][second.body_at : second.body_at + 64] == port_info(5, p_key_violations=3)
    assert bytes(second.body) == port_info(5, p_key_violations=4) and bytes(second.before) == port_info(5, p_key_violations=3)
    told = second.now(PortInfo.p_key_violations), second.was(PortInfo.p_key_violations), first.was(PortInfo.p_key_violations)
    assert told == (4, 3, 0) and {type(one) for one in told} == {int}
    assert second.node.guid == first.node.guid != 0 and asked.node.guid == 0
    assert second.port is second.node.ports[0] is third.port and asked.port is None
    facts, since = second.switch
    assert facts is not None and (facts.linear_fdb_cap, since) == (1024, 2)
    name = f"0x{second.node.guid:016x}"
    assert [one.name for one in (second, third, asked)] == [f"{name} (LID 5)", f"{name} port 2", "an unknown node"]
    assert [one.node_name for one in (second, third, asked)] == [f"{name} (LID 5)", f"{name} (LID 5)", "an unknown node"]


@every(("kind", "modifier", "name"), [(node, 0, " port 1"), (node, 7, " port 7"), (switch, 0, ""), (switch, 3, " port 3")])
def test_a_port_that_nobody_showed_is_named_by_its_number(kind: Any, modifier: int, name: str) -> None:
    """Only requests speak of it."""
    infos = smps_of(history(PortInfo), answer(5, 0x11, kind(5)), ask(5, 0x15, modifier=modifier))
    (asked,) = infos.each(np.array([True]))
    asked.node.ports.clear()
    assert asked.name == f"0x{asked.node.guid:016x}{name}" and asked.node_name == f"0x{asked.node.guid:016x}{' port 1' * (kind is node)}"


def test_a_description_is_the_nodes() -> None:
    named = smps_of(history(NodeDescription), answer(5, 0x11, switch(5)), answer(5, 0x10, b"a".ljust(64, b"\0"), modifier=3))
    (one,) = named.each(np.array([True]))
    assert one.name == one.node_name and not named.about_ports


def test_managers_are_told_apart_by_their_guid() -> None:
    """It is at the very beginning of SMInfo; what other attributes hold is no key."""
    managers = [answer(lid, 0x20, lid.to_bytes(8, "big").ljust(64, b"\xff")) for lid in (5, 6, 5)]
    assert smps_of(history(SMInfo), answer(5, 0x11, node(5)), *managers).since.tolist() == [0, 0, 2]
    assert smps_of(history(LedInfo), answer(5, 0x11, switch(5)), *[answer(5, 0x31, b"\xff" * 64)] * 2).key.tolist() == [-1, -1]


def test_answers_of_neighbouring_ports() -> None:
    infos = history(PortInfo)
    told = [answer(5, 0x15, port_info(5), modifier=number) for number in (1, 2, 1, 3, 2)]
    found = feed(infos, FabricFollower(), answer(5, 0x11, switch(5)), *told)
    assert [infos.answers(key) for key in sorted({*found.key.tolist()})] == [[2, 4], [3, 6], [5]]


def test_when_something_was_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first answer of the chunk, whatever its number."""
    monkeypatch.setattr(earlier_answers, "MAX_KEPT", 1)
    infos, follower = history(PortInfo), FabricFollower()
    frames = [*[answer(lid, 0x11, node(lid)) for lid in (5, 6)], counted(1), counted(1, 6), *[craft.native()] * 3, counted(2, 6)]
    capture = craft.erf_pcap(frames)
    for table in tables_of(capture, len(capture) - len(craft.erf_pcap(frames[:4])) + 24):
        (event,) = [event for event in follower.feed(table) if isinstance(event, ChunkFollowed)]
        infos.of(event)
    assert (infos.dropped.count, infos.dropped.frame, infos.dropped.time_ns % 1_000_000_000) == (1, 8, 7_000_000)


@pytest.mark.parametrize("late", [9, 100, 5000])
def test_frames_far_apart_in_one_question(late: int) -> None:
    """Of either port the last answer counts, however late one asks for it."""
    infos = history(PortInfo)
    found = feed(
        infos, FabricFollower(), *[answer(lid, 0x11, node(lid)) for lid in (5, 6)], counted(1), counted(2, 6), counted(3), counted(4, 6)
    )
    keys = np.repeat(found.key[:2], 2)
    assert infos.at(keys, np.array([4, late, late, 5]))[1].tolist() == [3, 5, 6, 4]


@every("content", [0, 7])
@every("before", [0, 8])
@every("since", [0, 1, 5])
def test_one_number_for_all_that_counts(content: int, before: int, since: int) -> None:
    """Unknown if the packet's content is, or that of the answer before, if there is one; else others for other contents."""
    known = bool(content) and (not since or bool(before))
    found = combined(*(np.array([one]) for one in (content, before, since, 1)))
    assert bool(found[0]) is known
    for other in ((9, before, since, 1), (content, 9, since, 1), (content, before, int(not since), 1), (content, before, since, 2)):
        if known and other != (content, before, since, 1) and (other[2] == 0 or other[1]):
            assert combined(*(np.array([one]) for one in other))[0] != found[0]


def test_records_count_for_nodes_with_a_guid() -> None:
    found = NodesRecorded().of_nodes(None, np.array([0, 5, (1 << 64) - 2], np.uint64), np.array([1, 1, 1]))  # type: ignore[arg-type]
    assert found.tolist() == [-1, 5, -2]


def test_each_block_of_each_port_is_apart() -> None:
    """All bits of a port's number and of a block's count."""
    places = [2 << 16, 3 << 16, 254 << 16, 255 << 16, 0x8000, 1 << 16, 0x7FFF, 0xFFFF, 127 << 16]
    tables = [answer(5, 0x16, p_keys(0xFFFF), modifier=place) for place in places * 2]
    found = smps_of(history(PKeyTable), answer(5, 0x11, switch(5)), *tables)
    assert found.since.tolist() == [0] * len(places) + [*range(2, 2 + len(places))]
    assert smps_of(history(PKeyTable), ask(9, 0x16), answer(5, 0x11, node(5)), answer(5, 0x16, p_keys(1))).key.tolist()[0] == -1


def test_an_attribute_without_a_history_of_its_own_may_be_kept_by_its_modifier() -> None:
    """By node and modifier; of an adapter by the port through which it was asked."""
    asked = [
        answer(lid, 0x31, bytes(64), modifier=modifier) for lid, modifier in ((5, 1), (5, 2), (6, 1), (5, 1 << 31), (5, 1), (6, 1), (5, 2))
    ]
    found = smps_of(history(LedInfo, kept=True), answer(5, 0x11, switch(5)), answer(6, 0x11, node(6)), *asked, ask(9, 0x31))
    assert found.since.tolist() == [0, 0, 0, 0, 3, 5, 4, 0] and found.key.tolist()[-1] == -1
    assert len({*found.key.tolist()}) == 5


def test_some_smps_keep_what_is_known_of_each() -> None:
    infos = smps_of(history(PortInfo), answer(5, 0x11, node(5)), *map(counted, range(4)))
    part = infos.part(np.array([1, 3]))
    assert (part.since.tolist(), part.key.tolist(), part.frames.tolist()) == ([2, 4], infos.key[:2].tolist(), [3, 5])
    assert part.was(PortInfo.p_key_violations).tolist() == [0, 2] and part.now(PortInfo.p_key_violations).tolist() == [1, 3]
    assert (part.event, part.attributes, part.about_ports) == (infos.event, (0x15,), True)


def named(*frames: bytes) -> tuple[list[int], list[int]]:
    """Frames of SMPs of NodeDescription that are first, and of the records before them."""
    names, follower = DescriptionsRecorded(), FabricFollower()
    found: tuple[list[int], list[int]] = [], []
    first = 1
    for some in (frames[:2], frames[2:]):
        table = ChunkTable(replace(native_table(some).chunk, first=first))
        first += len(some)
        (event,) = [event for event in follower.feed(table) if isinstance(event, ChunkFollowed)]
        one = names.first(event, history(NodeDescription).of(event))
        found[0].extend(one.frames.tolist())
        found[1].extend(one.since.tolist())
    return found


def test_records_of_names_count_until_an_unknown_node_answers() -> None:
    """From then on they may be older than what it said."""

    def recorded(lid: int, name: bytes = b"x") -> bytes:
        body = craft.build(NodeRecord, lid=lid)[:4] + node(lid)[:40] + name.ljust(64, b"\0")
        return craft.ud(craft.sa_mad(ANSWER, 0x11, body, mask=(1 << 21) - 1))

    def says(lid: int) -> bytes:
        return answer(lid, 0x10, b"y".ljust(64, b"\0"))

    five, six = answer(5, 0x11, node(5)), answer(6, 0x11, node(6))
    assert named(five, six, recorded(5), recorded(6), says(6), says(5)) == ([5, 6], [4, 3])
    assert named(five, recorded(6), recorded(5), says(5)) == ([4], [3])
    assert named(five, says(9), recorded(5), says(5)) == ([2, 4], [0, 0])
    assert named(five, recorded(5), says(9), says(5)) == ([3, 4], [0, 2])
    assert named(five, six, ask(9, 0x10), says(5)) == ([4], [0]), "a request says nothing"


@pytest.mark.parametrize("empty", [0, 1])
def test_records_without_a_name_teach_nothing(empty: int) -> None:
    """Although another one in the same chunk has one."""
    names, follower = DescriptionsRecorded(), FabricFollower()
    records = [
        craft.build(NodeRecord, lid=lid)[:4] + node(lid)[:40] + (b"" if lid == 5 + empty else b"x").ljust(64, b"\0") for lid in (5, 6)
    ]
    told = [craft.ud(craft.sa_mad(ANSWER, 0x11, record, mask=(1 << 21) - 1)) for record in records]
    frames = [answer(5, 0x11, node(5)), answer(6, 0x11, node(6)), *told]
    (event,) = [event for event in follower.feed(native_table(frames)) if isinstance(event, ChunkFollowed)]
    names.first(event, history(NodeDescription).of(event))
    assert names._answers.frame.tolist() == [4 - empty]
