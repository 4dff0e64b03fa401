"""Names of masked keys: keys are numbered by kind in order of first appearance in the capture."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.bounded import Dropped
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.numbers import GSI_Q_KEY
from ibdissect.wire.spec import Field

from ..chunk_table import ChunkTable
from ..equal_rows import is_in
from ..locate import Bool, Int

PUBLIC: dict[str, frozenset[int]] = {"Q_Key": frozenset({GSI_Q_KEY})}
"""Well-known values: the Q_Key of QP1 (IBA 3.5.3). Zero means no key."""

MAX_KEYS = 1 << 16
"""Keys of a kind that get a number; limited because a hostile capture may hold a new one in every frame."""


def is_secret(kind: str, value: int) -> bool:
    """Whether a value of this kind of key must be masked."""
    return value != 0 and value not in PUBLIC.get(kind, ())


@lru_cache(maxsize=8)
def secret_fields(catalog: Catalog) -> tuple[Field[Any], ...]:
    """All key fields."""
    return tuple(field for struct in catalog.structs for field in struct.fields if field.secret)


def fields_there(table: ChunkTable) -> list[Field[Any]]:
    """The key fields of the structures that a chunk has."""
    return [field for field in secret_fields(table.catalog) if len(table.occurrences(field.owner))]


def keys_of(table: ChunkTable, field: Field[Any]) -> tuple[Int, Int, npt.NDArray[Any], Bool]:
    """Every value of a key field in a chunk: its row, first byte, value (uint8[k, bytes] if it is wide), and whether it must be masked."""
    found = table.column(field, repeated=True)
    return found.rows, found.at, found.values, must_mask(field, found.values)


def must_mask(field: Field[Any], values: npt.NDArray[Any]) -> Bool:
    """Which values of a key field must be masked. bool[k]"""
    if values.ndim == 2:
        return np.asarray(values.any(axis=1))
    result: Bool = (values != 0) & ~is_in(values, np.array([*PUBLIC.get(field.secret, ())], values.dtype))
    return result


class KeyNumbering:
    """Numbers for key values. `feed` every chunk in order before showing anything of it.

    `kind`: only keys of this kind; those of each kind are numbered by themselves.
    """

    def __init__(self, kind: str = "") -> None:
        self.kind = kind
        self._numbers: dict[str, dict[int, int]] = {}
        self._fed = 0
        self.dropped = Dropped("keys of one kind")
        """Keys after the first MAX_KEYS of their kind, shown as `#?`."""

    def feed(self, table: ChunkTable) -> None:
        """Number the keys of a chunk in byte order; chunks fed before are skipped."""
        if not len(table) or table.chunk.first <= self._fed:
            return
        table = table.shown
        self._fed = table.chunk.first + len(table) - 1
        new: list[tuple[int, str, int]] = []
        for field in fields_there(table):
            if self.kind and field.secret != self.kind:
                continue
            column = table.column(field, repeated=True)
            at, values = column.at, column.values
            kind, known = field.secret, self._numbers.get(field.secret, {})
            if values.ndim == 2:  # a 16-byte key does not fit a column of integers
                keys = [int.from_bytes(row.tobytes(), "big") for row in values]
            else:
                unique, first = np.unique(values, return_index=True)
                keys, at = unique.tolist(), at[first]
            for where, value in zip(at.tolist(), keys, strict=True):
                if value not in known and is_secret(kind, value):
                    new.append((where, kind, value))
        for _, kind, value in sorted(new):
            if not self.number(kind, value):
                self.dropped.add(table.chunk.first, int(table.chunk.time_ns[0]))

    def number(self, kind: str, value: int) -> int:
        """The number of a key, from 1; a new key gets the next number, or 0 after the first MAX_KEYS of its kind."""
        numbers = self._numbers.setdefault(kind, {})
        if len(numbers) >= MAX_KEYS:
            return numbers.get(value, 0)
        return numbers.setdefault(value, len(numbers) + 1)

    def name(self, kind: str, value: int) -> str:
        """The text shown instead of the value: `M_Key#3`, or `M_Key#?` after the first MAX_KEYS of its kind."""
        return f"{kind}#{self.number(kind, value) or '?'}"
