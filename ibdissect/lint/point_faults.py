"""Packets lost, duplicated or changed between this capture and those of other points. Empty if one capture is checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct as Record
from msgspec import field as default

from ibdissect.decode import ChunkTable
from ibdissect.wire.spec import Field

from .finding import Related
from .rule import INFERRED, INFO, Context, Hit, Rule, Seen, fault, on_chunk


class PointFault(Record, frozen=True):
    """A packet of this capture that was lost, duplicated or changed on its way."""

    frame: int
    arguments: dict[str, Any]
    """Arguments of the rule's message."""
    elsewhere: tuple[Related, ...] = ()
    """The same packet in files of other points."""
    at: Field[Any] | None = None
    """The field at fault."""
    sure: bool = True


class PointFaults(Record):
    """All such packets of one capture."""

    by_rule: dict[str, list[PointFault]] = default(default_factory=dict)
    """By code, in order of frames."""

    def within(self, code: str, table: ChunkTable) -> Iterator[PointFault]:
        """The faults in a chunk that a rule reports."""
        stop = table.chunk.first + len(table)
        return (one for one in self.by_rule.get(code, ()) if table.chunk.first <= one.frame < stop)


class PointRule(Rule):
    """Base of rules about several points: each finding is such a packet, an info if it is not certain."""

    def holds(self, one: PointFault, table: ChunkTable) -> bool:
        """Whether the frame itself also shows the fault."""
        return True

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        for one in context.get(PointFaults).within(self.code, table):
            if self.holds(one, table):
                seen = Seen(table, one.frame - table.chunk.first)
                at = one.at if one.at is not None and seen.first(one.at.owner) is not None else None
                hit = fault(seen, one.arguments, at, evidence=INFERRED, severity=None if one.sure else INFO)
                hit.related = one.elsewhere
                yield hit
