"""Values are paired, merged and brought to one type exactly, at the edges of types and ranges."""

from __future__ import annotations

import numpy as np

from ibdissect.decode.operand_values import (
    Blobs,
    NumberSeries,
    alike,
    all_of_each,
    blobs_of,
    constant,
    equal_pairs,
    joined,
    pairs,
    stretches,
)
from ibdissect.wire.sm import NodeDescription
from tests.cases import every
from tests.decode.made import native_table
from tests.subnet.made import answer

TOP = 1 << 63


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


@every(("value", "kind"), [(TOP - 1, "i"), (-TOP, "i"), (0, "i"), (TOP, "u"), (2 * TOP - 1, "u"), (2 * TOP, "O"), (-TOP - 1, "O")])
def test_the_type_of_a_constant(value: int, kind: str) -> None:
    found = constant(value)
    assert isinstance(found, NumberSeries) and found.values.dtype.kind == kind and found.values.tolist() == [value] and found.rows is None
    assert found.pick(ints(5, 6)) is found


def test_bytes_and_texts() -> None:
    for value, text in ((b"ab", False), ("ab", True)):
        found = constant(value)
        assert isinstance(found, Blobs) and found.items() == [b"ab"] and found.text is text and found.pick(ints(3)) is found
    for number in (0, 1, 64, 65):
        items = [bytes([65 + i % 26]) * (i % 3) for i in range(number)]
        found = blobs_of(np.arange(number), items)
        assert found.items() == items and found.pick(np.arange(number)[::-1]).items() == items[::-1] and not found.text


@every(
    ("a", "b", "kind"),
    [
        (ints(1), ints(-1), "i"), (np.array([1], np.uint8), ints(-1), "i"), (np.array([1], np.uint8), np.array([2 * TOP - 1], np.uint64),
        "u"),
        (ints(0), np.array([TOP], np.uint64), "u"), (ints(-1), np.array([TOP], np.uint64), "O"), (np.array([TOP], np.uint64), ints(-1),
        "O"),
        (np.array([2 * TOP], object), ints(1), "O"), (ints(1), np.array([2 * TOP], object), "O"), (np.array([True]), ints(5), "i"),
    ],
)  # fmt: skip
def test_a_common_type(a: np.ndarray, b: np.ndarray, kind: str) -> None:
    one, other = alike(a, b)
    assert one.dtype.kind == other.dtype.kind == kind and (one.tolist(), other.tolist()) == ([int(n) for n in a], b.tolist())


def test_pairs_of_equal_values() -> None:
    left, right = equal_pairs(ints(1, 2, 2, 5), ints(0, 2, 2, 3, 5))
    assert (left.tolist(), right.tolist()) == ([1, 1, 2, 2, 3], [1, 2, 1, 2, 4])
    which, numbers = all_of_each(ints(7, 3, 9), ints(2, 0, 1))
    assert (which.tolist(), numbers.tolist()) == ([0, 0, 2], [7, 8, 9])


def test_values_of_one_entry_are_paired() -> None:
    rows = ints(1, 2, 2)
    same = NumberSeries(ints(1, 2, 3), ints(4, 5, 6))
    for left, right, found in (
        (
            NumberSeries(rows, ints(10, 20, 30)),
            NumberSeries(ints(2, 2, 3), ints(7, 8, 9)),
            [(2, 20, 7), (2, 20, 8), (2, 30, 7), (2, 30, 8)],
        ),
        (same, NumberSeries(same.rows, ints(7, 8, 9)), [(1, 4, 7), (2, 5, 8), (3, 6, 9)]),
        (NumberSeries(rows, ints(1, 2, 3)), NumberSeries(rows, ints(4, 5, 6)), [(1, 1, 4), (2, 2, 5), (2, 2, 6), (2, 3, 5), (2, 3, 6)]),
    ):
        at, one, other = pairs(left, right)
        assert at is not None and isinstance(one, NumberSeries) and isinstance(other, NumberSeries)
        assert list(zip(at.tolist(), one.values.tolist(), other.values.tolist(), strict=True)) == found
    seven = constant(7)
    assert pairs(same, seven)[0] is same.rows and pairs(seven, same)[0] is same.rows and pairs(seven, seven)[0] is None


def test_fields_of_one_name_are_merged_in_packet_order() -> None:
    one, other = NumberSeries(ints(1, 3, 3), np.array([1, 2, 3], np.uint8)), NumberSeries(ints(0, 3), np.array([4, TOP], np.uint64))
    found = joined([one, other])
    assert isinstance(found, NumberSeries) and found.rows is not None
    assert (found.rows.tolist(), found.values.tolist(), found.values.dtype.kind) == ([0, 1, 3, 3, 3], [4, 1, 2, 3, TOP], "u")
    assert joined([one]) is one
    signed = joined([one, NumberSeries(ints(0), ints(-1))])
    assert isinstance(signed, NumberSeries) and signed.values.tolist() == [-1, 1, 2, 3]
    data = np.frombuffer(b"abcdef", np.uint8)
    texts = joined([Blobs(ints(2, 5), data, ints(0, 1), ints(1, 3), True), Blobs(ints(1, 5), data, ints(4, 5), ints(5, 6), True)])
    assert isinstance(texts, Blobs) and texts.items() == [b"e", b"a", b"bc", b"f"] and texts.text


@every("name", [b"", b"a", b"n" * 63, b"n" * 64, b"ab\0cd"])
def test_a_text_ends_at_its_first_nul(name: bytes) -> None:
    table = native_table([answer(5, 0x10, one.ljust(64, b"\0")) for one in (name, b"other")])
    found = stretches(table, NodeDescription.node_string, np.arange(2), None)
    assert found.items() == [name.split(b"\0")[0], b"other"] and found.text
    assert stretches(table, NodeDescription.node_string, ints(1), ints(1)).items() == [b"other"]
