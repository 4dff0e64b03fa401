"""Facts learnt from SA records if no SMPs were captured, and facts that they must not replace."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.subnet import FabricFollower
from ibdissect.subnet.events import StateEvicted
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.nodes import Port
from ibdissect.wire import sa_records as r
from ibdissect.wire.notice import Notice, TrapGID
from ibdissect.wire.sa_paths import LinkRecord, MCMemberRecord
from ibdissect.wire.sm import SMInfo
from ibdissect.words import Mad, Struct
from tests import craft
from tests.cases import every
from tests.decode.made import native_table
from tests.subnet.made import GUID, SWITCH_GUID, answer, node, p_keys, port_info, switch, switch_info

GET_TABLE, DELETE = 0x81, 0x95
SWITCH, HOST = 2, 5
NAME = b"leaf one"
MGID, MEMBER, OTHER = b"\xff" + bytes(15), b"\xfe\x80" + bytes(13) + b"\1", b"\xfe\x80" + bytes(13) + b"\2"


def record(what: type[Struct], body: bytes = b"", *, at: int = 8, method: int = GET_TABLE, **values: Any) -> bytes:
    """An answer of the SA with one record: its identifiers, then the attribute in it."""
    (place,) = (place for place in what.carried_by if isinstance(place, Mad))
    assert place.attr_id is not None
    data = bytearray(craft.build(what, **values))
    data[at : at + len(body)] = body[: what.size - at] if body else b""
    return craft.gmp(0x03, method, place.attr_id, bytes(data), at=56, slid=1, dlid=9)


def learnt(*frames: bytes) -> Subnet:
    """The subnet after these frames."""
    follower = FabricFollower()
    list(follower.feed(native_table(frames)))
    return follower.subnet


NODES = (
    record(r.NodeRecord, switch(SWITCH, 4, local_port_num=0) [:40] + NAME, at=4, lid=SWITCH),
    record(r.NodeRecord, node(HOST)[:40] + b"host", at=4, lid=HOST),
)  # fmt: skip


def known(*frames: bytes) -> tuple[Subnet, Port, Port]:
    """The subnet, port 0 of the switch, the host's port; `frames` are 3, 4, ..."""
    subnet = learnt(*NODES, *frames)
    at_switch, at_host = subnet.by_lid(SWITCH), subnet.by_lid(HOST)
    assert at_switch is not None and at_host is not None
    return subnet, at_switch, at_host


def test_nodes_have_names_guids_and_lids() -> None:
    _, at_switch, at_host = known()
    assert (at_switch.node.guid, at_switch.node.name, at_switch.number) == (SWITCH_GUID + (SWITCH << 4), NAME, 0)
    assert (at_host.node.guid, at_host.guid, at_host.number) == (GUID + (HOST << 4), GUID + (HOST << 4) + 1, 1)
    assert learnt(record(r.NodeRecord, node(HOST, node_guid=0)[:40], at=4, lid=HOST)).by_lid(HOST) is None, "no GUID, no node"


def test_a_name_that_the_node_sent_stays() -> None:
    own = (answer(HOST, 0x11, node(HOST)), answer(HOST, 0x15, port_info(HOST)), answer(HOST, 0x10, b"its own".ljust(64, b"\0")))
    port = learnt(*own, NODES[1]).by_lid(HOST)
    assert port is not None and port.node.name == b"its own"


def test_port_and_switch_information_fill_gaps_only() -> None:
    first, second = port_info(HOST, link_speed_active=4), port_info(HOST, link_speed_active=1)
    _, at_switch, at_host = known(
        record(r.PortInfoRecord, first, at=4, end_port_lid=HOST, port_num=1), record(r.PortInfoRecord, second, at=4, end_port_lid=HOST),
        record(r.SwitchInfoRecord, switch_info(linear_fdb_top=77, port_state_change=1), at=4, lid=SWITCH),
        record(r.SwitchInfoRecord, switch_info(linear_fdb_top=78), at=4, lid=SWITCH),
        record(r.SwitchInfoRecord, switch_info(), at=4, lid=HOST), record(r.PortInfoRecord, first, at=4, end_port_lid=SWITCH, port_num=9),
    )  # fmt: skip
    assert at_host.info is not None and (at_host.info.link_speed_active, at_host.info_frame) == (4, 3)
    assert (at_switch.node.linear_top.now, at_switch.node.switch.since, at_switch.node.port_state_change) == (77, 5, 1)
    assert at_host.node.switch.now is None, "an adapter forwards nothing"
    assert 9 not in [port.number for port in at_switch.node.ports.values()], "a switch of four ports has no port 9"


