"""What are the loss, latency and jitter of each conversation, from the first point that sees it to the last?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ibdissect.table.rows import by_value

from .verdicts import percentiles

if TYPE_CHECKING:
    from .comparison import Comparison


def conversations(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """Each flow that several points saw, those with most losses first."""
    points, sighted, journey, times = comparison.points, comparison.matched.rows, comparison.journey, comparison.clocks.times
    found: list[dict[str, Any]] = []
    for number, rows in by_value(comparison.what.order):
        due = np.where(journey.due[rows], journey.place[rows], -1)
        far = due.max(axis=0)
        if np.count_nonzero(far >= 0) < 2:
            continue
        first, last = int(np.where(far >= 0, far, len(points)).argmin()), int(far.argmax())
        both = rows[(sighted[rows, first] >= 0) & (sighted[rows, last] >= 0)]
        taken = times[last][sighted[both, last]] - times[first][sighted[both, first]]
        flow, lost = comparison.flows.known[number], int(journey.lost[rows].sum())
        found.append({
            "source": flow.text[0], "destination": flow.text[1], "dest_qp": flow.dest_qp, "packets": len(rows), "lost": lost,
            "from": points[first].name, "to": points[last].name, "latency_ns": percentiles(taken),
            "jitter_ns": round(float(np.abs(np.diff(taken)).mean())) if len(taken) > 1 else None,
        })  # fmt: skip
    yield from sorted(found, key=lambda one: (-one["lost"], -one["packets"]))
