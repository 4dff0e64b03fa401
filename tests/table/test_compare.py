"""Is what a whole window is asked for found in the same stretches as one by one?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibdissect.table.compare import Network, against, against_number, holding
from ibdissect.table.series import alike, blobs_of

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


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
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
