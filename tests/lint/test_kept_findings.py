"""A choice of frames holds for each chunk, and what several processes found of a rule is joined."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ibdissect.lint.finding import Severity
from ibdissect.lint.kept_findings import RuleTally, SelectedFrames


def test_choice_by_chunk() -> None:
    selected = SelectedFrames()
    assert 7 in selected
    chunks: list[tuple[int, str]] = [(11, "0100000001"), (31, "1")]
    for first, bits in chunks:
        table: Any = SimpleNamespace(chunk=SimpleNamespace(first=first))
        selected.choose(table, np.array([bit == "1" for bit in bits]))
    assert [frame for frame in range(9, 34) if frame not in selected] == [11, 13, 14, 15, 16, 17, 18, 19]


@pytest.mark.parametrize(("size", "rows"), [(1, [0]), (8, [7]), (9, [8]), (16, [0, 7, 8, 15]), (17, [16])])
def test_every_bit_of_a_choice(size: int, rows: list[int]) -> None:
    selected, table = SelectedFrames(), SimpleNamespace(chunk=SimpleNamespace(first=5))
    selected.choose(table, np.isin(np.arange(size), rows))  # type: ignore[arg-type]
    assert [frame for frame in range(5, 5 + size) if frame in selected] == [5 + row for row in rows]
    assert 4 in selected and 5 + size in selected and 0 in selected


def test_what_processes_found_is_joined() -> None:
    """Counts and severities are added; of the findings the earliest stay, as many as are kept."""

    def tally(most: int | None, *frames: int) -> RuleTally:
        made = RuleTally(most, None)
        for frame in frames[: made.add(len(frames))]:
            made.keep(SimpleNamespace(frame=frame))  # type: ignore[arg-type]
        made.lowered[Severity.INFO], made.seconds = len(frames), 0.5
        return made

    for most, kept in ((None, [1, 3, 4, 5, 8]), (3, [1, 3, 4]), (2, [1, 3])):
        one = tally(most, 3, 5, 8)
        one.join(tally(most, 1, 4))
        assert [finding.frame for finding in one.findings] == kept
        assert (one.count, one.lowered, one.seconds) == (5, {Severity.INFO: 5}, 1.0)
    full = tally(2, 1, 2, 3)
    assert (full.add(4), full.count, len(full.findings)) == (0, 7, 2)
