"""Messages counted by queue pair, with their rates and answer times. Fed with the results of `Messages`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ibdissect.bounded import Dropped
from ibdissect.decode import Int
from ibdissect.decode.history import SECOND_NS
from ibdissect.decode.identity import LaneId, StreamNumber
from ibdissect.dissect.named_values import MESSAGE_KINDS
from ibdissect.engine.message_places import PLACE_BITS
from ibdissect.mad.response_times import BUCKETS_PER_OCTAVE, MAX_EXACT, ResponseTimes, bucket_of

from .events import StreamEnds
from .message_parts import NOTIFIED, REFUSED, REQUEST
from .messages import EndedMessages, Messages

MAX_QUEUE_PAIRS = 4096
"""Queue pairs counted; messages to further ones are not."""
_OCTAVES = 40
_SUMS = ("messages", "ended", "complete", "bytes", "unknown_sizes", "unread_answers", "packets", "retries", "naks", "cnps")
"""Columns that are summed; packets after the end of their message count in the last four."""


class MessageStatistics:
    """Counts of messages by service, source, destination and destination queue pair."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self.rows: dict[LaneId, int] = {}
        self._row_of: dict[StreamNumber, int] = {}
        """By number of the stream."""
        self.dropped = Dropped("queue pairs with messages")
        size, late = MAX_QUEUE_PAIRS, np.iinfo(np.int64).max  # untouched pages of these arrays take no memory
        self._sums, self._kinds = np.zeros((len(_SUMS), size), np.int64), np.zeros((size, len(MESSAGE_KINDS)), np.int64)
        self._begin, self._end = np.full(size, late), np.zeros(size, np.int64)
        self._least, self._most = np.full(size, late), np.zeros(size, np.int64)
        self._times = np.zeros((size, _OCTAVES * BUCKETS_PER_OCTAVE), np.int32)
        self._exact: list[tuple[Int, Int]] | None = []
        """Rows and latencies; None if there were more than MAX_EXACT."""
        self._kept = 0
        self._first = np.full(size, late)
        """The frame of the first message."""

    def take(self, ended: EndedMessages) -> None:
        """Count messages, and packets that came after their end."""
        m, late = ended.messages, ended.late
        row = self._rows_of(m.place, ended)
        some = row >= 0
        if not some.all():
            m, row = m.take(some), row[some]
        ones = np.ones(len(row), np.int64)
        counted = (ones, m.ended, m.complete, np.maximum(m.bytes, 0), m.bytes < 0, m.unread, m.packets, m.retries, m.naks, m.cnps)
        for sums, values in zip(self._sums, counted, strict=True):
            np.add.at(sums, row, values)
        np.minimum.at(self._first, row, m.first_frame)
        np.add.at(self._kinds.reshape(-1), row * self._kinds.shape[1] + m.kind, 1)
        np.minimum.at(self._begin, row, m.begin_ns)
        np.maximum.at(self._end, row, m.begin_ns + np.maximum(m.latency_ns, 0))
        timed = m.latency_ns >= 0
        row, latency = row[timed], m.latency_ns[timed]
        np.minimum.at(self._least, row, latency)
        np.maximum.at(self._most, row, latency)
        if self._exact is not None:
            self._kept += len(row)
            self._exact = [*self._exact, (row, latency)] if self._kept <= MAX_EXACT else None
        bucket, buckets = bucket_of(latency), self._times.shape[1]
        np.add.at(self._times.reshape(-1), row * buckets + np.minimum(bucket, buckets - 1), 1)
        row = self._rows_of(late.place, ended)
        came = (late.role >= 0, late.role == REQUEST, late.role == REFUSED, late.role == NOTIFIED)
        for sums, which in zip(self._sums[-len(came) :], came, strict=True):
            np.add.at(sums, row[which & (row >= 0)], 1)

    def result(self, top: int | None = None) -> list[dict[str, Any]]:
        """The queue pairs as plain data, those with most messages first."""
        found = []
        for (source, destination, qp, service), row in sorted(self.rows.items(), key=self._place)[:top]:
            sums = dict(zip(_SUMS, self._sums[:, row].tolist(), strict=True))
            span = int(self._end[row] - self._begin[row])
            known = span > 0 and not sums["unknown_sizes"]
            found.append({
                "service": service, "source": str(source), "destination": str(destination), "dest_qp": qp, **sums,
                "kinds": {kind: count for kind, count in zip(MESSAGE_KINDS, self._kinds[row].tolist(), strict=True) if count},
                "first_ns": int(self._begin[row]), "last_ns": int(self._end[row]),
                "bits_per_second": sums["bytes"] * 8 * SECOND_NS // span if known else None, **self._latencies(row).percentiles(),
            })  # fmt: skip
        return found

    def _place(self, item: tuple[LaneId, int]) -> tuple[int, int]:
        return -int(self._sums[0, item[1]]), int(self._first[item[1]])

    def _latencies(self, row: int) -> ResponseTimes:
        counts = self._times[row]
        used = np.flatnonzero(counts)
        kept = [latency[of == row] for of, latency in self._exact] if self._exact is not None else None
        buckets = Counter(dict(zip(used.tolist(), counts[used].tolist(), strict=True)))
        return ResponseTimes(buckets, int(counts.sum()), int(self._least[row]), int(self._most[row]), kept=kept)

    def _rows_of(self, place: Int, ended: EndedMessages) -> Int:
        """The row of each place, int64[n]; -1 beyond the limit."""
        streams, of = np.unique(place >> PLACE_BITS, return_inverse=True)
        for stream in streams.tolist():
            if stream not in self._row_of:
                self._row_of[stream] = self._row(self._messages.ends_of(stream), ended)
        return np.array([self._row_of[stream] for stream in streams.tolist()], np.int64)[of]

    def _row(self, ends: StreamEnds, ended: EndedMessages) -> int:
        lane = ends.lane
        row = self.rows.get(lane, len(self.rows))
        if row < MAX_QUEUE_PAIRS:
            self.rows[lane] = row
            return row
        self.dropped.add(int(ended.frames[-1:].sum()), 0)
        return -1
