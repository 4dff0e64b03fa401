"""Is what a whole window is asked for found in the same stretches as one by one, and is a literal really in every match?"""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibdissect.dfilter.needle import holding, literal
from ibdissect.dfilter.pattern import Pattern
from ibdissect.dfilter.regex import Reader

letters = st.text("abAB.", max_size=40).map(str.encode)


@settings(max_examples=300)
@given(st.lists(letters, max_size=8), st.lists(st.integers(0, 3), min_size=8, max_size=8), letters.filter(len), st.booleans())
def test_as_one_by_one(parts: list[bytes], gaps: list[int], needle: bytes, fold: bool) -> None:
    data, at, stop = b"ab", [], []
    for part, gap in zip(parts, gaps, strict=False):
        at.append(len(data))
        data += part
        stop.append(len(data))
        data += b"abA"[:gap]
    needle = needle.lower()[:4] if fold else needle[:4]
    wanted = [needle in (data[a:b].lower() if fold else data[a:b]) for a, b in zip(at, stop, strict=True)]
    array = np.frombuffer(data, np.uint8)
    starts, stops = np.array(at, np.int64), np.array(stop, np.int64)
    assert holding(array, starts, stops, needle, fold=fold).tolist() == wanted
    assert holding(array, starts[::-1], stops[::-1], needle, fold=fold).tolist() == wanted[::-1]
    assert not holding(array, starts, stops, b"", fold=fold).any()


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("needle[0-9]+", b"needle"), ("x?abc.*longer", b"longer"), ("a|b", b""), ("(abc)+d", b"abc"), ("(abc)?d", b"d"), ("^ab$", b"ab"),
        ("AbC", b"abc"), ("(?-i)AbC", b"abc"), ("a{3}b", b"a"), ("[aA]b", b"ab"), ("[ab]c", b"c"), ("(a(bc)d)e", b"abcde"), ("", b""),
        (r"\x41\x62\x00", b"ab\0"), (".*", b""), ("ab(c|d)efg", b"efg"), ("(ab|cd)", b""), ("[Z\\[]x", b"x"),
    ],
)  # fmt: skip
def test_literals(pattern: str, wanted: bytes) -> None:
    assert literal(Reader(pattern).alternatives()) == wanted


@settings(max_examples=300)
@given(
    st.lists(letters, min_size=1, max_size=6),
    st.sampled_from(["aab", "ab[ab]?b", "(aba)+b?", "^abb", "bab$", "a(bb|aa)bab", "(?-i)aBa"]),
)
def test_patterns_find_the_same_as_before(parts: list[bytes], text: str) -> None:
    data = b"".join(parts)
    stop = np.cumsum([len(part) for part in parts])
    at = stop - np.array([len(part) for part in parts])
    flags, plain = (0, text.removeprefix("(?-i)")) if text.startswith("(?-i)") else (re.IGNORECASE, text)
    wanted = [re.search(plain.encode(), part, flags) is not None for part in parts]
    assert Pattern(text.encode()).search(np.frombuffer(data, np.uint8), at, stop).tolist() == wanted
