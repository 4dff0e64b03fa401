"""The table of methods and modifiers agrees with the catalogue of attributes, and open headers name no attribute that is unknown."""

from __future__ import annotations

import csv
import re

from ibdissect.wire.attribute_methods import REQUESTS
from tests.cases import every
from tests.conftest import REFERENCE
from tests.craft import gmp, smp
from tests.rules.findings import lint

NUMBERED = 0x00FF
NUMBER = re.compile("0x[0-9A-Fa-f]{4}")
WIDER = {
    (0x03, 0x01): "Set of ClassPortInfo: where traps go", (0x04, 0x01): "the same", (0x08, 0x01): "the same",
    (0x03, 0x02): "Get and Set of Notice are common", (0x03, 0x03): "Get of InformInfo is common", (0x03, 0x3A): "GetTraceTable, too",
    (0x04, 0x1E): "python-rdma lists Set", (0x21, 0x01): "Set", (0x01, 0x10): "Set with CapabilityMask2 bit 0", (0x81, 0x10): "the same",
    (0x01, 0x32): "later standards", (0x81, 0x32): "later standards",
}  # fmt: skip
"""Where the table allows more than the catalogue, and why."""


def listed() -> list[tuple[int, int, frozenset[int], str]]:
    """Class, attribute, request methods and modifier rule of the catalogue."""
    found = []
    with open(REFERENCE / "attributes.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if not row["class"].startswith("0x") or "-" in row["class"] or not NUMBER.fullmatch(row["attr_id"]):
                continue
            methods = {int(word, 16) for part in row["methods"].split("|") for word in part.split() if word.startswith("0x")}
            for mgmt_class in row["class"].split("|"):
                requests = frozenset(method for method in methods if method < 0x80)
                found.append((int(mgmt_class, 16), int(row["attr_id"], 16), requests, row["modifier_rule"]))
    return found


@every(("mgmt_class", "attribute", "methods", "rule"), listed())
def test_agrees_with_the_catalogue(mgmt_class: int, attribute: int, methods: frozenset[int], rule: str) -> None:
    known = REQUESTS.get(mgmt_class, {}).get(attribute)
    if known is None or not methods:
        return
    assert methods <= known.methods
    assert known.methods == methods or (mgmt_class, attribute) in WIDER
    if known.no_modifier:
        assert rule.startswith("AM==0")


def test_every_attribute_of_the_catalogue_is_in_the_table() -> None:
    missing = {(hex(c), hex(a)) for c, a, methods, _ in listed() if methods and a not in REQUESTS.get(c, {}) and a < NUMBERED}
    assert missing <= {("0x1", "0x32"), ("0x81", "0x32"), ("0x1", "0x33"), ("0x81", "0x33")}, "layouts of later standards"


def test_attributes_of_open_headers_are_known() -> None:
    """umad_attributes.csv: tests/reference/umad_attributes.py reads it from a copy of the headers of libibumad and libibmad."""
    with open(REFERENCE / "umad_attributes.csv", newline="", encoding="utf-8") as file:
        rows = [(int(row["class"], 16), int(row["attribute"], 16)) for row in csv.DictReader(file)]
    assert len(rows) > 90
    frames = [smp(1, a, path=[1] * (c == 0x81)) if c in (0x01, 0x81) else gmp(c, 1, a) for c, a in rows]
    assert not [rows[finding.frame - 1] for finding in lint(frames, "MAD011")]
    assert lint([gmp(0x03, 1, 0x3F)], "MAD011"), "the test can fail"
