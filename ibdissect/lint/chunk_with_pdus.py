"""The chunk that a plugin's `@on_chunk` handler gets: a table that has PDUs of streams and attributes of several segments, too.

They are only in `ChunkTable.shown`, where records and messages that rules do not judge are as well; so each structure is asked of the table
that rules see it in. Rows are the same in both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, TypeVar

from ibdissect.decode import Bool, ChunkTable
from ibdissect.decode.inner_structures import with_pdus
from ibdissect.decode.occurrences import Occurrences
from ibdissect.wire.catalog import StructType
from ibdissect.wire.spec import Field, Struct

V = TypeVar("V", bound=Struct)


class ChunkWithPdus:
    """A chunk, and for structures that are PDUs the chunk that shows them. It has all that a `ChunkTable` has."""

    def __init__(self, table: ChunkTable) -> None:
        self._table = table
        self.chunk = table.shown.chunk if table.completes else table.chunk  # the bytes of what was put together follow those of the window

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def __len__(self) -> int:
        return len(self._table)

    def of(self, struct: StructType) -> ChunkTable:
        """The table that has all occurrences of a structure."""
        return with_pdus(self._table, struct)

    def occurrences(self, struct: StructType) -> Occurrences:
        """As of a `ChunkTable`, and so are the others."""
        return self.of(struct).occurrences(struct)

    def view(self, struct: type[V], i: int) -> V:
        return self.of(struct).view(struct, i)

    def matrix(self, struct: StructType) -> Any:
        return self.of(struct).matrix(struct)

    def first(self, struct: StructType) -> Any:
        return self.of(struct).first(struct)

    def where(self, struct: StructType, conditions: Iterable[tuple[Field[Any], Collection[int]]]) -> Bool:
        return self.of(struct).where(struct, conditions)

    def values(self, field: Field[Any]) -> Any:
        return self.of(field.owner).values(field)

    def values_at(self, field: Field[Any], rows: Any) -> Any:
        return self.of(field.owner).values_at(field, rows)

    def of_rows(self, field: Field[Any]) -> Any:
        return self.of(field.owner).of_rows(field)

    def column(self, field: Field[Any], *, repeated: bool = False) -> Any:
        return self.of(field.owner).column(field, repeated=repeated)
