"""Comparisons of a whole window find the same as one by one."""

from __future__ import annotations

from operator import eq, ge, gt, le, lt, ne

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibdissect.decode.comparisons import Network, against, against_number, compared, computed, holding
from ibdissect.decode.operand_values import Blobs, NumberSeries, alike, blobs_of, constant
from tests.cases import every

letters = st.text("abAB.", max_size=40).map(str.encode)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(letters, max_size=8), st.lists(st.integers(0, 3), min_size=8, max_size=8), letters.filter(len))
def test_as_one_by_one(parts: list[bytes], gaps: list[int], needle: bytes) -> None:
    data, at, stop = b"ab", [], []
    for part, gap in zip(parts, gaps, strict=False):
        at.append(len(data))
        data += part
        stop.append(len(data))
        data += b"abA"[:gap]
    needle = needle[:4]
    wanted = [needle in data[a:b] for a, b in zip(at, stop, strict=True)]
    array = np.frombuffer(data, np.uint8)
    starts, stops = np.array(at, np.int64), np.array(stop, np.int64)
    assert holding(array, starts, stops, needle).tolist() == wanted
    assert holding(array, starts[::-1], stops[::-1], needle).tolist() == wanted[::-1]
    assert not holding(array, starts, stops, b"").any()


@pytest.mark.parametrize("size", [4, 16])
def test_a_prefix_of_every_length_compares_just_its_bits(size: int) -> None:
    """The address with its last bit of the prefix changed is another network, that with the next bit changed is the same."""
    address = bytes(range(0xA5, 0xA5 + size))
    number, width = int.from_bytes(address, "big"), 8 * size
    for bits in range(width + 1):
        beside = [number ^ 1 << (width - bit) for bit in (bits, bits + 1) if 1 <= bit <= width]
        values = blobs_of(np.arange(len(beside) + 1), [n.to_bytes(size, "big") for n in (number, *beside)])
        found = against("==", values, Network(address, bits))
        assert found.tolist() == [True, *[False] * (bits >= 1), *[True] * (bits < width)], bits


