"""PDUs that answer others, of structures that declare it (`wire.dialogue.answer`)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict
from ibdissect.decode.addresses import End, ends_at
from ibdissect.decode.conditions import Evaluator
from ibdissect.decode.conversation_keys import conversations
from ibdissect.decode.equal_rows import keys_of
from ibdissect.decode.inner_structures import values_beside, with_pdus
from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.dialogue import Answer, answers_of
from ibdissect.wire.expr import Expr
from ibdissect.wire.spec import Field

if TYPE_CHECKING:
    from ibdissect.decode import ChunkTable

MAX_OPEN = 65536
"""Requests that wait for their answer; the oldest is given up first."""


class PluginRequest(Record, frozen=True):
    """A PDU that waits for another."""

    frame: int
    time_ns: int
    struct: StructType
    ends: tuple[End, End]
    to: Hashable
    """The end of the conversation that it goes to."""


class PluginAnswer(Record, frozen=True):
    """A PDU that answers another."""

    frame: int
    request: PluginRequest
    latency_ns: int


class _Spoken(Record, frozen=True):
    """A request or an answer."""

    row: int
    """Of both kinds, first by row and then by place."""
    at: int
    asks: bool
    key: Hashable
    to: Hashable


class PluginAnswers:
    """Matches requests and answers of structures that declare `answers`. Feed it chunks in order."""

    def __init__(self) -> None:
        self.open = BoundedDict[Hashable, PluginRequest](MAX_OPEN, "requests of plugins' protocols")
        """Requests without an answer so far, by what request and answer have in common."""

    def feed(self, table: ChunkTable) -> list[PluginAnswer]:
        """The answers of a chunk in frame order."""
        found: list[PluginAnswer] = []
        for number, (struct, answers) in enumerate(answering(table.catalog)):
            of = with_pdus(table, struct, answers.request(struct))
            spoken = [*_said(of, number, answers.request(struct), answers.asks, [b for _, b in answers.pairs], asks=True)]
            spoken += _said(of, number, struct, answers.when, [a for a, _ in answers.pairs], asks=False)
            for one in sorted(spoken, key=lambda one: (one.row, one.at)):
                frame, time_ns = of.chunk.first + one.row, int(of.chunk.time_ns[one.row])
                if one.asks:
                    asking = answers.request(struct)
                    self.open.put(one.key, PluginRequest(frame, time_ns, asking, ends_at(of, one.row), one.to), frame, time_ns)
                elif (asked := self.open.get(one.key)) is not None and asked.to != one.to:
                    del self.open[one.key]
                    found.append(PluginAnswer(frame, asked, time_ns - asked.time_ns))
        return sorted(found, key=lambda one: one.frame)


@cache
def answering(catalog: Catalog) -> tuple[tuple[StructType, Answer], ...]:
    """The structures that declare what they answer."""
    return tuple((struct, answers) for struct in catalog.answering if (answers := answers_of(struct)) is not None)


def _said(table: ChunkTable, number: int, struct: StructType, when: Expr | None, by: list[Field[Any]], *, asks: bool) -> Iterator[_Spoken]:
    """The occurrences of a structure for which a condition holds."""
    found = table.occurrences(struct)
    index = np.flatnonzero(Evaluator(table, struct).mask(when)) if when is not None else np.arange(len(found))
    rows = found.rows[index]
    values = [each[index] for field in by for each in values_beside(table, struct, field)]
    same = keys_of(values, len(index))
    for row, at, (of, to), key in zip(rows.tolist(), found.at[index].tolist(), conversations(table, rows), same, strict=True):
        yield _Spoken(row, at, asks, (number, of, key), to)
