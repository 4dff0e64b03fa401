"""What has each conversation shown of the values that structures depend on (`wire.kept`), and since which frame?

Values are learnt in capture order, from all frames of a window before anybody reads it. A frame is then read by what was shown up to it: a
value counts in its own frame, too, unless it replaces another one there, so that nobody knows which PDU of the frame it is for. What is
read by kept values gives none itself: what is learnt must not depend on where windows end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict
from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.kept import OTHER, Kept, Memory, NotKnown, nothing
from ibdissect.wire.spec import Struct

from .conversations import Conversation, conversations
from .locate import Int
from .rows import keys_of

if TYPE_CHECKING:
    from .table import ChunkTable

MAX_KEPT = 16384
"""Values that are remembered, of all conversations; the oldest is given up first, and is not known from then on."""
MAX_CHANGES = 32
"""Latest changes of one value; what was before is not known."""


class _Shown(Record, frozen=True):
    """A value that a conversation showed."""

    frame: int
    to: Hashable
    """The end that it was sent to; None if the direction does not matter."""
    value: int


class KeptValues:
    """What conversations have shown. `feed` the chunks of one capture in order, then ask for any frame."""

    def __init__(self) -> None:
        self.fed = 0
        """The last frame fed."""
        self._shown = BoundedDict[Hashable, deque[_Shown]](MAX_KEPT, "values of conversations that decide how plugins' structures are read")

    @property
    def dropped(self) -> object:
        """What was given up, because there is a bound."""
        return self._shown.dropped

    def feed(self, table: ChunkTable) -> None:
        """Learn from a chunk; chunks fed before are skipped."""
        if not len(table) or table.chunk.first <= self.fed:
            return
        self.fed = table.chunk.first + len(table) - 1
        for kept in depended(table.catalog):
            self._learn(table, kept)

    def _learn(self, table: ChunkTable, kept: Kept) -> None:
        from .insides import with_pdus  # it asks here how far a tail can be read
        from .mask import Judge

        struct = kept.field.owner
        of = with_pdus(table.once(_without_memory) if _in_doubt(table.catalog, struct) else table, struct)
        found = of.occurrences(struct)
        index = np.flatnonzero(Judge(of, struct).mask(kept.where)) if kept.where is not None else np.arange(len(found))
        index = index[np.lexsort((found.at[index], found.rows[index]))]
        rows = found.rows[index]
        same = keys_of([of.values(theirs)[index] for _, theirs in kept.pairs], len(index))
        values = of.values(kept.field)[index].tolist()
        for row, value, (spoken, to), key in zip(rows.tolist(), values, conversations(of, rows), same, strict=True):
            frame = of.chunk.first + row
            self._put((kept, spoken, key), _Shown(frame, to if kept.way else None, int(value)), int(of.chunk.time_ns[row]))

    def _put(self, key: Hashable, shown: _Shown, time_ns: int) -> None:
        history = self._shown.get(key)
        if history is None:
            self._shown.put(key, history := deque(maxlen=MAX_CHANGES), shown.frame, time_ns)
        before = next((one for one in reversed(history) if one.to == shown.to), None)
        if before is None or before.value != shown.value:
            history.append(shown)

    def value(self, kept: Kept, spoken: Conversation, same: tuple[int, ...], frame: int) -> int:
        """The value for an occurrence in a frame. NotKnown if its conversation has not shown it, or changes it in this frame."""
        of, to = spoken
        history = [
            one for one in self._shown.get((kept, of, same), ())
            if one.frame <= frame and (not kept.way or (one.to != to) == (kept.way == OTHER))
        ]  # fmt: skip
        if not history or (len(history) > 1 and history[-1].frame == frame):
            raise NotKnown
        return history[-1].value


@cache
def depended(catalog: Catalog) -> tuple[Kept, ...]:
    """All values that the structures of a catalog depend on."""
    return tuple(dict.fromkeys(one for struct in catalog.structs if struct.tail is not None for one in struct.tail.depends()))


@cache
def _in_doubt(catalog: Catalog, struct: StructType) -> bool:
    """Whether the place of a structure may depend on kept values."""
    outer = {place.field.owner for place in catalog.places(struct) if hasattr(place, "field")}
    outer |= {field.owner for field in catalog.nesting.get(struct, ())}
    return any((one.tail is not None and bool(one.tail.depends())) or _in_doubt(catalog, one) for one in outer - {struct})


def _without_memory(table: ChunkTable) -> ChunkTable:
    """The same packets, read without what conversations have shown."""
    made = table.only_rows(np.ones(len(table), np.bool_))
    made.remembers = False
    return made


def memories(table: ChunkTable, struct: type[Struct], rows: Int) -> list[Memory]:
    """What the conversation of each row has shown, for a structure whose tail depends on it."""
    if not table.remembers or struct.tail is None or not struct.tail.depends():
        return [nothing] * len(rows)
    values = table.services.kept
    return [_memory(values, spoken, frame) for frame, spoken in zip(table.numbers(rows), conversations(table, rows), strict=True)]


def _memory(values: KeptValues, spoken: Conversation, frame: int) -> Memory:
    return lambda kept, same: values.value(kept, spoken, same, frame)
