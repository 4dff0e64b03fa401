"""What are the loss, latency and jitter of each conversation, from the first point that sees it to the last?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ibdissect.table.rows import by_value

from .clocks import Clocks
from .columns import Flows, Point
from .matching import Matched
from .verdicts import Journey, Transmissions, percentiles


def conversations(
    points: Sequence[Point], matched: Matched, what: Transmissions, journey: Journey, clocks: Clocks, flows: Flows
) -> Iterator[dict[str, Any]]:
    """Each flow that several points saw, those with most losses first."""
    found: list[dict[str, Any]] = []
    for number, rows in by_value(what.order):
        due = np.where(journey.due[rows], journey.place[rows], -1)
        far = due.max(axis=0)
        if np.count_nonzero(far >= 0) < 2:
            continue
        first, last = int(np.where(far >= 0, far, len(points)).argmin()), int(far.argmax())
        both = rows[(matched.rows[rows, first] >= 0) & (matched.rows[rows, last] >= 0)]
        taken = clocks.times[last][matched.rows[both, last]] - clocks.times[first][matched.rows[both, first]]
        flow = flows.known[number]
        lost = rows[journey.lost[rows]]
        found.append({
            "source": flow.text[0], "destination": flow.text[1], "dest_qp": flow.dest_qp, "packets": len(rows), "lost": len(lost),
            "from": points[first].name, "to": points[last].name, "latency_ns": percentiles(taken),
            "jitter_ns": round(float(np.abs(np.diff(taken)).mean())) if len(taken) > 1 else None,
        })  # fmt: skip
    yield from sorted(found, key=lambda one: (-one["lost"], -one["packets"]))
