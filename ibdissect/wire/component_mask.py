"""Which fields of an SA record does a ComponentMask select, and which mask selects given fields?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .spec import Field, Struct, field_named


def components_of(record: type[Struct]) -> tuple[str, ...]:
    """The record's components in the order of their mask bits, bit 0 first; "" for a reserved bit, () for a record without any.

    A component inside a nested attribute is written with dots (`port_info.lid`), an entry of an array with its index.
    """
    return getattr(record, "components", ())


def components_set(record: type[Struct], mask: int) -> list[str]:
    """The components that a ComponentMask selects, in bit order; `bit N` for a reserved or undefined component."""
    known = components_of(record)
    chosen = []
    for number in range(mask.bit_length()):
        if mask >> number & 1:
            chosen.append((known[number] if number < len(known) else "") or f"bit {number}")
    return chosen


def component_fields(record: type[Struct], name: str) -> list[Field[Any]]:
    """The fields that lead to a component, outermost first; none if there is no such field."""
    found: list[Field[Any]] = []
    for step in name.partition("[")[0].split("."):
        field = field_named(record, step)
        if field is None:
            return []
        found.append(field)
        record = field.of or Struct
    return found


def mask_for(record: type[Struct], names: Iterable[str]) -> int:
    """The ComponentMask that selects the named components of a record; raises ValueError for an unknown name."""
    known = components_of(record)
    mask = 0
    for name in names:
        if not name or name not in known:
            raise ValueError(f"{record.__name__} has no component {name!r}")
        mask |= 1 << known.index(name)
    return mask