def test_links() -> None:
    link = record(LinkRecord, from_lid=SWITCH, from_port=3, to_lid=HOST, to_port=1)
    subnet, at_switch, at_host = known(link, record(LinkRecord, from_lid=SWITCH, from_port=2, to_lid=HOST, to_port=1))
    assert at_host.peer is subnet.port(at_switch.node, 3, 3) and at_host.peer_frame == 3
    assert subnet.port(at_switch.node, 2, 3).peer is None, "a port has one peer, the one that was told first"


def test_forwarding_of_a_switch() -> None:
    _, at_switch, at_host = known(
        record(r.LinearForwardingTableRecord, bytes([255, 1, 0, 2, 255, 3]).ljust(64, b"\xff"), lid=SWITCH, block_num=0),
        record(r.LinearForwardingTableRecord, bytes([9]) * 64, lid=SWITCH, block_num=0),
        record(r.RandomForwardingTableRecord, b"r" * 64, lid=SWITCH, block_num=2),
        record(r.RandomForwardingTableRecord, b"s" * 64, lid=SWITCH, block_num=2),
        record(r.MulticastForwardingTableRecord, b"\0\x0a".ljust(64, b"\0"), lid=SWITCH, position=1, block_num=1),
        record(r.MulticastForwardingTableRecord, b"\0\x01".ljust(64, b"\0"), lid=SWITCH, position=1, block_num=1),
        record(r.LinearForwardingTableRecord, bytes([9]) * 64, lid=HOST),
    )
    tables = at_switch.node.forwarding
    assert tables is not None
    assert tables.linear.port(HOST) == (3, 3) and tables.linear.port(4) == (255, 3)
    assert tables.random == {2: (b"r" * 64, 5)}
    assert list(tables.routes()) == [(0xC020, (17, 19))]
    assert at_host.node.forwarding is None


def test_service_levels_and_arbitration() -> None:
    mapped, other = bytes.fromhex("0123456789abcdef"), bytes(8)
    subnet, at_switch, at_host = known(
        record(r.SLtoVLMappingTableRecord, mapped, lid=SWITCH, input_port_num=1, output_port_num=3),
        record(r.SLtoVLMappingTableRecord, other, lid=SWITCH, input_port_num=1, output_port_num=3),
        record(r.SLtoVLMappingTableRecord, other, lid=HOST, input_port_num=1, output_port_num=1),
        record(r.VLArbitrationTableRecord, b"\1\2" * 32, lid=HOST, output_port_num=1, block_num=3),
        record(r.VLArbitrationTableRecord, b"\1\3" * 32, lid=HOST, output_port_num=1, block_num=3),
        record(r.VLArbitrationTableRecord, b"\1\3" * 32, lid=HOST, output_port_num=1, block_num=5),
    )
    out = subnet.port(at_switch.node, 3, 3).qos
    assert out is not None and [out.vl(1, sl) for sl in (1, 2, 15)] == [1, 2, 15] and out.map(2) is None
    assert at_host.qos is not None and at_host.qos.map(0) == other, "an adapter has one table, whatever the input"
    assert at_host.qos.arbitration == (b"", b"", b"\1\2" * 32, b"")


def test_partitions_of_a_port() -> None:
    subnet, _, at_host = known(
        record(r.PKeyTableRecord, p_keys(0xFFFF, 0x8001), lid=HOST, port_num=1),
        record(r.PKeyTableRecord, p_keys(0x7FFF), lid=HOST, port_num=1),
    )
    assert subnet.partitioned and at_host.p_keys is not None
    members, _, frames = at_host.p_keys.keys(9)
    assert {0xFFFF, 0x8001} <= members and frames == (3,)


