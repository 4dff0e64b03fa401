"""Is docs/coverage.md current, and is every attribute of the facts decoded to its last byte?"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ibdissect.wire.catalog import builtin
from ibdissect.wire.spec import Struct
from tests.conftest import REPO, SHARED

ATTRIBUTES = SHARED / "reference/attributes.csv"
LONGER = {
    # class, attribute: (bytes the table names, why ours are fewer: the rest is reserved or up to the end of the datagram)
    ("0x01|0x81", "0x001C"): (64, "36 bytes have a meaning (Wireshark)"),
    ("0x03", "0x0012"): (72, "record of 68 bytes, sent every 72 (AttributeOffset 9)"),
    ("0x03", "0x0018"): (32, "record of 28 bytes, sent every 32"),
    ("0x03", "0x00F3"): (64, "record of 60 bytes, sent every 64 or 80"),
    ("0x03", "0x0038"): (56, "record of 52 bytes, sent every 56"),
}
NO_FIELDS = {("0x06", "0x0021"), ("0x06", "0x0022"), ("0x06", "0x0023")}
"""Attributes without data: the method is all they say."""


def rows() -> list[dict[str, str]]:
    if not ATTRIBUTES.is_file():
        return []
    with ATTRIBUTES.open(encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if re.fullmatch("0x[0-9A-Fa-f]{4}", row["attr_id"])]


def structs_of(row: dict[str, str]) -> list[type[Struct]]:
    """Every declaration for an attribute."""
    classes = [int(number, 16) for number in row["class"].removeprefix("OPA-").split("|")]
    version = 0x80 if row["class"].startswith("OPA-") else 1
    found = []
    for mgmt_class in classes:
        here = [s for p, s in builtin().attributes.get((mgmt_class, int(row["attr_id"], 16)), ()) if p.base_version == version]
        assert here or (row["class"], row["attr_id"]) in NO_FIELDS, f"class 0x{mgmt_class:02x} lacks it"
        found += here
    return found


def test_page_is_current(repo: Path) -> None:
    done = subprocess.run([sys.executable, "docs/coverage.py", "--check"], cwd=repo, env={"PYTHONPATH": str(repo)}, check=False)
    assert done.returncode == 0, "run python docs/coverage.py"


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['class']}-{row['attr_id']}-{row['name']}")
def test_attribute_is_decoded_to_its_last_byte(row: dict[str, str]) -> None:
    lengths = [int(number) for number in re.findall(r"(?:^|/ )(\d+)", row["length_bytes"])]
    for struct in structs_of(row):
        # Bit for bit: every field begins where the one before ends, which `Struct` enforces; here only the ends are compared.
        assert sum(field.bits * field.count for field in struct.fields if field.part_of is None) == struct.size * 8
        open_ended = struct.fields[-1].kind == "rest"
        allowed = LONGER.get((row["class"], row["attr_id"]), (0, ""))[0]
        if lengths and not (open_ended and struct.size <= lengths[0]) and allowed not in lengths:
            assert struct.size >= max(lengths), f"{struct.__name__}: {struct.size} of {lengths} bytes"


def test_the_page_names_every_attribute() -> None:
    page = (REPO / "docs/coverage.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| (0x[0-9a-f]{4}|any) \| ([^|(]+?)(?: \([^|]*\))? \|", page, re.M))
    for (_, attr_id), found in builtin().attributes.items():
        for _, struct in found:
            assert (f"0x{attr_id:04x}", struct.title) in listed
