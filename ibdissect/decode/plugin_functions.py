"""A trial run of the functions of plugins on each chunk; one that raises is reported.

Not every command needs what they find: `stats` counts packets whatever a vendor's list says. But whether one fails must not depend on who
asks, so all are called once for each window.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.column import ComputedField
from ibdissect.wire.places import Parsed
from ibdissect.wire.spec import BIT_KINDS, Field

from .computed_fields import values_of

if TYPE_CHECKING:
    from .chunk_table import ChunkTable

MOST_SHOWN = 4096
"""Occurrences in a window whose bytes are given to a function that shows them."""


class Functions(Record, frozen=True, eq=False):
    """What functions of plugins find, compute and show."""

    structs: tuple[StructType, ...]
    columns: tuple[ComputedField, ...]
    fields: tuple[Field[Any], ...]

    def __bool__(self) -> bool:
        return bool(self.structs or self.columns or self.fields)


@cache
def functions_of(catalog: Catalog) -> Functions:
    """What the functions of plugins are for."""
    own = catalog.of_plugins
    structs = [struct for struct in own if any(isinstance(place, Parsed) for place in struct.carried_by)]
    columns = [column for found in catalog.computed.values() for column in found if _of_plugin(column.formula)]
    fields = [field for struct in own for field in struct.fields if field.show is not None]
    return Functions(tuple(structs), tuple(columns), tuple(fields))


def _of_plugin(formula: object) -> bool:
    return callable(formula) and not (getattr(formula, "__module__", None) or "").startswith("ibdissect.")


def try_functions(table: ChunkTable) -> None:
    """Call all functions of plugins on a chunk. One that raises reports itself (`failures.complain`)."""
    functions = functions_of(table.catalog)
    shown = table.shown
    for struct in functions.structs:
        shown.occurrences(struct)
    for column in functions.columns:
        values_of(column, shown)
    for field in functions.fields:
        for value in _values(shown, field):
            assert field.show is not None
            field.show(value)


def _values(table: ChunkTable, field: Field[Any]) -> set[Any]:
    if field.kind in BIT_KINDS:
        return set(np.unique(table.values(field)).tolist())
    count = min(len(table.occurrences(field.owner)), MOST_SHOWN)
    return {bytes(field.__get__(table.view(field.owner, i), field.owner)) for i in range(count)}
