"""The structures of subnet administration and performance management read MADs exactly as tshark does."""

from __future__ import annotations

import re
import shutil
import struct as packing
import subprocess
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ibdissect.wire.catalog import builtin
from ibdissect.words import Struct

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")]

GENERAL = "infiniband.mad.mgmtclass in {3,4} && infiniband.mad.attributeid > 3"
CAPTURES = {"14-saquery": (2000, 20000), "23-perfmgr": (1250, 1000), "26-informinfo-reports": (1500, 50)}
"""Capture -> how many of its frames are read, how many fields at least must have been compared."""
OTHERS = ("lrh", "grh", "bth", "deth", "mad", "invariant", "variant")
"""Headers around the MAD, tested elsewhere."""
NOT_COMPARED = {
    "infiniband.rmpp.transferreddata",  # an aggregate over the fields behind the RMPP header
    "infiniband.rmpp.rresptime",  # 4 bits for 5
    "infiniband.rmpp.rmppflags",  # 4 bits for 3
    "infiniband.linkspeedwidthpairstable.speedtwofive",  # one bit of an 8-bit map, as the next two
    "infiniband.linkspeedwidthpairstable.speedfive",
    "infiniband.linkspeedwidthpairstable.speedten",
    "infiniband.portcounters.locallinkintegrityerrors",  # PDML's value is the whole byte, see below
    "infiniband.portcounters.excessivebufferoverrunerrors",  # likewise
}
SA_TABLES = (0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x20, 0x30, 0x31, 0x33, 0x35, 0x36, 0x38, 0x39, 0x3B, 0xF3)


def flat(view: Struct) -> Iterator[tuple[str, int, Any]]:
    """Name, byte in the buffer and value of every field that applies; entries of tables one by one."""
    for field in type(view).fields:
        if field.kind in ("pad", "hole") or not field.applies(view):
            continue
        for bit in [field.bit] if field.part_of else field.entries():
            value = field.read(view, bit)
            if field.kind == "nested":
                yield from flat(value)
            else:
                yield field.filter_name, view.offset + bit // 8, value


def decode(data: bytes, mad: int) -> dict[str, list[tuple[int, Any]]]:
    """Fields of the format and the attribute of the MAD at byte `mad`."""
    catalog = builtin()
    found = defaultdict(list)
    mgmt_class, attr_id = data[mad + 1], int.from_bytes(data[mad + 16 : mad + 18], "big")
    views = [format_(data, mad) for format_ in catalog.formats[mgmt_class, 1]]
    views += [s(data, mad + catalog.data_at(mgmt_class, 1), mad + 256) for _, s in catalog.attributes.get((mgmt_class, attr_id), ())]
    for view in views:
        for name, at, value in flat(view):
            found[name].append((at, value))
    return found


def same(value: Any, digits: str) -> bool:
    """Whether our value says what tshark's hex digits (already shifted for bit fields) say."""
    if isinstance(value, str):
        return value == bytes.fromhex(digits).split(b"\0")[0].decode("utf-8", "replace")
    number = int.from_bytes(value, "big") if isinstance(value, bytes) else int(value)
    return number == int(digits, 16)


def frames_of(path: Path) -> list[bytes]:
    """Frames of a little-endian pcap of ERF records, as tshark counts their bytes."""
    data, at, found = path.read_bytes(), 24, []
    while at < len(data):
        size = packing.unpack_from("<I", data, at + 8)[0]
        found.append(data[at + 32 : at + 16 + size])
        at += 16 + size
    return found


