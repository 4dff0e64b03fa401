"""`ibdissect fabric` prints the right subnet as text, JSON and graph, without keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ibdissect.cli.fabric import command
from tests import commands, craft
from tests.subnet.files.samples import SAMPLES
from tests.subnet.made import ANSWER, answer, node, p_keys, port_info, switch, switch_info
from tests.subnet.test_separate_subnets import FULL, HERE, THERE, mixed, subnet

KEY = 0x1122334455667788


def written(tmp_path: Path, frames: list[bytes]) -> str:
    path = tmp_path / "one.pcap"
    path.write_bytes(craft.erf_pcap(frames))
    return str(path)


def frames(**info: Any) -> list[bytes]:
    def back(attribute: int, body: bytes, path: list[int], **kw: Any) -> bytes:
        return craft.smp(ANSWER, attribute, body, path=path, **kw)

    return [
        back(0x11, node(1), []), back(0x15, port_info(1, **info), [], m_key=info.get("m_key", 0)), back(0x16, p_keys(0xFFFF, 0x1234), []),
        back(0x11, switch(2, 2, local_port_num=1), [1]), back(0x12, switch_info(), [1]), back(0x10, b'a "switch"\x1b[31m', [1]),
        back(0x15, port_info(2), [1], modifier=0), back(0x19, bytes([255, 1, 0]).ljust(64, b"\xff"), [1]),
    ]  # fmt: skip


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_text(tmp_path: Path) -> None:
    text = run(written(tmp_path, frames()))
    assert text.startswith("1 switch, 1 channel adapter, 1 link, 2 LIDs, as of frame 8")
    assert "forwards 1 LID by port 1: 1" in text and "P_Keys 0xffff 0x1234" in text and "0x1234  0 full, 1 limited member" in text
    assert "\x1b" not in text


@pytest.mark.slow
def test_keys_are_masked(tmp_path: Path) -> None:
    path = written(tmp_path, frames(m_key=KEY, m_key_protect_bits=1))
    for arguments in ((), ("--format", "json")):
        hidden = run(path, *arguments)
        assert f"{KEY:x}" not in hidden and str(KEY) not in hidden and "M_Key#1" in hidden
    assert f"{KEY:016x}" in run(path, "--show-keys")
    held = json.loads(run(path, "--format", "json"))["nodes"][1]["ports"][0]["m_key"]
    assert held == {"value": None, "text": "M_Key#1", "protect_bits": 1, "lease_period": 0, "frame": 2}


def test_at_frame(tmp_path: Path) -> None:
    path = written(tmp_path, frames())
    early = json.loads(run(path, "--format", "json", "--at", "3"))
    assert early["frame"] == 3 and early["counts"]["switches"] == 0 and early["counts"]["links"] == 0
    late = json.loads(run(path, "--format", "json"))
    assert late["counts"] == {
        "switches": 1, "channel_adapters": 1, "routers": 0, "unknown_nodes": 0, "ports": 3, "links": 1, "lids": 2,
    }  # fmt: skip
    assert late["links"][0]["frame"] == 4 and late["nodes"][0]["forwarding"]["linear_blocks"] == [{"block": 0, "frame": 8}]


def test_graph(tmp_path: Path) -> None:
    graph = run(written(tmp_path, frames()), "--dot")
    assert graph == run(written(tmp_path, frames()), "--format", "dot")
    assert graph.startswith("graph fabric {") and graph.count(" -- ") == 1 and graph.count("shape=box") == 1
    assert r"a \"switch\"" in graph and "\x1b" not in graph


def test_what_is_learnt_may_be_limited(tmp_path: Path) -> None:
    path = written(tmp_path, [answer(5, 0x11, node(5)), answer(6, 0x11, node(6))])
    whole, first, none = (json.loads(run(path, "--format", "json", *words))["counts"] for words in ((), ("--frames", "1"), ("-Y", "ip")))
    assert whole["channel_adapters"] == 2 and first["channel_adapters"] == 1 and none["channel_adapters"] == 0


def test_known_subnet(shared: Path) -> None:
    path = shared / "captures/opensm/03-sweep-ft36.pcap"
    found = json.loads(run(str(path), "--format", "json"))
    assert (found["counts"]["switches"], found["counts"]["channel_adapters"], found["counts"]["links"]) == (36, 324, 648)
    assert len(found["lids"]) == 360 and all(sum(e["count"] for e in n["forwarding"]["linear"]) == 360 for n in found["nodes"][:36])


def test_events(tmp_path: Path) -> None:
    """Changes after the discovery, up to the given frame, without keys."""
    again = craft.smp(ANSWER, 0x15, port_info(1, m_key=KEY), path=[], m_key=KEY)
    path = written(tmp_path, [*frames(m_key=KEY + 1), again])
    text = run(path)
    assert "\nEvents\n" in text and "has another M_Key  [frame 9]" in text and f"{KEY:x}" not in text
    events = json.loads(run(path, "--format", "json"))["events"]
    assert [(event["frame"], event["kind"]) for event in events] == [(9, "m-key")]
    assert json.loads(run(path, "--format", "json", "--at", "8"))["events"] == []


def test_a_frame_after_the_end_is_reported(tmp_path: Path) -> None:
    path = written(tmp_path, frames())
    beyond = commands.run("fabric", path, "--at", "9999", text=True)
    assert beyond.returncode == 0 and f"{path} ends with frame 8, before --at 9999" in beyond.stderr
    assert commands.run("fabric", path, "--at", "8", text=True).stderr == ""


def test_two_subnets_are_shown_apart(tmp_path: Path) -> None:
    path = tmp_path / "two.pcap"
    path.write_bytes(mixed(HERE, THERE, interfaces=True))
    result = json.loads(commands.run("fabric", str(path), "--format", "json", text=True).stdout)
    assert [(one["subnet"], one["counts"]["channel_adapters"], [lid["lid"] for lid in one["lids"]]) for one in result["subnets"]] == [
        (1, 3, [1, 2, 3]), (2, 2, [1, 2]),
    ]  # fmt: skip
    for one, maker in zip(result["subnets"], ("0x0002c9", "0x000255"), strict=True):
        assert all(node["guid"].startswith(maker) for node in one["nodes"])
    shown = commands.run("fabric", str(path), text=True)
    assert "mixes packets of 2 subnets, separated by capture interfaces" in shown.stderr
    assert shown.stdout.count("channel adapters, ") == 2 and "\n\nSubnet 2\n0 switches, 2 channel adapters" in shown.stdout
    assert run(str(path), "--dot").count(" [label=") == run(str(path), "--format", "ibnetdiscover").count("\nCa") == 5


def test_two_subnets_that_nothing_tells_apart(tmp_path: Path) -> None:
    there = subnet(0x255, 1, (1, 2), FULL)  # by the same origin of directed routes
    for other, said in (([*there, *there], True), (HERE, False)):
        (tmp_path / "two.pcap").write_bytes(mixed([*HERE, *HERE], other, interfaces=False))
        shown = commands.run("fabric", str(tmp_path / "two.pcap"), text=True)
        assert ("mixes packets of two subnets, so none of this is certain" in shown.stderr) == said and "Subnet 2" not in shown.stdout


def test_a_roce_network(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(SAMPLES["roce"])
    text = run("--subnet", str(tmp_path / "net.toml"))
    assert f"  lossless = [3]  [{tmp_path}/net.toml:4]" in text and f"  192.168.0.1  node01  VLAN 101  [{tmp_path}/net.toml:11]" in text
    roce = json.loads(run("--subnet", str(tmp_path / "net.toml"), "--format", "json"))["roce"]
    assert [one["address"] for one in roce["hosts"]] == ["192.168.0.1", "fd00::1", "192.168.0.2", "192.168.0.3"]
    assert {one["name"]: one["value"] for one in roce["settings"]}["priorities"] == {"26": 3, "48": 6}
