"""The subnet management structures read captured SMPs, notices and subscriptions exactly as tshark does."""

from __future__ import annotations

import ipaddress
import re
import shutil
import struct as packing
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ibdissect.wire.catalog import builtin
from ibdissect.wire.spec import Field
from ibdissect.wire.text import plain_value
from ibdissect.words import Struct
from tests.craft import bytes_as

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")]

CAPTURES = (
    "15-diags", "01-sweep-net1", "10-partitions", "12-two-sms", "13-link-flaps", "20b-qos-optimized-slvl", "26-informinfo-reports",
    "33-mkey-enforced-prot2",
)  # fmt: skip
FRAMES = 400
ATTRIBUTES = {0x01: range(0x10000), 0x81: range(0x10000), 0x03: range(0x0004)}

TSHARK_WRONG = {
    "infiniband.smpdirected.d": "masks one byte with 0x8000, so it is always 0",
    "infiniband.rmpp.rresptime": "4 bits for 5",
    "infiniband.rmpp.rmppflags": "4 bits for 3",
    "infiniband.linkspeedwidthpairstable.speedtwofive": "one bit of an 8-bit map",
    "infiniband.linkspeedwidthpairstable.speedfive": "one bit of an 8-bit map",
    "infiniband.linkspeedwidthpairstable.speedten": "one bit of an 8-bit map",
}
"""Proven mistakes of tshark 4.0.17 in the names compared here."""
NOT_COMPARED = ("infiniband.sa.", "infiniband.invariant", "infiniband.variant", "infiniband.mad.data", "infiniband.rmpp.")


