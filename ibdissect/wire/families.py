"""Families: what structures of one protocol share, so that their declarations need not repeat it.

`class Acme(Struct, prefix="acme")` has no fields: it is a family. Structures derived from it have its prefix, and the name of their class
as their key.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, TypedDict

from ibdissect.errors import SpecError, nearest

if TYPE_CHECKING:
    from .spec import Field, Struct

UP_TO = ".."
"""In front of an offset: all bits before it that no field declares are reserved."""


class Said(TypedDict, total=False):
    """What the first line of a class may say of a structure: `class Lane(Acme, section="ACME 4", size=8)`."""

    prefix: str
    key: str
    title: str
    section: str
    size: int
    carried_by: Any


def say(struct: type[Struct], said: Mapping[str, Any]) -> None:
    """Give a structure the attributes that its first line says. SpecError for others."""
    for word, value in said.items():
        if word not in Said.__annotations__:
            reason = ", ".join(filter(None, ("a structure has no such attribute", nearest(word, Said.__annotations__, ""))))
            raise SpecError(struct.__name__, word, reason)
        if word in vars(struct):
            raise SpecError(struct.__name__, word, "is said twice, in the first line of the class and below it")
        setattr(struct, word, value)


def name_by_class(struct: type[Struct]) -> None:
    """Give a structure of a family its key: the name of its class."""
    family: Any = struct.__mro__[1]
    if not struct.key and family.__mro__[1] is not object and not family.fields and "prefix" in vars(family):
        struct.key = struct.__name__.lower()


def with_gaps(struct: type[Struct], fields: list[Field[Any]], bit_at: Any) -> list[Field[Any]]:
    """The fields with reserved bits in front of each whose offset begins with `..`: `reserved1` and so on, unless others are called so."""
    from .spec import pad

    taken = {field.name for field in fields}
    names = (name for i in count(1) if (name := f"reserved{i}") not in taken)
    found: list[Field[Any]] = []
    at = 0
    for field in fields:
        if field.at is not None and field.at.startswith(UP_TO) and field.part_of is None:
            field.at = field.at.removeprefix(UP_TO)
            if (bits := bit_at(field.at) - at) > 0:
                gap = pad(bits, f"{at // 8}[{at % 8}]")
                gap.name = next(names)
                setattr(struct, gap.name, gap)
                found.append(gap)
                at += bits
        found.append(field)
        if field.part_of is None:
            at += field.bits * field.count
    return found
