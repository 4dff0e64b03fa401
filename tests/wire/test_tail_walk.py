"""The parts of a structure of variable size: which are there, where they begin, and what is said of one that does not fit."""

from __future__ import annotations

import pytest

from ibdissect.wire.tail_walk import walk
from ibdissect.words import Struct, choice, optional, raw, repeat, text, text_until, uint
from tests.cases import every
from tests.wire.test_tail import Sized


class Head(Struct):
    """Four fields, and parts that depend on them in every way that a condition may be written."""

    prefix, key, size = "listed", "every", 4
    a = uint(8, "A")
    b = uint(8, "B")
    c = uint(8, "C")
    d = uint(8, "D")
    both = optional((a == 1) & (b != 2), uint(8, "Both"))
    either = optional((a < 2) | (b > 3), uint(8, "Either"))
    unlike = optional(~(a <= 1), uint(8, "Unlike"))
    among = optional(c.isin([3, 5]), uint(8, "Among"))
    set_ = optional(d, uint(8, "Set"))
    low = optional(d & 1, uint(8, "Low"))
    up = optional((d << 1) - (d >> 1) * 2 + 1 >= 4, uint(8, "Up"))


@pytest.mark.slow
@every("a", range(4))
@every("b", range(5))
def test_which_parts_are_there(a: int, b: int) -> None:
    for c in range(7):
        for d in range(4):
            view = Head(bytes([a, b, c, d]) + bytes(range(1, 9)))
            there = [a == 1 and b != 2, a < 2 or b > 3, not a <= 1, c in (3, 5), d != 0, d & 1 == 1, (d << 1) - (d >> 1) * 2 + 1 >= 4]
            values = [view.both, view.either, view.unlike, view.among, view.set_, view.low, view.up]
            assert [value is not None for value in values] == there
            assert [value for value in values if value is not None] == list(range(1, sum(there) + 1)), "one behind the other"


class Fixed(Struct):
    """A run of fields behind a text."""

    prefix, key, size = "listed", "fixed", 2
    length = uint(8, "Length")
    kind = uint(8, "Kind")
    word = text(length, "Word", align=4)
    number = uint(16, "Number")
    other = uint(8, "Other")
    chosen = choice(kind, {1: Sized}, "Chosen", ws="pick")
    last = repeat(uint(8, "Last"))


@every(
    ("data", "why"),
    [
        (b"", "Fixed needs 2 bytes, 0 are there"), (b"\2", "Fixed needs 2 bytes, 1 are there"),
        (b"\2\0a", "Word should have 2 bytes, 1 are there"),
        (b"\2\0", "Word should have 2 bytes, 0 are there"), (b"\2\0ab", "Number should have 3 bytes, 0 are there"),
        (b"\1\0a_\0\5", "Number should have 3 bytes, 2 are there"), (b"\2\0ab\0\5", "Number should have 3 bytes, 2 are there"),
        (b"\2\0ab\0\5\6", ""), (b"\2\1ab\0\5\6\7", "Sized needs 2 bytes, 1 are there"), (b"\2\1ab\0\5\6\7\0", ""),
        (b"\2\1ab\0\5\6\7\1", ""),
    ],
)  # fmt: skip
@every("before", [0, 3])
def test_what_does_not_fit_is_said(data: bytes, why: str, before: int) -> None:
    """Wherever the structure begins. A structure inside says itself what does not fit into it."""
    found = walk(Fixed, bytes(before) + data, before, before + len(data))
    assert (found.why, found.whole) == (why, not why and data[-2:] != b"\7\1")


def test_padding_counts_from_the_start_of_the_structure() -> None:
    for length, at in ((0, 4), (1, 4), (2, 4), (3, 8), (6, 8), (7, 12)):
        view = Fixed(b"+++" + bytes([length, 9]) + b"w" * length + b"_" * (at - 2 - length) + b"\x12\x34\x56" + b"rest", 3)
        assert (view.word, view.number, view.other, view.chosen) == ("w" * length, 0x1234, 0x56, b"rest"), length


def test_names_in_filters_are_those_that_are_given() -> None:
    assert [field.filter_name for part in Fixed.tail.parts for field in part.struct.fields][:4] == [  # type: ignore[union-attr]
        "listed.fixed.word", "listed.fixed.number", "listed.fixed.other", "listed.fixed.pick",
    ]  # fmt: skip
    assert text_until(b"\0", "Long Name", ws="short").ws == "short" and raw(Fixed.length, "R", ws="r").ws == "r"