def differences(path: Path, count: int) -> tuple[int, dict[str, str]]:
    """How many leaf fields of tshark were compared, and what differs: name -> first difference."""
    command = ["tshark", "-n", "-r", str(path), "-T", "pdml", "-o", "infiniband.try_heuristic_first:FALSE", "-Y", GENERAL]
    out = subprocess.run([*command, "-c", str(count)], capture_output=True, text=True, check=True, timeout=300).stdout
    frames, compared, faults = frames_of(path), 0, {}
    for packet in re.findall(r"<packet>.*?</packet>", out, re.S):
        tree = ET.fromstring(packet)
        number = next(int(f.get("show", "0")) for f in tree.iter("field") if f.get("name") == "num")
        mad = next(int(f.get("pos", "0")) for f in tree.iter("field") if f.get("name") == "infiniband.mad.baseversion")
        ours = decode(frames[number - 1], mad)
        for leaf in tree.iter("field"):
            name, digits = leaf.get("name", ""), leaf.get("value")
            if not name.startswith("infiniband.") or len(leaf) or not digits or ".reserved" in name:
                continue
            if name.split(".")[1] in OTHERS or name in NOT_COMPARED:
                continue
            compared += 1
            at, size = int(leaf.get("pos", "0")), int(leaf.get("size", "0"))
            hit = next((have for have in ours[name] if at <= have[0] < at + max(size, 1) and same(have[1], digits)), None)
            if hit is None:
                faults.setdefault(name, f"frame {number}, {name} at {at}: tshark {digits}, here {ours[name][:3]}")
            else:
                ours[name].remove(hit)
    return compared, faults


@pytest.mark.parametrize("name", CAPTURES)
def test_same_as_tshark(shared: Path, name: str) -> None:
    frames, fields = CAPTURES[name]
    compared, faults = differences(shared / f"captures/opensm/{name}.pcap", frames)
    assert not faults, "\n".join(faults.values())
    assert compared > fields


def gsi_frame(mad: bytes) -> bytes:
    """An ERF record with a MAD to QP 1."""
    packet = bytes([0x64, 0, 0xFF, 0xFF]) + packing.pack(">IIII", 1, 0, 0x80010000, 1) + mad + bytes(4)
    packet = bytes([0x00, 0x02]) + packing.pack(">HHH", 1, (8 + len(packet)) // 4, 2) + packet + bytes(2)
    return packing.pack("<Q", 1 << 32) + bytes([21, 4]) + packing.pack(">HHH", 16 + len(packet), 0, len(packet)) + packet


def test_every_record_on_random_bytes(tmp_path: Path) -> None:
    """Captures lack some records, and most values; tshark reads all but MultiPathRecord, where it runs past the frame."""
    random = Random(15)
    mads = []
    for mgmt_class, attr_id in [*((0x03, attr_id) for attr_id in SA_TABLES), (0x04, 0x12), (0x04, 0x1D)] * 3:
        header = bytes([1, mgmt_class, 1, 0x81]) + bytes(4) + packing.pack(">QHHI", 7, attr_id, 0, 0)
        mads.append(header + bytes(12) + random.randbytes(220))
    frames = [packing.pack("<IIII", n, 0, len(f), len(f)) + f for n, f in enumerate(map(gsi_frame, mads))]
    path = tmp_path / "random.pcap"
    path.write_bytes(packing.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 197) + b"".join(frames))
    compared, faults = differences(path, len(mads))
    assert not faults, "\n".join(faults.values())
    assert compared > 1500


def test_the_two_counters_of_one_byte(tmp_path: Path) -> None:
    """PortCounters byte 19: tshark shows both halves rightly, but without a bit mask, so that PDML's value is the byte, twice."""
    mad = bytes([1, 4, 1, 0x81]) + bytes(4) + packing.pack(">QHHI", 7, 0x12, 0, 0) + bytes(40 + 19) + b"\x4d"
    frame = gsi_frame(mad.ljust(256, b"\0"))
    path = tmp_path / "counters.pcap"
    path.write_bytes(packing.pack("<IHHIIIIIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 197, 0, 0, len(frame), len(frame)) + frame)
    names = ("infiniband.portcounters.locallinkintegrityerrors", "infiniband.portcounters.excessivebufferoverrunerrors")
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", "-e", names[0], "-e", names[1]]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert shown == ["4", "13"]
    ours = decode(frame[16:], 28)
    assert [ours[name][0][1] for name in names] == [4, 13]
