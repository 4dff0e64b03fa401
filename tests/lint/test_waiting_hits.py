"""Hits that wait for the end of the capture: how many, which are judged one by one, and what is told of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.lint.linter import Linter
from ibdissect.lint.rule import REGISTRY
from ibdissect.words import Hit, Rule, on_chunk
from tests.cases import every
from tests.craft import erf_pcap, native
from tests.decode.made import tables_of
from tests.lint.test_engine_events import lint
from tests.lint.test_findings_from_hits import Waits, WaitsAlike

KEPT_APART = 64


def test_a_long_flow_is_judged_once_a_chunk_when_many_hits_were_kept() -> None:
    frames = [native(bth={"opcode": 4})] * (KEPT_APART + 20)
    linter, found = lint(frames, Waits, window=10 * len(frames[0]))
    (rule,) = linter.rules
    assert isinstance(rule, Waits) and sum(rule.judged) == len(frames) and len(rule.judged) < len(frames)
    assert rule.judged[: KEPT_APART - 1] == [1] * (KEPT_APART - 1) and max(rule.judged) > 1
    assert [(one.frame, one.count) for one in found] == [(2, len(frames) - 1)]


def test_hits_that_stand_or_fall_together_are_one() -> None:
    frames = [native(bth={"opcode": 4, "destqp": 7 + i % 2}) for i in range(20)]
    linter, found = lint(frames, WaitsAlike, window=6 * len(frames[0]))
    (rule,) = linter.rules
    assert isinstance(rule, WaitsAlike) and rule.judged == [10, 10]
    assert [(one.frame, one.count) for one in found] == [(1, 10), (2, 10)]
    reported: list[int] = []
    lint(frames, WaitsAlike, window=6 * len(frames[0]), on_occurrence=lambda _rule, _low, _one, at, *_: reported.extend(at))
    assert sorted(reported) == [*range(1, 21)], "each frame, if somebody asks"


@every(
    ("before", "count", "sizes"),
    [
        (0, 3, [1, 1, 1]), (0, KEPT_APART, [1] * KEPT_APART), (0, KEPT_APART + 1, [1] * (KEPT_APART - 1) + [2]),
        (0, KEPT_APART + 2, [1] * (KEPT_APART - 1) + [3]), (KEPT_APART - 2, 5, [*[1] * (KEPT_APART - 2), 1, 4]),
        (KEPT_APART - 2, 2, [1] * KEPT_APART), (KEPT_APART - 1, 5, [*[1] * (KEPT_APART - 1), 5]),
        (KEPT_APART, 5, [*[1] * KEPT_APART, 5]), (KEPT_APART + 9, 5, [*[1] * (KEPT_APART - 1), 10, 5]),
    ],
)  # fmt: skip
def test_as_many_hits_are_apart_as_are_kept(before: int, count: int, sizes: list[int]) -> None:
    """Those of a chunk beyond them are judged together, whatever an earlier chunk had."""
    linter = Linter([Waits])
    for size in filter(None, (before, count)):
        for table in tables_of(erf_pcap([native(bth={"opcode": 4})] * size)):
            linter.feed(table)
    linter.finish()
    (rule,) = linter.rules
    assert isinstance(rule, Waits) and rule.judged == sizes


def test_hits_that_wait_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[int] = []
    monkeypatch.setattr("ibdissect.lint.waiting_hits.MAX_WAITING", 3)
    monkeypatch.setattr(Waits, "watch", lambda _self, hit, _context: watched.append(hit.frame))
    linter = Linter([Waits])
    awaited = []
    for table in tables_of(erf_pcap([native(bth={"opcode": 4, "destqp": n}) for n in range(5)]), 100):
        linter.feed(table)
        awaited += [linter.awaited(), linter.awaited()]
    assert [frame for frames in awaited for frame in frames] == [1, 2, 3] and not any(awaited[1::2])
    assert (linter.findings.waiting.dropped.count, linter.findings.waiting.dropped.frame) == (2, 4) and watched == [1, 2, 3]
    linter.finish()
    assert linter.awaited() == [] and linter.findings.waiting.hits is None


def test_hits_of_a_handler_that_stand_or_fall_together_are_one() -> None:
    class Alike(Rule):
        """Each frame is a hit."""

        code, name, message, alike = "ZZC008", "alike", "hit", True

        @on_chunk
        def chunk(self, table: ChunkTable, context: Any) -> Iterator[Hit]:
            for row in range(len(table)):
                yield Hit(frame=table.chunk.first + row, time_ns=0, arguments={}, key="all", count=2)

        def stands(self, hit: Hit, context: Any) -> bool:
            return True

    REGISTRY.pop("ZZC008")
    found = lint([native()] * 5, Alike, window=2 * len(native()))[1]
    assert [(one.frame, one.count) for one in found] == [(1, 10)]
