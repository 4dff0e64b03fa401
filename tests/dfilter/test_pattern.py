"""`matches` finds what Python's own regular expressions find in bytes."""

from __future__ import annotations

import random
import re
from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.dfilter.compile import compile_filter
from ibdissect.errors import FilterError
from tests.cases import every
from tests.craft import ethernet_pcap
from tests.decode.made import table_of
from tests.decode.typed import Packets, packet

ALPHABET = b"abcABCx01\n\0 .-\v\xc4\xe4"
SAME = (
    b"a", b"ab|c", b"^a", b"a$", b"^$", b"", b"a*b", b"(a|b)*c", b"[a-c]{2,3}x", rb"\d+", rb"\x00\x62", rb"^\x61.", b"a.c", b"(ab)+c?$",
    b"[^a]b", b"a{2}", b"(?i)A", b"x|^b", b"(^a|b)c", b"a|$", b"[]a]", rb"[a\-c]", rb"\.", b"(a+)+$", b"(?:a|b)c", rb"\Aa", b".*a.*b.*c",
    b"a??b", b"$", b"^", b"(|a)b", b"a{0,2}b{1,}", rb"\s\S\w\W", rb"[\d.]{2}", b"a{,2}", b"a{x", rb"[\x30-1]\n", b"(a|ab)(c|bcd)x?",
    rb"\ba\B", b"(?m)a$", b"\xe4", rb"\xc4a", b"[\xe4x]", rb"[^\xc4]", b"(?i)\xe4.", rb"[\s.]a", rb"[^\s]a", rb"[\S]\s", rb"\w\W",
)  # fmt: skip


def asked(pattern: bytes) -> str:
    """The pattern as a filter has it between quotes."""
    plain = set(range(0x20, 0x7F)) - set(b'"\\')
    return "".join(chr(byte) if byte in plain else "\\\\" if byte == 0x5C else f"\\x{byte:02x}" for byte in pattern)


@lru_cache(maxsize=1)
def packets(texts: tuple[bytes, ...]) -> Packets:
    return Packets(*(packet(left=text) for text in texts))


def found(pattern: bytes, texts: list[bytes]) -> list[bool]:
    """Which texts the pattern finds something in."""
    rows = {*packets(tuple(texts)).filter(f'typed.all.left matches "{asked(pattern)}"')}
    return [i in rows for i in range(len(texts))]


CHANCE = random.Random(3)
TEXTS = [bytes(CHANCE.choices(ALPHABET, k=CHANCE.randrange(9))) for _ in range(150)] + [b"", b"\n", b"a\n", b"A\n\n"]


@every("pattern", SAME)
def test_same_as_re(pattern: bytes) -> None:
    # Python 3.11 and later read a{,2} as a{0,2}, Perl as text; so does RE2.
    reference = re.compile(pattern.replace(b"a{,2}", rb"a\{,2}"), re.IGNORECASE)
    assert found(pattern, TEXTS) == [reference.search(text) is not None for text in TEXTS]


PIECES = st.recursive(
    st.sampled_from(("a", "b", ".", "[ab]", "[^b]", "^", r"\Z", r"\n", "c")),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join), st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(("*", "+", "?", "{2}", "{1,3}", "{2,}"))).map(lambda two: f"(?:{two[0]}){two[1]}"),
    ),
    max_leaves=6,
)  # fmt: skip


def test_start_behind_end_holds_in_an_empty_text_only() -> None:
    assert found(rb"\z^", [b"", b"a", b"ab"]) == [True, False, False]


@pytest.mark.slow
@given(PIECES, st.lists(st.text("abc\n", max_size=8).map(str.encode), min_size=1, max_size=8))
def test_generated_patterns(pattern: str, texts: list[bytes]) -> None:
    # Python's \Z is the very end, Perl's \z.
    ours = pattern.replace(r"\Z", r"\z").encode()
    assert found(ours, texts) == [re.search(pattern.encode(), text, re.IGNORECASE) is not None for text in texts]


def test_capitals_count_only_when_asked() -> None:
    assert found(b"AB", [b"ab", b"AB"]) == [True, True]
    assert found(b"(?-i)AB", [b"ab", b"AB"]) == [False, True]


@every(
    "pattern",
    [
        b"(a", b"a)", b"a**", b"a*+", b"[a", b"a{2,1}", b"(?=a)", b"(?<!a)b", b"(?>a)", rb"(a)\1", b"(a{1000}){5}", b"\\",
        b"a{9999}", b"[" * 40, b"(" * 60, b"[z-a]", b"[[:foo:]]", b"+", b"(.{999}a)" * 40,
    ],
)  # fmt: skip
def test_refused(pattern: bytes) -> None:
    with pytest.raises(FilterError):
        compile_filter(f'frame matches "{asked(pattern)}"')


@every(
    ("pattern", "reason", "at"),
    [
        (b"ab(c", "a closing parenthesis is missing", 0), (b"xy[a", "a closing ] is missing", 2), (b"ab**", "cannot be repeated", 2),
        (rb"(a)\1", r"\1 is not supported", 3), (b"ab(?=c)", "look-around", 2), (b"x[z-a]", "z-a is neither a range", 2),
        (b"(.{999}a)" * 40, "too much memory", 0), (rb"a\y", r"\y is not supported", 1),
    ],
)  # fmt: skip
def test_says_what_is_refused_and_where(pattern: bytes, reason: str, at: int) -> None:
    front = 'frame matches "'
    with pytest.raises(FilterError) as caught:
        compile_filter(f'{front}{asked(pattern)}"')
    assert reason in str(caught.value) and caught.value.column == len(front) + at


@pytest.mark.slow
@every(
    ("pattern", "yes", "no"),
    [
        (rb"^\x$", b"\0", b"x"), (rb"^\x4$", b"\4", b"4"), (rb"^\e$", b"\x1b", b"e"), (rb"^\N$", b"N", b"\n"), (rb"a\Z", b"a\n", b"a\nb"),
        (b"\\\xe4", b"\xe4", b"\xc4"), (rb"\Qa$\E$", b"a$\n", b"a"), (rb"[\e]", b"\x1b", b"e"), (rb"\x{41}", b"a", b"{"),
    ],
)  # fmt: skip
def test_patterns_mean_what_they_mean_in_perl(pattern: bytes, yes: bytes, no: bytes) -> None:
    assert found(pattern, [yes, no]) == [True, False]


def test_what_makes_backtracking_endless_is_linear() -> None:
    table = table_of(ethernet_pcap([bytes(14) + b"a" * 50_000 + b"!"]))
    for pattern, there in (("(a+)+$", False), ("(a|a|aa)*b", False), ("(a|a|aa)*!", True)):
        assert compile_filter(f'frame matches "{pattern}"').rows(table).tolist() == [there], pattern


@pytest.mark.slow
@given(st.binary(max_size=30), st.lists(st.binary(max_size=10), max_size=4))
def test_any_bytes_are_a_pattern_or_refused(pattern: bytes, texts: list[bytes]) -> None:
    text = f'frame matches "{asked(pattern)}"'
    try:
        assert len(compile_filter(text).rows(table_of(ethernet_pcap([b"x", *texts])))) == 1 + len(texts)
    except FilterError as error:
        assert 0 <= error.column <= len(text)
