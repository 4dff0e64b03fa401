"""Does `diff` say exactly what changed, and nothing where one side just knows less?"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ibdissect.subnet.compare import KINDS, changes, texts
from ibdissect.subnet.files import learn, read_files
from ibdissect.subnet.model import Subnet
from tests.conftest import SHARED
from tests.subnet.files.made_files import subnet_of
from tests.subnet.files.samples import SAMPLES

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
