"""`diff` says exactly what changed, and nothing where one side just knows less."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ibdissect.subnet import FabricFollower
from ibdissect.subnet.compare import KINDS, changes, known_p_keys, texts
from ibdissect.subnet.file_lines import doubtful, line_number
from ibdissect.subnet.files import learn, read_files
from ibdissect.subnet.m_keys import MKey, MKeyState
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.multicast_groups import GroupFacts
from ibdissect.subnet.nodes import Port, SmFacts
from ibdissect.subnet.p_keys import Membership, PKeys, block_of
from tests.conftest import SHARED
from tests.decode.made import native_table
from tests.standard import CA, SWITCH
from tests.subnet.files.made_files import subnet_of
from tests.subnet.files.samples import SAMPLES
from tests.subnet.made import SET, answer, ask, node, p_keys

FABRICS = sorted((SHARED / "knowledge").glob("*/changes.json"))
DISCOVERED = SAMPLES["ibnetdiscover"]


def read(path: Path) -> Subnet:
    subnet = Subnet()
    learn(subnet, read_files([str(path)]).files)
    return subnet


def changed(before: Subnet, after: Subnet) -> dict[str, Any]:
    found = changes(before, after)
    assert found.keys() <= set(KINDS)
    return {kind: list_ for kind, list_ in found.items() if list_}


def without_names(value: Any) -> Any:
    """A node name map may have replaced them."""
    if isinstance(value, dict):
        return {key: without_names(one) for key, one in value.items() if key not in ("name", "node", "switch")}
    return [without_names(one) for one in value] if isinstance(value, list) else value


@pytest.mark.slow
@pytest.mark.parametrize("truth", FABRICS, ids=lambda truth: truth.parent.name)
def test_a_real_change(truth: Path, shared: Path) -> None:
    said = json.loads(truth.read_text())
    sides = [truth.with_name(said[side]) for side in ("before", "after")]
    lists = {kind: without_names(value) for kind, value in said.items() if isinstance(value, list)}
    read_once = {(side, of): read(side / of) for side in sides for of in ("", "sweep.pcap")}
    for first, second in product(("", "sweep.pcap"), repeat=2):  # files, captures, and one of each
        found = changes(read_once[sides[0], first], read_once[sides[1], second])
        assert {kind: without_names(found[kind]) for kind in lists} == lists
        assert not found["m_keys_changed"] + found["managers_changed"] + found["partitions_gone"]
    for side in sides:
        assert changed(read_once[side, ""], read_once[side, "sweep.pcap"]) == {}


def test_a_port_that_left_stays_in_caches() -> None:
    at = DISCOVERED.index("\nvendid=0x2c9\ndevid=0x1017\nsysimgguid=0x2c903000000b0")
    left = DISCOVERED[:at].replace('[2]\t"H-0002c903000000b0"[1](2c903000000b1) \t\t# "host B" lid 4 4xEDR\n', "")
    caches = [(kind, SAMPLES[kind]) for kind in ("guid2lid", "guid2mkey")]
    cable = ("neighbors", "0x0002c903000000b1:1 0x0002c90200400010:2\n")
    found = changed(subnet_of(*caches, cable, ("ibnetdiscover", DISCOVERED)), subnet_of(*caches, cable, ("ibnetdiscover", left)))
    assert found.keys() == {"gone_nodes", "gone_ports", "links_gone"}
    assert found["gone_ports"][0]["port_guid"] == "0x0002c903000000b1"
    assert [line[0] for line in texts(found)] == ["-", "-", "-"]


def test_what_one_side_does_not_know_is_no_change() -> None:
    files = [(kind, text) for kind, text in SAMPLES.items() if kind not in ("capture", "json", "sysfs", "partitions.conf")]
    assert changed(subnet_of(("ibnetdiscover", DISCOVERED)), subnet_of(*files)) == {}


def test_keys_managers_groups_and_routes() -> None:
    before = [(kind, SAMPLES[kind]) for kind in ("ibnetdiscover", "guid2mkey", "sminfo", "sa.dump", "fdbs", "saquery")]
    after = [(kind, text) for kind, text in before]
    after[1] = ("guid2mkey", SAMPLES["guid2mkey"].replace("1122334455667788", "0000000000000000"))
    after[2] = ("sminfo", SAMPLES["sminfo"].replace("a1,", "b1,"))
    after[3] = ("sa.dump", SAMPLES["sa.dump"].replace("00a1 scope", "00b1 scope"))
    after[4] = ("fdbs", SAMPLES["fdbs"].replace(": 001 ", ": 007 "))
    after[5] = ("saquery", SAMPLES["saquery"].replace("0x8010", "0x0010"))
    found = changed(subnet_of(*before), subnet_of(*after))
    assert [(one["before"], one["after"]) for one in found.pop("m_keys_changed")] == [("M_Key#1", "none")]
    assert [(one["removed"], one["added"]) for one in found.pop("pkeys_changed")] == [(["0x8010"], ["0x0010"])]
    assert [one["lids"] for one in found.pop("routes_changed")] == [[{"lid": 3, "before": 1, "after": 7}]]
    assert [(len(one["joined"]), len(one["left"])) for one in found.pop("groups_changed")] == [(1, 1)]
    assert found.keys() == {"managers_changed"}


def kinds_of(names: str) -> list[tuple[str, str]]:
    return [(kind, SAMPLES[kind]) for kind in names.split()]


def test_every_kind_of_change_in_words() -> None:
    """Host B is replaced by a host without a name, host A has another LID, another host is the manager, another group is left."""
    later = DISCOVERED.replace("lid 3 ", "lid 7 ").replace("000000b", "000000c").replace("host B", "")
    sm = SAMPLES["sminfo"].replace("a1,", "c1,")
    group = SAMPLES["sa.dump"].replace("00ffffffff", "00fffffff0")
    routes = SAMPLES["fdbs"].replace(": 001 ", ": 007 ") + "0x0005 : 002  : 01   : yes\n"
    found = changes(
        subnet_of(*kinds_of("ibnetdiscover sminfo sa.dump fdbs saquery")),
        subnet_of(("ibnetdiscover", later), ("sminfo", sm), ("sa.dump", group), ("fdbs", routes)),
    )
    assert [*texts(found)] == [
        "+ node  ? (0x0002c903000000c0)",
        "- node  host B (0x0002c903000000b0)",
        "+ port  ? port 1 (0x0002c903000000c1) LID 4 at edge 1 port 2",
        "- port  host B port 1 (0x0002c903000000b1) LID 4 at edge 1 port 2",
        '~ LID  host A, "fast" lid 99 port 1 (0x0002c903000000a1) had 3, has 7',
        "- link  edge 1 port 2 and host B port 1",
        "+ link  edge 1 port 2 and 0x0002c903000000c0 port 1",
        "~ routes  edge 1: 2 LIDs",
        "~ master SM  was 0x0002c903000000a1, is 0x0002c903000000c1",
        "+ group  ff12:401b:ffff::ffff:fff0",
        "- group  ff12:401b:ffff::ffff:ffff",
    ]
    at = {"switch": "edge 1", "switch_guid": "0x0002c90200400010", "port": 2}
    gone = {"port_guid": "0x0002c903000000b1", "node": "host B", "port": 1, "lid": 4, "lmc": 0, "pkeys": ["0x7fff", "0x8010"], "at": at}
    assert found["gone_ports"] == [gone] and found["new_ports"][0]["pkeys"] is None
    assert found["routes_changed"][0]["lids"] == [{"lid": 3, "before": 1, "after": 7}, {"lid": 5, "before": None, "after": 2}]


def test_a_port_at_another_place() -> None:
    """The same switch but another port; another switch but the same port."""
    for at, place in (('[3]\t"H-0002c903000000b0', "edge 1 port 3"), ('[2]\t"H-0002c903000000b0', "0x0002c90200400099 port 2")):
        later = DISCOVERED.replace('[2]\t"H-0002c903000000b0', at).replace('"S-0002c90200400010"[2]', f'"S-0002c90200400010"[{at[1]}]')
        if "99" in place:
            later = later.replace("2c90200400010", "2c90200400099").replace("edge 1", "")
        lines = [*texts({"moved": changes(subnet_of(("ibnetdiscover", DISCOVERED)), subnet_of(("ibnetdiscover", later)))["moved"]})]
        assert lines[-1] == f"~ cable  host B port 1 (0x0002c903000000b1) moved from edge 1 port 2 to {place}"
        assert len(lines) == (2 if "99" in place else 1)


def p_key_tables(*blocks: tuple[int, ...], more: Sequence[bytes] = ()) -> Subnet:
    """A channel adapter that shows blocks of its P_Key table."""
    follower = FabricFollower()
    frames = [answer(5, 0x11, node(5, partition_cap=64))]
    frames += [answer(5, 0x16, p_keys(*keys), modifier=number) for number, keys in enumerate(blocks) if keys]
    frames += more
    for _ in follower.feed(native_table(frames)):
        pass
    return follower.subnet


def test_p_keys_are_compared_in_blocks_that_both_sides_know() -> None:
    """An entry without a base key is none, in either form. No partition is new that may be in the block of the table that is not known."""
    one, both = p_key_tables((0xFFFF, 0x8001)), p_key_tables((0xFFFF, 0x8002, 0x8000), (0x8003,))
    (change,) = changed(one, both)["pkeys_changed"]
    assert (change["removed"], change["added"], change["lid_after"]) == (["0x8001"], ["0x8002"], 5)
    assert [*texts({"pkeys_changed": [change]})] == ["~ P_Keys  ? port 1 (0x0002c90300001051) lost 0x8001, got 0x8002"]
    assert changed(p_key_tables((0xFFFF,), (0x8003,)), p_key_tables((0xFFFF, 0x8000), (0x8003,))) == {}
    assert changed(p_key_tables((), (0x8003,)), p_key_tables((0xFFFF,))) == {}, "no block is known on both sides"
    assert [*changed(p_key_tables((), (0x8003,)), p_key_tables((0xFFFF,), (0x8004,)))] == ["pkeys_changed", "partitions_gone"]


def test_a_block_that_was_written_and_not_shown_since_is_unknown() -> None:
    written = ask(5, 0x16, method=SET, body=p_keys(0x8009), modifier=0)
    before, after = ((0xFFFF, 0x8001), (0x8003,)), p_key_tables((0xFFFF, 0x8001), (0x8003,), more=[written])
    assert changed(p_key_tables(*before), after) == changed(after, p_key_tables(*before)) == {}


def test_partitions_that_came_and_went() -> None:
    found = changed(p_key_tables((0xFFFF, 0x8001, 0x0003), (0,)), p_key_tables((0x7FFF, 0x0002, 0x8003), (0,)))
    assert [*texts(found)][1:] == ["+ partition  0x0002", "- partition  0x0001"]
    assert "partitions_new" not in changed(p_key_tables(), p_key_tables((0x8002,))), "nobody knows which there were"


def test_a_port_of_which_nothing_else_is_known() -> None:
    port = changes(Subnet(), subnet_of(("neighbors", SAMPLES["neighbors"])))["new_ports"][0]
    assert (port["lid"], port["lmc"], port["pkeys"]) == (None, 0, None)


def adapter(subnet: Subnet, guid: int, lid: int = 0) -> Port:
    port = subnet.port(subnet.node(guid, 1)[0], 1, 1)
    port.node.kind, port.guid = CA, guid + 1
    subnet.assign(port, lid, 0, 1)
    return port


def test_ports_without_a_guid_and_external_ports_are_not_compared() -> None:
    subnet = Subnet()
    switch, _ = subnet.node(0x50, 1)
    switch.kind = SWITCH
    for number, guid in ((0, 0x50), (1, 0x50), (2, 0x52)):
        subnet.port(switch, number, 1).guid = guid
    adapter(subnet, 0x10).guid = 0
    adapter(subnet, 0x20)
    assert [one["port_guid"] for one in changed(Subnet(), subnet)["new_ports"]] == [f"0x{guid:016x}" for guid in (0x21, 0x50)]


def test_cables_are_compared_only_where_both_sides_know_any_between_known_nodes() -> None:
    """An end whose node nobody named is no cable to compare."""

    def cabled(*pairs: tuple[int, int]) -> Subnet:
        subnet = Subnet()
        for guid in (0x10, 0x20, 0x30, 0x40):
            adapter(subnet, guid)
        for one, other in pairs:
            near, far = (subnet.port(subnet.node(guid, 1)[0], 1, 1) for guid in (one, other))
            near.face(far, 1)
            far.face(near, 1)
        return subnet

    none, one, other = cabled(), cabled((0x10, 0x20)), cabled((0x30, 0x10))
    assert changed(none, one) == changed(one, none) == changed(one, cabled((0x20, 0x10))) == {}
    assert changed(cabled((0, 0x20)), one) == changed(one, cabled((0x20, 0))) == {}
    found = changed(one, other)
    ends = [[(end["node_guid"][-2:], end["port"]) for end in found[kind][0]] for kind in ("links_gone", "links_new")]
    assert ends == [[("10", 1), ("20", 1)], [("10", 1), ("30", 1)]]


@pytest.mark.parametrize(
    ("lines", "known"),
    [({0x8001: 4}, ({0x8001}, set())), ({0x8001: 4, 0x8002: 5}, ({0x8001, 0x8002}, set())), ({}, (set(), set())), (None, None)],
)
def test_what_a_port_should_hold_by_a_file(lines: dict[int, int] | None, known: Any) -> None:
    """It counts only if all of it is certain; of a table that was read, the certain blocks count."""
    port = adapter(Subnet(), 0x10)
    assert known_p_keys(port) is None
    port.p_keys = PKeys()
    assert known_p_keys(port) is None
    if lines is not None:
        port.p_keys.intended = Membership({key: line_number(0, line) for key, line in lines.items()}, {}, line_number(0, 0))
    assert known_p_keys(port) == known
    for doubted in lines or ():
        port.p_keys.intended = Membership(
            {key: doubtful(line) if key == doubted else line for key, line in port.p_keys.intended.keys.items()}, {}, line_number(0, 0)
        )
        assert known_p_keys(port) is None


def test_blocks_of_which_only_some_are_certain() -> None:
    port = adapter(Subnet(), 0x10)
    port.p_keys = PKeys()
    port.p_keys.learn(0, block_of([0xFFFF]), doubtful(line_number(0, 3)))
    assert known_p_keys(port) is None
    port.p_keys.learn(1, block_of([0x8001, 0x8000]), line_number(0, 4))
    assert (
        known_p_keys(port) == ({0x8001}, {1}) and known_p_keys(port, {0}) == (set(), {1}) and known_p_keys(port, {1, 7}) == ({0x8001}, {1})
    )


@pytest.mark.parametrize(
    ("capacity", "blocks", "whole"), [(32, 1, True), (33, 1, False), (33, 2, True), (64, 2, True), (65, 2, False), (0, 1, True)]
)
def test_partitions_are_new_only_where_the_whole_tables_were_known(capacity: int, blocks: int, whole: bool) -> None:
    """A table of unknown size is taken for one block."""
    before, after = Subnet(), Subnet()
    for subnet, keys in ((before, [[0xFFFF]] * blocks), (after, [[0xFFFF, 0x8005]])):
        port = adapter(subnet, 0x10, 5)
        port.p_keys = PKeys()
        port.p_keys.size = capacity
        for number, block in enumerate(keys):
            port.p_keys.learn(number, block_of(block), 3)
    assert changes(before, after)["partitions_new"] == ([{"partition": "0x0005"}] if whole else [])


def test_partitions_of_ports_of_which_only_a_file_speaks() -> None:
    subnets = [Subnet(), Subnet()]
    for subnet, keys in zip(subnets, ([0xFFFF], [0xFFFF, 0x8005]), strict=True):
        port = adapter(subnet, 0x10)
        port.p_keys = PKeys()
        port.p_keys.intended = Membership({key: line_number(0, 3) for key in keys}, {}, line_number(0, 0))
    assert changes(*subnets)["partitions_new"] == [{"partition": "0x0005"}] and changes(*subnets)["partitions_gone"] == []
    found = changes(*subnets)["pkeys_changed"]
    assert [(one["removed"], one["added"], one["lid_after"]) for one in found] == [([], ["0x8005"], None)]


def test_m_keys_are_numbered_by_their_first_sight() -> None:
    """The same key has the same number; 0 is none."""
    sides = [Subnet(), Subnet()]
    for subnet, keys in zip(sides, ([7, 0, 8, 5, None], [8, 7, 0, 5, 7]), strict=True):
        for number, key in enumerate(keys):
            if key is not None:
                port = adapter(subnet, 0x10 * (number + 1), number + 1)
                port.guard = MKeyState()
                port.guard.held.learn(MKey(key, 0, 0), 1)
            else:
                adapter(subnet, 0x10 * (number + 1), number + 1)
    told = [(one["before"], one["after"]) for one in changes(*sides)["m_keys_changed"]]
    assert told == [("M_Key#1", "M_Key#2"), ("none", "M_Key#1"), ("M_Key#2", "none")]


def test_routes_that_stay_are_not_listed() -> None:
    """Of a switch that both sides know; tables that one side lacks are no change."""

    def routed(**ports: int) -> Subnet:
        subnet = Subnet()
        for guid in (0x10, 0x20):
            subnet.node(guid, 1)[0].kind = SWITCH
        if ports:
            body = bytes(ports.get(f"lid{lid}", 255) for lid in range(64))
            subnet.nodes[0x10].tables().linear.learn(0, body, 1)
        subnet.nodes[0x20].tables()
        return subnet

    one = routed(lid3=1, lid4=2, lid5=3)
    assert [change["lids"] for change in changes(one, routed(lid3=1, lid4=7, lid6=1))["routes_changed"]] == [
        [{"lid": 4, "before": 2, "after": 7}, {"lid": 5, "before": 3, "after": None}, {"lid": 6, "before": None, "after": 1}]
    ]
    assert changed(one, routed()) == changed(routed(), one) == changed(one, routed(lid3=1, lid4=2, lid5=3)) == {}


def test_only_masters_are_compared() -> None:
    def managed(**states: int) -> Subnet:
        subnet = Subnet()
        for name, state in states.items():
            sm = subnet.sm(ord(name))
            sm.facts.learn(SmFacts(state, 1, 0), 1)
        return subnet

    assert changed(managed(a=3, b=2), managed(a=3, c=2)) == changed(managed(a=2), managed(b=3)) == changed(managed(a=3), managed(b=2)) == {}
    (change,) = changed(managed(a=3, b=2), managed(a=2, b=3))["managers_changed"]
    assert change == {"before": ["0x0000000000000061"], "after": ["0x0000000000000062"]}


@pytest.mark.parametrize(
    ("was", "now", "line"),
    [
        (b"ab", b"ac", "~ group  ff12::: 1 joined, 1 left"), (b"ab", b"abcd", "~ group  ff12::: 2 joined"),
        (b"ab", b"a", "~ group  ff12::: 1 left"),
        (b"ab", b"ba", None), (b"", b"a", None), (b"a", b"", None), (b"", b"", None),
    ],
)  # fmt: skip
def test_members_that_came_and_left(was: bytes, now: bytes, line: str | None) -> None:
    """Where one side knows no member, nobody knows who left."""
    sides = [Subnet(), Subnet()]
    for subnet, members in zip(sides, (was, now), strict=True):
        group = subnet.groups.learn(b"\xff\x12" + bytes(14), GroupFacts(0xC000, 0xFFFF, 0, 4, 3, 0), 1)
        for one in members:
            subnet.groups.join(group, bytes([one]) * 16, 1, 1)
    assert [*texts(changes(*sides))] == ([line] if line else [])
