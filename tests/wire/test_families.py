"""Structures of a family have its prefix and their own names; offsets with dots leave reserved bits and nothing else."""

from __future__ import annotations

from types import new_class
from typing import Any

import pytest

from ibdissect.errors import SpecError
from ibdissect.words import Struct, UdpPort, column, flag, uint
from tests.cases import every


class Acme(Struct, prefix="acme", section="ACME 1"):
    pass


class Lane(Acme, size=8, section="ACME 4", carried_by=UdpPort(7)):
    number = uint(8, "Number", at="0")
    up = flag("Up", at="..1[6]")
    last = flag("Last", at="1[7]")
    errors = uint(16, "Errors", at="..4")
    more = uint(16, "More Errors", at="..6")


class Named(Acme, size=4, key="named"):
    a = flag("A", at="..0[7]")
    reserved1 = uint(8, "Reserved, but with a name", at="1")
    b = uint(8, "B", at="..3")


class Wide(Lane, key="wide"):
    speed = uint(8, "Speed", at="8")


def test_a_structure_of_a_family_is_named_by_it() -> None:
    assert (Lane.prefix, Lane.key, Lane.section, Lane.size, Lane.carried_by) == ("acme", "lane", "ACME 4", 8, (UdpPort(7),))
    assert [Lane.errors.filter_name, Wide.errors.filter_name, Wide.speed.filter_name] == [
        "acme.lane.errors", "acme.wide.errors", "acme.wide.speed",
    ]  # fmt: skip
    assert (Acme.key, Acme.fields, Wide.section) == ("", (), "ACME 4")


def test_what_lies_before_an_offset_with_dots_is_reserved() -> None:
    lane = Lane(bytes([5, 0xFE, 1, 2, 0, 3, 0, 4]))
    assert (lane.number, lane.up, lane.last, lane.errors, lane.more) == (5, True, False, 3, 4)
    assert [(field.bit, field.bits) for field in Lane.fields if field.kind == "pad"] == [(8, 6), (16, 16)]
    assert [(field.bit, field.bits) for field in Wide.fields if field.kind == "pad"] == [(8, 6), (16, 16)]
    assert Wide(bytes(8) + b"\7").speed == 7
    assert [field.name for field in Lane.fields] == ["number", "reserved1", "up", "last", "reserved2", "errors", "more"]
    assert [field.name for field in Named.fields] == ["reserved2", "a", "reserved1", "reserved3", "b"], "no name twice"


@every(
    ("words", "fields", "said"),
    [
        ({"caried_by": ()}, {}, "Bad.caried_by: a structure has no such attribute, did you mean carried_by?"),
        ({"key": "a"}, {"key": "b"}, "Bad.key: is said twice"),
        ({"size": 3}, {}, "declared as 3 bytes, its fields make 2"),
        ({}, {"b": uint(8, "B", at="..1[7]")}, r"Bad.b: declared at 1\[7\] \(bit 15\), fields so far end at bit 16"),
        ({}, {"b": uint(8, "B", at="..2[1]")}, "Bad.b: uint must start on a byte|Bad: ends in the middle"),
    ],
)
def test_mistakes_are_said(words: dict[str, Any], fields: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        new_class("Bad", (Acme,), words, lambda body: body.update({"a": uint(16, "A"), **fields}))


def test_a_condition_is_a_column() -> None:
    up = column(Lane, "isup", Lane.errors < 3, "Is up")
    assert [up.read(Lane(bytes([0, 0, 0, 0, 0, errors, 0, 0])), 0) for errors in (2, 3)] == [1, 0]
    assert (up.filter_name, up.values) == ("acme.lane.isup", {0: "no", 1: "yes"})
    assert column(Lane, "same", Lane.errors, "Same").read(Lane(bytes([0, 0, 0, 0, 0, 9, 0, 0])), 0) == 9
    with pytest.raises(SpecError, match="a condition is a number"):
        column(Lane, "text", Lane.errors < 3, "Text", kind="text")