def test_blocks_that_opensm_numbers_in_the_byte_order_of_its_host() -> None:
    def blocks(capacity: int) -> list[int]:
        """The blocks that a record with number 0x0100 and one with 0x0300 teach of a table of so many entries."""
        host = record(r.NodeRecord, node(HOST, partition_cap=capacity)[:40], at=4, lid=HOST)
        numbered = (record(r.PKeyTableRecord, p_keys(0x8000 | number), lid=HOST, port_num=1, block_num=number) for number in (0x100, 0x300))
        port = learnt(host, *numbered).by_lid(HOST)
        assert port is not None and port.p_keys is not None
        return [block.number for block in port.p_keys.blocks]

    assert blocks(128) == [1, 3]
    assert blocks(96) == [1, 0x300], "such a table has no block 3 either"
    assert blocks(0x101 * 32) == [0x100, 3], "this one has a block 256"
    assert blocks(0) == [0x100, 0x300], "nobody knows"


def test_subnet_managers() -> None:
    def info(guid: int, state: int, priority: int) -> bytes:
        return craft.build(SMInfo, 24, guid=guid, sm_state=state, priority=priority)

    subnet, _, _ = known(
        record(r.SMInfoRecord, info(0xAA, 3, 9), at=4, lid=HOST), record(r.SMInfoRecord, info(0xAA, 2, 1), at=4, lid=HOST),
        record(r.SMInfoRecord, info(0, 2, 1), at=4, lid=SWITCH),
    )  # fmt: skip
    assert [(sm.guid, *sm.now, sm.frame) for sm in subnet.sms.values()] == [(0xAA, 3, 9, HOST, 3)]


def test_groups_and_who_left_them() -> None:
    def member(port: bytes, method: int = GET_TABLE, join: int = 1) -> bytes:
        return record(MCMemberRecord, method=method, mgid=MGID, port_gid=port, mlid=0xC001, p_key=0xFFFF, join_state=join)

    group = known(member(bytes(16)), member(MEMBER), member(OTHER, join=4))[0].groups.by_mgid[MGID]
    assert (group.facts.now and group.facts.now.mlid, group.facts.since, group.members) == (0xC001, 3, {MEMBER: (1, 4), OTHER: (4, 5)})
    left = known(member(MEMBER), member(OTHER), member(MEMBER, DELETE))[0].groups.by_mgid
    assert list(left[MGID].members) == [OTHER]
    assert not known(member(MEMBER), member(MEMBER, DELETE))[0].groups.by_mgid, "the last one has gone, and the group with it"
    assert not known(member(MEMBER, DELETE))[0].groups.by_mgid, "who leaves what was never seen makes no group"


def test_records_of_unowned_lids_are_ignored() -> None:
    """Their facts have no port to belong to; nothing is made up for them."""
    kinds = (r.SwitchInfoRecord, r.LinearForwardingTableRecord, r.RandomForwardingTableRecord, r.MulticastForwardingTableRecord,
             r.SLtoVLMappingTableRecord, r.VLArbitrationTableRecord, r.PKeyTableRecord)  # fmt: skip
    strays = [record(kind, lid=99) for kind in kinds] + [record(r.PortInfoRecord, end_port_lid=99), record(LinkRecord, from_lid=99)]
    subnet, _, _ = known(*strays)
    assert subnet.by_lid(99) is None and sorted(port.lid for port in subnet.ports() if port.lid) == [SWITCH, HOST]


def test_a_node_record_tells_one_lid() -> None:
    """It has no LMC; and one that names another node than before says that nobody knows whose it is."""
    of_6, of_8 = (record(r.NodeRecord, node(lid), at=4, lid=6) for lid in (6, 8))
    subnet = learnt(of_6, of_6)
    assert [lid for lid in range(16) if subnet.by_lid(lid) is not None] == [6]
    owner = subnet.by_lid(6)
    assert owner is not None and owner.node.guid == GUID + (6 << 4) and owner.lids.now == (6, 0)
    assert learnt(of_6, of_8).by_lid(6) is None


