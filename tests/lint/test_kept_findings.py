"""A choice of frames holds for each chunk, and what is found in several subnets is joined."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from ibdissect.lint.rule import REGISTRY
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.wire.headers import BTH
from ibdissect.words import INFO, Hit, Rule, on_end
from tests.cases import every
from tests.craft import native
from tests.lint.test_engine_events import lint
from tests.subnet.test_separate_subnets import FULL, HERE, LIMITED, THERE, data, mixed


class Everywhere(Rule):
    """Frames within and beyond the capture, named when all have gone."""

    code, name, message = "ZZK001", "everywhere", "frame"

    @on_end
    def end(self, _context: Any) -> Iterator[Hit]:
        yield from (Hit(frame=frame, time_ns=0, arguments={}) for frame in range(25))


class Data(Rule):
    """A packet of data, which is an info."""

    code, name, message, when = "ZZK002", "data", "data", BTH.destqp >= 0x200

    def severity_at_end(self, hit: Hit, context: Any) -> object:
        return INFO


for _rule in (Everywhere, Data):
    REGISTRY.pop(_rule.code)


@every(("size", "rows"), [(1, [0]), (8, [7]), (9, [8]), (16, [0, 7, 8, 15]), (17, [16]), (3, []), (20, range(20))])
@every("window", [1, 1 << 20])
def test_every_frame_of_a_choice(size: int, rows: list[int], window: int) -> None:
    """What is no frame of the capture is always told."""
    chosen = [row in rows for row in range(size)]
    parts = [chosen] if window > 1 else [[one] for one in chosen]
    _, found = lint([native()] * size, Everywhere, selected=parts, window=window, max_findings=None)
    assert [one.frame for one in found] == [0, *(row + 1 for row in rows), *range(size + 1, 25)]


@every(("most", "kept"), [(None, [26, 28, 33, 34, 35]), (3, [26, 28, 33]), (2, [26, 28]), (0, [])])
def test_what_is_found_in_each_subnet_is_joined(most: int | None, kept: list[int]) -> None:
    """Counts and severities are added; of the findings the earliest stay, as many as are kept."""
    here, there = [data(2, 1, LIMITED)] * 3, [data(2, 1, FULL)] * 2
    raw = mixed([*HERE, *here], [*THERE, *there], interfaces=True)
    report = check(io.BytesIO(raw), CheckOptions(rules=[Data], max_findings=most))
    assert [one.frame for one in report.findings] == kept
    assert (report.by_rule, report.counts) == ({"ZZK002": 5}, {"error": 0, "warning": 0, "info": 5})
