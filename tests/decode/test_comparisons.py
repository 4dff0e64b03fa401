"""Comparisons find the same as Python's own numbers, bytes and texts, one by one, whatever the types of the fields are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from itertools import combinations, product
from operator import add, and_, eq, ge, gt, le, lshift, lt, mul, ne, rshift, sub
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibdissect.wire.expr import Arith, Compare, In
from tests.cases import every, few
from tests.decode.typed import Packets, Typed, divisor, packet, signed

ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "==": eq, "===": eq, "!=": ne, "!==": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip
letters = st.text("abAB.", max_size=40).map(str.encode)


def those(flags: Iterable[object]) -> list[int]:
    """Where the flags are set."""
    return [i for i, flag in enumerate(flags) if flag]


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(letters, max_size=8), st.lists(st.integers(0, 3), min_size=8, max_size=8), letters.filter(len))
def test_pieces_of_bytes_that_hold_others(parts: list[bytes], gaps: list[int], needle: bytes) -> None:
    body, packets = b"ab", []
    for part, gap in zip(parts, gaps, strict=False):
        body += part
        packets.append(packet(pieces=((len(body) - len(part), len(body)),), body=body + b"abA"[:gap]))
        body = body[-8:] + b"abA"[:gap]
    wanted = those(needle[:4] in part for part in parts)
    assert (Packets(*packets).filter(f"typed.piece.bytes contains {needle[:4].hex(':')}") if packets else []) == wanted


@pytest.mark.slow
@every(
    ("pieces", "held"),
    [([(0, 3), (3, 6)], True), ([(0, 2), (2, 6)], False), ([(1, 4), (4, 6)], True), ([(0, 2)], False), ([(4, 8), (8, 11)], True),
     ([(0, 9), (9, 11)], True), ([(0, 10), (10, 11)], True), ([(2, 9), (9, 11)], True), ([(0, 2), (2, 5), (5, 11)], True),
     ([(3, 11)], True), ([(3, 10)], False), ([(2, 10), (10, 11)], False), ([], False)],
)  # fmt: skip
def test_what_is_searched_lies_wholly_in_a_piece(pieces: list[tuple[int, int]], held: bool) -> None:
    packets = Packets(packet(), packet(pieces=tuple(pieces), body=b".xy......xy"), packet(pieces=((1, 3),), body=b".xy"))
    assert packets.filter("typed.piece.bytes contains 78:79") == [1] * held + [2]


@few("size", [4, 16], fast=(0,))
def test_a_prefix_of_every_length_compares_just_its_bits(size: int) -> None:
    """An address whose last bit of the prefix is changed is in another network, one whose next bit is changed in the same."""
    address = bytes(range(0xA5, 0xA5 + size))
    number, width = int.from_bytes(address, "big"), 8 * size
    values: list[int] = [number, *(number ^ 1 << (width - bit) for bit in range(1, width + 1))]
    name, text = ("four", ".".join(map(str, address))) if size == 4 else ("six", address.hex(":", 2))
    packets = Packets(*(packet(**{name: value.to_bytes(size, "big")}) for value in values))  # type: ignore[arg-type]
    for bits in (*range(33), *range(33, width + 1, 5), *range(64, width + 1, 64)):
        assert packets.filter(f"typed.all.{name} == {text}/{bits}") == [0, *range(bits + 1, width + 1)], bits


WIDTHS = {Typed.u8: 8, Typed.u16: 16, Typed.u32: 32, Typed.u64: 64}
EDGES = sorted({0, 1, 2, *(edge + more for bits in (7, 8, 15, 16, 31, 32, 63) for edge in [1 << bits] for more in (-1, 0)), (1 << 64) - 1})
"""Numbers at the edges of all widths."""
BEYOND = [-(1 << 64), -(1 << 63) - 1, *(-number for number in EDGES if number), *EDGES, 1 << 64, 1 << 80]
"""Also those that no field holds."""


@cache
def edges() -> Packets:
    """Each edge in every field that holds it; other fields hold what is left."""
    return Packets(*(packet(u8=one, u16=one % (1 << 16), u32=one % (1 << 32), u64=one, other=other)
                     for one, other in zip(EDGES, EDGES[3:] + EDGES[:3], strict=True)))  # fmt: skip


def values(field: Any) -> list[int]:
    """What a field of the edges holds."""
    if field in (signed, divisor):
        return [value - (value >> 63 << 64) for value in values(Typed.u64 if field is signed else Typed.other)]
    return EDGES[3:] + EDGES[:3] if field is Typed.other else [edge % (1 << WIDTHS[field]) for edge in EDGES]


@pytest.mark.slow
@every("field", [*WIDTHS, signed])
def test_numbers_beside_those_of_a_type(field: Any) -> None:
    """A constant that the type cannot hold is larger or smaller than all its values."""
    for op, number in product(ORDER, BEYOND):
        assert edges().where(Compare(op, field, number)) == those(ORDER[op](value, number) for value in values(field)), (op, number)


@every("size", [1, 2, 8, 9, len(BEYOND)])
@every("field", [*WIDTHS, signed])
def test_which_numbers_are_among_choices(field: Any, size: int) -> None:
    for start in range(0, len(BEYOND), 3):
        choices = frozenset((BEYOND + BEYOND)[start : start + size])
        assert edges().where(In(field, choices)) == those(value in choices for value in values(field)), choices


@every(("left", "right"), combinations([*WIDTHS, Typed.other, signed, divisor], 2))
def test_numbers_of_two_types_are_compared_exactly(left: Any, right: Any) -> None:
    """As floats, 2^64 - 1 and 2^64 - 2 would be equal; a negative number needs Python's integers."""
    pairs = list(zip(values(left), values(right), strict=True))
    for op in ("==", "!=", "<", ">="):
        assert edges().where(Compare(op, left, right)) == those(ORDER[op](one, other) for one, other in pairs), op


