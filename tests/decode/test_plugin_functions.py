"""All functions of a plugin are called on every chunk, whoever asks, and those of ours are not."""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

import pytest

import ibdissect
from ibdissect.decode.computed_fields import value_of
from ibdissect.decode.plugin_functions import functions_of, try_functions
from ibdissect.failures import Failures, collected
from ibdissect.wire.catalog import builtin
from ibdissect.wire.headers import BTH
from ibdissect.words import column
from tests.cases import every
from tests.craft import build, erf_pcap, gmp

PLUGIN = """
from ibdissect.wire.column import column
from ibdissect.wire.places import Parsed, VendorOui
from ibdissect.wire.spec import Struct, raw, rest, uint

CALLED = []


class X(Struct):
    prefix, key, size, carried_by = "bb", "x", 4, VendorOui(0xACE2, 0x32, 0x0100)
    a = uint(16, "A", show=lambda value: CALLED.append(("a", value)) or "")
    b = raw(2, "B", show=lambda value: CALLED.append(("b", bytes(value))) or "")
    body = rest("Body")


def find(data):
    CALLED.append(("find", len(data)))
    return [0]


class Y(Struct):
    prefix, key, size, carried_by = "bb", "y", 1, Parsed(X.body, find)
    c = uint(8, "C")


double = column(X, "double", lambda x: CALLED.append("double") or 2 * x.a, "Double")
"""


def capture(*values: int) -> BytesIO:
    return BytesIO(erf_pcap([gmp(0x32, 0x81, 0x0100, bytes.fromhex(f"0000ace2 000{i} 0004 05"), at=36) for i in values]))


def test_each_is_called(tmp_path: Path) -> None:
    (tmp_path / "calls.py").write_text(PLUGIN)
    with ibdissect.open(capture(3, 3, 5), plugins=[str(tmp_path / "calls.py")]) as reading:
        called = next(vars(sys.modules[one.__module__])["CALLED"] for one in functions_of(reading.catalog).structs)
        (table,) = map(reading.table_of, reading.chunks())
        try_functions(table)
    assert {one for one in called if one[0] in "ab"} == {("a", 3), ("a", 5), ("b", b"\0\4")}
    assert called.count("double") == 3 and sum(one[0] == "find" for one in called) == 3
    assert called.count(("a", 3)) == 1, "a value that came before is not shown again"


def test_ours_are_not() -> None:
    assert not functions_of(builtin())


@pytest.mark.parametrize("fails", [True, False])
def test_learning_tries_them_once(fails: bool, tmp_path: Path) -> None:
    (tmp_path / "tries.py").write_text(PLUGIN.replace("return [0]", "raise OSError" if fails else "return [0]"))
    failures = Failures()
    with collected(failures), ibdissect.open(capture(3), plugins=[str(tmp_path / "tries.py")]) as reading:
        for table in reading.tables(keys=False):
            reading.learn(table)
    assert bool(failures) == fails and [one.count for one in failures.found.values()] == [1] * fails


@every(
    ("number", "kept"),
    [
        ((1 << 63) - 1, (1 << 63) - 1),
        (1 << 63, (1 << 63) - 1),
        (-(1 << 63), -(1 << 63)),
        (-(1 << 63) - 1, -(1 << 63)),
        (0, 0),
        (-1, -1),
        (True, 1),
    ],
)
def test_numbers_of_functions_are_cut_to_64_bits(number: int, kept: int) -> None:
    view = BTH(build(BTH, psn=5))
    assert value_of(column(BTH, "made", lambda _: number, "Made"), view) == kept
    assert value_of(column(BTH, "said", lambda _: "x", "Said", kind="text"), view) == "x"
