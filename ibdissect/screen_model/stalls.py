"""Stalls of a ladder: where nothing was sent, for how long, and what was waited for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct as Record

from ibdissect.diagnosis.connection import Connection
from ibdissect.engine.episodes import LOSS, PAUSE, REORDERING, RNR, TIMEOUT

from .ladder import AGAIN, LadderStep

LONG = 8
"""A gap that is as many times longer than most is a stall."""
LEAST_NS = 10_000
"""Shorter gaps are none."""
EACH, ALL = 8, 60
"""Lines of the longest stall, and of all stalls together."""
WAITED = {
    TIMEOUT: "waiting for a time-out", RNR: "waiting for a receive buffer", PAUSE: "the application had nothing to send",
    LOSS: "making good a loss", REORDERING: "making good a loss",
}  # fmt: skip
QUIET = "no packet"


class Stall(Record, frozen=True):
    """Time between two steps in which nothing was sent."""

    ns: int
    kind: str
    """Of the episode it belongs to: timeout, rnr, loss, reordering, idle; empty: of none."""
    what: str
    lines: int
    """Its height: all stalls of a ladder are drawn to one scale."""


def stalls(steps: Sequence[LadderStep], one: Connection | None = None) -> dict[int, Stall]:
    """The stalls that are tall enough to be seen, each by the index of the step that ended it; those of trouble have a line at least.

    `one` is the connection, if it is known.
    """
    gaps = [after.time_ns - before.time_ns for before, after in pairwise(steps)]
    usual = sorted(gap for gap in gaps if gap > 0)
    if not usual:
        return {}
    least = max(LONG * usual[len(usual) // 4], LEAST_NS)
    long = {i + 1: gap for i, gap in enumerate(gaps) if gap >= least}
    scale = max(max(long.values(), default=0) / EACH, sum(long.values()) / ALL)
    episodes = sorted((each.start_ns, each.end_ns, each.kind) for each in one.episodes) if one is not None else []
    starts = [start for start, _, _ in episodes]
    found = {}
    for i, gap in long.items():
        middle = steps[i].time_ns - gap // 2
        at = bisect_right(starts, middle) - 1
        kind = episodes[at][2] if at >= 0 and middle <= episodes[at][1] else ""
        what = WAITED[kind] if kind else "until it was sent again" if steps[i].mark == AGAIN else QUIET
        lines = max(round(gap / scale), 1 if kind else 0)
        if lines:
            found[i] = Stall(gap, kind, what, lines)
    return found
