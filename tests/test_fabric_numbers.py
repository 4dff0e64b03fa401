"""Does `fabric` say of a sweep what the tools of the fabric's administrator wrote about it? Read here without code of ibdissect."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ibdissect.fabric import FabricFollower
from ibdissect.fabric.describe import describe
from ibdissect.session.reading import open_reading
from ibdissect.subnet.writing import ibnetdiscover

ALPHA = Path(__file__).parents[2] / "shared/knowledge/alpha"
pytestmark = [
    pytest.mark.slow, pytest.mark.skipif(not ALPHA.is_dir(), reason="there are no shared files"),
    pytest.mark.parametrize("state", ["before", "after", "lmc1"]),
]  # fmt: skip


@cache
def learnt(state: str) -> tuple[Any, dict[str, Any]]:
    follower = FabricFollower()
    with open_reading(str(ALPHA / state / "sweep.pcap")) as reading:
        for table in reading.tables(keys=False):
            for _ in follower.feed(table):
                pass
    return follower.subnet, describe(follower.subnet, lambda kind, value: None)


def ports(state: str) -> dict[tuple[int, int], dict[str, Any]]:
    """Each port by the LID of its node's end port and its number."""
    found = {}
    for node in learnt(state)[1]["nodes"]:
        own = next((port["lid"] for port in node["ports"] if port["number"] == 0), 0)
        for port in node["ports"]:
            found[own or port.get("lid", 0), port["number"]] = port | {"kind": node["kind"]}
    return found


def queried(state: str, what: str) -> dict[tuple[int, int], str]:
    """The outputs of smpquery by LID and port."""
    found = {}
    for path in (ALPHA / state / "diags" / f"smpquery-{what}").iterdir():
        lid, port = re.fullmatch(r"lid(\d+)-port(\d+)", path.stem).groups()  # type: ignore[union-attr]
        found[int(lid), int(port)] = path.read_text()
    return found


def keys_of(text: str) -> list[tuple[int, int]]:
    """Index and P_Key of the entries that are not zero."""
    rows = re.findall(r"^ *(\d+): ((?:0x[0-9a-f]{4} ?)+)", text, re.MULTILINE)
    every = [(int(first) + i, int(key, 16)) for first, row in rows for i, key in enumerate(row.split())]
    return [(index, key) for index, key in every if key & 0x7FFF]


def test_p_key_tables_with_their_indices(state: str) -> None:
    of = ports(state)
    compared = 0
    for place, text in queried(state, "pkeys").items():
        blocks = of[place].get("p_keys")
        if blocks is None:
            continue  # the sweep did not ask for it
        shown = [pair for block in blocks for pair in zip(block["indices"], block["keys"], strict=True)]
        assert shown == keys_of(text), place
        compared += 1
    assert compared >= 16


def test_members_are_end_ports(state: str) -> None:
    of = ports(state)
    full, limited = defaultdict[int, set[tuple[int, int]]](set), defaultdict[int, set[tuple[int, int]]](set)
    for place, text in queried(state, "pkeys").items():
        if of[place]["kind"] != "switch" or place[1] == 0:
            for _, key in keys_of(text):
                (full if key & 0x8000 else limited)[key & 0x7FFF].add(place)
    shown = {
        one["partition"]: (sum(member["full"] for member in one["members"]), sum(not member["full"] for member in one["members"]))
        for one in learnt(state)[1]["partitions"] if one["members"]
    }  # fmt: skip
    assert shown == {number: (len(full[number]), len(limited[number])) for number in {*full, *limited}}


def test_ports(state: str) -> None:
    of = ports(state)
    speeds = {"2.5 Gbps": "SDR", "5.0 Gbps": "DDR", "10.0 Gbps": "QDR", "14.0625 Gbps": "FDR", "25.78125 Gbps": "EDR", "53.125 Gbps": "HDR"}
    compared = 0
    for place, text in queried(state, "portinfo").items():
        values = {name: value.strip(".") for name, value in re.findall(r"^(\w+):\.*(.*)$", text, re.MULTILINE)}
        port = of.get(place)
        if port is None or "physical_state" not in port:
            continue
        extended = speeds.get(values.get("LinkSpeedExtActive", ""))
        wanted = {
            "state": values["LinkState"], "physical_state_name": values["PhysLinkState"], "neighbor_mtu": int(values["NeighborMTU"]),
            "link_width": values["LinkWidthActive"].lower(), "link_speed": extended or speeds[values["LinkSpeedActive"]],
            "operational_vls_name": re.sub("-", "-VL", values["OperVLs"]),
        }  # fmt: skip
        if place[1] == 0:  # a switch's own port has no link
            wanted = {"state": values["LinkState"]}
        elif values["LinkState"] == "Down":
            continue
        assert {name: port[name] for name in wanted} == wanted, place
        if of[place]["kind"] != "switch" or not place[1]:
            assert (port["lid"], port["lmc"]) == (int(values["Lid"]), int(values["LMC"]))
        compared += 1
    assert compared >= 16


def test_the_topology(state: str) -> None:
    def lines(text: str) -> set[str]:
        return {re.sub(r"\s+", " ", line) for line in text.splitlines() if line and not line.startswith("#")}

    theirs = lines((ALPHA / state / "diags/ibnetdiscover.txt").read_text())
    assert lines("\n".join(ibnetdiscover(learnt(state)[0]))) == theirs


