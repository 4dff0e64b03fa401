"""`diff` says exactly what changed, and nothing where one side just knows less."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ibdissect.subnet.compare import changes, texts
from ibdissect.subnet.files import learn, read_files
from ibdissect.subnet.model import Subnet
from ibdissect.wire.sa_paths import MCMemberRecord
from ibdissect.wire.sm import SMInfo
from tests import commands
from tests.cases import every
from tests.conftest import SHARED
from tests.craft import build, erf_pcap, smp
from tests.subnet.files.made_files import subnet_of
from tests.subnet.files.samples import SAMPLES
from tests.subnet.made import ANSWER, SET, answer, ask, node, p_keys, port_info, switch
from tests.subnet.taught import taught
from tests.subnet.test_sa_answers import record

FABRICS = sorted((SHARED / "knowledge").glob("*/changes.json"))
DISCOVERED = SAMPLES["ibnetdiscover"]


def read(path: Path) -> Subnet:
    subnet = Subnet()
    learn(subnet, read_files([str(path)]).files)
    return subnet


def changed(before: Subnet, after: Subnet) -> dict[str, Any]:
    return {kind: list_ for kind, list_ in changes(before, after).items() if list_}


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


def p_key_tables(*blocks: tuple[int, ...], more: Sequence[bytes] = (), capacity: int = 64) -> Subnet:
    """A channel adapter that shows blocks of its P_Key table."""
    frames = [answer(5, 0x11, node(5, partition_cap=capacity))]
    frames += [answer(5, 0x16, p_keys(*keys), modifier=number) for number, keys in enumerate(blocks) if keys]
    return taught(*frames, *more).subnet


@pytest.mark.slow
def test_a_change_of_any_kind_may_fail_a_job(tmp_path: Path) -> None:
    """What JSON names, --fail-on knows."""
    for name, keys in (("a", (0xFFFF, 0x8001)), ("b", (0xFFFF, 0x8002))):
        frames = [answer(5, 0x11, node(5)), answer(5, 0x16, p_keys(*keys)), answer(5, 0x15, port_info(5))]
        (tmp_path / name).write_bytes(erf_pcap(frames))
    found = json.loads(commands.run("diff", "a", "b", "--format", "json", cwd=tmp_path).stdout)["counts"]
    assert {kind for kind, number in found.items() if number} >= {"pkeys_changed", "partitions_new", "partitions_gone"}
    for kind, status in (("lid_changed", 0), ("pkeys_changed", 1)):
        assert commands.run("diff", "a", "b", "--fail-on", kind, cwd=tmp_path).returncode == status
    refused = commands.run("diff", "a", "b", "--fail-on", "pkeys", cwd=tmp_path, text=True)
    assert refused.returncode == 2 and all(kind in refused.stderr for kind in found)


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


def test_ports_without_a_guid_and_external_ports_are_not_compared() -> None:
    frames = [answer(2, 0x11, switch(2)), answer(2, 0x15, port_info(0), modifier=1), answer(5, 0x11, node(5, port_guid=0))]
    found = changed(Subnet(), taught(*frames, answer(6, 0x11, node(6))).subnet)["new_ports"]
    assert [one["port_guid"][-4:] for one in found] == ["0020", "1061"]


def cabled(*pairs: tuple[int, int], others: Sequence[bytes] = ()) -> Subnet:
    """Some adapters, of which each first one of a pair finds the other one behind its port; 0: one that does not say who it is."""
    frames = [answer(lid, 0x11, node(lid)) for lid in (1, 2, 3, 4)]
    for number, pair in enumerate(pairs):
        for path, lid in zip(([], [1]), pair, strict=True):
            body = node(lid, node_guid=0, port_guid=0) if not lid else node(lid)
            frames.append(smp(ANSWER, 0x11, body, path=path, header={"transaction_id": (7 + number) << 32 | len(path)}))
    return taught(*frames, *others).subnet


def test_cables_are_compared_only_where_both_sides_know_any_between_known_nodes() -> None:
    """An end whose node nobody named is no cable to compare."""
    none, one, other = cabled(), cabled((1, 2)), cabled((3, 1))
    assert changed(none, one) == changed(one, none) == changed(one, cabled((2, 1))) == {}
    assert changed(cabled((2, 0)), one) == changed(one, cabled((2, 0))) == {}
    found = changed(one, other)
    ends = [[(end["node_guid"][-2], end["port"]) for end in found[kind][0]] for kind in ("links_gone", "links_new")]
    assert [sorted(pair) for pair in ends] == [[("1", 1), ("2", 1)], [("1", 1), ("3", 1)]]


PORT = "0x11 0x1 0x1"


@every(
    ("text", "known"),
    [
        ("Default=0x7fff : ALL=full ; X=0x10 : 0x11=full ;", ["0x7fff", "0x8010", "0xffff"]),
        ("Default=0x7fff : ALL=full ;", ["0x7fff", "0xffff"]), (None, None),
        ("Default=0x7fff : ALL ; X=0x10 : 0x11=full ;", None),
    ],
)  # fmt: skip
def test_what_a_port_should_hold_by_a_file(text: str | None, known: list[str] | None) -> None:
    """It counts only if all of it is certain: where the manager is, is not known."""
    files = [("guid2lid", PORT), *([("partitions.conf", text)] if text is not None else [])]
    (port,) = changes(Subnet(), subnet_of(*files))["new_ports"]
    assert port["pkeys"] == known


def test_blocks_of_which_only_some_are_certain() -> None:
    """The table of a port of a node of unknown type may be what a switch enforces there."""
    keys = "$ smpquery pkeys 3 1\n   0: 0xffff 0x0010 " + "0x0000 " * 6 + "\n32 pkeys capacity for this port"
    (port,) = changes(Subnet(), subnet_of(("smpquery", keys), ("guid2lid", "0x11 0x3 0x3")))["new_ports"]
    assert port["pkeys"] is None
    values = {"NodeType": "Channel Adapter", "NumPorts": 1, "SystemGuid": "0x10", "Guid": "0x10", "PortGuid": "0x11", "PartCap": 32,
              "DevId": 1, "LocalPort": 1, "VendorId": 1}  # fmt: skip
    info = "".join(f"{name}:...{value}\n" for name, value in values.items())
    known = subnet_of(("smpquery", f"# Node info: Lid 3\n{info}{keys}"), ("guid2lid", "0x11 0x3 0x3"))
    (port,) = changes(Subnet(), known)["new_ports"]
    assert port["pkeys"] == ["0x0010", "0xffff"]


@every(("capacity", "blocks", "whole"), [(32, 1, True), (33, 1, False), (33, 2, True), (64, 2, True), (65, 2, False), (0, 1, True)])
def test_partitions_are_new_only_where_the_whole_tables_were_known(capacity: int, blocks: int, whole: bool) -> None:
    """A table of unknown size is taken for one block."""
    before, after = p_key_tables(*[(0xFFFF,)] * blocks, capacity=capacity), p_key_tables((0xFFFF, 0x8005), capacity=capacity)
    assert changes(before, after)["partitions_new"] == ([{"partition": "0x0005"}] if whole else [])


def test_partitions_of_ports_of_which_only_a_file_speaks() -> None:
    sides = [subnet_of(("guid2lid", PORT), ("partitions.conf", text)) for text in ("Default=0x7fff : ALL=full ;",
             "Default=0x7fff : ALL=full ; X=5 : 0x11=full ;")]  # fmt: skip
    found = changes(*sides)
    assert found["partitions_new"] == [{"partition": "0x0005"}] and found["partitions_gone"] == []
    assert [(one["removed"], one["added"], one["lid_after"]) for one in found["pkeys_changed"]] == [([], ["0x8005"], 1)]


def test_m_keys_are_numbered_by_their_first_sight() -> None:
    """The same key has the same number; 0 is none."""

    def keyed(*keys: int | None) -> Subnet:
        frames = [answer(lid, 0x11, node(lid)) for lid in range(1, 6)]
        infos = [port_info(lid, m_key=key, m_key_lease_period=5) for lid, key in enumerate(keys, 1) if key is not None]
        lids = [lid for lid, key in enumerate(keys, 1) if key is not None]
        return taught(*frames, *(answer(lid, 0x15, info) for lid, info in zip(lids, infos, strict=True))).subnet

    told = [(one["before"], one["after"]) for one in changes(keyed(7, 0, 8, 5, None), keyed(8, 7, 0, 5, 7))["m_keys_changed"]]
    assert told == [("M_Key#1", "M_Key#2"), ("none", "M_Key#1"), ("M_Key#2", "none")]


def test_routes_that_stay_are_not_listed() -> None:
    """Of a switch that both sides know; tables that one side lacks are no change."""

    def routed(**ports: int) -> Subnet:
        body = bytes(ports.get(f"lid{lid}", 255) for lid in range(64))
        return taught(*(answer(lid, 0x11, switch(lid)) for lid in (1, 2)), *[answer(1, 0x19, body)] * bool(ports)).subnet

    one = routed(lid3=1, lid4=2, lid5=3)
    assert [change["lids"] for change in changes(one, routed(lid3=1, lid4=7, lid6=1))["routes_changed"]] == [
        [{"lid": 4, "before": 2, "after": 7}, {"lid": 5, "before": 3, "after": None}, {"lid": 6, "before": None, "after": 1}]
    ]
    assert changed(one, routed()) == changed(routed(), one) == changed(one, routed(lid3=1, lid4=2, lid5=3)) == {}


def test_only_masters_are_compared() -> None:
    def managed(**states: int) -> Subnet:
        return taught(*(answer(5, 0x20, build(SMInfo, 64, guid=ord(name), sm_state=state)) for name, state in states.items())).subnet

    assert changed(managed(a=3, b=2), managed(a=3, c=2)) == changed(managed(a=2), managed(b=3)) == changed(managed(a=3), managed(b=2)) == {}
    (change,) = changed(managed(a=3, b=2), managed(a=2, b=3))["managers_changed"]
    assert change == {"before": ["0x0000000000000061"], "after": ["0x0000000000000062"]}


@every(
    ("was", "now", "line"),
    [
        (b"ab", b"ac", "~ group  ff12::: 1 joined, 1 left"), (b"ab", b"abcd", "~ group  ff12::: 2 joined"),
        (b"ab", b"a", "~ group  ff12::: 1 left"),
        (b"ab", b"ba", None), (b"", b"a", None), (b"a", b"", None), (b"", b"", None),
    ],
)  # fmt: skip
def test_members_that_came_and_left(was: bytes, now: bytes, line: str | None) -> None:
    """Where one side knows no member, nobody knows who left."""
    sides = [
        taught(*(record(MCMemberRecord, mgid=b"\xff\x12" + bytes(14), port_gid=bytes([one]) * 16 if one else bytes(16), mlid=0xC000,
                        join_state=int(one > 0)) for one in members or b"\0")).subnet for members in (was, now)
    ]  # fmt: skip
    assert all(len(side.groups.by_mgid) == 1 for side in sides)
    assert [*texts(changes(*sides))] == ([line] if line else [])