def quotient(a: int, b: int) -> int:
    """Towards zero, as in C."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "/": quotient, "%": lambda a, b: a - quotient(a, b) * b, "+": add, "-": sub, "*": mul, "<<": lshift, ">>": rshift, "&": and_,
}  # fmt: skip


@every("op", ARITHMETIC)
def test_arithmetic_is_that_of_c(op: str) -> None:
    """Division goes towards zero; what divides by zero has no value."""
    cases = [(a, b) for a in (7, -7, 6, 0, 5, 16) for b in (2, -2, 3, 0, 5, 4, 1) if b >= 0 or op not in ("<<", ">>")]
    packets = Packets(*(packet(u64=a, other=b) for a, b in cases))
    there = {i: ARITHMETIC[op](a, b) for i, (a, b) in enumerate(cases) if b or op not in "/%"}
    for value in sorted({*there.values()}):
        assert packets.where(Compare("==", Arith(op, signed, divisor), value)) == [i for i in there if there[i] == value], value
        assert packets.where(Compare("!=", Arith(op, signed, divisor), value)) == [i for i in there if there[i] != value], value


@every("mask", [0x1F0, 0xFF, 1 << 40, 1 << 63, (1 << 64) - 1])
@every("field", WIDTHS)
def test_a_mask_that_the_type_of_a_field_cannot_hold(field: Any, mask: int) -> None:
    for found in sorted({value & mask for value in values(field)}):
        assert edges().where((field & mask) == found) == those(value & mask == found for value in values(field))


WORDS = [b"", b"a", b"b", b"aa", b"ab"]
PAIRS = list(product(WORDS, WORDS))


@every("op", [*ORDER, "contains"])
def test_bytes_are_ordered_by_length_and_texts_by_letters(op: str) -> None:
    """Nothing contains an empty sequence."""
    packets = Packets(*(packet(left=left, right=right) for left, right in PAIRS))
    for one, other, text in ((Typed.left, Typed.right, False), (Typed.left_word, Typed.right_word, True)):

        def holds(pair: tuple[bytes, bytes], text: bool = text) -> bool:
            mine, wanted = pair
            if op == "contains":
                return bool(wanted) and wanted in mine
            return ORDER[op](mine, wanted) if text else ORDER[op]((len(mine), mine), (len(wanted), wanted))

        assert packets.where(Compare(op, one, other)) == those(map(holds, PAIRS)), text
        for word in WORDS:
            against = [(left, word) for left, _ in PAIRS]
            assert packets.where(Compare(op, one, word.decode() if text else word)) == those(map(holds, against)), word


def test_bytes_are_masked_up_to_the_shorter_one() -> None:
    cases = [(b"\xff\x0f", b"\x0f\xff"), (b"\x12", b"\x33"), (b"\xff\x0f\x01", b"\xf0\xff"), (b"", b"\xf0\xff"), (b"\xff", b"")]
    packets = Packets(*(packet(left=left, right=right) for left, right in cases))
    masked = [bytes(a & b for a, b in zip(*case, strict=False)) for case in cases]
    for first, second in ((Typed.left, Typed.right), (Typed.right, Typed.left)):
        for value in masked:
            assert packets.where((first & second) == value) == those(one == value for one in masked)
    for constant in (b"\xf0\xff", b"\x0f", b""):
        of_left = [bytes(a & b for a, b in zip(left, constant, strict=False)) for left, _ in cases]
        for value in of_left:
            assert packets.where(Compare("==", Arith("&", Typed.left, constant), value)) == those(one == value for one in of_left)


@every("name", [b"", b"a", b"n" * 63, b"n" * 64, b"ab\0cd"])
def test_a_text_ends_at_its_first_nul(name: bytes) -> None:
    packets, shown = Packets(packet(long="other"), packet(long=name.decode())), name.split(b"\0")[0].decode()
    assert packets.where(Typed.long == shown) == [1] and packets.where(Typed.long == "other") == [0]
    assert packets.column("typed.all.long") == [(0, "other"), (1, shown)]
    assert packets.filter(f"len(typed.all.long) == {len(shown)}") == [1]
