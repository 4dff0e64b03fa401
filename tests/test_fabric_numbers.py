"""`fabric` says, of a sweep and of files, what the tools of the fabric wrote. They are read here without code of ibdissect."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import pytest

from ibdissect.subnet.describe import describe
from ibdissect.subnet.files.for_other_tools import ibnetdiscover
from tests import independent_packets
from tests.alpha import ALPHA, SOURCES, STATES, Known, Place, learnt, swept, values_of

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not ALPHA.is_dir(), reason="there are no shared files")]
SPEEDS = {"2.5 Gbps": "SDR", "5.0 Gbps": "DDR", "10.0 Gbps": "QDR", "14.0625 Gbps": "FDR", "25.78125 Gbps": "EDR", "53.125 Gbps": "HDR"}
NO_PORT = 255


@pytest.fixture(params=[(state, source) for state in STATES for source in SOURCES], ids="-".join)
def known(request: pytest.FixtureRequest) -> Known:
    return learnt(*request.param)


@pytest.fixture(params=STATES)
def sweep(request: pytest.FixtureRequest) -> Known:
    return learnt(request.param, "sweep")


@pytest.fixture(params=STATES)
def files(request: pytest.FixtureRequest) -> Known:
    return learnt(request.param, "files")


# -- P_Keys


def keys_of(text: str, first: int = 0) -> list[tuple[int, int]]:
    """Index and P_Key of the entries that are not zero."""
    rows = re.findall(r"^\s*(?:\d+: )?((?:0x[0-9a-f]{4} ?){8})", text, re.MULTILINE)
    every = [(first + 8 * row + i, int(key, 16)) for row, keys in enumerate(rows) for i, key in enumerate(keys.split())]
    return [(index, key) for index, key in every if key & 0x7FFF]


def shown_keys(port: dict[str, Any], number: int | None = None) -> list[tuple[int, int]]:
    blocks = [block for block in port.get("p_keys", ()) if number in (None, block["block"])]
    return [pair for block in blocks for pair in zip(block["indices"], block["keys"], strict=True)]


def test_p_key_tables_with_their_indices(known: Known) -> None:
    compared = 0
    for place, text in known.queried("pkeys").items():
        if "p_keys" in known.ports[place]:  # else the sweep did not ask for it
            assert shown_keys(known.ports[place]) == keys_of(text), place
            compared += 1
    assert compared >= 16


def test_p_key_tables_as_the_subnet_administration_has_them(known: Known) -> None:
    text, compared = (known.diags / "saquery-PKTR.txt").read_text(), 0
    for one in text.split("PKeyTableRecord dump:")[1:]:
        place, block = (int(values_of(one)["LID"]), int(values_of(one)["Port"])), int(values_of(one)["Block"])
        if any(told["block"] == block for told in known.ports[place].get("p_keys", ())):
            assert shown_keys(known.ports[place], block) == keys_of(one, 32 * block), place
            compared += 1
    assert compared >= 50


def test_p_key_tables_as_hosts_have_them(known: Known) -> None:
    compared = 0
    for path in (known.diags / "sysfs").glob("*-pkeys.txt"):
        entries = re.findall(r"/pkeys/(\d+) <==\n(0x\w{4})", path.read_text())
        lid = int(re.findall(r"/lid <==\n(0x\w+)", path.with_name(path.name.replace("pkeys", "port")).read_text())[0], 16)
        (port,) = [port for (of, number), port in known.ports.items() if (of, number) == (lid, 1)]
        told = [(int(index), int(key, 16)) for index, key in entries if int(key, 16) & 0x7FFF]
        assert [pair for pair in shown_keys(port) if pair[0] < len(entries)] == told, path
        compared += len(told)
    assert compared >= 30


def test_members_are_end_ports(known: Known) -> None:
    full, limited = defaultdict[int, set[Place]](set), defaultdict[int, set[Place]](set)
    for place, text in known.queried("pkeys").items():
        if known.ports[place]["kind"] != "switch" or place[1] == 0:
            for _, key in keys_of(text):
                (full if key & 0x8000 else limited)[key & 0x7FFF].add(place)
    shown = {
        one["partition"]: (sum(member["full"] for member in one["members"]), sum(not member["full"] for member in one["members"]))
        for one in known.told["partitions"] if one["members"]
    }  # fmt: skip
    assert shown == {number: (len(full[number]), len(limited[number])) for number in {*full, *limited}}


# -- ports


def compare_port(known: Known, place: Place, values: dict[str, str]) -> bool:
    """A PortInfo in words; whether there was one to compare."""
    port = known.ports.get(place)
    if port is None or "physical_state" not in port:
        return False
    speed = SPEEDS.get(values.get("LinkSpeedExtActive", "")) or SPEEDS.get(values["LinkSpeedActive"])
    wanted: dict[str, Any] = {"state": values["LinkState"], "state_code": {"Down": 1, "Active": 4}[values["LinkState"]]}
    wanted |= {"capability_mask": int(values["CapMask"], 16), "gid_prefix": values["GidPrefix"], "master_sm_lid": int(values["SMLid"])}
    if place[1] and values["LinkState"] != "Down":  # a switch's own port has no link
        wanted |= {
            "physical_state_name": values["PhysLinkState"], "neighbor_mtu": int(values["NeighborMTU"]),
            "neighbor_mtu_code": {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}[int(values["NeighborMTU"])],
            "link_width": values["LinkWidthActive"].lower(), "link_speed": speed,
            "operational_vls_name": values["OperVLs"].replace("-", "-VL"),
        }  # fmt: skip
    if known.ports[place]["kind"] != "switch" or not place[1]:
        wanted |= {"lid": int(values["Lid"]), "lmc": int(values["LMC"])}
    assert {name: port[name] for name in wanted} == wanted, place
    return True


def test_ports_as_they_answer(known: Known) -> None:
    every = known.queried("portinfo")
    assert sum(compare_port(known, place, values_of(text)) for place, text in every.items()) >= 16


def test_ports_as_the_subnet_administration_has_them(known: Known) -> None:
    every = known.records("PIR")
    assert sum(compare_port(known, (int(one["EndPortLid"]), int(one["PortNum"])), one) for one in every) == len(every) >= 160


def test_guids_as_the_subnet_administration_has_them(known: Known) -> None:
    """Entry 0 of a port is its port GUID."""
    compared = 0
    for one in known.records("GIR"):
        if one["Block"] == "0":
            node, number = known.place[int(one["LID"])]
            (port,) = [port for port in known.nodes[node]["ports"] if port["number"] == number]
            assert port["guid"] == one["GUID 0"]
            compared += 1
    assert compared == len(known.queried("nodeinfo"))


def test_lids(known: Known) -> None:
    of = {port["guid"]: port for port in known.ports.values() if port.get("lid")}
    text, compared = (known.folder / "opensm/cache/guid2lid").read_text(), 0
    for guid, low, high in re.findall(r"^(0x\w{16}) (0x\w{4}) (0x\w{4})", text, re.MULTILINE):
        if guid in of:
            assert (of[guid]["lid"], of[guid]["lid"] + (1 << of[guid]["lmc"]) - 1) == (int(low, 16), int(high, 16))
            compared += 1
    assert compared >= 16


IS_SM = 1 << 1


def test_ports_of_subnet_managers_and_the_lid_of_a_name(known: Known) -> None:
    wanted = {(int(one["EndPortLid"]), int(one["PortNum"])) for one in known.records("s")}
    masks = {place: port["capability_mask"] for place, port in known.ports.items() if port.get("lid") and "capability_mask" in port}
    assert wanted == {place for place, mask in masks.items() if mask & IS_SM} and wanted
    lid = int((known.diags / "saquery-L-login01.txt").read_text())
    assert known.nodes[known.place[lid][0]]["name"].strip().startswith("login01")


def test_m_keys(known: Known) -> None:
    of = {port["guid"]: port for port in known.ports.values() if port.get("lid")}
    text, compared = (known.folder / "opensm/cache/guid2mkey").read_text(), 0
    for guid, key in re.findall(r"^(0x\w{16}) (0x\w{16})", text, re.MULTILINE):
        if "m_key" in of.get(guid, {}):
            assert of[guid]["m_key"]["value"] == int(key, 16), guid
            compared += 1
    assert compared >= 16 or known.folder.name != "lmc1"


def test_ports_as_hosts_have_them(known: Known) -> None:
    """What the kernel of each host shows of its port, and ibstat."""
    compared = 0
    for path in (known.diags / "sysfs").glob("*-port.txt"):
        told = dict(re.findall(r"^==> \S+?/(\w+) <==\n(.*)$", path.read_text(), re.MULTILINE))
        node = known.nodes["0x" + told["node_guid"].replace(":", "")]
        (port,) = [one for one in node["ports"] if one["number"] == 1]
        assert (port["state"].upper(), port["physical_state_name"]) == (told["state"].split(": ")[1], told["phys_state"].split(": ")[1])
        assert f"({port['link_width'].upper()} {port['link_speed']})" in told["rate"]
        wanted = int(told["lid"], 16), int(told["lid_mask_count"]), int(told["sm_lid"], 16)
        assert (port["lid"], port["lmc"], port["master_sm_lid"]) == wanted
        said = dict(re.findall(r"^\s*([\w ]+): (.*)$", (known.diags / "ibstat" / path.name.replace("-port", "")).read_text(), re.MULTILINE))
        assert (port["lid"], port["lmc"], port["guid"]) == (int(said["Base lid"]), int(said["LMC"]), said["Port GUID"])
        compared += 1
    assert compared >= 12


# -- nodes and links


def same_name(known: Known, name: str, node: dict[str, Any]) -> bool:
    """Files may have the name of the node name map."""
    return name == node["name"] or (known.source == "files" and f";{node['name']}:" in name)


def test_nodes_as_the_subnet_administration_has_them(known: Known) -> None:
    kinds = {"Channel Adapter": "channel adapter", "Switch": "switch", "Router": "router"}
    told = known.records("N")
    for one in told:
        node = known.nodes[one["node_guid"]]
        assert node["kind"] == kinds[one["node_type"]] and same_name(known, one["NodeDescription"], node), one
        wanted = [int(one[name], 16) for name in ("partition_cap", "device_id", "vendor_id")] + [int(one["num_ports"])]
        assert [node[name] for name in ("partition_cap", "device_id", "vendor_id", "num_ports")] == wanted
        assert node["system_image_guid"] == one["sys_guid"] and known.place[int(one["lid"])][0] == one["node_guid"]
    assert {one["node_guid"] for one in told} == known.nodes.keys()


def test_nodes_as_they_answer(known: Known) -> None:
    for (lid, _), text in known.queried("nodeinfo").items():
        told, node = values_of(text), known.nodes[known.place[lid][0]]
        names = {"PartCap": "partition_cap", "NumPorts": "num_ports", "DevId": "device_id", "VendorId": "vendor_id"}
        assert {ours: int(told[theirs], 0) for theirs, ours in names.items()} == {ours: node[ours] for ours in names.values()}
        assert (told["Guid"], told["SystemGuid"], told["NodeType"].lower()) == (node["guid"], node["system_image_guid"], node["kind"])


@pytest.mark.parametrize("name", ["ibnodes", "ibhosts", "ibswitches", "ibnetdiscover-l"])
def test_lists_of_nodes(known: Known, name: str) -> None:
    text = (known.diags / f"{name}.txt").read_text()
    told = re.findall(r'^(Ca|Switch)\s*: (0x\w+) ports (\d+) .*?"(.*)"', text, re.MULTILINE)
    for kind, guid, ports, called in told:
        node = known.nodes[guid]
        assert (node["kind"], node["num_ports"]) == ({"Ca": "channel adapter", "Switch": "switch"}[kind], int(ports))
        assert same_name(known, called, node)
    kinds = {"ibhosts": ["channel adapter"], "ibswitches": ["switch"]}.get(name, ["channel adapter", "switch"])
    assert len(told) == sum(node["kind"] in kinds for node in known.told["nodes"])


def test_switches_as_the_subnet_administration_has_them(known: Known) -> None:
    names = {
        "LinearFDBCap": "linear_fdb_cap", "RandomFDBCap": "random_fdb_cap", "MulticastFDBCap": "multicast_fdb_cap",
        "LinearFDBTop": "linear_fdb_top", "PartitionEnforcementCap": "partition_enforcement_cap",
    }  # fmt: skip
    others = {"LinearFdbCap": "linear_fdb_cap", "McastFdbCap": "multicast_fdb_cap", "LinearFdbTop": "linear_fdb_top",
              "PartEnforceCap": "partition_enforcement_cap", "EnhancedPort0": "enhanced_port_zero"}  # fmt: skip
    told = [(int(one["LID"]), one, names, 16) for one in known.records("SWIR")]
    told += [(lid, values_of(text), others, 10) for (lid, _), text in known.queried("switchinfo").items()]
    for lid, one, words, base in told:
        switch = known.nodes[known.place[lid][0]]["switch"]
        compared = {theirs: switch[ours] for theirs, ours in words.items() if theirs in one}
        assert compared == {name: int(one[name], base) for name in compared} and len(compared) >= 4
    assert len(told) == 2 * known.told["counts"]["switches"]


def tool_links(known: Known) -> Iterator[tuple[str, set[frozenset[tuple[str, int]]]]]:
    """Each tool, and the links that it shows."""
    place, by_port = known.place, {port["guid"]: port["node"] for port in known.ports.values() if port["guid"]}
    for name in ("LR", "x"):
        ends = (((one["FromLID"], one["FromPort"]), (one["ToLID"], one["ToPort"])) for one in known.records(name))
        yield name, {frozenset((place[int(lid)][0], int(port)) for lid, port in both) for both in ends}
    text = (known.folder / "opensm/cache/neighbors").read_text()
    found = re.findall(r"^(0x\w+):(\d+) (0x\w+):(\d+)", text, re.MULTILINE)
    yield "neighbors", {frozenset(((by_port[a], int(m)), (by_port[b], int(n)))) for a, m, b, n in found if a in by_port and b in by_port}
    text = (known.diags / "ibnetdiscover-p.txt").read_text()
    found = re.findall(r"^\w+\s+(\d+)\s+(\d+) 0x\w+ \S+ \S+ - \w+\s+(\d+)\s+(\d+)", text, re.MULTILINE)
    yield "ibnetdiscover -p", {frozenset(((place[int(a)][0], int(m)), (place[int(b)][0], int(n)))) for a, m, b, n in found}
    text = (known.diags / "iblinkinfo-l.txt").read_text()
    found = re.findall(r'^0x\w+ ".*"\s+(\d+)\s+(\d+)\[.*?==>\s+0x\w+\s+(\d+)\s+(\d+)\[', text, re.MULTILINE)
    yield "iblinkinfo", {frozenset(((place[int(a)][0], int(m)), (place[int(b)][0], int(n)))) for a, m, b, n in found}
    side = r"\{ \S+ Ports:\w+ \S+ NodeGUID:(\w+) .*? LID:\w+ PN:(\w+) \}"
    found = re.findall(f"^{side} {side}", (known.folder / "opensm/opensm-subnet.lst").read_text(), re.MULTILINE)
    yield "subnet.lst", {frozenset(((f"0x{a}", int(m, 16)), (f"0x{b}", int(n, 16)))) for a, m, b, n in found}


def test_links(known: Known) -> None:
    """Each tool shows all links; saquery of one state leaves one out, and `neighbors` keeps what was."""
    for tool, told in tool_links(known):
        if tool == "neighbors":
            assert known.links <= told, tool
        else:
            assert told <= known.links and len(known.links - told) <= (tool in ("LR", "x") and known.folder.name == "lmc1"), tool


def test_the_topology(sweep: Known) -> None:
    def lines(text: str) -> set[str]:
        return {re.sub(r"\s+", " ", line) for line in text.splitlines() if line and not line.startswith("#")}

    assert lines("\n".join(ibnetdiscover(sweep.subnet))) == lines((sweep.diags / "ibnetdiscover.txt").read_text())


# -- forwarding


def tool_tables(known: Known) -> Iterator[tuple[str, str, dict[int, int]]]:
    """Each tool, a switch, and the port of each LID there."""
    routes = [f"diags/ibroute/{path.name}" for path in (known.diags / "ibroute").iterdir()]
    for name in ("opensm/opensm-lfts.dump", "diags/dump_lfts.txt", *routes):
        for block in (known.folder / name).read_text().split("Unicast lids")[1:]:
            guid = re.search(r"guid (0x\w+)", block).group(1)  # type: ignore[union-attr]
            rows = re.findall(r"^(0x\w{4}) (\d{3}) [#:]", block, re.MULTILINE)
            yield name, guid, {int(lid, 16): int(port) for lid, port in rows}
    for block in (known.folder / "opensm/opensm.fdbs").read_text().split("dump_ucast_routes: Switch ")[1:]:
        rows = re.findall(r"^(0x\w{4}) : (\d{3}) ", block, re.MULTILINE)
        yield "fdbs", block.split()[0], {int(lid, 16): int(port) for lid, port in rows}
    for block in (known.diags / "saquery-LFTR.txt").read_text().split("LFT Record dump:")[1:]:
        rows = re.findall(r"^\s*(\d+)\t(\d+)\s*$", block, re.MULTILINE)
        ports = {int(lid): int(port) for lid, port in rows if int(port) != NO_PORT}
        yield "saquery", known.place[int(values_of(block)["LID"])][0], ports


def test_forwarding(known: Known) -> None:
    compared = Counter[str]()
    for tool, guid, wanted in tool_tables(known):
        shown = known.forwarding(guid)
        assert {lid: shown.get(lid) for lid in wanted} == wanted, (tool, guid)
        compared[tool] += len(wanted)
    assert len(compared) == 8 and min(compared.values()) >= 16


def test_paths_as_the_subnet_administration_has_them(known: Known) -> None:
    """Where forwarding leads to, and the smallest MTU of the way; the P_Key is in the tables of both ends."""
    peers = {end: other for link in known.links for end, other in (tuple(link), tuple(link)[::-1])}
    mtus = {(port["node"], port["number"]): port.get("neighbor_mtu_code") for port in known.ports.values()}
    tables = {guid: known.forwarding(guid) for guid, node in known.nodes.items() if node["kind"] == "switch"}
    every = known.records("p-login01")
    for one in every:
        target = int(one["dlid"])
        at, way = known.place[int(one["slid"])], list[tuple[str, int]]()
        while at[0] != known.place[target][0]:
            leave = (at[0], tables[at[0]][target]) if at[0] in tables else at
            at = peers[leave]
            way += [leave, at]
            assert len(way) < 16, one
        if way:
            least = min(mtus[end] for end in way)
            assert int(one["mtu"], 16) & 0x3F <= least, one
        key = int(one["pkey"], 16)
        for lid in (int(one["slid"]), target):
            node, number = known.place[lid]
            (port,) = [port for port in known.nodes[node]["ports"] if port["number"] == number]
            assert key & 0x7FFF in {held & 0x7FFF for _, held in shown_keys(port)}, one
    assert len(every) >= 15


# -- groups, which the first sweep does not show


def test_groups(files: Known) -> None:
    every = (files.folder / "opensm/opensm-sa.dump").read_text().split("MC Group ")[1:]
    wanted = {}
    for one in every:
        head = dict(re.findall(r"(\w+)=(\S+)", one.split("\n")[0]))
        high, low = (int(part, 16) for part in head["mgid"].split(":"))
        members = {IPv6Address(int(a, 16) << 64 | int(b, 16)) for a, b in re.findall(r"mcm_port: port_gid=(0x\w+):(0x\w+)", one)}
        numbers = [int(head[name], 16) for name in ("mlid", "pkey", "qkey")] + [int(head["mtu"], 16) & 0x3F, int(head["rate"], 16) & 0x3F]
        wanted[IPv6Address(high << 64 | low)] = (*numbers, members)
    shown = {
        IPv6Address(group["mgid"]): (
            group["mlid"], group["p_key"], group["q_key"]["value"], group["mtu_code"], group["rate"],
            {IPv6Address(member["port_gid"]) for member in group["members"]},
        )
        for group in files.told["groups"]
    }  # fmt: skip
    assert shown == wanted and len(wanted) >= 3
    for name in ("g", "g-node01", "MCMR", "MCMR-node01", "m", "m-node01"):
        for record in files.records(name):
            one = {word.lower(): value for word, value in record.items()}
            group = shown[IPv6Address(one["mgid"])]
            assert group[0] == int(one["mlid"], 16)
            if "pkey" in one:
                assert (group[1], *group[3:5]) == (int(one["pkey"], 16), int(one["mtu"], 16) & 0x3F, int(one["rate"], 16) & 0x3F)
            if "qkey" in one:
                assert group[2] == int(one["qkey"], 16)
    assert all((group["mtu"], group["rate_gbps"]) == (2048, 10) for group in files.told["groups"])


def test_multicast_forwarding(files: Known) -> None:
    tools = (
        ("opensm/opensm.mcfdbs", r"Switch (0x\w+)", r"^0x(\w{4}) : (.*)$", lambda ports: [int(port, 16) for port in ports.split()]),
        ("diags/dump_mfts.txt", r"guid (0x\w+)", r"^0x(\w{4})(.*)$",
         lambda ports: [(at - 12) // 2 for at, sign in enumerate(f"      {ports}") if sign == "x"]),
    )  # fmt: skip
    for name, switch, row, read in tools:
        text, compared = (files.folder / name).read_text(), 0
        for block in re.split(r"^(?=\s*Switch 0x|Multicast mlids)", text, flags=re.MULTILINE):
            if (guid := re.search(switch, block)) is not None:
                wanted = [{"lid": int(lid, 16), "ports": read(ports)} for lid, ports in re.findall(row, block, re.MULTILINE)]
                assert files.nodes[guid.group(1)]["forwarding"]["multicast"] == wanted, name
                compared += len(wanted)
        assert compared >= 8


def test_the_manager(files: Known) -> None:
    (one,) = files.records("SMIR")
    line = re.search(r"sm lid (\d+) sm guid (0x\w+), .*priority (\d+) state 3", (files.diags / "sminfo.txt").read_text())
    assert line is not None
    for lid, guid, priority in ((one["LID"], one["GUID"], one["Priority"]), line.groups()):
        (told,) = files.told["sms"]
        assert (told["lid"], told["guid"], told["priority"], told["state"]) == (int(lid), guid, int(priority), "master")


def test_what_was_written_as_json_is_read_again(files: Known, tmp_path: Path) -> None:
    """P_Keys at their indices, groups with codes that are codes, forwarding, links and LIDs."""
    path = tmp_path / "fabric.json"
    path.write_text(json.dumps(files.told))
    again = Known(files.folder.name, "json", path)
    assert (again.told["counts"], again.place, again.links) == (files.told["counts"], files.place, files.links)
    tables = [{(port["node"], port["number"]): shown_keys(port) for port in one.ports.values()} for one in (again, files)]
    assert tables[0] == tables[1]
    assert any(table and table[0][0] for table in tables[0].values()) or files.folder.name == "lmc1", "one begins with a hole"
    names = ("mgid", "mlid", "p_key", "mtu", "mtu_code", "rate", "rate_gbps", "sl")
    groups = [[[group[name] for name in names] for group in one.told["groups"]] for one in (again, files)]
    assert groups[0] == groups[1]
    assert all(again.forwarding(guid) == files.forwarding(guid) for guid, node in files.nodes.items() if "forwarding" in node)


# -- lanes, of sweeps alone

NODE_INFO, SL_TO_VL, VL_ARBITRATION, GET_RESP, ROUTED = 0x11, 0x17, 0x18, 0x81, 0x81
LANES = [ALPHA.parents[1] / "captures/opensm" / name for name in ("22-routing-lash.pcap", "20b-qos-optimized-slvl.pcap")]


def answers(path: Path) -> Iterator[tuple[bytes, int, int, bytes]]:
    """Path, attribute, modifier and data of the answers without an error to SMPs on directed routes."""
    for frame in independent_packets.frames(str(path)):
        body = frame.packet.body if frame.packet is not None else b""
        if len(body) == 256 and body[1] == ROUTED and body[3] == GET_RESP and not int.from_bytes(body[4:6], "big") & 0x7FFF:
            yield body[128 : 129 + body[7]], int.from_bytes(body[16:18], "big"), int.from_bytes(body[20:24], "big"), body[64:128]


@pytest.mark.parametrize("path", LANES, ids=lambda path: path.name)
def test_lanes(path: Path) -> None:
    """SLtoVL by output and input port, the right way round, and both halves of both VL arbitration tables."""
    guids: dict[bytes, tuple[str, int]] = {}
    maps, halves = dict[tuple[str, int, int], str](), dict[tuple[str, int, int], str]()
    for way, attribute, modifier, data in answers(path):
        if attribute == NODE_INFO:
            guids[way] = f"0x{data[12:20].hex()}", data[2]
        guid, kind = guids.get(way, ("", 0))
        if attribute == SL_TO_VL and modifier < 1 << 16:
            out, into = (modifier & 0xFF, modifier >> 8) if kind == 2 else (1, 0)
            maps[guid, out, into] = data[:8].hex()
        elif attribute == VL_ARBITRATION:
            halves[guid, modifier & 0xFFFF or 1, (modifier >> 16) - 1] = data.hex()
    told = describe(swept(str(path)), lambda kind, value: None)
    ports = [(node["guid"], port["number"], port["qos"]) for node in told["nodes"] for port in node["ports"] if "qos" in port]
    shown = {(guid, out, int(into)): table for guid, out, qos in ports for into, table in qos["sl_to_vl"].items()}
    assert {place: shown.get(place) for place in maps} == maps
    found = {(guid, out, half): table for guid, out, qos in ports for half, table in enumerate(qos["vl_arbitration"]) if table}
    assert found == halves and len(maps) > 800 and len(halves) > 90
