"""The statistics of a capture are correct."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibdissect.traffic.statistics import Statistics
from tests import craft
from tests.decode.made import tables_of


def counted(source: Any, window: int = 16 << 20, top: int | None = None) -> dict[str, Any]:
    statistics = Statistics()
    for table in tables_of(source, window):
        statistics.feed(table)
    return statistics.result(top)


def test_a_capture_with_loss(shared: Path) -> None:
    result = counted(str(shared / "captures/rxe/netem_loss_both.pcap"))
    opcodes = {entry["opcode"]: entry["frames"] for entry in result["opcodes"]}
    # INDEX.md: RC WRITE Middle 67, READ Resp Middle 64, ACK 56, WRITE Last 26, READ Request 24, UD SEND Only 5
    assert [opcodes[code] for code in (0x07, 0x0E, 0x11, 0x08, 0x0C, 0x64)] == [67, 64, 56, 26, 24, 5]
    assert result["frames"] == 416 and result["malformed"] == 0
    layers = {tuple(entry["path"]): entry["frames"] for entry in result["hierarchy"]}
    assert layers["Ethernet",] == 416 and layers["Ethernet", "IPv4", "UDP", "BTH", "UD", "Communication Management"] == 5
    assert result["connections"] == {"requested": 1, "established": 1, "rejected": 0, "disconnected": 1}
    there, back = result["streams"]
    assert (there["packets"], there["missing"], back["naks"]) == (225, 7, 7)


def test_management(shared: Path) -> None:
    result = counted(str(shared / "captures/opensm/15-diags.pcap"))
    assert sum(entry["unanswered"] for entry in result["response_times"]) == 36  # as its INDEX.md says
    assert {entry["attribute_name"] for entry in result["mads"] if entry["attribute"] == 0x15 and entry["mgmt_class"] == 1} == {"PortInfo"}
    assert sum(entry["frames"] for entry in result["mads"]) == result["frames"] == 14901
    for entry in result["response_times"]:
        if entry["answered"]:
            assert entry["min_ns"] <= entry["p50_ns"] <= entry["p90_ns"] <= entry["p99_ns"] <= entry["max_ns"]


def test_chunks_make_no_difference(shared: Path) -> None:
    path = str(shared / "captures/rxe/k612_netem_mess.pcap")
    assert counted(path, window=64 << 10) == counted(path)


@pytest.mark.slow
def test_addresses_with_zero_bytes_stay_whole() -> None:
    result = counted(craft.erf_pcap([craft.rc(0x04, b"data", slid=0x0100, dlid=0x2000)]))
    assert result["conversations"] == [{"source": "LID 256", "destination": "LID 8192", "frames": 1, "bytes": 30}]
    result = counted(craft.ethernet_pcap([craft.roce2(0x04, b"data")]))
    assert result["conversations"][0]["source"] == "192.168.0.1"


def test_an_empty_capture() -> None:
    result = counted(craft.erf_pcap([]))
    assert result["frames"] == 0 and result["hierarchy"] == result["streams"] == []
