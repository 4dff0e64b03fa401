"""The compiled helpers say what the interpreted ones say."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.engine.plain import FOLDER, plain

common = plain("common")


def test_both_files_have_the_same_helpers() -> None:
    """But for what takes a pointer, which the compiler alone has."""
    names = set(re.findall(r"cdef inline [\w ]*?(\w+)\((?!const u8\*)", (FOLDER / "common.pxd").read_text(encoding="utf-8")))
    assert names == set(re.findall(r"    def (\w+)\(", (FOLDER / "common.py").read_text(encoding="utf-8"))) and len(names) > 4


def test_functions_that_return_i64_say_so_in_both_files() -> None:
    """Else Cython 3.3 makes C of them that no compiler takes, and the module is left interpreted (docs/decisions/one-engine.md)."""
    known = 0
    for declared in sorted(FOLDER.glob("*.pxd")):
        code = declared.with_suffix(".py").read_text(encoding="utf-8")
        for name in re.findall(r"^ *cp?def i64 (\w+)\(", declared.read_text(encoding="utf-8"), re.MULTILINE):
            known += 1
            pattern = rf"@cython\.c(func|call)\n *@cython\.exceptval\(-\d+\)\n *def {name}\("
            assert re.search(pattern, code), f"{name} in {declared.stem}.py lacks `cfunc` (or `ccall`) and `exceptval`"
    assert known > 8


@given(st.binary(min_size=8, max_size=40))
def test_numbers_are_read_big_endian(data: bytes) -> None:
    assert common.b16(data, 1) == int.from_bytes(data[1:3], "big")
    assert common.b24(data, 1) == int.from_bytes(data[1:4], "big")
    assert common.b32(data, 2) == int.from_bytes(data[2:6], "big")
    assert common.cut(data, 2, 5) == data[2:5] and common.cut(data, 5, 5) == b"" and common.cut(data, 2, 99) == data[2:]
    assert common.b64(data, 0) == int.from_bytes(data[:8], "big")


@given(st.binary(max_size=40), st.integers(0, (1 << 64) - 1))
def test_a_hash_has_64_bits_and_depends_on_each_byte(data: bytes, h: int) -> None:
    found = common.hashed(data, 0, len(data), h)
    assert 0 <= found < 1 << 64
    for at in range(len(data)):
        other = bytearray(data)
        other[at] ^= 1
        assert common.hashed(other, 0, len(data), h) != found


@given(st.integers(0, (1 << 24) - 1), st.integers(-(1 << 23), (1 << 23) - 1))
def test_a_psn_is_ahead_by_less_than_half_a_turn(psn: int, ahead: int) -> None:
    assert common.distance((psn + ahead) % (1 << 24), psn) == ahead
