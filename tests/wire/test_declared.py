"""A declaration changes only on purpose, and its bits are where tests/reference/declared.csv has them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ibdissect.wire.catalog import builtin
from ibdissect.wire.spec import BIT_KINDS
from tests.cases import few
from tests.wire.declared import TABLE, short_of, table
from tests.wire.names import struct_id

PLACE = re.compile(r"(\d+)\+(\d+)(?:x(\d+))? ")
STORED = {(module, name): text for module, name, text in csv.reader(io.StringIO(TABLE.read_text(encoding="utf-8")))}
PATTERNS = (b"\xff", b"\x00", b"\x80", b"\x01", bytes(n * 37 + 11 & 0xFF for n in range(256)), bytes(n * 101 & 0xFF for n in range(256)))


@pytest.mark.slow
def test_declarations_are_those_of_the_table(written: Callable[[Path, bytes | str], None]) -> None:
    """Names, places, kinds, values and their names, and the constants of the standard: scripts, filters and baselines rely on them."""
    written(TABLE, table())


@few("pattern", PATTERNS, ids=["ones", "zeros", "high bits", "low bits", "rising", "falling"], fast=(2, 3, 4, 5))
def test_every_field_reads_the_bits_of_the_table(pattern: bytes) -> None:
    """Shift and mask of each field, against one big number that is shifted by the table's places."""
    read = 0
    for struct in builtin().structs:
        module = struct.__module__.removeprefix("ibdissect.wire.")
        data = (pattern * (struct.size // len(pattern) + 1))[: struct.size]
        view, number = struct(data), int.from_bytes(data, "big")
        for field in struct.fields:
            place = PLACE.match(STORED.get((module, f"{struct.__name__}.{field.name}"), ""))
            if place is None or field.kind not in BIT_KINDS or field.little or (field.part_of is not None and field.part_of[0].little):
                continue
            first, bits, count = (int(word or 1) for word in place.groups())
            want = [number >> (8 * struct.size - at - bits) & ((1 << bits) - 1) for at in range(first, first + bits * count, bits)]
            value = field.__get__(view, struct)
            assert list(value if field.count > 1 else (value,)) == want, f"{struct_id(struct)}.{field.name}"
            read += 1
    assert read >= 3000


def test_a_text_that_is_cut_differs_wherever_it_differs() -> None:
    assert short_of("a" * 151) == "a" * 151 and len(short_of("a" * 152)) < 155
    assert short_of("a" * 400 + "b") != short_of("a" * 401)
