"""What does the page say of connections that failed or were slow? What several have in common, then the worst, with their time as a bar."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct as Record
from msgspec import field

from ibdissect.diagnosis.connection import Connection, Diagnosis
from ibdissect.diagnosis.slices import slices
from ibdissect.diagnosis.text import numbers, proofs, time_by_parts, verdicts, where_time_went, worst_first
from ibdissect.diagnosis.words import duration
from ibdissect.wire.text import counted

SHOWN = 20
"""Connections of a capture that are told."""
WIDTH = 420
"""Pixels of a bar."""


class Part(Record):
    """A rectangle of a bar."""

    kind: str
    """The part of the time: `rnr_wait`."""
    x: float
    width: float
    title: str


class Proof(Record):
    """A frame that proves a story."""

    frame: int
    what: str
    decoded: str = ""
    """As HTML; empty where the page has none."""


class Story(Record):
    """One connection."""

    cause: str
    severity: str
    who: str
    why: str
    advice: str
    when: str
    """When it began and how long it lasted, in words."""
    numbers: str
    time: str
    """The parts of its time in words."""
    parts: list[Part]
    proofs: list[Proof]


class Stories(Record):
    """What the page says of the connections of one capture."""

    counts: str
    shared: list[str] = field(default_factory=list)
    told: list[Story] = field(default_factory=list)
    more: int = 0
    """Further connections with trouble."""
    where: list[str] = field(default_factory=list)
    """Where the time of all went, in words."""
    notes: list[str] = field(default_factory=list)

    @property
    def trouble(self) -> bool:
        return bool(self.told)


def stories(diagnosis: Diagnosis, start_ns: int, name: Callable[[str], str] = str) -> Stories:
    """The stories of the worst connections; `start_ns`: when the capture begins, `name`: the name of an address."""
    found = diagnosis.connections
    bad = [one for one in worst_first(found) if not one.healthy]
    where = [line.strip() for line in where_time_went(found, lambda text, _: text)][2:]
    told = [_story(one, start_ns, name) for one in bad[:SHOWN]]
    return Stories(
        f"{counted(len(found), 'connection', ',')}: {verdicts(found)}", [one.why for one in diagnosis.shared], told, len(bad) - len(told),
        where, diagnosis.notes,
    )  # fmt: skip


def _story(one: Connection, start_ns: int, name: Callable[[str], str]) -> Story:
    ends = " → ".join(end.said(name) for end in one.ends)
    since = one.since_ns if one.since_ns is not None else one.start_ns
    when = f"since {duration(max(since - start_ns, 0))} after the capture began, frames {one.first_frame:,} to {one.last_frame:,}"
    parts, at = [], 0.0
    for part in slices(one):
        width = part.share * WIDTH
        parts.append(Part(part.part, at, width, f"{part.said}: {part.share:.1%}, {duration(part.ns)}"))
        at += width
    return Story(
        one.cause, one.severity, f"{one.transport} {ends}", one.why, one.advice, when, numbers(one), time_by_parts(one), parts,
        [Proof(*proof) for proof in proofs(one)],
    )  # fmt: skip