@every(("method", "learns"), [(0x81, True), (0x95, True), (0x01, False), (0x12, False), (0x02, False), (0x15, False)])
def test_only_answers_teach(method: int, learns: bool) -> None:
    assert bool(learnt(record(r.NodeRecord, node(HOST)[:40], at=4, lid=HOST, method=method)).nodes) is learns


@every(("lid", "owned"), [(0, False), (1, True), (0xBFFF, True), (0xC000, False), (0xFFFF, False)])
def test_only_unicast_lids_have_an_owner(lid: int, owned: bool) -> None:
    subnet = learnt(record(r.NodeRecord, node(HOST)[:40], at=4, lid=lid))
    assert [*subnet.lids] == ([lid] if owned else []) and len(subnet.nodes) == 1


@every("number", range(6))
def test_parts_of_the_arbitration_table(number: int) -> None:
    body = bytes(range(1, 65))
    _, _, host = known(record(r.VLArbitrationTableRecord, body, lid=HOST, output_port_num=1, block_num=number))
    shown = host.qos.arbitration if host.qos is not None else (b"",) * 4
    assert shown == tuple(body if number == part else b"" for part in (1, 2, 3, 4))


def test_all_bytes_of_an_attribute_in_a_record() -> None:
    body = port_info(HOST)[:63] + b"\x5a"
    _, _, host = known(record(r.PortInfoRecord, body, at=4, end_port_lid=HOST, port_num=1))
    assert host.infos.now == body
    subnet, at_switch, _ = known(record(r.RandomForwardingTableRecord, body, lid=SWITCH, block_num=2))
    assert at_switch.node.forwarding is not None and at_switch.node.forwarding.random[2][0] == body and subnet.weight == 4


def test_both_bytes_of_a_block_number_are_swapped() -> None:
    host = record(r.NodeRecord, node(HOST, partition_cap=0x103 * 32)[:40], at=4, lid=HOST)
    port = learnt(host, record(r.PKeyTableRecord, p_keys(0xFFFF), lid=HOST, port_num=1, block_num=0x0201)).by_lid(HOST)
    assert port is not None and port.p_keys is not None and [block.number for block in port.p_keys.blocks] == [0x0102]


def evictions(*frames: bytes) -> list[tuple[str, int]]:
    found = FabricFollower().feed(native_table(frames))
    return [(one.what, one.count) for one in found if isinstance(one, StateEvicted)]


def test_what_has_no_room_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.subnet.switch_tables.KEPT_RANDOM", 1)
    monkeypatch.setattr("ibdissect.subnet.multicast_groups.MAX_GROUPS", 1)
    blocks = [record(r.RandomForwardingTableRecord, b"r" * 64, lid=SWITCH, block_num=block) for block in (2, 3, 2)]
    assert evictions(*NODES, *blocks) == [("blocks of forwarding tables", 1)] and evictions(*NODES, blocks[0], blocks[2]) == []
    groups = [record(MCMemberRecord, mgid=bytes([255, *bytes(14), last]), mlid=0xC001) for last in (1, 2, 3)]
    assert evictions(*NODES, *groups) == [("groups", 2)] and evictions(*NODES, *groups[:1]) == []
    smp = answer(HOST, 0x15, port_info(HOST))
    assert evictions(*NODES, *groups[:2], smp, groups[2], smp) == [("groups", 1)] * 2, "each is told once"


@every(("method", "trap", "generic", "mgmt_class", "gone"), [
    (6, 67, 1, 3, True), (6, 66, 1, 3, False), (6, 67, 0, 3, False), (0x81, 67, 1, 3, False), (6, 67, 1, 4, False),
])  # fmt: skip
def test_a_report_of_the_sa_that_a_group_is_gone(method: int, trap: int, generic: int, mgmt_class: int, gone: bool) -> None:
    group = record(MCMemberRecord, mgid=MGID, port_gid=MEMBER, mlid=0xC001, join_state=1)
    details = craft.build(Notice, is_generic=generic, trap_number=trap)
    at = Notice.data_details.span[0]
    notice = bytearray(details.ljust(80, b"\0"))
    notice[at + TrapGID.gidaddr.span[0] : at + TrapGID.gidaddr.span[1]] = MGID
    frame = craft.gmp(mgmt_class, method, 2, bytes(notice), at=56 if mgmt_class == 3 else 64, slid=1, dlid=9)
    subnet, _, _ = known(group, frame)
    assert (MGID in subnet.groups.by_mgid) is not gone and subnet.groups.members == (0 if gone else 1)


