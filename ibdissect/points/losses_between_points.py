"""Loss, latency and reordering between each two points that packets pass one after the other."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from ibdissect.decode import Int

from .comparison import Comparison, TransmissionBlock
from .packet_identity import FIELDS
from .percentiles import Percentiles

KEPT = 1 << 17
"""Latencies of a pair from which percentiles are computed."""


def pairs(comparison: Comparison) -> list[dict[str, Any]]:
    """Every ordered pair that packets pass, as in the JSON output."""
    found = [_Pair(comparison, i, j) for i, j in permutations(range(len(comparison.points)), 2)]
    for block in comparison.blocks():
        for pair in found:
            pair.feed(block)
    return [pair.result() for pair in found if pair.counts["matched"] or pair.counts["lost"]]


class _Pair:
    """Two points, and the packets that pass the first one before the second one."""

    def __init__(self, comparison: Comparison, first: int, second: int) -> None:
        self._ends, self._i, self._j = (comparison.points[first].name, comparison.points[second].name), first, second
        self._source, self._order = comparison.directions.source, comparison.flows.merged()
        self._forth = comparison.directions.sign[first, second] > 0
        self.counts = dict.fromkeys(("matched", "lost", "not_captured", "unknown", "outside"), 0)
        self._latency, self._changed, self._reordered = Percentiles(KEPT), np.zeros(len(FIELDS), np.int64), Reordering(len(self._order))

    def feed(self, block: TransmissionBlock) -> None:
        i, j, journey, seen, packets = self._i, self._j, block.journey, block.seen, block.packets
        passed_first = seen[:, i] & self._forth[self._source[packets.flow]]
        both = np.flatnonzero(passed_first & seen[:, j])
        gone = passed_first & ~seen[:, j] & journey.due[:, j]
        lost = gone & journey.not_reached[:, j]
        outside = gone & ~lost & ~journey.covered[:, j]
        missed = gone & ~lost & ~outside & (journey.passed[:, j] | journey.answered)
        unknown = gone & ~lost & ~outside & ~missed
        for name, which in zip(self.counts, (passed_first & seen[:, j], lost, missed, unknown, outside), strict=True):
            self.counts[name] += int(np.count_nonzero(which))
        first, second = packets.fields[both, i], packets.fields[both, j]
        self._changed += ((first != second) & (first >= 0) & (second >= 0)).sum(axis=0)
        self._latency.add(packets.at[both, j] - packets.at[both, i])
        frames = packets.frame[both].astype(np.int64)
        self._reordered.feed(self._order[packets.flow[both]], frames[:, i], frames[:, j], packets.at[both, j], int(packets.time[-1]))

    def result(self) -> dict[str, Any]:
        changed = zip(FIELDS, self._changed.tolist(), strict=True)
        return {
            "from": self._ends[0], "to": self._ends[1], **self.counts, "reordered": self._reordered.result(),
            "latency_ns": self._latency.result(), "changed": {name: count for name, count in changed if count},
        }  # fmt: skip


class Reordering:
    """Counts packets that arrive after one of their flow that was sent later (RFC 4737, 4.1)."""

    def __init__(self, flows: int) -> None:
        self._latest = np.full(flows, -1, np.int64)  # the packet of each flow that was sent last, of those that arrived
        self._open = np.zeros((4, 0), np.int64)  # flow, sent, arrived, time of arrival: earlier ones may still come
        self._count = 0

    def feed(self, flow: Int, sent: Int, arrived: Int, time: Int, now: int) -> None:
        """Flow, number at both points and time of arrival of packets; all later ones arrive after `now`."""
        self._open = np.concatenate([self._open, np.stack([flow, sent, arrived, time])], axis=1)
        self._close(self._open[3] <= now)

    def result(self) -> int:
        self._close(np.ones(self._open.shape[1], np.bool_))
        return self._count

    def _close(self, done: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        flow, sent, arrived, _ = self._open[:, done]
        self._open = self._open[:, ~done]
        if not len(flow):
            return
        order = np.lexsort((arrived, flow))
        flow, sent = flow[order], sent[order]
        span = int(max(sent.max(), self._latest.max())) + 2
        known = np.maximum.accumulate(flow * span + np.maximum(sent, self._latest[flow]) + 1)
        self._count += int((known > flow * span + sent + 1).sum())
        np.maximum.at(self._latest, flow, sent)
