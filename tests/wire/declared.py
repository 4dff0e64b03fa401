"""The declarations, one line each, for tests/reference/declared.csv."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any
from zlib import crc32

from msgspec import Struct as Record

from ibdissect.wire import numbers
from ibdissect.wire.catalog import builtin_modules
from ibdissect.wire.column import ComputedField
from ibdissect.wire.spec import BYTE_KINDS, INT_KINDS, Field
from ibdissect.wire.tail import Part
from ibdissect.words import Struct
from tests.conftest import REFERENCE

TABLE = REFERENCE / "declared.csv"
LONGEST = 140
"""Longer texts are cut, and end with a checksum of the whole."""
NOT_SAID = frozenset({"sources", "field", "struct", "within"})
"""Of a part of variable size: what is made of the rest, or leads back to its structure."""
OPTIONS = ("base", "unit", "secret", "little", "ports", "read_only", "is_text")
ORDINARY: Field[int] = Field("uint", 8, "")
CONSTANTS = (int, str, bytes, tuple, list, frozenset, set, Mapping, range)


def lines() -> Iterator[tuple[str, str, str]]:
    """Module, name and what is declared of every structure, field and constant of `ibdissect.wire`."""
    for module in builtin_modules():
        short = module.__name__.removeprefix("ibdissect.wire.")
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, Struct) and value is not Struct and value.__module__ == module.__name__:
                yield from ((short, one, short_of(text)) for one, text in structure(value))
            elif isinstance(value, ComputedField):
                yield short, name, short_of(f"{field_text(value)} = {said(value.formula)}")
            elif isinstance(value, CONSTANTS) and not name.startswith("__") and (module is numbers or vars(numbers).get(name) is not value):
                yield short, name, short_of(said(value))


def structure(struct: type[Struct]) -> Iterator[tuple[str, str]]:
    """A structure, and each of its fields."""
    yield struct.__name__, f"{struct.prefix}.{struct.key} {struct.size} bytes, {struct.title}, in {said(struct.carried_by)}"
    for field in struct.fields:
        yield f"{struct.__name__}.{field.name}", field_text(field)
    for number, part in enumerate(struct.tail.parts if struct.tail is not None else ()):
        yield f"{struct.__name__} part {number}", said(part)
        for field in part.struct.fields if part.entry is None or part.entry.of is None else ():
            yield f"{struct.__name__} part {number}.{field.name}", field_text(field)


def field_text(field: Field[Any]) -> str:
    """Place and kind, name in filters, and what else differs from an ordinary number."""
    words = [f"{field.bit}+{field.bits}" + (f"x{field.count}" if field.count > 1 else ""), field.kind, field.filter_name, field.holds]
    words += [f"{name}={value}" for name in OPTIONS if (value := getattr(field, name)) != getattr(ORDINARY, name)]
    if field.at is None and field.part_of is None:
        words.append("unchecked")  # nobody compares its place with the sum of the fields before
    if field.part_of is not None:
        words.append(f"of {field.part_of[0].name} from {field.part_of[1]}")
    if field.when is not None:
        words.append(f"if {said(field.when)}")
    if field.of is not None:
        words.append(field.of.__name__)
    words.append(f"'{field.label}'")
    if field.values is not None:
        words.append(said(field.values))
    if field.show is not None:
        words.append(said([field.show(value) for value in samples(field)]))
    return " ".join(words)


def samples(field: Field[Any]) -> list[Any]:
    """Values at and beside every bound of a field: none, one bit, all bits but one, all."""
    if field.kind == "flag":
        return [False, True]
    if field.kind in INT_KINDS:
        powers = [1 << bit for bit in range(field.bits)]
        return sorted({0, *powers, *(one - 1 for one in powers), *(one + 1 for one in powers[1:]), (1 << field.bits) - 1})
    size = field.bits // 8 if field.kind in BYTE_KINDS else 20
    found = [bytes(size), b"\xff" * size, bytes(range(size)), b"\x01" + bytes(max(size - 1, 0))]
    return found if field.kind != "text" else ["", "text"]


def said(value: Any) -> str:
    """A value as text that is the same in every process."""
    match value:
        case Field():
            return f"{value.owner.__name__}.{value.name}"
        case type():
            return value.__name__
        case FunctionType():
            return value.__qualname__
        case Mapping():
            return "{" + ", ".join(f"{said(key)}: {said(one)}" for key, one in value.items()) + "}"
        case frozenset() | set():
            return "{" + ", ".join(sorted(map(said, value))) + "}"
        case tuple() | list():
            return "(" + ", ".join(map(said, value)) + ")"
        case re.Pattern():
            return repr(value.pattern)
        case Part():
            found = {name: getattr(value, name) for name in value.__struct_fields__ if name not in NOT_SAID and not name.endswith("_of")}
            return f"Part({said({name: one for name, one in found.items() if one is not None})})"
        case Record():
            return f"{type(value).__name__}({said([getattr(value, name) for name in value.__struct_fields__])})"
        case object(__slots__=slots) if slots:
            return f"{type(value).__name__}({said([getattr(value, name) for name in slots])})"
        case int() | str() | bytes() | bool() | None | range():
            return repr(value)
    return type(value).__name__


def short_of(text: str) -> str:
    return text if len(text) <= LONGEST + 11 else f"{text[:LONGEST]}... {crc32(text.encode()):08x}"


def table() -> str:
    """The whole table, as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("module", "name", "declared"))
    writer.writerows(lines())
    return out.getvalue()
