"""docs/coverage.md is current, and every attribute of the facts is decoded to its last byte."""

from __future__ import annotations

import csv
import re
import runpy
from collections.abc import Callable
from pathlib import Path

from ibdissect.wire.catalog import builtin
from ibdissect.words import Struct
from tests.conftest import REFERENCE, REPO

ATTRIBUTES = REFERENCE / "attributes.csv"
LONGER = {
    # class, attribute: (bytes in the table, why ours are fewer: the rest is reserved or extends to the end of the datagram)
    ("0x01|0x81", "0x001C"): (64, "36 bytes have a meaning (Wireshark)"),
    ("0x03", "0x0012"): (72, "record of 68 bytes, sent every 72 (AttributeOffset 9)"),
    ("0x03", "0x0018"): (32, "record of 28 bytes, sent every 32"),
    ("0x03", "0x00F3"): (64, "record of 60 bytes, sent every 64 or 80"),
    ("0x03", "0x0038"): (56, "record of 52 bytes, sent every 56"),
}
NO_FIELDS = {("0x06", "0x0021"), ("0x06", "0x0022"), ("0x06", "0x0023")}
"""Attributes without data: only their method matters."""


def rows() -> list[dict[str, str]]:
    with ATTRIBUTES.open(encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if re.fullmatch("0x[0-9A-Fa-f]{4}", row["attr_id"])]


def structs_of(row: dict[str, str]) -> list[type[Struct]]:
    """All declarations for an attribute."""
    classes = [int(number, 16) for number in row["class"].removeprefix("OPA-").split("|")]
    version = 0x80 if row["class"].startswith("OPA-") else 1
    found = []
    for mgmt_class in classes:
        here = [s for p, s in builtin().attributes.get((mgmt_class, int(row["attr_id"], 16)), ()) if p.base_version == version]
        assert here or (row["class"], row["attr_id"]) in NO_FIELDS, f"class 0x{mgmt_class:02x} lacks {row['attr_id']} {row['name']}"
        found += here
    return found


def test_page_is_current(repo: Path, written: Callable[[Path, bytes | str], None]) -> None:
    written(repo / "docs/coverage.md", runpy.run_path(str(repo / "docs/coverage.py"))["page"]())


def test_attributes_are_decoded_to_their_last_byte() -> None:
    """Compares only where structures end, as `Struct` enforces that each field starts at the end of the previous one."""
    compared = 0
    for row in rows():
        lengths = [int(number) for number in re.findall(r"(?:^|/ )(\d+)", row["length_bytes"])]
        allowed = LONGER.get((row["class"], row["attr_id"]), (0, ""))[0]
        for struct in structs_of(row):
            open_ended = struct.fields[-1].kind == "rest"
            if lengths and not (open_ended and struct.size <= lengths[0]) and allowed not in lengths:
                assert struct.size >= max(lengths), f"{struct.__name__}: {struct.size} of {lengths} bytes"
                compared += 1
    assert compared > 100


def test_the_page_names_every_attribute() -> None:
    page = (REPO / "docs/coverage.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| (0x[0-9a-f]{4}|any) \| ([^|(]+?)(?: \([^|]*\))? \|", page, re.M))
    for (_, attr_id), found in builtin().attributes.items():
        for _, struct in found:
            assert (f"0x{attr_id:04x}", struct.title) in listed
