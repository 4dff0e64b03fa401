"""Every field of a manufacturer's structure has a source of its own (tests/reference/vendor_fields.csv)."""

from __future__ import annotations

import csv

from ibdissect.wire.catalog import builtin
from tests.cases import every
from tests.conftest import REFERENCE

MODULES = ("nvidia", "qos", "vendor")
"""How the modules begin whose structures manufacturers define; those of the standards are in fields.csv."""
TABLE = REFERENCE / "vendor_fields.csv"


def declared() -> dict[tuple[str, str], str]:
    """Place and width in bits of every field that is not reserved, by structure and name."""
    found = {}
    for struct in builtin().structs:
        if struct.__module__.removeprefix("ibdissect.wire.").startswith(MODULES):
            own = [field for field in struct.fields if field.kind != "pad"]
            found |= {(struct.__name__, field.name): f"{field.bit}+{field.bits * field.count}" for field in own}
    return found


def missing(fields: dict[tuple[str, str], str], table: list[dict[str, str]]) -> list[str]:
    """The fields that no row has at their place, or of which it does not say where that is from."""
    known = {(row["structure"], row["field"]): row["bits"] for row in table if row["source"].strip()}
    return [f"{struct}.{name} ({bits})" for (struct, name), bits in fields.items() if known.get((struct, name)) != bits]


def rows() -> list[dict[str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_field_has_a_source() -> None:
    fields, table = declared(), rows()
    assert len(fields) > 500
    assert missing(fields, table) == [], "say in tests/reference/vendor_fields.csv where these are from"
    assert {(row["structure"], row["field"]) for row in table} <= fields.keys(), "these fields are not declared any more"


@every(("bits", "source"), [("8+4", "manual 3"), ("8+3", ""), ("8+3", " "), ("9+3", "manual 3")])
def test_a_field_elsewhere_or_without_a_source_is_missing(bits: str, source: str) -> None:
    row = {"structure": "S", "field": "f", "bits": bits, "source": source}
    assert missing({("S", "f"): "8+3"}, [row]) == ["S.f (8+3)"] and not missing({("S", "f"): "8+3"}, [row | {"bits": "8+3", "source": "m"}])
