"""All functions of a plugin are called on every chunk, whoever asks."""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

import pytest

import ibdissect
from tests import commands
from tests.craft import erf_pcap, gmp

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
        (called,) = {id(found := vars(sys.modules[one.__module__])["CALLED"]): found for one in reading.catalog.of_plugins}.values()
        called.clear()
        assert len(list(reading.tables())) == 1
    assert {one for one in called if one[0] in "ab"} == {("a", 3), ("a", 5), ("b", b"\0\4")}
    assert called.count("double") == 3 and sum(one[0] == "find" for one in called) == 3
    assert called.count(("a", 3)) == 1, "a value that came before is not shown again"


@pytest.mark.parametrize(
    ("command", "values", "said"), [("lint", (3, 3, 5), "failed (and 2 more times): OSError"), ("stats", (3,), "failed: OSError")]
)
def test_one_that_fails_is_told_once_whoever_asks(command: str, values: tuple[int, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "bb.py").write_text(PLUGIN.replace("return [0]", "raise OSError"))
    (tmp_path / "a.pcap").write_bytes(capture(*values).getvalue())
    done = commands.run(command, "a.pcap", "--plugin", "bb.py", cwd=tmp_path, text=True)
    (told,) = (line for line in done.stderr.splitlines() if "plugin function" in line)
    assert f"find (bb.py:16) {said}" in told.replace(f"{tmp_path}/", "")
