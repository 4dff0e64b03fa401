"""The nodes at both ends of packets are found by LID, GID and directed route, as they were at that moment."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import ibdissect
from tests import craft
from tests.subnet.files.samples import SAMPLES
from tests.subnet.made import ANSWER, answer, node, port_info, switch


def named(capture: bytes, *files: Path, ports: bool = False) -> tuple[dict[int, Any], dict[int, Any]]:
    """Names of who sends each packet, and of whom it goes to, by frame; `ports`: of node and port."""
    with ibdissect.open(io.BytesIO(capture), subnet=[str(file) for file in files]) as opened:
        ends = opened.ends()
        (table,) = opened.tables()
        found = ends.of(table, ports=ports)
    assert ports or all(len(names) == 1 for one in found for names in one.values())
    sources, targets = ({row + 1: names if ports else names[0] for row, names in one.items()} for one in found)
    return sources, targets


def name(path: list[int], text: bytes) -> bytes:
    return craft.smp(ANSWER, 0x10, text.ljust(64, b"\0"), path=path)


def test_ends_of_directed_routes() -> None:
    """Where nobody shows a name there is none."""
    shown = [
        craft.smp(ANSWER, 0x11, node(1), path=[]), name([], b"manager"),
        craft.smp(ANSWER, 0x11, switch(2, 4, local_port_num=1), path=[1]), name([1], b"leaf"),
    ]  # fmt: skip
    later = [craft.smp(1, 0x15, path=[1]), craft.smp(ANSWER, 0x15, path=[1]), craft.smp(1, 0x15, path=[1, 3])]
    sources, targets = named(craft.erf_pcap([*shown, *later]))
    assert [(sources.get(frame), targets.get(frame)) for frame in (5, 6, 7)] == [
        ("manager", "leaf"),
        ("leaf", "manager"),
        ("manager", None),
    ]
    assert named(craft.erf_pcap(later)) == ({}, {})


def test_ends_by_lid_and_gid(tmp_path: Path) -> None:
    """As files name them, which know no routes; the second half of a GID may be a port's GUID."""
    (tmp_path / "topology").write_text(SAMPLES["ibnetdiscover"])
    gid = bytes.fromhex("fe80000000000000") + (0x0002C903000000B1).to_bytes(8, "big")
    frames = [
        craft.native(0x04, bytes(8), slid=4, dlid=9), craft.native(0x04, bytes(8), slid=9, dlid=4, grh={"sgid": gid, "dgid": bytes(16)}),
        craft.smp(1, 0x15, path=[1]),
    ]  # fmt: skip
    assert named(craft.erf_pcap(frames), tmp_path) == ({1: "host B", 2: "host B"}, {2: "host B"})
    both = ["host B", "host B port 1"]
    assert named(craft.erf_pcap(frames), tmp_path, ports=True) == ({1: both, 2: both}, {2: both})


def test_the_names_of_addresses(tmp_path: Path) -> None:
    """Those of RoCE, of 4 bytes or of 16."""
    (tmp_path / "roce.toml").write_text("[[roce.host]]\nname = 'host'\naddresses = ['10.0.0.1', '::5']\n")
    four, six = bytes([10, 0, 0, 1]), bytes(15) + b"\5"

    def routed(sgid: bytes, dgid: bytes) -> bytes:
        return bytes(12) + b"\x89\x15" + craft.native(0x04, bytes(8), grh={"sgid": sgid, "dgid": dgid})[8:-2]

    mapped = bytes(10) + b"\xff\xff" + four
    frames = [
        craft.roce2(ip={"source": four}),
        craft.roce2(ip={"destination": four}),
        routed(mapped, six),
        routed(bytes(15) + b"\6", mapped),
    ]
    assert named(craft.ethernet_pcap(frames), tmp_path) == ({1: "host", 3: "host"}, {2: "host", 3: "host", 4: "host"})


@pytest.mark.parametrize("ports", [False, True])
def test_a_lid_that_moved_is_whose_it_was(ports: bool) -> None:
    """LID 5 is that of one host until frame 9, then another's; LID 6 is that of the other until then, then nobody's."""
    shown = [
        frame
        for lid, text in ((5, b"one"), (6, b"other"))
        for frame in (answer(lid, 0x11, node(lid)), answer(lid, 0x10, text.ljust(64, b"\0")))
    ]
    moved = [answer(6, 0x15, port_info(6)), answer(6, 0x15, port_info(5), modifier=1)]
    data = [craft.native(slid=5, dlid=6), craft.native(slid=6, dlid=7)]
    sources, targets = named(craft.erf_pcap([*shown, *data, *moved, *data]), ports=ports)

    def told(names: dict[int, Any], frame: int) -> str | None:
        found = names.get(frame)
        assert found is None or not ports or len(found) == 2
        return found[0] if ports and found else found

    assert [told(sources, frame) for frame in (5, 6, 7, 8, 9, 10)] == ["one", "other", "other", None, "other", None]
    assert [told(targets, frame) for frame in (5, 6, 9, 10)] == ["other", None, None, None]
