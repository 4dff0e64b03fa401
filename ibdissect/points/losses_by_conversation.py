"""Loss, latency and jitter of each conversation, from the first point that sees it to the last."""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.decode.equal_rows import by_value
from ibdissect.decode.identity import FlowNumber

from .comparison import Comparison
from .percentiles import Percentiles

KEPT = 1 << 12
"""Latencies of a conversation from which percentiles are computed."""
LISTED = 10_000
"""Maximum number of conversations that are listed: those with most losses, then with most packets."""


class _Conversation:
    """One flow between the first and the last point on its way."""

    def __init__(self, first: int, last: int, packets: int, lost: int) -> None:
        self.first, self.last, self.packets, self.lost = first, last, packets, lost
        self.latency, self._before = Percentiles(KEPT), np.empty(0, np.int64)
        self._jitter, self._steps = 0, 0

    def feed(self, taken: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        """The time that packets took, in order."""
        self.latency.add(taken)
        steps = np.abs(np.diff(np.concatenate([self._before, taken])))
        self._jitter, self._steps, self._before = self._jitter + int(steps.sum()), self._steps + len(steps), taken[-1:]

    @property
    def jitter(self) -> int | None:
        return round(self._jitter / self._steps) if self._steps else None


def conversations(comparison: Comparison) -> list[dict[str, Any]]:
    """Each flow that several points saw, those with most losses first."""
    points, known, order = comparison.points, comparison.flows.known, comparison.flows.merged()
    found = _found(comparison)
    if not found:
        return []
    of_flow = np.full((2, len(known)), -1, np.int64)
    of_flow[:, list(found)] = np.array([(one.first, one.last) for one in found.values()]).T
    for block in comparison.blocks():
        packets, flow = block.packets, order[block.packets.flow]
        first, last = of_flow[:, flow]
        rows = np.flatnonzero(first >= 0)
        rows = rows[(packets.frame[rows, first[rows]] > 0) & (packets.frame[rows, last[rows]] > 0)]
        taken = packets.at[rows, last[rows]] - packets.at[rows, first[rows]]
        for number, index in by_value(flow[rows]):
            found[FlowNumber(number)].feed(taken[index])
    return sorted((
        {
            "source": known[number].text[0], "destination": known[number].text[1], "dest_qp": known[number].dest_qp, "packets": one.packets,
            "lost": one.lost, "from": points[one.first].name, "to": points[one.last].name, "latency_ns": one.latency.result(),
            "jitter_ns": one.jitter,
        } for number, one in found.items()
    ), key=lambda one: (-one["lost"], -one["packets"]))  # fmt: skip


def _found(comparison: Comparison) -> dict[FlowNumber, _Conversation]:
    """The conversations by number of their flow."""
    flow, count, lost = comparison.of_flows()
    every, gone = np.bincount(flow, count), np.bincount(flow, lost)
    listed = np.zeros(len(every), np.bool_)
    listed[np.lexsort((-every, -gone))[:LISTED]] = True
    some = np.flatnonzero(listed[flow])
    journey = comparison.verdicts.journey
    found: dict[FlowNumber, _Conversation] = {}
    for number, index in by_value(flow[some]):
        rows = some[index]
        far = np.where(journey.due[rows], journey.place[rows], -1).max(axis=0)
        if np.count_nonzero(far >= 0) >= 2:
            first, last = int(np.where(far >= 0, far, len(far)).argmin()), int(far.argmax())
            found[FlowNumber(number)] = _Conversation(first, last, int(count[rows].sum()), int(lost[rows].sum()))
    return found
