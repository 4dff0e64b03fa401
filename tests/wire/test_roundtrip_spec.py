"""Every declared field reads exactly the bits that its declaration names, and a wrong declaration is refused."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from types import new_class
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibdissect.errors import SpecError
from ibdissect.wire.catalog import builtin
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.spec import Field, made
from ibdissect.words import Mad, Struct, array, bit, hole, mac, nested, pad, part, raw, rest, secret, text, uint
from tests.cases import every
from tests.wire.names import struct_id

STRUCTS = builtin().structs


def declare(**body: Any) -> Any:
    """A structure made up on the spot."""
    return new_class("Made", (Struct,), {}, lambda namespace: namespace.update(key="made", **body))


def slow_places(struct: type[Struct]) -> dict[str, list[int]]:
    """Field -> first bit of each entry, counted anew from widths alone, in wire order."""
    places: dict[str, list[int]] = {}
    at = 0
    for field in struct.fields:
        if field.part_of is None:
            places[field.name] = [at + n * field.bits for n in range(field.count)]
            at += field.bits * field.count
        else:
            whole, low = field.part_of
            start = low // 8 * 8 + 8 - low % 8 - field.bits if whole.little else whole.bits - low - field.bits
            places[field.name] = [places[whole.name][0] + start]
    return places


def slow_value(field: Field[Any], bits: str, first: int) -> Any:
    """The entry at bit `first` of a structure whose bytes are `bits`, by slicing a string of zeros and ones."""
    own = bits[first:] if field.kind == "rest" else bits[first : first + field.bits]
    if field.kind == "flag":
        return own == "1"
    if field.kind in ("uint", "pad"):
        octets = [own[n : n + 8] for n in range(0, len(own), 8)]
        return int("".join(reversed(octets)) if field.little else own, 2)
    octets = bytes(int(own[n : n + 8], 2) for n in range(0, len(own), 8))
    if field.kind == "text":
        return octets.split(b"\0")[0].decode("utf-8", "replace")
    return octets


def values(struct: type[Struct], data: bytes, offset: int, stop: int, bits: str) -> Iterator[tuple[str, Any, Any]]:
    """(name, value through the view, value by the slow reading) of every field."""
    view, places = struct(data, offset, stop), slow_places(struct)
    for field in struct.fields:
        got = field.__get__(view, struct)
        if field.kind == "nested":
            for entry, first in zip(got if field.count > 1 else (got,), places[field.name], strict=True):
                inner = field.of
                assert inner is not None and type(entry) is inner
                assert (entry.offset, entry.stop) == (offset + first // 8, offset + first // 8 + inner.size)
                yield from values(inner, data, entry.offset, entry.stop, bits[first : first + inner.size * 8])
            continue
        want = tuple(slow_value(field, bits, first) for first in places[field.name])
        yield field.name, got, want if field.count > 1 else want[0]


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1 << 32), offset=st.integers(0, 9), behind=st.integers(0, 7))
def test_a_view_reads_the_declared_bits(seed: int, offset: int, behind: int) -> None:
    """Random bytes in every structure, at any offset of a buffer; `behind`: bytes for a field that takes what is left."""
    dice = random.Random(seed)
    for struct in STRUCTS:
        size = struct.size + (behind if any(f.kind == "rest" for f in struct.fields) else 0)
        content = dice.randbytes(size)
        buffer = b"\xa5" * offset + content + b"\x5a" * 3
        bits = "".join(f"{octet:08b}" for octet in content)
        for name, got, want in values(struct, buffer, offset, offset + size, bits):
            assert got == want, f"{struct_id(struct)}.{name}"
            assert type(got) is type(want), f"{struct_id(struct)}.{name}"


@pytest.mark.slow
def test_fields_cover_their_structure_once_and_parts_lie_within_their_whole() -> None:
    for struct in STRUCTS:
        owners: list[str] = [""] * (struct.size * 8)
        places = slow_places(struct)
        for field in struct.fields:
            assert list(field.entries())[: field.count] == places[field.name] or field.bits == 0, f"{struct_id(struct)}.{field.name}"
            if field.part_of is not None:
                whole = field.part_of[0]
                assert whole in struct.fields and whole.count == field.count == 1, f"{struct_id(struct)}.{field.name}"
                assert whole.bit <= field.bit and field.bit + field.bits <= whole.bit + whole.bits, f"{field!r} sticks out of {whole!r}"
                continue
            for first in places[field.name]:
                taken = {owner for owner in owners[first : first + field.bits] if owner}
                assert not taken, f"{struct_id(struct)}: {field!r} overlaps {taken}"
                owners[first : first + field.bits] = [field.name] * field.bits
        assert len(owners) == struct.size * 8 and all(owners), f"{struct_id(struct)}: a bit belongs to no field"
        kinds = [field.kind for field in struct.fields if field.part_of is None]
        assert "rest" not in kinds[:-1], f"{struct_id(struct)}: only the last field may take what is left"


def test_conditions_look_at_a_number_of_the_same_structure() -> None:
    for struct in STRUCTS:
        for field in struct.fields:
            if field.when is not None:
                other, numbers = field.when
                assert other in struct.fields and other.kind in ("uint", "flag") and other.count == 1, f"{struct_id(struct)}.{field.name}"
                assert numbers and max(numbers) < 1 << other.bits, f"{struct_id(struct)}.{field.name}"


@pytest.mark.slow
@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_any_run_of_widths(widths: list[int], random: Any) -> None:
    """Structures made up on the spot: widths that end on a byte are accepted and read back, others are refused."""
    body: dict[str, Any] = {f"f{n}": uint(width, f"F{n}") for n, width in enumerate(widths)}
    total = sum(widths)
    if total % 8:
        with pytest.raises(SpecError, match="middle of a byte"):
            declare(**body)
        return
    made = declare(**body)
    content = random.randbytes(total // 8)
    bits = "".join(f"{octet:08b}" for octet in content)
    view, at = made(content), 0
    for n, width in enumerate(widths):
        assert getattr(view, f"f{n}") == int(bits[at : at + width], 2)
        at += width


def test_wrong_offsets_are_refused() -> None:
    for at in ("1", "0[1]", "2[7]"):
        with pytest.raises(SpecError, match=f"declared at {at[0]}"):
            declare(a=uint(8, "A", at=at))
    for bits, at, said in (
        (12, "1", r"at 1 \(bit 8\), fields so far end at bit 12 \(1\[4\]\)"),
        (23, "2[6]", r"\(bit 22\).* 23 \(2\[7\]\)"),
    ):
        with pytest.raises(SpecError, match=said):
            declare(a=uint(bits, "A", at="0"), b=uint(24 - bits, "B", at=at))
    assert declare(a=uint(12, "A", at="0"), b=uint(4, "B", at="1[4]")).size == 2


def test_a_structure_with_a_place_needs_a_key() -> None:
    with pytest.raises(SpecError, match="key: is missing"):
        made("Nameless", {"carried_by": Mad(4, 0x77), "value": uint(8, "Value", at="0")})


def test_a_part_of_a_field_of_another_structure_is_refused() -> None:
    with pytest.raises(SpecError, match=r"high: is part of .* which this structure does not declare"):
        declare(a=uint(16, "A"), high=part(PortInfo.lid, 15, 8, "High"))


@pytest.mark.parametrize("same", [copy, deepcopy, lambda field: pickle.loads(pickle.dumps(field))])
def test_a_copied_field_knows_its_structure(same: Callable[[Any], Any]) -> None:
    for field in (PortInfo.lid, PortInfo.m_key):
        again = same(field)
        assert (again.filter_name, again.owner, again.span, again.holds) == (field.filter_name, field.owner, field.span, field.holds)


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(SpecError, match="declared as 3 bytes, its fields make 2"):
        declare(size=3, a=uint(16, "A"))
    with pytest.raises(SpecError, match="bit 15"):
        declare(a=uint(15, "A"))
    assert declare(size=2, a=uint(15, "A"), b=pad(1)).size == 2


@every("field", [raw(1, "R"), text(1, "T"), hole(1, "H"), rest("Rest")])
def test_bytes_start_on_a_byte(field: Field[Any]) -> None:
    with pytest.raises(SpecError, match="must start on a byte"):
        declare(a=uint(4, "A"), b=field, c=uint(4, "C"))


def test_parts_repeats_and_nesting_read_where_the_whole_lies() -> None:
    word = uint(16, "Word", at="1")
    inner = declare(word1=uint(12, "Word"), low=uint(4, "Low"))
    outer = declare(
        head=uint(8, "Head"), word=word, top=part(word, 15, 12, "Top"), last=bit(word, 0, "Last"), pairs=array(2, nested(inner, "Pairs")),
        many=array(3, uint(4, "Many")), fill=pad(4),
    )  # fmt: skip
    view = outer(bytes.fromhex("ff a001 1234 5678 9ab0".replace(" ", "")))
    assert (view.word, view.top, view.last) == (0xA001, 0xA, True)
    assert [(p.word1, p.low) for p in view.pairs] == [(0x123, 4), (0x567, 8)]
    assert view.many == (9, 0xA, 0xB)
    assert [f.name for f in outer.fields] == ["head", "word", "top", "last", "pairs", "many", "fill"]


WIDE = "starts on a byte"


@every(
    ("before", "field", "said"),
    [
        (8, uint(15, "A", holds="lid"), f"holds a lid, which has 16 or 32 bits and {WIDE}"), (4, uint(16, "A", holds="lid"), WIDE),
        (8, uint(16, "A", holds="lid"), ""), (8, uint(32, "A", holds="lid"), ""), (8, uint(25, "A", holds="qpn"), "24 or 32 bits"),
        (8, uint(32, "A", holds="prefix"), "16 or 64 bits"), (8, uint(16, "A", holds="prefix"), ""), (8, uint(64, "A", holds="prefix"), ""),
        (8, uint(16, "A", holds="hat"), "holds 'hat', which is none of checksum, data, gid"), (4, uint(16, "A", holds="number"), ""),
        (8, uint(16, "A", little=True), ""), (8, uint(32, "A", little=True), ""), (8, uint(64, "A", little=True), ""),
        (8, uint(24, "A", little=True), f"a little-endian number has 16, 32 or 64 bits and {WIDE}"),
        (4, uint(16, "A", little=True), "little-endian"),
        (8, uint(8, "A", little=True), "little-endian"), (4, mac("A"), f"holds a mac, which has 48 bits and {WIDE}"), (8, mac("A"), ""),
        (4, raw(1, "A"), "raw must start on a byte, not at bit 4"), (8, secret(24, " ", "A"), "is a key without a kind"),
        (4, secret(24, "K", "A"), ""),
    ],
)  # fmt: skip
def test_widths_and_places_of_what_a_field_holds(before: int, field: Field[Any], said: str) -> None:
    body = {"first": uint(before, "First"), "a": field}
    if rest_of := -(before + field.bits) % 8:
        body["last"] = uint(rest_of, "Last")
    if not said:
        assert declare(**body).size == (before + field.bits + rest_of) // 8
        return
    with pytest.raises(SpecError, match=rf"\ba\b.*{said}"):
        declare(**body)
