"""Values that depend on their datagram's header read well, alike in trees and in JSON."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ibdissect.dissect.frame_trees import dissect_row
from ibdissect.dissect.json_lines import JsonLines
from ibdissect.dissect.shown_value import Presenter
from ibdissect.wire.catalog import builtin
from ibdissect.wire.sa import components_of
from ibdissect.words import Struct
from tests.cases import every
from tests.craft import gmp, mad, smp, ud
from tests.decode.made import native_table

PATH_QUERY = gmp(0x03, 0x12, 0x35, struct.pack(">12x8xHxxQ", 0, 1 << 2 | 1 << 3 | 1 << 13), at=24)
PORT_QUERY = gmp(0x03, 0x12, 0x12, struct.pack(">12x8xHxxQ", 0, 1 << 0 | 1 << 5 | 1 << 46), at=24)
GUID_QUERY = gmp(0x03, 0x12, 0x30, struct.pack(">12x8xHxxQ", 0, 1 << 0 | 1 << 6), at=24)
REFUSED = gmp(0x03, 0x92, 0x11, header={"status": 0x0300})
DM_REFUSED = gmp(0x06, 0x81, 0x10, header={"status": 0x0100})
ROUTE = smp(0x01, 0x15, modifier=3, path=[1, 7])
KEYS = smp(0x01, 0x16, modifier=0x00020003)
HANDOVER = smp(0x02, 0x20, modifier=1)
UNKNOWN = gmp(0x04, 0x01, 0x7777, header={"attribute_modifier": 5})
LONG = bytearray(mad(0x81, 0x01, 0x11, class_specific=200))
TOO_FAR = ud(bytes(LONG), dest_qp=0, src_qp=0, q_key=0)

CASES = [
    (PATH_QUERY, "infiniband.mad.attributeid", "PathRecord (0x0035)"),
    (PATH_QUERY, "infiniband.sa.componentmask", "0x000000000000200c (DGID, SGID, P_Key)"),
    (PORT_QUERY, "infiniband.sa.componentmask", "0x0000400000000021 (EndportLID, PortInfo.LID, bit 46)"),
    (GUID_QUERY, "infiniband.sa.componentmask", "0x0000000000000041 (LID, GUIDInfo.GUIDBlock[2])"),
    (REFUSED, "infiniband.mad.status", "0x0300 (no records)"),
    (DM_REFUSED, "infiniband.mad.status", "0x0100 (no response from IOC)"),
    (ROUTE, "infiniband.mad.attributemodifier", "0x00000003 (port 3)"),
    (ROUTE, "infiniband.smpdirected.initialpath", "ports 1, 7 (2 hops)"),
    (KEYS, "infiniband.mad.attributemodifier", "0x00020003 (port 2 block 3)"),
    (HANDOVER, "infiniband.mad.attributemodifier", "0x00000001 (HANDOVER)"),
    (UNKNOWN, "infiniband.mad.attributeid", "0x7777"),
    (UNKNOWN, "infiniband.mad.attributemodifier", "0x00000005"),
    (TOO_FAR, "infiniband.smpdirected.initialpath", f"{bytes(64).hex()} (200 hops do not fit)"),
]


def in_json(fields: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for field in fields:
        yield field
        yield from in_json(field.get("fields", []))


@pytest.mark.slow
@every(("frame", "name", "text"), CASES)
def test_text(frame: bytes, name: str, text: str) -> None:
    table = native_table([frame])
    tree = dissect_row(table, 0, Presenter())
    assert [node.text for node in tree.walk() if node.name == name] == [text]


def test_json_says_the_same_for_rows_of_one_shape() -> None:
    frames = [frame for frame, _, _ in CASES]
    table = native_table(frames)
    for line, (_, name, text) in zip(JsonLines(Presenter()).lines(table, np.arange(len(frames))), CASES, strict=True):
        found = [field for layer in json.loads(line)["layers"] for field in in_json(layer["fields"]) if field["name"] == name]
        assert [field["text"] for field in found] == [text]


def inside(record: type[Struct]) -> Iterator[type[Struct]]:
    """A structure and all nested ones."""
    yield record
    for field in record.fields:
        if field.of is not None:
            yield from inside(field.of)


@pytest.mark.slow
def test_every_component_has_a_label_that_people_know() -> None:
    """As the tree lists those of a mask with all bits."""
    records = {attr_id: [record for _, record in found if any(components_of(record))]
               for (mgmt_class, attr_id), found in sorted(builtin().attributes.items()) if mgmt_class == 0x03}  # fmt: skip
    attributes = [attr_id for attr_id, found in records.items() if found]
    table = native_table(gmp(0x03, 0x12, attr_id, struct.pack(">24xQ", (1 << 64) - 1), at=24) for attr_id in attributes)
    for row, attr_id in enumerate(attributes):
        (text,) = (node.text for node in dissect_row(table, row, Presenter()).walk() if node.name == "infiniband.sa.componentmask")
        said = [name for name in text.partition("(")[2].removesuffix(")").split(", ") if not name.startswith("bit ")]
        record = records[attr_id][0]
        labels = {field.label for struct in inside(record) for field in struct.fields}
        assert len(said) == len([*filter(None, components_of(record))]), record.__name__
        for name in said:
            assert name.rpartition(".")[2].partition("[")[0] in labels, f"{record.__name__}: {name}"
