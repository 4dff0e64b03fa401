"""Conversations are compared by port, whatever its LID, and findings by their sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run
from tests.craft import erf_pcap, rc
from tests.subnet.made import answer, node, port_info

HOST = 4
"""The host, whose GUIDs follow from this, has one LID in each capture."""


def written(path: Path, lid: int, *sent: bytes, step_ns: int = 1_000_000) -> str:
    """A capture in which the host shows its LID, and of these packets."""
    shown = [answer(lid, 0x11, node(HOST)), answer(lid, 0x15, port_info(lid))]
    path.write_bytes(erf_pcap([*shown, *sent], step_ns=step_ns))
    return str(path)


def packets(lid: int, count: int, p_key: int, dlid: int = 9) -> list[bytes]:
    return [rc(0x04, bytes(8), slid=lid, dlid=dlid, bth={"p_key": p_key, "psn": psn}) for psn in range(count)]


def changes(before: str, after: str) -> dict[str, Any]:
    """What `diff` says of traffic and findings."""
    said = json.loads(run("diff", before, after, "--format", "json", text=True).stdout)
    return {name: found for name, found in said.items() if name.startswith(("traffic_", "findings_")) and found}


def test_traffic_and_findings(tmp_path: Path) -> None:
    before = written(tmp_path / "before.pcap", 4, *packets(4, 100, 0))
    found = changes(before, written(tmp_path / "same.pcap", 5, *packets(5, 100, 0xFFFF)))
    assert {*found} == {"findings_gone"}, "the same port talks to the same one"
    assert [one["code"] for one in found["findings_gone"]] == ["PKY002"]
    more = rc(0x04, bytes(100), slid=7, dlid=8)
    after = written(tmp_path / "other.pcap", 5, *packets(5, 100, 0xFFFF), more, more, step_ns=3_000_000)
    found = changes(before, after)
    (changed,), (new,) = found["traffic_changed"], found["traffic_new"]
    assert (changed["before"]["frames"], changed["before"]["bytes"]) == (changed["after"]["frames"], changed["after"]["bytes"]) != (0, 0)
    assert changed["before"]["bytes_per_second"] > 2.5 * changed["after"]["bytes_per_second"] and changed["before"]["frames"] == 100
    assert (new["source"], new["destination"], new["frames"], new["bytes"]) == ("LID 7", "LID 8", 2, 2 * len(more))
    lines = [line.split()[:2] for line in run("diff", before, after, text=True).stdout.splitlines()]
    told = [["+", "traffic"], ["~", "traffic"], ["+", "finding"], ["-", "finding"]]
    assert [line for line in lines if line[1] in ("traffic", "finding")] == told


@pytest.mark.slow
def test_few_packets_and_small_changes_are_none(tmp_path: Path) -> None:
    before = written(tmp_path / "a.pcap", 4, *packets(4, 99, 0xFFFF), *packets(4, 100, 0xFFFF, dlid=10))
    after = written(tmp_path / "b.pcap", 4, *packets(4, 99, 0xFFFF), *packets(4, 100, 0xFFFF, dlid=10), step_ns=1_900_000)
    assert changes(before, after) == {}
    after = written(tmp_path / "c.pcap", 4, *packets(4, 99, 0xFFFF), *packets(4, 100, 0xFFFF, dlid=10), step_ns=2_100_000)
    assert [one["destination"] for one in changes(before, after)["traffic_changed"]] == ["LID 10"]