def test_a_name_is_as_long_as_the_record_has_it() -> None:
    """64 bytes, whatever stands behind them."""
    body = craft.build(r.NodeRecord, lid=HOST)[:4] + node(HOST)[:40] + b"n" * 64 + b"\xff" * 8
    subnet = learnt(craft.gmp(0x03, GET_TABLE, 0x11, body, at=56, slid=1, dlid=9))
    assert [one.name for one in subnet.slots.values()] == [b"n" * 64]


@every(("number", "has"), [(0, True), (1, True), (3, True), (4, True), (5, False), (255, False)])
def test_a_record_is_of_one_of_the_ports_that_a_switch_has(number: int, has: bool) -> None:
    """It has four, and port 0."""
    _, at_switch, _ = known(record(r.PortInfoRecord, port_info(SWITCH), at=4, end_port_lid=SWITCH, port_num=number))
    assert (number in at_switch.node.ports and at_switch.node.ports[number].infos.now is not None) is has


def test_a_node_that_was_known_by_its_lid_gets_its_name() -> None:
    """It is no second node; one that has a GUID stays, but has its LID no more if it is another's."""
    subnet = learnt(answer(HOST, 0x10, b"x" * 64), NODES[1])
    assert [(one.guid != 0, one.name[:4]) for one in subnet.slots.values()] == [(True, b"host")]
    owner = subnet.by_lid(HOST)
    assert owner is not None and owner.node.guid
    other = record(r.NodeRecord, node(9)[:40] + b"nine", at=4, lid=HOST)
    subnet = learnt(NODES[1], other)
    assert [(one.name, [port.lid for port in one.ports.values()]) for one in subnet.slots.values()] == [(b"host", [0]), (b"nine", [0])]


@every(("lid", "held"), [(0, 0), (1, 1), (0xBFFF, 0xBFFF), (0xC000, 0), (0xFFFF, 0)])
def test_a_record_gives_no_multicast_lid(lid: int, held: int) -> None:
    subnet = learnt(record(r.NodeRecord, node(9)[:40] + b"nine", at=4, lid=lid))
    assert [port.lid for port in subnet.ports()] == [held]


def test_port_information_has_64_bytes() -> None:
    _, _, at_host = known(record(r.PortInfoRecord, b"\xff" * 72, at=4, end_port_lid=HOST, port_num=1))
    assert at_host.infos.now == b"\xff" * 64


def test_tables_of_a_node_of_which_only_the_lid_is_known() -> None:
    """It may be a switch."""
    linear = record(r.LinearForwardingTableRecord, bytes([255, 1]).ljust(64, b"\xff"), lid=7, block_num=0)
    subnet = learnt(answer(7, 0x10, b"x" * 64), record(r.SwitchInfoRecord, switch_info(linear_fdb_top=77), at=4, lid=7), linear)
    (node_,) = subnet.slots.values()
    assert (node_.kind, node_.linear_top.now, node_.switch.since) == (0, 77, 2)
    assert node_.forwarding is not None and [*node_.forwarding.linear.entries()] == [(1, 1)]
    assert not subnet.dropped and subnet.weight == 1


def test_both_ends_of_a_recorded_link_know_each_other() -> None:
    _, at_switch, at_host = known(record(LinkRecord, from_lid=SWITCH, from_port=3, to_lid=HOST, to_port=1))
    there = at_switch.node.ports[3]
    assert there.peer is at_host and at_host.peer is there and (there.peer_frame, at_host.peer_frame) == (3, 3)