def test_forwarding(state: str) -> None:
    nodes = {node["guid"]: node for node in learnt(state)[1]["nodes"]}
    text = (ALPHA / state / "opensm/opensm-lfts.dump").read_text()
    for block in text.split("Unicast lids")[1:]:
        guid = re.search(r"guid (0x\w+)", block).group(1)  # type: ignore[union-attr]
        wanted = {(int(lid, 16), int(port)) for lid, port in re.findall(r"^(0x\w{4}) (\d{3}) #", block, re.MULTILINE)}
        shown = set()
        for entry in nodes[guid]["forwarding"]["linear"]:
            for part in entry["lids"].split(","):
                low, _, high = part.partition("-")
                shown |= {(lid, entry["port"]) for lid in range(int(low), int(high or low) + 1)}
        assert wanted <= shown, guid


def test_lids(state: str) -> None:
    of = {port["guid"]: port for port in ports(state).values() if port.get("lid")}
    text = (ALPHA / state / "opensm/cache/guid2lid").read_text()
    for guid, low, high in re.findall(r"^(0x\w{16}) (0x\w{4}) (0x\w{4})", text, re.MULTILINE):
        if guid in of:
            assert (of[guid]["lid"], of[guid]["lid"] + (1 << of[guid]["lmc"]) - 1) == (int(low, 16), int(high, 16))


def records(state: str, what: str) -> list[dict[str, str]]:
    """The records of an output of saquery, each as its lines of the form name....value."""
    text = (ALPHA / state / "diags" / f"saquery-{what}.txt").read_text()
    every = re.split(r"^\w[\w ]* dump:$", text, flags=re.MULTILINE)[1:]
    return [dict(re.findall(r"^\s*(\w+)\.{2,}(.*)$", one, re.MULTILINE)) for one in every]


def lids_of(state: str) -> dict[int, tuple[str, int]]:
    """The node and port of each base LID; all LIDs of a port."""
    found = {}
    for entry in learnt(state)[1]["lids"]:
        found[entry["lid"]] = entry["node"], entry["port"]
    return found


def test_nodes_as_the_subnet_administration_has_them(state: str) -> None:
    nodes = {node["guid"]: node for node in learnt(state)[1]["nodes"]}
    kinds = {"Channel Adapter": "channel adapter", "Switch": "switch", "Router": "router"}
    told = records(state, "N")
    for one in told:
        node = nodes[one["node_guid"]]
        assert node["kind"] == kinds[one["node_type"]] and node["name"] == one["NodeDescription"], one
        wanted = [int(one[name], 16) for name in ("partition_cap", "device_id", "vendor_id")] + [int(one["num_ports"])]
        assert [node[name] for name in ("partition_cap", "device_id", "vendor_id", "num_ports")] == wanted
        assert node["system_image_guid"] == one["sys_guid"] and lids_of(state)[int(one["lid"])][0] == one["node_guid"]
    assert {one["node_guid"] for one in told} == nodes.keys()


def test_links_as_the_subnet_administration_has_them(state: str) -> None:
    place = lids_of(state)
    shown = {tuple((end["node"], end["port"]) for end in link["ends"]) for link in learnt(state)[1]["links"]}
    told = {
        ((place[int(one["FromLID"])][0], int(one["FromPort"])), (place[int(one["ToLID"])][0], int(one["ToPort"])))
        for one in records(state, "LR")
    }
    more = {frozenset(link) for link in shown} - {frozenset(link) for link in told}
    assert {frozenset(link) for link in told} <= {frozenset(link) for link in shown} and told
    assert len(more) == (state == "lmc1")  # where saquery of that state leaves one out that ibnetdiscover has


def test_switches_as_the_subnet_administration_has_them(state: str) -> None:
    nodes, place = {node["guid"]: node for node in learnt(state)[1]["nodes"]}, lids_of(state)
    names = {
        "LinearFDBCap": "linear_fdb_cap", "RandomFDBCap": "random_fdb_cap", "MulticastFDBCap": "multicast_fdb_cap",
        "LinearFDBTop": "linear_fdb_top", "PartitionEnforcementCap": "partition_enforcement_cap",
    }  # fmt: skip
    told = records(state, "SWIR")
    for one in told:
        switch = nodes[place[int(one["LID"])][0]]["switch"]
        compared = {theirs: switch[ours] for theirs, ours in names.items() if theirs in one}
        assert compared == {name: int(one[name], 16) for name in compared} and len(compared) >= 4
    assert len(told) == learnt(state)[1]["counts"]["switches"]


def test_ports_as_hosts_have_them(state: str) -> None:
    """What the kernel of each host shows of its port: /sys/class/infiniband."""
    of = {node["guid"]: node for node in learnt(state)[1]["nodes"]}
    compared = 0
    for path in (ALPHA / state / "diags/sysfs").glob("*-port.txt"):
        told = dict(re.findall(r"^==> \S+?/(\w+) <==\n(.*)$", path.read_text(), re.MULTILINE))
        node = of["0x" + told["node_guid"].replace(":", "")]
        (port,) = [one for one in node["ports"] if one["number"] == 1]
        assert port["state"].upper() == told["state"].split(": ")[1], path
        assert (port["lid"], port["lmc"], port["master_sm_lid"]) == (
            int(told["lid"], 16), int(told["lid_mask_count"]), int(told["sm_lid"], 16)
        )  # fmt: skip
        compared += 1
    assert compared >= 12
