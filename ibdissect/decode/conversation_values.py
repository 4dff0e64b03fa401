"""Values of conversations that later structures depend on (`wire.kept`), each known since the frame that showed it.

Values are learnt in capture order, from all frames of a window before anybody reads it. A frame is then read by what was shown up to it: a
value counts in its own frame, too, unless it replaces another one there, so that nobody knows which PDU of the frame it is for. What is
read by kept values gives none itself: what is learnt must not depend on where windows end. A TCP connection begins anew with its SYN:
what the ports said before is not of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict, Dropped
from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.kept import OTHER, Kept, Memory, NotKnown, nothing
from ibdissect.wire.spec import Struct
from ibdissect.wire.ulp.ip import TCP

from .bit_fields import value_at
from .conversation_keys import Conversation, conversations
from .equal_rows import keys_of
from .inner_structures import with_pdus
from .locate import Int

if TYPE_CHECKING:
    from .chunk_table import ChunkTable

MAX_KEPT = 16384
"""Values that are remembered, of all conversations; the oldest is given up first, and is not known from then on."""
MAX_CHANGES = 32
"""Latest changes of one value, and latest TCP connections of two ports; what was before is not known."""
BLOCK = 128
"""Occurrences whose conversations are found at once."""
MAX_EARLY_DATA = 1 << 16
"""Bytes that a SYN may carry, which its answer acknowledges."""
Key = tuple[Kept, Hashable, tuple[int, ...]]
"""What is remembered: of which conversation, and with which values of other fields."""


class _Shown(Record, frozen=True):
    """A value that a conversation showed."""

    frame: int
    to: Hashable
    """The end that it was sent to; None if the direction does not matter."""
    value: int


class _Syn(Record, frozen=True):
    """A SYN."""

    frame: int
    number: int
    """The sequence number behind the SYN of the side that opens the connection."""
    answer: bool
    """Whether it is the other side's."""


