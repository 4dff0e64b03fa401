"""`fabric` prints of a sweep what the fabric's tools print of the same ports. Their text is read here, without code of ibdissect."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run
from tests.conftest import SHARED

STATES = sorted(sweep.parent for sweep in (SHARED / "knowledge").glob("*/*/sweep.pcap"))
LINE = re.compile(r"^(\w+):\.*(.*)$", re.MULTILINE)
NUMBERED = re.compile(r"lid(\d+)(?:-port(\d+))?\.txt$")
ROUTE = re.compile(r"^0x([0-9a-f]{4}) (\d{3}) :", re.MULTILINE)
SWITCH = re.compile(r"of switch .*?guid (0x[0-9a-f]{16})")
LINK = re.compile(
    r"^(?:CA|SW|RT) +\d+ +(\d+) (0x[0-9a-f]{16}) (\d+x) (\w+) - (?:CA|SW|RT) +\d+ +(\d+) (0x[0-9a-f]{16}) \( '(.*)' - '(.*)' \)$",
    re.MULTILINE,
)
ROW = re.compile(r"^ *(\d+): ((?:0x[0-9a-f]{4} ?)+)$", re.MULTILINE)
pytestmark = [pytest.mark.slow, pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)]


@cache
def told(state: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("fabric", str(state / "sweep.pcap"), "--format", "json", "--show-keys").stdout)
    return found


def ports(fabric: dict[str, Any]) -> dict[tuple[int, int], tuple[dict[str, Any], dict[str, Any]]]:
    """Node and port by LID and number, as the tools ask for them: all ports of a switch by the LID of its port 0."""
    found = {}
    nodes = {node["guid"]: node for node in fabric["nodes"]}
    for one in fabric["lids"]:
        node = nodes[one["node"]]
        for port in node["ports"]:
            if node["kind"] == "switch" or port["number"] == one["port"]:
                found[one["lid"], port["number"]] = node, port
    return found


def files(state: Path, folder: str) -> dict[tuple[int, int], str]:
    """The texts of a folder by LID and port."""
    found = {}
    for path in sorted((state / "diags" / folder).iterdir()):
        number = NUMBERED.search(path.name)
        assert number is not None
        found[int(number[1]), int(number[2] or 0)] = path.read_text()
    assert found
    return found


def test_nodes_and_their_names(state: Path) -> None:
    fabric = told(state)
    known, kinds = ports(fabric), {"Channel Adapter": "channel adapter", "Switch": "switch"}
    for (lid, _), text in files(state, "smpquery-nodeinfo").items():
        said = dict(LINE.findall(text))
        node = next(node for (other, _), (node, _) in known.items() if other == lid)
        shown = [node[name] for name in ("guid", "system_image_guid", "num_ports", "partition_cap", "device_id", "vendor_id", "kind")]
        assert shown == [
            said["Guid"], said["SystemGuid"], int(said["NumPorts"]), int(said["PartCap"]), int(said["DevId"], 16),
            int(said["VendorId"], 16),
            kinds[said["NodeType"]],
        ]  # fmt: skip
    names = re.findall(r'^(?:Ca|Switch)\t: (0x[0-9a-f]{16}) ports (\d+) "(.*)"', (state / "diags/ibnodes.txt").read_text(), re.MULTILINE)
    assert sorted(names) == sorted((node["guid"], str(node["num_ports"]), node["name"]) for node in fabric["nodes"]) and names


def test_ports(state: Path) -> None:
    known = ports(told(state))
    for (lid, number), text in files(state, "smpquery-portinfo").items():
        said, (node, port) = dict(LINE.findall(text)), known[lid, number]
        external = node["kind"] == "switch" and number > 0
        if not external:
            shown = port["lid"], port["lmc"], port["master_sm_lid"], port["capability_mask"]
            assert shown == (int(said["Lid"]), int(said["LMC"]), int(said["SMLid"]), int(said["CapMask"], 16))
        assert port["gid_prefix"] == said["GidPrefix"]
        assert (port["state"], port["physical_state_name"], port["link_width"]) == (
            said["LinkState"], said["PhysLinkState"], said["LinkWidthActive"].lower()
        )  # fmt: skip
        assert port["neighbor_mtu"] == int(said["NeighborMTU"])
        assert port["operational_vls_name"].replace("-VL", "-") == said["OperVLs"]


def test_switches_and_their_routes(state: Path) -> None:
    fabric = told(state)
    known = ports(fabric)
    names = {
        "LinearFdbCap": "linear_fdb_cap", "RandomFdbCap": "random_fdb_cap", "McastFdbCap": "multicast_fdb_cap",
        "LinearFdbTop": "linear_fdb_top",
        "PartEnforceCap": "partition_enforcement_cap", "InboundPartEnf": "inbound_enforcement_cap", "EnhancedPort0": "enhanced_port_zero",
        "OutboundPartEnf": "outbound_enforcement_cap", "FilterRawInbound": "filter_raw_inbound_cap",
        "OptSLtoVLMapping": "optimized_sl_to_vl_mapping_programming", "FilterRawOutbound": "filter_raw_outbound_cap",
    }  # fmt: skip
    for (lid, _), text in files(state, "smpquery-switchinfo").items():
        said, switch = dict(LINE.findall(text)), known[lid, 0][0]["switch"]
        assert {name: switch[ours] for name, ours in names.items()} == {name: int(said[name]) for name in names}
    routes = {(node["guid"], lid): entry["port"] for node in fabric["nodes"] for entry in node.get("forwarding", {}).get("linear", ())
              for part in entry["lids"].split(",") for lid in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)}  # fmt: skip
    for text in (
        *files(state, "ibroute").values(),
        *re.split(r"(?=^Unicast lids)", (state / "diags/dump_lfts.txt").read_text(), flags=re.M),
    ):
        of = SWITCH.search(text)
        said = {(of[1], int(lid, 16)): int(number) for lid, number in ROUTE.findall(text)} if of is not None else {}
        assert {one: routes.get(one) for one in said} == said
    assert routes


def test_partition_tables_with_their_indices(state: Path) -> None:
    known = ports(told(state))
    for (lid, number), text in files(state, "smpquery-pkeys").items():
        said = {int(at) + i: int(key, 16) for at, keys in ROW.findall(text) for i, key in enumerate(keys.split())}
        assert said, (lid, number)
        blocks = known[lid, number][1].get("p_keys", [])
        shown = {index: key for block in blocks for index, key in zip(block["indices"], block["keys"], strict=True)}
        asked = {index for block in blocks for index in range(32 * block["block"], 32 * block["block"] + 32)}
        assert shown == {index: key for index, key in said.items() if key and index in asked}
        assert asked or not any(said.values())


def test_cables_with_width_and_speed(state: Path) -> None:
    """The tool names switches by their GUID, adapters by that of the port."""
    fabric = told(state)
    named, speeds = {}, {}
    for node in fabric["nodes"]:
        for port in node["ports"]:
            guid = node["guid"] if node["kind"] == "switch" else port["guid"]
            named[node["guid"], port["number"]] = guid, port["number"], node["name"]
            speeds[guid, port["number"]] = port.get("link_width"), port.get("link_speed")
    said = LINK.findall((state / "diags/ibnetdiscover-p.txt").read_text())
    shown = {frozenset(named[end["node"], end["port"]] for end in one["ends"]) for one in fabric["links"]}
    assert shown == {frozenset(((a, int(i), one), (b, int(j), other))) for i, a, _, _, j, b, one, other in said} and said
    assert {(guid, int(number)): (width, speed) for number, guid, width, speed, *_ in said}.items() <= speeds.items()
