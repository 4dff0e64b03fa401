"""An installed third-party plugin package adds classes, an upper layer and rules without changes here."""

from __future__ import annotations

import json
import shutil
import site
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.acme import capture

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def environment(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the package; ibdissect and its dependencies come from the running one."""
    room = tmp_path_factory.mktemp("fresh")
    venv.create(room / "venv", with_pip=False)
    python = room / "venv/bin/python"
    packages = next((room / "venv/lib").glob("python*")) / "site-packages"
    around = [str(repo), *site.getsitepackages()]
    (packages / "around.pth").write_text("\n".join(around) + "\n", encoding="utf-8")
    source = shutil.copytree(
        repo / "tests/plugin_package", room / "source", ignore=shutil.ignore_patterns("*.egg-info", "build", "__pycache__")
    )
    command = [str(python), "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        pytest.skip(f"pip cannot install it here: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'no pip'}")
    (room / "acme.pcap").write_bytes(capture())
    return room


def ibdissect(room: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(room / "venv/bin/python"), "-m", "ibdissect", *words], cwd=room, capture_output=True, text=True, timeout=60, check=False
    )


def layers(room: Path, frame: int) -> dict[str, list[dict[str, Any]]]:
    done = ibdissect(room, "show", "--plugin", "acme", "--format", "jsonl", "--frames", str(frame), "acme.pcap")
    return {layer["layer"]: layer["fields"] for layer in json.loads(done.stdout)["layers"]}


def test_it_is_loaded_only_when_it_is_named(environment: Path) -> None:
    assert "acme" not in ibdissect(environment, "fields").stdout
    listed = ibdissect(environment, "fields", "--plugin", "acme", "acme").stdout
    for name in ("acme.temperature.celsius", "acme.inventory.serial", "acme.stream.tag", "acme.stream.left", "acme.value.data",
                 "acme.beacon.text", "acme.hello.window"):  # fmt: skip
        assert name in listed
    assert "computed" in next(line for line in listed.splitlines() if line.startswith("acme.stream.left"))


def test_a_configuration_names_it_too(environment: Path) -> None:
    (environment / "named.toml").write_text('plugins = ["acme"]\n', encoding="utf-8")
    assert "acme.stream.tag" in ibdissect(environment, "fields", "--config", "named.toml", "acme.stream").stdout


def test_its_rules_run(environment: Path) -> None:
    done = ibdissect(environment, "lint", "--plugin", "acme", "--select", "ACM", "--format", "json", "acme.pcap")
    found = [(f["code"], f["frame"], f["message"], f["spans"]) for f in json.loads(done.stdout)["findings"]]
    assert found[0][:2] == ("ACM003", 2) and "0 retries" in found[0][2]
    assert found[1:] == [
        ("ACM002", 3, "window 5, used 9", [{"frame": 3, "offset": 23, "length": 1}]),
        ("ACM001", 6, "sensor 3: 90 °C is above 80 °C", [{"frame": 6, "offset": 54, "length": 2}]),
    ]
    assert done.returncode == 1
    assert "It turns itself off at the limit." in ibdissect(environment, "rules", "--plugin", "acme", "ACM001").stdout


def test_its_structures_are_in_the_tree(environment: Path) -> None:
    message = layers(environment, 3)
    header = {field["name"]: field for field in message["Stream"]}
    assert (header["acme.stream.tag"]["value"], header["acme.stream.tag"]["offset"]) == (0x8001, 20)
    assert header["acme.stream.left"]["value"] == -4 and header["acme.stream.kind"]["text"] == "control"
    value = {field["name"]: field for field in message["Tagged value"]}
    assert value["acme.value.type"]["value"] == 2, "the last whole one: the third is cut off"
    assert "Stream" in layers(environment, 4) and layers(environment, 4)["Stream"][-1]["text"] == "data 7"
    assert "Stream" not in layers(environment, 5), "a middle packet starts no message"
    assert "Stream" not in layers(environment, 9), "no REQ named that queue pair"
    assert layers(environment, 7)["Inventory"][0]["value"] == "SN-17"
    assert {field["name"]: field["text"] for field in layers(environment, 6)["Temperature"]}["acme.temperature.celsius"] == "90 °C"


def test_a_scapy_class_with_counted_text(environment: Path) -> None:
    beacon = layers(environment, 8)["Beacon"]
    found = {field["name"]: (field["offset"], field["length"], field["value"], field["text"]) for field in _flat(beacon)}
    assert found["acme.beacon.sequence"][:3] == (20, 2, 5)
    assert found["acme.beacon.text"] == (23, 3, "686579", "hey")
    assert found["acme.beacon.port"][:3] == (26, 2, 7777)
    assert (
        "text      = b'hey'" in ibdissect(environment, "show", "--plugin", "acme", "--format", "scapy", "--frames", "8", "acme.pcap").stdout
    )


def _flat(fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [inner for field in fields for inner in (field, *_flat(field.get("fields", [])))]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("acme.stream", 2), ("acme.stream.left < 0", 1), ("acme.stream.left == 6", 1), ('acme.stream.kind == "control"', 1),
        ("acme.value.type == 1", 1), ('acme.value.data contains "abc"', 1), ("acme.beacon.port == 7777", 1), ("acme.hello.window == 16", 1),
        ("acme.temperature.celsius > 80", 1), ('acme.inventory.serial matches "SN-.7"', 1),
    ],
)  # fmt: skip
def test_its_names_filter(environment: Path, text: str, count: int) -> None:
    done = ibdissect(environment, "show", "--plugin", "acme", "--count", "-Y", text, "acme.pcap")
    assert done.stdout.strip() == str(count), done.stderr


def test_its_fields_are_printed_and_exported(environment: Path) -> None:
    names = ["-e", "frame.number", "-e", "acme.stream.left", "-e", "acme.stream.kind", "-e", "acme.value.type", "-e", "acme.beacon.text"]
    done = ibdissect(environment, "show", "--plugin", "acme", *names, "acme.pcap")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert lines[2] == ["3", "-4", "control", "1,2", ""] and lines[3] == ["4", "6", "data 7", "", ""] and lines[7][4] == "686579"
    pytest.importorskip("pyarrow")
    words = ("-e", "acme.stream.left", "-e", "acme.temperature.celsius", "--output", "out.csv", "acme.pcap")
    exported = ibdissect(environment, "export", "--plugin", "acme", *words)
    assert exported.returncode == 0, exported.stderr
    text = (environment / "out.csv").read_text(encoding="utf-8")
    assert "-4" in text and "90" in text