class KeptValues:
    """What conversations have shown. `feed` the chunks of one capture in order, then ask for any frame."""

    def __init__(self) -> None:
        self.fed = 0
        """The last frame fed."""
        self._shown = BoundedDict[Key, deque[_Shown]](MAX_KEPT, "values of conversations that decide how plugins' structures are read")
        self._begun = BoundedDict[Hashable, list[_Syn]](MAX_KEPT)
        """When each conversation that has shown a value began anew; what was said before goes from memory before this does."""
        self._opened = BoundedDict[Hashable, _Syn](MAX_KEPT)
        """The latest SYN of the others."""

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """What was given up, because there is a bound."""
        return (self._shown.dropped,) if self._shown.dropped is not None else ()

    def feed(self, table: ChunkTable) -> None:
        """Learn from a chunk; chunks fed before are skipped."""
        if not len(table) or table.chunk.first <= self.fed:
            return
        self.fed = table.chunk.first + len(table) - 1
        every = depended(table.catalog)
        found = [(one.frame, spoken, one) for spoken, one in _syns(table)] if every else []
        for frame, about, one in sorted([*found, *(one for kept in every for one in self._learn(table, kept))], key=itemgetter(0)):
            if isinstance(one, _Syn):
                self._begin(about, one)
            else:
                self._put(about, one, int(table.chunk.time_ns[frame - table.chunk.first]))

    def _learn(self, table: ChunkTable, kept: Kept) -> Iterator[tuple[int, Any, _Shown | _Syn]]:
        from .conditions import Evaluator

        struct = kept.field.owner
        of = with_pdus(table.once(_without_memory) if _in_doubt(table.catalog, struct) else table, struct)
        found = of.occurrences(struct)
        index = np.flatnonzero(Evaluator(of, struct).mask(kept.where)) if kept.where is not None else np.arange(len(found))
        index = index[np.lexsort((found.at[index], found.rows[index]))]
        rows = found.rows[index]
        same = keys_of([of.values(theirs)[index] for _, theirs in kept.pairs], len(index))
        values = of.values(kept.field)[index].tolist()
        for row, value, (spoken, to), key in zip(rows.tolist(), values, conversations(of, rows), same, strict=True):
            frame = of.chunk.first + row
            yield frame, (kept, spoken, key), _Shown(frame, to if kept.way else None, int(value))

    def _put(self, key: Key, shown: _Shown, time_ns: int) -> None:
        history, spoken = self._shown.get(key), key[1]
        if history is None:
            self._shown.put(key, history := deque(maxlen=MAX_CHANGES), shown.frame, time_ns)
            syn = self._opened.pop(spoken, None)
            self._begun.put(spoken, self._begun.pop(spoken, [syn] if syn is not None else []))
        before = next((one for one in reversed(history) if one.to == shown.to), None)
        if before is None or before.value != shown.value or before.frame < self._since(spoken, shown.frame):
            history.append(shown)

    def _begin(self, spoken: Hashable, syn: _Syn) -> None:
        """Note a SYN, unless it answers the latest one."""
        known = self._begun.get(spoken)
        before = known[-1] if known else self._opened.get(spoken)
        if syn.answer and before is not None and (syn.number - before.number) % (1 << TCP.sequence.bits) < MAX_EARLY_DATA:
            return
        if known is None:
            self._opened.put(spoken, syn)
        else:
            known[:] = [*known, syn][-MAX_CHANGES:]

    def _since(self, spoken: Hashable, frame: int) -> int:
        """The first frame whose values count for a frame."""
        known = self._begun.get(spoken, ())
        latest = next((one.frame for one in reversed(known) if one.frame <= frame), None)
        return latest if latest is not None else frame + 1 if len(known) == MAX_CHANGES else 0

    def value(self, kept: Kept, spoken: Conversation, same: tuple[int, ...], frame: int) -> int:
        """The value for an occurrence in a frame. NotKnown if its conversation has not shown it, or changes it in this frame."""
        of, to = spoken
        since = self._since(of, frame)
        history = [
            one for one in self._shown.get((kept, of, same), ())
            if since <= one.frame <= frame and (not kept.way or (one.to != to) == (kept.way == OTHER))
        ]  # fmt: skip
        if not history or (len(history) > 1 and history[-1].frame == frame):
            raise NotKnown
        return history[-1].value


def _syns(table: ChunkTable) -> Iterator[tuple[Hashable, _Syn]]:
    """The SYNs of a chunk that are not inside packets of queue pairs, each with its conversation."""
    found, located, data = table.occurrences(TCP), table.located, table.chunk.data
    outside = (located.at("bth")[found.rows] < 0) & (located.at("mad")[found.rows] < 0)
    found = found.pick(outside & (value_at(data, found.at, TCP.syn) != 0))
    answers = (value_at(data, found.at, TCP.ack) != 0).tolist()
    opened, acknowledged = (value_at(data, found.at, field).tolist() for field in (TCP.sequence, TCP.acknowledgment))
    for i, (row, (spoken, _)) in enumerate(zip(found.rows.tolist(), conversations(table, found.rows), strict=True)):
        number = acknowledged[i] if answers[i] else opened[i] + 1
        yield spoken, _Syn(table.chunk.first + row, number, answers[i])


@cache
def depended(catalog: Catalog) -> tuple[Kept, ...]:
    """All values that the structures of a catalog depend on."""
    return tuple(dict.fromkeys(one for struct in catalog.depending if struct.tail is not None for one in struct.tail.depends()))


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


def memory_at(table: ChunkTable, struct: type[Struct], i: int) -> Memory:
    """That of occurrence `i`. Neighbours are read at once: to find one conversation takes as long as to find a hundred."""
    known: dict[tuple[StructType, int], list[Memory]] = table.results(memory_at)
    start = i - i % BLOCK
    found = known.get((struct, start))
    if found is None:
        found = known[struct, start] = memories(table, struct, table.occurrences(struct).rows[start : start + BLOCK])
    return found[i - start]


def _memory(values: KeptValues, spoken: Conversation, frame: int) -> Memory:
    return lambda kept, same: values.value(kept, spoken, same, frame)
