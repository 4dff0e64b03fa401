"""Values of computed fields in a chunk, one per occurrence of their structure.

What is computed from a key would tell it. So a formula reads 1 in the place of a key that is not zero, and zeros in that of its parts and
of all other bytes that are hidden.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ibdissect.failures import complain
from ibdissect.plugin_timeout import patient
from ibdissect.wire.column import ComputedField, evaluate
from ibdissect.wire.expr import Arith
from ibdissect.wire.kept import remember
from ibdissect.wire.spec import Field, Struct

from .conversation_values import memories
from .ignored_data import as_read
from .inner_structures import holds_key

if TYPE_CHECKING:
    from .chunk_table import ChunkTable


def value_of(field: ComputedField, view: Struct) -> int | str:
    """The value for one view; 0 or "" if the plugin's function raises, which is reported once."""
    try:
        with patient(field.formula):
            value = field.read(view, 0)
        return str(value) if field.kind == "text" else max(-(1 << 63), min(int(value), (1 << 63) - 1))
    except Exception as error:  # plugin code: an exception loses only its own value
        complain(field.formula, error)
        return "" if field.kind == "text" else 0


def keyless(table: ChunkTable) -> npt.NDArray[np.uint8]:
    """The bytes that functions read where a key may be. Call as `table.once(keyless)`."""
    from .hidden.cut_keys import without_keys
    from .hidden.key_numbers import keys_of, secret_fields

    data = table.once(without_keys).copy()
    for key in secret_fields(table.catalog):
        if key.bits % 8 == 0:
            _, at, _, there = keys_of(table.shown, key)
            data[at[there] + (0 if key.little else key.bits // 8 - 1)] = 1
    return data


def read_by(table: ChunkTable, field: ComputedField) -> npt.NDArray[np.uint8]:
    """The bytes from which a computed field is computed."""
    return table.once(keyless) if holds_key(table.catalog, field.owner) else table.once(as_read).data


def _number(table: ChunkTable, field: Field[Any]) -> npt.NDArray[np.int64]:
    """The values of a field for a formula, int64[k]."""
    values = table.values(field)
    return ((values != 0) if field.secret else values * (not field.tells)).astype(np.int64)


def value_in(table: ChunkTable, field: ComputedField, row: int, i: int | None = None) -> int | str:
    """The value at an occurrence, by default the first one in a row, without what keys would tell."""
    i = int(table.occurrences(field.owner).rows.searchsorted(row)) if i is None else i
    value = table.values(field)[i]
    return value.tobytes().rstrip(b"\0").decode("utf-8", "replace") if field.kind == "text" else int(value)


def values_of(field: ComputedField, table: ChunkTable) -> npt.NDArray[Any]:
    """int64[k], or uint8[k, bytes] of NUL-padded UTF-8 for texts."""
    if isinstance(field.formula, Arith):
        size = len(table.occurrences(field.owner))
        found = evaluate(field.formula, lambda each: _number(table, each))
        return np.broadcast_to(np.asarray(found, np.int64), (size,))
    data, found = read_by(table, field).data, table.occurrences(field.owner)
    views = [field.owner(bytes(data[a:b]), 0, b - a) for a, b in zip(found.at.tolist(), found.stop.tolist(), strict=True)]
    if field.owner.tail is not None and field.owner.tail.depends():
        for view, memory in zip(views, memories(table, field.owner, found.rows), strict=True):
            remember(view, memory)
    values = [value_of(field, view) for view in views]
    if field.kind == "text":
        encoded = [str(value).encode("utf-8", "replace") for value in values]
        width = max(map(len, encoded), default=0)
        return np.frombuffer(b"".join(data.ljust(width, b"\0") for data in encoded), np.uint8).reshape(len(values), width)
    return np.array(values, np.int64)
