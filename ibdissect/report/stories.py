"""Connections that failed or were slow on the page: what several have in common, then the worst, with their time as a bar."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct as Record
from msgspec import field

from ibdissect.diagnosis.connection import Connection, Diagnosis
from ibdissect.diagnosis.phrases import duration
from ibdissect.diagnosis.text import (
    begins,
    counts_text,
    culprits,
    heading,
    life,
    numbers,
    proofs,
    since_until,
    time_by_parts,
    troubled,
    verdicts,
    where_time_went,
)  # fmt: skip
from ibdissect.diagnosis.time_bars import slices
from ibdissect.wire.text import counted

SHOWN = 20
"""Connections of a capture that are told."""
WIDTH = 420
"""Pixels of a bar."""


class BarPart(Record):
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


class StoryOnPage(Record):
    """One connection."""

    cause: str
    severity: str
    who: str
    why: str
    advice: str
    when: str
    """When what explains it began and ended, in words."""
    life: str
    """Its first and its last frame."""
    numbers: str
    time: str
    """The parts of its time in words."""
    parts: list[BarPart]
    proofs: list[Proof]


class SharedCauseShown(Record):
    """What several connections have in common with a host."""

    cause: str
    severity: str
    why: str
    advice: str
    when: str
    told: list[StoryOnPage]
    """The worst of these connections."""
    more: int = 0
    """Further ones."""


class StoriesOnPage(Record):
    """What the page says of the connections of one capture."""

    counts: str
    shared: list[SharedCauseShown] = field(default_factory=list)
    told: list[StoryOnPage] = field(default_factory=list)
    """The worst of the others."""
    more: int = 0
    """Further connections with trouble."""
    where: list[str] = field(default_factory=list)
    """Where the time of all went, in words."""
    notes: list[str] = field(default_factory=list)
    begins: str = ""
    """When the capture begins, and how times are told."""
    hidden: str = ""
    """How many of the connections that are not told have each verdict: `2 failed, 3 slow`."""

    @property
    def trouble(self) -> bool:
        return bool(self.told or self.shared)

    @property
    def every(self) -> list[StoryOnPage]:
        """Those of the culprits, then the others."""
        return [*(one for each in self.shared for one in each.told), *self.told]


def stories(diagnosis: Diagnosis, start_ns: int, name: Callable[[str], str] = str) -> StoriesOnPage:
    """The stories of the worst connections; `start_ns`: when the capture begins, `name`: the name of an address."""
    found = diagnosis.connections
    common, others = culprits(diagnosis)
    bad = [one for one in others if troubled(one)]
    where = [line.strip() for line in where_time_went(found, lambda text, _: text, name)][2:]
    shared = [
        SharedCauseShown(
            each.shared.cause, each.members[0].shown_severity, each.shared.why, each.shared.advice, each.when(start_ns),
            [_story(one, start_ns, name, advice=False) for one in each.members[:SHOWN]], max(len(each.members) - SHOWN, 0),
        )
        for each in common
    ]  # fmt: skip
    told = [_story(one, start_ns, name) for one in bad[:SHOWN]]
    return StoriesOnPage(
        f"{counted(len(found), 'connection', ',')}: {counts_text(found)}", shared, told, len(bad) - len(told), where, diagnosis.notes,
        begins(diagnosis) if found else "", verdicts(bad[SHOWN:]),
    )  # fmt: skip


def _story(one: Connection, start_ns: int, name: Callable[[str], str], *, advice: bool = True) -> StoryOnPage:
    ends = " → ".join(end.said(name) for end in one.ends)
    parts, at = [], 0.0
    for part in slices(one):
        width = part.share * WIDTH
        parts.append(BarPart(part.part, at, width, f"{part.said}: {part.share:.1%}, {duration(part.ns)}"))
        at += width
    return StoryOnPage(
        heading(one), one.shown_severity, f"{one.transport} {ends}", one.why, one.advice if advice else "", since_until(one, start_ns),
        life(one, start_ns), numbers(one), time_by_parts(one), parts, [Proof(*proof) for proof in proofs(one)],
    )  # fmt: skip
