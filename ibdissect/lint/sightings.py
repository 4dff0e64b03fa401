"""What do captures of other points show about packets in this one? Read by rules about several points; empty if one capture is checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct as Record
from msgspec import field as default

from ibdissect.table.table import ChunkTable
from ibdissect.wire.spec import Field

from .finding import Related
from .rule import INFERRED, INFO, Context, Hit, Rule, fault, on_chunk


class Sighting(Record, frozen=True):
    """One packet of this capture that was lost, duplicated or changed on its way."""

    frame: int
    arguments: dict[str, Any]
    """Arguments of the rule's message."""
    elsewhere: tuple[Related, ...] = ()
    """The same packet in files of other points."""
    at: Field[Any] | None = None
    """The field at fault."""
    sure: bool = True


class Sightings(Record):
    """All sightings of one capture."""

    by_rule: dict[str, list[Sighting]] = default(default_factory=dict)
    """By code, in order of frames."""

    def within(self, code: str, table: ChunkTable) -> Iterator[Sighting]:
        """The sightings of a rule in a chunk."""
        stop = table.chunk.first + len(table)
        return (one for one in self.by_rule.get(code, ()) if table.chunk.first <= one.frame < stop)


class PointRule(Rule):
    """Base of rules about several points: each finding is a sighting, an info if it is not certain."""

    def holds(self, one: Sighting, table: ChunkTable) -> bool:
        """Whether the frame itself also shows the fault."""
        return True

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        for one in context.get(Sightings).within(self.code, table):
            if self.holds(one, table):
                row = one.frame - table.chunk.first
                start = None
                if one.at is not None:
                    found = table.occurrences(one.at.owner)
                    place = int(found.rows.searchsorted(row))
                    there = place < len(found) and int(found.rows[place]) == row
                    start = int(found.at[place] - table.chunk.offset[row]) if there else None
                hit = fault(
                    one.frame, int(table.chunk.time_ns[row]), one.arguments, one.at if start is not None else None, start=start,
                    evidence=INFERRED, severity=None if one.sure else INFO,
                )  # fmt: skip
                hit.related = one.elsewhere
                yield hit
