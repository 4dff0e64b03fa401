"""The description of a subnet holds each fact once, with its frame or its line, and no fact that nobody showed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ibdissect.subnet import FabricFollower
from ibdissect.subnet.describe import describe, node_name, port_name
from ibdissect.subnet.file_lines import KnownFile, doubtful, line_number
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.multicast_groups import GroupFacts, MulticastGroup
from ibdissect.subnet.nodes import NodeFacts, Port, SwitchFacts
from ibdissect.subnet.p_keys import PKeys
from ibdissect.wire.sm import SMInfo
from ibdissect.wire.sm_port import PortInfo
from tests import craft
from tests.cases import every
from tests.decode.made import native_table
from tests.rules.made.subnets import sweep
from tests.standard import CA, SWITCH
from tests.subnet.files.made_files import subnet_of
from tests.subnet.made import ANSWER, GUID, SET, answer, ask, node, p_keys, port_info, switch

KIND, ROUTE, BLOCK = "the type of a node", "the node at a directed route", 32

P_KEY_TABLE = 0x16


def described(frames: Sequence[bytes]) -> dict[str, Any]:
    follower = FabricFollower()
    for _ in follower.feed(native_table(frames)):
        pass
    return describe(follower.subnet, lambda kind, value: None)


def port_of(found: dict[str, Any], number: int = 1) -> dict[str, Any]:
    (of,) = found["nodes"]
    return next(port for port in of["ports"] if port["number"] == number)


@pytest.mark.parametrize(
    ("keys", "valid"),
    [
        ((0x8001, 0x0001, 0x0000, 0x8000, 0x7FFF), {0: 0x8001, 1: 0x0001, 4: 0x7FFF}),
        ((0xFFFF, *[0] * 30, 0x8001), {0: 0xFFFF, 31: 0x8001}),
        ((0x8000, 0x0000), {}),
    ],
)
def test_entries_without_a_base_key_are_no_p_keys(keys: tuple[int, ...], valid: dict[int, int]) -> None:
    """0x8000 is as empty as 0; indices go on from block to block."""
    frames = [answer(5, 0x11, node(5, partition_cap=64)), *(answer(5, P_KEY_TABLE, p_keys(*keys), modifier=block) for block in (0, 1))]
    found = described(frames)
    assert port_of(found)["p_keys"] == [
        {"block": block, "frame": 2 + block, "keys": [*valid.values()], "indices": [BLOCK * block + i for i in valid]} for block in (0, 1)
    ]
    wanted: dict[int, list[bool]] = {}
    for key in valid.values():
        wanted.setdefault(key & 0x7FFF, []).append(key >= 0x8000)
    assert {one["partition"]: [member["full"] for member in one["members"]] for one in found["partitions"]} == wanted


@every("lmc", range(8))
def test_lids_of_a_port(lmc: int) -> None:
    """LMC has three bits; what stands above them is reserved, and the protection bits of the M_Key."""
    info = bytearray(port_info(0x80, lmc=lmc))
    info[PortInfo.lmc.bit // 8] |= 0xF8
    found = described([answer(0x80, 0x11, node(0x80)), answer(0x80, 0x15, bytes(info), modifier=1)])
    assert (port_of(found)["lid"], port_of(found)["lmc"]) == (0x80, lmc)
    assert [one["lid"] for one in found["lids"]] == [*range(0x80, 0x80 + (1 << lmc))] and found["counts"]["lids"] == 1 << lmc


def test_switch_tables_enforce_and_make_no_members() -> None:
    frames = [answer(5, 0x11, switch(5)), answer(5, P_KEY_TABLE, p_keys(0x8001), modifier=1 << 16)]
    (partition,) = described(frames)["partitions"]
    assert not partition["members"] and [one["port"] for one in partition["enforced_at"]] == [1]


def test_the_subnet_is_complete_after_a_whole_sweep() -> None:
    frames = sweep()
    assert described(frames)["complete"] == {"frame": len(frames)}
    assert described(frames[:-1])["complete"] is None


def test_files_that_list_all_lids_make_it_complete() -> None:
    subnet = Subnet()
    files, line = [KnownFile("ibnetdiscover.txt", 0)], line_number(0, 0)
    for listed, expected in ((line, {"frame": 0, "source": "ibnetdiscover.txt"}), (doubtful(line), None), (0, None)):
        subnet.listed = listed
        assert describe(subnet, lambda kind, value: None, files)["complete"] == expected


def test_a_group_of_which_only_the_members_are_known() -> None:
    subnet = Subnet()
    group = subnet.groups.by_mgid[b"\xff" * 16] = MulticastGroup(b"\xff" * 16, 4)
    group.members[bytes(16)] = (1, 4)
    (found,) = describe(subnet, lambda kind, value: None)["groups"]
    assert {found[name] for name in ("mlid", "p_key", "q_key", "mtu", "mtu_code", "rate", "sl")} == {None}
    assert found["members"][0]["join_state"] == ["full member"]


@every(("code", "size"), [(0, None), (1, 256), (5, 4096), (6, None)])
def test_a_group_with_its_record(code: int, size: int | None) -> None:
    subnet = Subnet()
    subnet.groups.learn(b"\xff" * 16, GroupFacts(0xC000, 0xFFFF, 0, code, 3, 0), 4)
    (found,) = describe(subnet, lambda kind, value: None)["groups"]
    assert (found["mtu"], found["mtu_code"], found["rate_gbps"], found["sl"]) == (size, code, 10, 0)
    assert found["q_key"] is None, "it was hidden"


def test_facts_of_files_name_their_line_and_no_frame() -> None:
    subnet = Subnet()
    files = [KnownFile("a.conf", 0), KnownFile("b.conf", 0)]
    of, _ = subnet.node(7, line_number(1, 12))
    port = subnet.port(of, 1, line_number(1, 12))
    port.p_keys = PKeys()
    subnet.assign(port, 5, 0, line_number(0, 3))
    found = describe(subnet, lambda kind, value: None, files)
    assert (found["nodes"][0]["frame"], found["nodes"][0]["source"]) == (0, "b.conf:12")
    assert [(one["frame"], one["source"]) for one in found["lids"]] == [(0, "a.conf:3")]
    assert "source" not in describe(subnet, lambda kind, value: None)["nodes"][0], "without files the lines stay numbers"


def test_hidden_keys_are_text() -> None:
    key = ask(5, 0x15, method=SET, body=port_info(5, m_key=0x1234), modifier=1), answer(5, 0x15, port_info(5, m_key=0x1234), modifier=1)
    follower = FabricFollower()
    for _ in follower.feed(native_table([answer(5, 0x11, node(5)), *key])):
        pass
    shown, hidden = (
        port_of(describe(follower.subnet, text))["m_key"] for text in (lambda kind, value: None, lambda kind, value: f"{kind}#1")
    )
    assert (shown["value"], shown["text"]) == (0x1234, "0x0000000000001234")
    assert (hidden["value"], hidden["text"]) == (None, "M_Key#1")
    restarted: Any = follower.subnet.by_lid(5)
    restarted.guard.forget(4)
    assert "m_key" not in port_of(describe(follower.subnet, NOBODY_HIDES))


def test_lids_of_a_forwarding_table_are_ranges() -> None:
    for lids, text in (((1,), "1"), ((1, 2), "1-2"), ((1, 3), "1,3"), ((1, 2, 3, 5, 7, 8), "1-3,5,7-8")):
        table = bytes(1 if lid in lids else 255 for lid in range(64))
        (told,) = described([answer(2, 0x11, switch(2)), answer(2, 0x19, table)])["nodes"]
        assert told["forwarding"]["linear"] == [{"port": 1, "lids": text, "count": len(lids)}]
    (told,) = described([answer(2, 0x11, switch(2)), answer(2, 0x19, b"\xff" * 64)])["nodes"]
    assert told["forwarding"]["linear"] == []


@every(("code", "page"), [(0x0FF0, None), (0x8000, 0), (0x8010, 1), (0x801F, 1), (0x87F0, 0x7F), (0x8810, 0x81), (0xFFF0, 0x7FF)])
def test_the_page_of_diagnostic_data_that_a_port_names(code: int, page: int | None) -> None:
    """Eleven bits behind the first, without the last four."""
    follower = FabricFollower()
    for _ in follower.feed(native_table([answer(5, 0x11, node(5)), answer(5, 0x15, port_info(5, diag_code=code), modifier=1)])):
        pass
    port = follower.subnet.by_lid(5)
    assert port is not None and (port.pages or {}) == ({} if page is None else {page: 2})


def counted(*frames: bytes) -> dict[str, int]:
    return {name: count for name, count in described(frames)["counts"].items() if count}


def test_a_node_without_a_name_is_counted_until_it_says_who_it_is() -> None:
    state = answer(5, 0x15, port_info(5), modifier=1)
    assert counted(state) == {"unknown_nodes": 1, "ports": 1, "lids": 1}
    assert counted(state, answer(5, 0x11, node(5))) == {"channel_adapters": 1, "ports": 1, "lids": 1}


def test_a_node_that_becomes_another_kind_is_another_node() -> None:
    frames = [answer(5, 0x11, node(5, num_ports=2)), answer(5, P_KEY_TABLE, p_keys(0x8001)), answer(5, 0x15, port_info(5), modifier=2)]
    assert "p_keys" in port_of(described(frames))
    again = described([*frames, answer(5, 0x11, node(5, num_ports=2, node_type=3))])
    assert again["counts"]["routers"] == 1 and not again["counts"]["channel_adapters"]
    assert [port["number"] for port in again["nodes"][0]["ports"]] == [1] and "p_keys" not in port_of(again)


def test_only_the_manager_that_was_master_last_is_the_current_one() -> None:
    """Three called themselves master, one after the other; a standby is no former one."""
    states = ((1, 3), (2, 3), (3, 2), (2, 3), (4, 3))
    frames = [
        craft.smp(0x81, 0x20, craft.build(SMInfo, 64, guid=0x1000 + lid, act_count=n, priority=1, sm_state=state), slid=lid, dlid=9)
        for n, (lid, state) in enumerate(states)
    ]
    told = [(one["guid"][-4:], one["state_code"], one["former"]) for one in described(frames)["sms"]]
    assert told == [("1001", 3, True), ("1002", 3, True), ("1003", 2, False), ("1004", 3, False)]


@pytest.mark.parametrize(("code", "size"), [(1, 256), (4, 2048), (5, 4096)])
def test_sizes_stand_beside_their_codes(code: int, size: int) -> None:
    port = port_of(described([answer(2, 0x11, node(2)), answer(2, 0x15, port_info(2, neighbor_mtu=code))]))
    assert (port["neighbor_mtu"], port["neighbor_mtu_code"]) == (size, code)


def test_a_name_is_told_as_it_is() -> None:
    """Only the zeros behind it are none of it."""
    (told,) = described([answer(2, 0x11, node(2)), answer(2, 0x10, b"  node 2 \0".ljust(64, b"\0"))])["nodes"]
    assert told["name"] == "  node 2 "


def test_what_no_node_info_says_is_unknown() -> None:
    (told,) = described([answer(2, 0x15, port_info(2, neighbor_mtu=6))])["nodes"]
    assert {told[name] for name in ("guid", "vendor_id", "device_id", "num_ports", "partition_cap")} == {None}
    port = told["ports"][0]
    assert (port["number"], port["neighbor_mtu"], port["neighbor_mtu_code"], port["lid"], port["lmc"]) == (None, None, 6, 2, 0)
    assert Subnet().listed == 0


@pytest.mark.parametrize(
    ("text", "settings", "hosts"),
    [("roce.vlans = [7]", {"vlans": [7]}, []), ("[[roce.host]]\nname = 'a'\naddresses = ['1.2.3.4']", {}, ["1.2.3.4"]), ("", None, None)],
)
def test_what_a_file_says_of_roce_is_described(text: str, settings: dict[str, Any] | None, hosts: list[str] | None) -> None:
    """Settings or hosts alone are enough; nothing is said where no file speaks of RoCE."""
    found = describe(subnet_of(("roce", text)) if text else Subnet(), lambda kind, value: None)
    assert ("roce" in found) is bool(text)
    if text:
        assert {one["name"]: one["value"] for one in found["roce"]["settings"]} == settings
        assert [one["address"] for one in found["roce"]["hosts"]] == hosts


def test_lids_that_a_port_had() -> None:
    """A base of 0 means that it lost them."""
    subnet = Subnet()
    of, _ = subnet.node(7, 1)
    for frame, (lid, lmc) in enumerate(((5, 0), (8, 2), (0, 0), (9, 1)), 1):
        subnet.assign(subnet.port(of, 1, 1), lid, lmc, frame)
    port = port_of(describe(subnet, lambda kind, value: None))
    shown = [(one["lid"], one["lmc"], one["frame"]) for one in port["lid_history"]]
    assert shown == [(5, 0, 1), (8, 2, 2), (None, None, 3), (9, 1, 4)] and (port["lid"], port["lmc"]) == (9, 1)


def test_groups_stand_in_the_order_of_their_lids() -> None:
    """Those without a record come first, of one LID the lower GID."""
    subnet = Subnet()
    for mgid, mlid in ((3, 0xC001), (2, 0xC000), (1, 0xC001)):
        subnet.groups.learn(bytes(15) + bytes([mgid]), GroupFacts(mlid, 0xFFFF, 0, 4, 3, 0), 4)
    subnet.groups.by_mgid[b"\xff" * 16] = MulticastGroup(b"\xff" * 16, 4)
    found = describe(subnet, lambda kind, value: None)["groups"]
    assert [(one["mgid"][-1], one["mlid"]) for one in found] == [("f", None), ("2", 0xC000), ("1", 0xC001), ("3", 0xC001)]


def test_a_node_is_named_by_what_is_known_of_it() -> None:
    subnet = Subnet()
    of, _ = subnet.node(0, 1)
    assert node_name(of) == "node without NodeInfo"
    subnet.port(of, 0, 1)
    assert port_name(of.ports[0]) == "node without NodeInfo"
    subnet.assign(subnet.port(of, 1, 1), 7, 0, 1)
    assert port_name(of.ports[1]) == "LID 7, no NodeInfo port 1"
    of.guid = 0x17
    assert node_name(of) == "0x0000000000000017"
    of.name = b"  \0"
    assert node_name(of) == "0x0000000000000017"
    of.name = b" host 7 \0\0"
    assert port_name(of.ports[1]) == "host 7 port 1"


NOBODY_HIDES: Any = lambda kind, value: None  # noqa: E731


def end(kind: int, guid: int, lid: int = 0, number: int = 1, subnet: Subnet | None = None) -> Port:
    subnet = subnet or Subnet()
    of, _ = subnet.node(guid, 1)
    of.kind = kind
    port = subnet.port(of, number, 1)
    if lid:
        subnet.assign(port, lid, 0, 1)
    return port


@every(
    ("width", "active", "extended", "text", "speed"),
    [
        (1, 1, 0, "1x", "SDR"), (2, 2, 0, "4x", "DDR"), (4, 4, 0, "8x", "QDR"), (8, 4, 1, "12x", "FDR"), (16, 1, 2, "2x", "EDR"),
        (3, 0, 8, None, "NDR"), (0, 3, 0, None, None), (2, 4, 3, "4x", "QDR"),
    ],
)  # fmt: skip
def test_width_and_speed_in_words(width: int, active: int, extended: int, text: str | None, speed: str | None) -> None:
    """The extended speed, if the link uses one. A bit each: two of them are none."""
    info = port_info(2, link_width_active=width, link_speed_active=active, link_speed_ext_active=extended)
    port = port_of(described([answer(2, 0x11, node(2)), answer(2, 0x15, info)]))
    assert (port["link_width"], port["link_speed"]) == (text, speed)
    assert (port["link_width_active"], port["link_speed_active"], port["link_speed_ext_active"]) == (width, active, extended)


def test_switches_come_first_and_are_told_with_their_tables() -> None:
    subnet = Subnet()
    near, far = end(SWITCH, 0x50, 2, 0, subnet), end(CA, 0x10, 3, 1, subnet)
    switch_ = near.node
    switch_.system_guid, switch_.vendor_id, switch_.device_id, switch_.name, switch_.port_state_change = 0x51, 0x2C9, 0xCF08, b"edge", 1
    switch_.facts.learn(NodeFacts(8, 16), 4)
    switch_.switch.learn(SwitchFacts(1024, 0, 512, 0, 32, 1, 0, 1, 0, 0), 5)
    switch_.linear_top.learn(10, 5)
    tables = switch_.tables()
    tables.linear.learn(2, bytes([1, 1, 2, 255, 1]).ljust(64, b"\xff"), 7)
    tables.learn_random(3, b"\x07" * 64, 8)
    tables.learn_multicast(1, bytes([0, 0b110]).ljust(64, b"\0"), 9)
    port = subnet.port(switch_, 4, 6)
    port.face(far, 6)
    far.face(port, 6)
    found = describe(subnet, NOBODY_HIDES)
    assert found["counts"] == {
        "switches": 1, "channel_adapters": 1, "routers": 0, "unknown_nodes": 0, "ports": 3, "links": 1, "lids": 2,
    }  # fmt: skip
    assert found["links"] == [{"ends": [
        {"node": "0x0000000000000050", "name": "edge", "port": 4}, {"node": "0x0000000000000010", "name": None, "port": 1},
    ], "frame": 6}]  # fmt: skip
    assert [one["guid"][-2:] for one in found["nodes"]] == ["50", "10"]
    told = found["nodes"][0]
    ports = told.pop("ports")
    assert told == {
        "guid": "0x0000000000000050", "kind": "switch", "name": "edge", "system_image_guid": "0x0000000000000051", "vendor_id": 0x2C9,
        "device_id": 0xCF08, "num_ports": 8, "partition_cap": 16, "frame": 1,
        "switch": {
            "linear_fdb_cap": 1024, "random_fdb_cap": 0, "multicast_fdb_cap": 512, "optimized_sl_to_vl_mapping_programming": 0,
            "partition_enforcement_cap": 32, "inbound_enforcement_cap": 1, "outbound_enforcement_cap": 0, "enhanced_port_zero": 1,
            "filter_raw_inbound_cap": 0, "filter_raw_outbound_cap": 0, "linear_fdb_top": 10, "port_state_change": 1, "frame": 5,
        },
        "forwarding": {
            "linear": [{"port": 1, "lids": "128-129,132", "count": 3}, {"port": 2, "lids": "130", "count": 1}],
            "linear_blocks": [{"block": 2, "frame": 7}], "random": [{"block": 3, "entries": "07" * 64, "frame": 8}],
            "multicast": [{"lid": 0xC020, "ports": [1, 2]}],
        },
    }  # fmt: skip
    assert ports == [
        {"number": 0, "guid": None, "state": "unknown", "lid": 2, "lmc": 0, "lid_history": [{"lid": 2, "lmc": 0, "frame": 1}]},
        {"number": 4, "guid": None, "state": "unknown",
         "peer": {"node": "0x0000000000000010", "name": None, "port": 1, "frame": 6}},
    ]  # fmt: skip


def test_a_lid_that_nobody_has_any_more_is_none_of_the_subnet() -> None:
    subnet = Subnet()
    port = end(CA, 0x10, 5, subnet=subnet)
    subnet.assign(port, 6, 0, 4)
    subnet.drop(end(CA, 0x20, 7, subnet=subnet).node, 5)
    found = describe(subnet, NOBODY_HIDES)
    assert [(one["lid"], one["frame"]) for one in found["lids"]] == [(6, 4)] and found["counts"]["lids"] == 1
    subnet.assign(port, 0, 0, 6)
    (told,) = describe(subnet, NOBODY_HIDES)["nodes"][0]["ports"]
    assert "lid" not in told and told["lid_history"][-1] == {"lid": None, "lmc": None, "frame": 6}


def test_what_a_port_should_hold_and_what_a_block_held_before() -> None:
    """A block that was written and not shown since is unknown."""
    texts = (("guid2lid", f"{GUID + 0x51:#x} 0x5 0x5"), ("partitions.conf", "Default=0x7fff : ALL=full ;"))
    files = [KnownFile("guid2lid", 0), KnownFile("partitions.conf", 0)]
    sure, perhaps = {"key": 0xFFFF, "frame": 0, "source": "partitions.conf:1"}, {"key": 0x7FFF, "frame": 0, "source": "partitions.conf"}

    def told(*frames: bytes, listed: bool = False) -> dict[str, Any]:
        follower = FabricFollower()
        subnet_of(*texts if listed else (), subnet=follower.subnet)
        list(follower.feed(native_table([answer(5, 0x11, node(5, partition_cap=64)), *frames])))
        return port_of(describe(follower.subnet, NOBODY_HIDES, files))

    shown = [answer(5, P_KEY_TABLE, p_keys(0x8001), modifier=1), answer(5, P_KEY_TABLE, p_keys(0xFFFF))]
    write = ask(5, P_KEY_TABLE, method=SET, body=p_keys(0x8001))
    assert told(listed=True)["intended_p_keys"] == [perhaps, sure] and "p_keys" not in told(listed=True)
    subnet = Subnet()
    end(CA, 0x10, 5, subnet=subnet).p_keys = PKeys()
    for unknown in (told(), told(write), port_of(describe(subnet, NOBODY_HIDES))):
        assert not {"p_keys", "intended_p_keys"} & unknown.keys()
    for listed in (False, True):
        found = told(*shown, listed=listed)
        assert [(one["block"], one["frame"], one["indices"]) for one in found["p_keys"]] == [(0, 3, [0]), (1, 2, [32])]
        found = told(*shown, write, listed=listed)
        assert [one["block"] for one in found["p_keys"]] == [1] and "intended_p_keys" not in found


def test_lanes_of_each_input_port() -> None:
    subnet = Subnet()
    lanes = subnet.lanes(end(SWITCH, 0x10, number=3, subnet=subnet))
    for number in (0, 1, 255):
        lanes.learn_map(number, bytes([number]) * 8, 4)
    lanes.learn_arbitration(3, b"\x01" * 64, 5)
    told = describe(subnet, NOBODY_HIDES)["nodes"][0]["ports"][0]["qos"]
    maps = {number: f"{number:02x}" * 8 for number in (0, 1, 255)}
    assert told == {"sl_to_vl": maps, "vl_arbitration": [None, None, "01" * 64, None], "frame": 5}


@every(("state", "name"), [(0, "not active"), (1, "discovering"), (2, "standby"), (3, "master"), (4, "4")])
def test_a_manager_is_told_with_its_node(state: int, name: str) -> None:
    def says(guid: int, lid: int) -> bytes:
        info = craft.build(SMInfo, 64, guid=guid, act_count=1, priority=7, sm_state=state)
        return craft.smp(ANSWER, 0x20, info, slid=lid, dlid=9)

    shown = [answer(5, 0x11, node(5)), answer(5, 0x15, port_info(5), modifier=1), answer(5, 0x10, b"head".ljust(64, b"\0"))]
    first, second = described([*shown, says(0x11, 5), says(0x12, 6), says(0x11, 5)])["sms"]
    assert first == {
        "guid": "0x0000000000000011", "lid": 5, "state": name, "priority": 7, "frame": 4, "last_seen": 6, "former": False,
        "state_code": state, "node": "head",
    }  # fmt: skip
    assert (second["node"], second["former"]) == (None, state == 3), "of two masters the one seen last counts"


@pytest.mark.parametrize(("code", "gbps"), [(2, 2.5), (3, 10), (1, None)])
def test_a_q_key_and_a_rate_of_a_group(code: int, gbps: float | None) -> None:
    subnet = Subnet()
    subnet.groups.learn(b"\xff" * 16, GroupFacts(0xC000, 0xFFFF, 0xB1B, 4, code, 3), 4)
    shown, hidden = (describe(subnet, text)["groups"][0] for text in (NOBODY_HIDES, lambda kind, value: f"{kind}#1"))
    assert shown["q_key"] == {"value": 0xB1B, "text": "0x00000b1b"} and hidden["q_key"] == {"value": None, "text": "Q_Key#1"}
    assert (shown["rate"], shown["rate_gbps"], shown["mlid"], shown["p_key"], shown["sl"]) == (code, gbps, 0xC000, 0xFFFF, 3)


def test_a_capture_of_several_subnets_is_never_complete() -> None:
    subnet = Subnet()
    subnet.listed = line_number(0, 0)
    assert describe(subnet, NOBODY_HIDES)["complete"] == {"frame": subnet.listed}
    for kind in (KIND, ROUTE):
        subnet.contradictions.note(kind, 7, 1, 2, 5, certain=True)
    assert subnet.contradictions.mixed and describe(subnet, NOBODY_HIDES)["complete"] is None


def test_a_frame_is_no_line() -> None:
    """Frames stay as they are, and what has none gets none."""
    files = [KnownFile("a.conf", 0)]
    subnet = Subnet()
    end(CA, 0x10, 5, subnet=subnet)
    assert describe(subnet, NOBODY_HIDES, files) == describe(subnet, NOBODY_HIDES)