def flat(view: Struct, start: int) -> Iterator[tuple[str, int, Any]]:
    """Name, byte in the MAD and JSON value of every field, entries of tables one by one, filled fields followed."""
    struct = type(view)
    for field in struct.fields:
        for bit in field.entries():
            value = field.read(view, bit)
            if field.kind == "nested":
                yield from flat(value, start)
            else:
                yield field.filter_name, view.offset - start + bit // 8, plain_value(field, value)
        for place, inner in builtin().inside.get(struct, ()):
            if place.field is field and all(_read(f, view) in values for f, values in place.when):
                yield from flat(inner(view.buffer, view.offset + field.bit // 8), start)


def _read(field: Field[Any], view: Struct) -> Any:
    return field.read(view, field.bit)


def decode(data: bytes) -> Iterator[tuple[str, int, Any]]:
    """Everything the catalog knows of one MAD."""
    header = bytes_as("MAD", data)
    yield from flat(header, 0)
    catalog = builtin()
    for struct in catalog.formats.get((header.mgmt_class, header.base_version), ()):
        yield from flat(struct(data), 0)
    at = {0x03: 56}.get(header.mgmt_class) or catalog.data_at(header.mgmt_class, header.base_version)
    for place, struct in catalog.attributes.get((header.mgmt_class, header.attribute_id), ()):
        if place.base_version == header.base_version:
            yield from flat(struct(data, at), 0)


def same(value: Any, digits: str, size: int) -> bool:
    """Whether our JSON value says what tshark's hex digits (already shifted for bit fields) say."""
    want = int(digits, 16)
    if isinstance(value, int):
        return int(value) == want
    raw = bytes.fromhex(digits.rjust(2 * size, "0")) if len(digits) <= 2 * size else b""
    if value in (raw.rstrip(b"\0").decode("utf-8", "replace"), raw.split(b"\0")[0].decode("utf-8", "replace")):
        return True
    try:
        return int(ipaddress.ip_address(value)) == want
    except ValueError:
        return bool(value == raw.hex())


def tshark_mads(path: Path, frames: int) -> Iterator[tuple[bytes, list[tuple[str, int, int, str]]]]:
    """Bytes of each MAD, and tshark's leaf fields in it: name, byte in the MAD, size, hex digits."""
    done = subprocess.run(
        ["tshark", "-n", "-r", str(path), "-T", "pdml", "-c", str(frames), "-o", "infiniband.try_heuristic_first:FALSE"],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    records = list(pcap_records(path.read_bytes(), frames))
    for number, packet in enumerate(re.findall(r"<packet>.*?</packet>", done.stdout, re.S)):
        fields = list(ET.fromstring(packet).iter("field"))
        base = next((int(f.get("pos", "0")) for f in fields if f.get("name") == "infiniband.mad.baseversion"), None)
        if base is None:
            continue
        leaves = [
            (f.get("name", ""), int(f.get("pos", "0")) - base, int(f.get("size", "0")), f.get("value", ""))
            for f in fields
            if f.get("name", "").startswith("infiniband.") and not len(f) and f.get("value") and int(f.get("pos", "0")) >= base
        ]
        yield records[number][16 + base : 16 + base + 256], leaves


def pcap_records(data: bytes, count: int) -> Iterator[bytes]:
    """Records of a little-endian pcap of ERF frames."""
    at = 24
    while at < len(data) and count:
        size = packing.unpack_from("<I", data, at + 8)[0]
        yield data[at + 16 : at + 16 + size]
        at, count = at + 16 + size, count - 1


def differences(path: Path, frames: int) -> tuple[int, dict[str, str]]:
    """How many leaves were compared, and what differs: name -> first difference."""
    compared = 0
    faults: dict[str, str] = {}
    for data, leaves in tshark_mads(path, frames):
        if len(data) < 256 or bytes_as("MAD", data).attribute_id not in ATTRIBUTES.get(bytes_as("MAD", data).mgmt_class, ()):
            continue
        ours: dict[str, list[tuple[int, Any]]] = defaultdict(list)
        for name, at, value in decode(data):
            ours[name].append((at, value))
        for name, at, size, digits in leaves:
            if ".reserved" in name or name in TSHARK_WRONG or name.startswith(NOT_COMPARED):
                continue
            compared += 1
            hit = next((have for have in ours[name] if at <= have[0] < at + max(size, 1) and same(have[1], digits, size)), None)
            if hit is None:
                attribute = bytes_as("MAD", data).attribute_id
                faults.setdefault(name, f"{name} at {at}: tshark {digits}, here {ours[name][:3]}, attribute {attribute:#06x}")
            else:
                ours[name].remove(hit)
    return compared, faults


@pytest.mark.parametrize("name", CAPTURES)
def test_same_as_tshark(shared: Path, name: str) -> None:
    compared, faults = differences(shared / f"captures/opensm/{name}.pcap", FRAMES)
    assert not faults, "\n".join(faults.values())
    assert compared > 2000


def erf_frame(mad: bytes) -> bytes:
    """An ERF record with an SMP to QP 0 on VL 15."""
    packet = bytes([0x64, 0, 0xFF, 0xFF]) + bytes(4) + packing.pack(">I", 1) + bytes(8) + mad + bytes(4)
    packet = bytes([0xF0, 0x02]) + packing.pack(">HHH", 1, (8 + len(packet)) // 4, 2) + packet + bytes(2)
    return packing.pack("<Q", 1 << 32) + bytes([21, 4]) + packing.pack(">HHH", 16 + len(packet), 0, len(packet)) + packet


def smp_of(mgmt_class: int, method: int, attr_id: int, data: bytes) -> bytes:
    """A whole SMP with `data` as its attribute."""
    header = bytes([1, mgmt_class, 1, method]) + bytes(4) + packing.pack(">QHHI", 7, attr_id, 0, 0)
    return (header + bytes(40) + data).ljust(256, b"\0")


def test_every_attribute_and_trap_on_random_bytes(tmp_path: Path) -> None:
    """Captures lack many attributes and traps; tshark reads them all (but trap 259, where it gives up)."""
    random = Random(20)
    mads = [
        smp_of(mgmt_class, 0x81, attr_id, random.randbytes(64))
        for mgmt_class in (0x01, 0x81)
        for attr_id in (*range(0x10, 0x21), 0x30, 0x31)
        if attr_id != 0x10
    ]
    for number in (64, 65, 66, 67, 68, 69, 128, 129, 130, 131, 144, 145, 256, 257, 258):
        for _ in range(3):
            head = bytes([0x80 | random.randrange(128)]) + random.randbytes(3) + packing.pack(">H", number)
            mads.append(smp_of(0x01, 0x05, 0x0002, head + random.randbytes(58)))
    frames = [packing.pack("<IIII", n, 0, len(f), len(f)) + f for n, f in enumerate(map(erf_frame, mads))]
    path = tmp_path / "random.pcap"
    path.write_bytes(packing.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 197) + b"".join(frames))
    compared, faults = differences(path, len(mads))
    assert not faults, "\n".join(faults.values())
    assert compared > 2000


def test_tshark_never_sees_a_direction_bit(shared: Path) -> None:
    """The proven mistake: half of a sweep's frames return, and all have D set in the status."""
    seen: Counter[tuple[int, int]] = Counter()
    for data, leaves in tshark_mads(shared / "captures/opensm/01-sweep-net1.pcap", 40):
        for name, _, _, digits in leaves:
            if name == "infiniband.smpdirected.d":
                seen[int(digits, 16), data[4] >> 7] += 1
    assert seen[0, 1] > 0 and seen[1, 1] == 0
