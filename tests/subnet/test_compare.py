"""`diff` says exactly what changed, and nothing where one side just knows less."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ibdissect.subnet import FabricFollower
from ibdissect.subnet.compare import KINDS, changes, texts
from ibdissect.subnet.files import learn, read_files
from ibdissect.subnet.model import Subnet
from tests.conftest import SHARED
from tests.decode.made import native_table
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
