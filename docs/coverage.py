"""Decoded attributes by management class, and how far each is decoded. The text of docs/coverage.md, from the declarations."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ibdissect.wire.catalog import Catalog, StructType, builtin
from ibdissect.wire.mad import METHODS, class_text
from ibdissect.wire.places import VendorOui
from ibdissect.wire.spec import Field
from ibdissect.wire.undecoded import UNDECODED
from ibdissect.wire.vendor import oui_text

DOCS = Path(__file__).resolve().parent
TSHARK = DOCS / "coverage_tshark.csv"
OPAQUE = ("raw", "rest")
SMP_TITLE = "Subnet Management (0x01 LID routed, 0x81 directed route)"
HEAD = """# What is decoded

Made from the declarations; a test keeps it current. Bytes are those of the attribute:

* **named**: under a field with a name and a meaning;
* **opaque**: data that a user, a vendor or another standard fills as it likes (private data, VPD, details of a trap), shown as bytes;
  **inside**: how many structures explain such bytes where it is known what they are;
* **reserved**: reserved by the standard, shown as such.

Named, opaque and reserved bytes make up the whole attribute: a declaration with a gap does not load, and the tests compare offsets and
lengths with a second source. `+` marks an attribute that goes on as far as the datagram does. The columns of tshark are tshark 4.0.17's
named fields and the bytes under them, measured with one made packet per attribute, entries of a table counted one by one (ours
count once); a dash: not measured. The last column says where the layout is from ([sources.md](sources.md)).

NVIDIA's attributes are decoded as far as the open header ([open-header.md](open-header.md)) says. What it leaves out stays bytes: the whole
of TempSensing; of MlnxExtPortInfo, the bytes called Undocumented; the groups of ARGroupTable (which subgroup has which ports); and the
attributes at the end of this page, of which only the name is known. SHARP's aggregation management (class 0x0B) and the diagnostic
counters (class 0x0A, attribute 0x78) are among these.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One attribute of one class."""

    section: str
    number: str
    struct: StructType
    methods: frozenset[int] | None
    tshark: tuple[int, int, int] | None
    """Fields, bytes under them, bytes of the attribute."""


def leaves(struct: StructType) -> Iterator[tuple[Field[object], int]]:
    """Fields that take room of their own, with how often they are there; nested structures by their fields."""
    for field in struct.fields:
        if field.part_of is not None:
            continue
        if field.of is not None:
            for inner, count in leaves(field.of):
                yield inner, count * field.count
        else:
            yield field, field.count


def names(struct: StructType) -> int:
    """Distinct fields with a meaning, parts of fields and flags of masks among them."""
    own = sum(1 for field in struct.fields if field.kind not in ("pad", "nested"))
    return own + sum(names(field.of) for field in struct.fields if field.of is not None)


def measure(struct: StructType) -> tuple[float, float, float]:
    """Bytes that are named, opaque, reserved."""
    bits = {"named": 0, "opaque": 0, "reserved": 0}
    for field, count in leaves(struct):
        kind = "reserved" if field.kind == "pad" else "opaque" if field.kind in OPAQUE else "named"
        bits[kind] += field.bits * count
    return bits["named"] / 8, bits["opaque"] / 8, bits["reserved"] / 8


def tshark() -> dict[tuple[int, int], tuple[int, int, int]]:
    """What tshark decodes, by class and attribute."""
    with TSHARK.open(encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {(int(r["class"], 0), int(r["attr_id"], 0)): (int(r["fields"]), int(r["bytes"]), int(r["of"])) for r in rows}


def rows(catalog: Catalog) -> Iterator[Row]:
    """Every attribute, by class; those of subnet management once for both of its classes."""
    measured = tshark()
    for opa in (False, True):
        for (mgmt_class, attr_id), found in sorted(catalog.attributes.items()):
            for place, struct in found:
                if mgmt_class == 0x81 or (place.base_version == 0x80) is not opa:
                    continue
                section = SMP_TITLE if mgmt_class == 0x01 else class_text(mgmt_class)
                seen = None if opa else measured.get((mgmt_class, attr_id))
                yield Row(f"Omni-Path: {section}" if opa else section, f"0x{attr_id:04x}", struct, place.methods, seen)
    for other, struct in catalog.others:
        if isinstance(other, VendorOui):
            number = "any" if other.attr_id is None else f"0x{other.attr_id:04x}"
            yield Row(f"Vendor class 0x{other.mgmt_class:02x}, OUI {oui_text(other.oui)}", number, struct, None, None)


def page() -> str:
    """The whole page."""
    catalog = builtin()
    out, section = [HEAD], ""
    for row in rows(catalog):
        if row.section != section:
            section = row.section
            out.append(f"\n## {section}\n")
            out.append("| id | attribute | fields | bytes | named | opaque | inside | reserved | tshark fields | tshark bytes | source |")
            out.append("|---|---|---|---|---|---|---|---|---|---|---|")
        out.append(_line(row, catalog))
    out += ["\n## Upper layers\n", "| protocol | structure | fields | bytes | source |", "|---|---|---|---|---|"]
    out += (f"| {ulp_of(s)} | {s.title} | {names(s)} | {_bytes(s)} | {s.section} |" for s in catalog.structs if ulp_of(s))
    out += ["\n## Known by name only\n", "| class | id | attribute |", "|---|---|---|"]
    out += (f"| 0x{mgmt_class:02x} | 0x{attr_id:04x} | {name} |" for (mgmt_class, attr_id), name in sorted(UNDECODED.items()))
    return "\n".join(out) + "\n"


def ulp_of(struct: StructType) -> str:
    """The module of an upper layer that declares a structure; empty if none does."""
    room, _, module = struct.__module__.rpartition(".")
    return module if room == "ibdissect.wire.ulp" else ""


def _bytes(struct: StructType) -> str:
    return f"{struct.size}+" if any(field.kind == "rest" for field in struct.fields) else str(struct.size)


def _line(row: Row, catalog: Catalog) -> str:
    struct = row.struct
    inside = len(catalog.inside.get(struct, ()))
    title = struct.title
    if row.methods is not None:
        title += f" ({', '.join(METHODS[method] for method in sorted(row.methods))})"
    named, opaque, reserved = (f"{value:g}" for value in measure(struct))
    fields, covered = ("-", "-") if row.tshark is None else (str(row.tshark[0]), f"{row.tshark[1]} of {row.tshark[2]}")
    cells = (row.number, title, names(struct), _bytes(struct), named, opaque, inside or "", reserved, fields, covered, struct.section)
    return "| " + " | ".join(map(str, cells)) + " |"