@every("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_numbers_beside_those_of_a_type(dtype: type) -> None:
    """A constant that the type cannot hold is larger than all its values; the largest one that it can hold equals it."""
    top = int(np.iinfo(dtype).max)
    values = np.array([0, top - 1, top], dtype)
    for number, equal, below in ((-1, [], []), (0, [0], []), (top, [2], [0, 1]), (top + 1, [], [0, 1, 2])):
        assert np.flatnonzero(against_number("==", values, number)).tolist() == equal
        assert np.flatnonzero(against_number("<", values, number)).tolist() == below
        assert np.flatnonzero(against_number(">=", values, number)).tolist() == [i for i in range(3) if i not in below]


@pytest.mark.parametrize(("least", "kind"), [(-1, "O"), (0, "u"), (1, "u")])
def test_signed_and_unsigned_numbers_are_compared_exactly(least: int, kind: str) -> None:
    """As floats, 2^64 - 1 and 2^64 - 2 would be equal; a negative number needs Python's integers."""
    a, b = alike(np.array([least, 5], np.int64), np.array([(1 << 64) - 1, (1 << 64) - 2], np.uint64))
    assert a.dtype.kind == b.dtype.kind == kind and a.tolist() == [least, 5] and b[0] != b[1]


def numbers(*values: int, dtype: type = np.int64) -> NumberSeries:
    return NumberSeries(np.arange(len(values)), np.array(values, dtype))


@every(
    ("op", "left", "right", "rows", "values"),
    [
        ("/", [7, -7, 7, -7, 6, 0], [2, 2, -2, -2, 3, 5], [0, 1, 2, 3, 4, 5], [3, -3, -3, 3, 2, 0]), ("/", [5, 6], [0, 3], [1], [2]),
        ("%", [7, -7, 7, 6], [3, 3, 0, 3], [0, 1, 3], [1, -1, 0]), ("+", [1, -5], [2, 3], [0, 1], [3, -2]), ("-", [1, 5], [2, 3], [0, 1],
        [-1, 2]),
        ("*", [4, 5], [2, -3], [0, 1], [8, -15]), ("<<", [1, 5], [4, 0], [0, 1], [16, 5]), (">>", [16, 5], [4, 1], [0, 1], [1, 2]),
        ("&", [6, 5], [3, 4], [0, 1], [2, 4]),
    ],
)  # fmt: skip
def test_arithmetic_is_that_of_c(op: str, left: list[int], right: list[int], rows: list[int], values: list[int]) -> None:
    """Division goes towards zero; what divides by zero is left out."""
    found = computed(op, numbers(*left), numbers(*right))
    assert isinstance(found, NumberSeries) and found.rows is not None and (found.rows.tolist(), found.values.tolist()) == (rows, values)


@every(
    ("dtype", "mask", "found"),
    [(np.uint8, 0x1F0, 0xF0), (np.uint16, 0x1F0, 0x1F0), (np.uint8, 0xFF, 0xFF), (np.uint8, 1 << 40, 0), (np.uint64, 1 << 63, 1 << 63)],
)
def test_a_mask_that_the_type_of_a_field_cannot_hold(dtype: type, mask: int, found: int) -> None:
    top = int(np.iinfo(dtype).max)
    masked = computed("&", numbers(top, 0, dtype=dtype), constant(mask))
    assert isinstance(masked, NumberSeries) and masked.values.tolist() == [found, 0]


@every(
    ("dtype", "number", "equal"),
    [(np.int8, 127, [2]), (np.int8, 128, []), (np.int8, -128, [0]), (np.int8, -129, []), (np.int64, 1 << 63, []), (object, 1 << 80, [])],
)
def test_signed_numbers_beside_those_of_a_type(dtype: type, number: int, equal: list[int]) -> None:
    values: np.ndarray = np.array([-128, 0, 127], dtype)
    assert np.flatnonzero(against_number("==", values, number)).tolist() == equal
    assert against_number("<", values, number).tolist() == [value < number for value in (-128, 0, 127)]
    assert against_number(">", values, number).tolist() == [value > number for value in (-128, 0, 127)]


WORDS = [b"", b"a", b"b", b"aa", b"ab"]


@every("text", [False, True])
@every("op", ["==", "!=", "===", "!==", "<", "<=", ">", ">=", "contains"])
def test_bytes_are_ordered_by_length_and_texts_by_letters(op: str, text: bool) -> None:
    """Nothing contains an empty sequence."""
    left = blobs_of(np.arange(len(WORDS)), WORDS, text)
    key = (lambda word: word) if text else (lambda word: (len(word), word))
    order = {"==": eq, "===": eq, "!=": ne, "!==": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
    for wanted in WORDS:
        expected = [bool(wanted) and wanted in word if op == "contains" else order[op](key(word), key(wanted)) for word in WORDS]
        assert against(op, left, wanted.decode() if text else wanted).tolist() == expected
        assert compared(op, left, constant(wanted.decode() if text else wanted)).tolist() == expected
        if wanted == WORDS[2]:
            assert compared(op, left, blobs_of(np.arange(len(WORDS)), [wanted] * len(WORDS), text)).tolist() == expected


def test_numbers_of_two_types_are_compared_exactly() -> None:
    left, right = numbers(0, 200, 255, dtype=np.uint8), numbers(-1, 200, 300, dtype=np.int64)
    assert [compared(op, left, right).tolist() for op in ("<", "==", ">")] == [
        [False, False, True],
        [False, True, False],
        [True, False, False],
    ]
    assert compared("==", left, numbers(0, 0, 255, dtype=np.uint8)).tolist() == [True, False, True]


@pytest.mark.parametrize(("left", "right", "masked"), [([b"\xff\x0f", b"\x12"], [b"\x0f\xff", b"\x33"], [b"\x0f\x0f", b"\x12"]),
                                                       ([b"\xff\x0f\x01", b""], [b"\xf0\xff"], [b"\xf0\x0f", b""])])  # fmt: skip
def test_bytes_are_masked_up_to_the_shorter_one(left: list[bytes], right: list[bytes], masked: list[bytes]) -> None:
    one = blobs_of(np.arange(2), left)
    other = constant(right[0]) if len(right) == 1 else blobs_of(np.arange(2), right)
    for first, second in ((one, other), (other, one)):
        found = computed("&", first, second)
        assert isinstance(found, Blobs) and found.rows is not None and (found.items(), found.rows.tolist()) == (masked, [0, 1])
    none = computed("&", blobs_of(np.arange(0), []), constant(b"\1"))
    assert isinstance(none, Blobs) and none.items() == []


@every(
    ("at", "stop"),
    [([0, 3], [3, 6]), ([0, 2], [2, 6]), ([1, 4], [4, 6]), ([1, 1], [4, 3]), ([0], [2]), ([3, 0], [6, 3]),
    ([4, 8], [8, 11]), ([0, 9], [9, 11]),
     ([0, 10], [10, 11]), ([2, 2, 9], [2, 9, 11]), ([0, 2, 5], [2, 5, 11]), ([3], [11]), ([3], [10])],
)  # fmt: skip
def test_a_needle_lies_wholly_in_its_range(at: list[int], stop: list[int]) -> None:
    data = np.frombuffer(b".xy......xy", np.uint8)
    wanted = [b"xy" in data[a:b].tobytes() for a, b in zip(at, stop, strict=True)]
    assert holding(data, np.array(at), np.array(stop), b"xy").tolist() == wanted
