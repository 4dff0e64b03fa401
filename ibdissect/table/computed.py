"""What are the values of a computed field in a chunk, one per occurrence of its structure?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ibdissect.failures import complain
from ibdissect.patience import patient
from ibdissect.wire.column import ComputedField, evaluate
from ibdissect.wire.expr import Arith
from ibdissect.wire.spec import Struct

if TYPE_CHECKING:
    from .table import ChunkTable


def value_of(field: ComputedField, view: Struct) -> int | str:
    """The value for one view; 0 or "" if the plugin's function raises, which is reported once."""
    try:
        with patient(field.formula):
            value = field.read(view, 0)
        return str(value) if field.kind == "text" else max(-(1 << 63), min(int(value), (1 << 63) - 1))
    except Exception as error:  # plugin code: an exception loses only its own value
        complain(field.formula, error)
        return "" if field.kind == "text" else 0


def values_of(field: ComputedField, table: ChunkTable) -> npt.NDArray[Any]:
    """int64[k], or uint8[k, bytes] of NUL-padded UTF-8 for texts."""
    if isinstance(field.formula, Arith):
        size = len(table.occurrences(field.owner))
        found = evaluate(field.formula, lambda each: table.values(each).astype(np.int64))
        return np.broadcast_to(np.asarray(found, np.int64), (size,))
    values = [value_of(field, table.view(field.owner, i)) for i in range(len(table.occurrences(field.owner)))]
    if field.kind == "text":
        encoded = [str(value).encode("utf-8", "replace") for value in values]
        width = max(map(len, encoded), default=0)
        return np.frombuffer(b"".join(data.ljust(width, b"\0") for data in encoded), np.uint8).reshape(len(values), width)
    return np.array(values, np.int64)
