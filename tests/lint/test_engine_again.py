"""Are the details of further hits computed only on demand, and do followers know which events rules handle?"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from functools import partial
from typing import Any, ClassVar

from ibdissect.lint.engine import Context, Source
from ibdissect.lint.rule import REGISTRY, Again, Hit, Rule, on_chunk, on_event
from ibdissect.table.table import ChunkTable
from tests.craft import native
from tests.lint.test_engine_events import lint


class Repeats(Rule):
    """Every packet is a hit of one of two flows."""

    code, name, message = "ZZC001", "repeats", "hit"

    def __init__(self) -> None:
        self.made: list[int] = []

    def _hit(self, frame: int, key: int) -> Hit:
        self.made.append(frame)
        return Hit(frame=frame, time_ns=0, arguments={}, key=key, count=2)

    @on_chunk
    def chunk(self, table: ChunkTable, context: Context) -> Iterator[Again]:
        for frame in range(table.chunk.first, table.chunk.first + len(table)):
            yield Again(frame=frame, key=frame % 2, made=partial(self._hit, frame, frame % 2), count=2)


class Telling(Source):
    """It may say less when it knows who hears it."""

    heard: Container[type[Any]] = ()

    def hear(self, events: Container[type[Any]]) -> None:
        self.heard = events

    def feed(self, table: ChunkTable) -> Iterable[object]:
        return [event() for event in (Wanted, Other) if event in self.heard]


class Wanted:
    """A rule asks for it."""

    source: ClassVar[type[Source]] = Telling


class Other(Wanted):
    """No rule does."""


class Listener(Rule):
    """It handles one kind of event."""

    code, name, message = "ZZC002", "listener", "event"

    @on_event(Wanted)
    def hears(self, event: Wanted, context: Context) -> Iterator[Hit]:
        yield Hit(frame=1, time_ns=0, arguments={"event": type(event)})


for _rule in (Repeats, Listener):  # they are this test's own
    REGISTRY.pop(_rule.code)


def test_further_hits_of_a_flow_are_only_counted() -> None:
    linter, found = lint([native()] * 7, Repeats)
    assert [(f.frame, f.count) for f in found] == [(1, 8), (2, 6)] and linter.tally["ZZC001"].count == 2
    (rule,) = linter.rules
    assert isinstance(rule, Repeats) and rule.made == [1, 2]
    linter, found = lint([native()] * 7, Repeats, shown=[[False] * 4 + [True, False, True]])
    assert [(f.frame, f.count) for f in found] == [(5, 4)] and linter.tally["ZZC001"].count == 1


def test_sources_know_what_rules_hear() -> None:
    linter, found = lint([native()], Listener)
    assert [f.arguments["event"] for f in found] == [Wanted]
    heard = linter.context.get(Telling).heard
    assert Wanted in heard and Other not in heard
