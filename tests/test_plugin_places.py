"""A plugin package that is only on the path, not installed, decodes its structures in all places that it declares."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from tests import commands
from tests.acme import capture
from tests.craft import ethernet_pcap, roce2

pytestmark = pytest.mark.slow

BEACON = struct.pack(">HB3sH", 5, 3, b"hey", 7777)
ETHERTYPE = 0x88B5
ANNOUNCED = b"\x02\0\0\0\0\1\x02\0\0\0\0\2"


def udp(port_from: int, port_to: int, payload: bytes, *, claimed: int | None = None) -> bytes:
    """Ethernet, IPv4, UDP."""
    length = 8 + len(payload)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + length, 0, 0, 64, 17, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
    return ANNOUNCED + b"\x08\0" + ip + struct.pack(">HHHH", port_from, port_to, claimed or length, 0) + payload


FRAMES = [
    udp(1000, 7777, BEACON), udp(7777, 1000, BEACON), udp(7777, 1000, BEACON + b"more", claimed=16), udp(1000, 1001, BEACON),
    ANNOUNCED + struct.pack(">H", ETHERTYPE) + BEACON,
    ANNOUNCED + b"\x81\0\0\x07" + struct.pack(">H", ETHERTYPE) + BEACON,
    roce2(0x04, BEACON, bth={"destqp": 0xACE}), roce2(0x04, BEACON, bth={"destqp": 0xACF}),
    ANNOUNCED + struct.pack(">H", ETHERTYPE) + BEACON[:5],
]  # fmt: skip
HOLDING = [1, 2, 3, 5, 6, 7, 9]


def ibdissect(repo: Path, *words: str) -> str:
    path = os.pathsep.join([str(repo), str(repo / "tests/plugin_package/src")])
    done = commands.run(words[0], "--plugin", "acme_ib", *words[1:], env=os.environ | {"PYTHONPATH": path}, text=True)
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stderr
    return done.stdout


def fields(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [inner for field in found for inner in (field, *fields(field.get("fields", [])))]


@pytest.fixture
def beacons(tmp_path: Path) -> str:
    path = tmp_path / "beacons.pcap"
    path.write_bytes(ethernet_pcap(FRAMES))
    return str(path)


def test_where_a_udp_port_an_ethertype_and_a_queue_pair_say(repo: Path, beacons: str) -> None:
    shown = [json.loads(line) for line in ibdissect(repo, "show", "--format", "jsonl", beacons).splitlines()]
    layers = [{layer["layer"]: layer["fields"] for layer in frame["layers"]} for frame in shown]
    assert [number for number, found in enumerate(layers, 1) if "Beacon" in found] == HOLDING
    offsets = [next(field["offset"] for field in fields(found["Beacon"])) for found in layers if "Beacon" in found]
    assert offsets == [42, 42, 42, 14, 18, 54, 14]
    whole = {field["name"]: field["value"] for field in fields(layers[0]["Beacon"])}
    assert (whole["acme.beacon.sequence"], whole["acme.beacon.text"], whole["acme.beacon.port"]) == (5, "686579", 7777)
    cut = {field["name"] for field in fields(layers[8]["Beacon"])}
    assert "acme.beacon.sequence" in cut and "acme.beacon.port" not in cut, "a field that is not there is not shown"


def test_its_names_select_the_same_frames(repo: Path, beacons: str) -> None:
    for text, count in (("acme.beacon", len(HOLDING)), ("acme.beacon.port == 7777", 6), ("acme.beacon.sequence == 5", 7)):
        assert ibdissect(repo, "show", "--count", "-Y", text, beacons).strip() == str(count), text


def test_scapy_sees_it_there_too(repo: Path, beacons: str) -> None:
    text = ibdissect(repo, "show", "--format", "scapy", "--frames", ",".join(map(str, HOLDING[:-1])), beacons)
    assert text.count("###[ ACME beacon ]###") == text.count("text      = b'hey'") == len(HOLDING) - 1
    assert "ACME" not in ibdissect(repo, "show", "--format", "scapy", "--frames", "4,8", beacons)


@pytest.fixture
def stream(tmp_path: Path) -> str:
    path = tmp_path / "acme.pcap"
    path.write_bytes(capture())
    return str(path)


def test_computed_columns_are_printed_filtered_and_sorted_as_numbers(repo: Path, stream: str) -> None:
    printed = ibdissect(repo, "show", "-e", "frame.number", "-e", "acme.stream.left", "-e", "acme.stream.kind", stream)
    assert [line for line in printed.splitlines() if line.split("\t")[1]] == ["3\t-4\tcontrol", "4\t6\tdata 7"]
    for text, count in (
        ("acme.stream.left < 0", 1), ("acme.stream.left == 6", 1), ('acme.stream.kind == "control"', 1),
        ('acme.stream.kind contains "data"', 1),
        ("acme.stream.left in {-5..-1}", 1), ("acme.hello.window == 16", 1), ('acme.inventory.serial matches "SN-.7"', 1),
    ):  # fmt: skip
        assert ibdissect(repo, "show", "--count", "-Y", text, stream).strip() == str(count), text


def test_its_rules_and_fields_are_there(repo: Path, stream: str) -> None:
    found = json.loads(ibdissect(repo, "lint", "--select", "ACM", "--format", "json", stream))["findings"]
    assert [(finding["code"], finding["frame"]) for finding in found] == [("ACM003", 2), ("ACM002", 3), ("ACM001", 6)]
    assert "acme.temperature.celsius" in ibdissect(repo, "fields", "acme")
