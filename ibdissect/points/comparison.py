"""Where were packets lost? Reads all captures, compares their clocks, matches packets and judges them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ibdissect.errors import CaptureError
from ibdissect.table.rows import common, mix

from .anchors import FEW
from .changed import join_changed
from .clocks import Clocks
from .columns import Point, read_points
from .conversations import conversations
from .directions import Directions
from .matching import match
from .notes import notes
from .verdicts import judge, lost_packets, not_captured, pairs, transmissions_of


class Comparison:
    """Several captures of the same traffic. Raises CaptureError for a capture that cannot be read or shares no packet with the others."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.points, self.flows = read_points(paths)
        self.directions = Directions(self.points, self.flows)
        self.clocks = Clocks(self.points, self.directions)
        for point, segments in zip(self.points, self.clocks.segments, strict=True):
            if not segments:
                raise self._unrelated(point)
        matched = match(self.points, self.directions, self.clocks)
        self.directions.anchors.clear()  # no longer needed, like the keys
        for point in self.points:
            point.key = point.key[:0].copy()
        what = transmissions_of(self.points, matched, self.directions, self.flows)
        self.matched = join_changed(matched, what, self.flows, self.directions.ends)
        self.what = what if self.matched is matched else transmissions_of(self.points, self.matched, self.directions, self.flows)
        for point in self.points:  # the transmissions have them
            for name in ("flow", "port", "psn", "syndrome", "transaction", "asks"):
                setattr(point, name, getattr(point, name)[:0].copy())
        self.journey = judge(self.points, self.matched, self.what, self.directions, self.clocks, self.flows)

    def _unrelated(self, point: Point) -> CaptureError:
        """Why a point cannot be compared: it saw other traffic, at another time, or packets rewritten on the way."""
        first = self.points[0]
        dest_qp = np.array([flow.dest_qp for flow in self.flows.known])
        names = [np.unique(mix([dest_qp[one.flow], one.psn, one.opcode])) for one in (first, point)]
        alike = len(common(*names)[0])
        if alike >= FEW and 2 * alike > len(names[1]):
            reason = f"{alike} packets have the PSN, OpCode and queue pair of one in {first.path}, but none the same bytes"
            return CaptureError(point.path, reason, hint="if it is the same traffic, something between both points rewrites all of it")
        apart = point.time.min() > first.time.max() or point.time.max() < first.time.min()
        reason = f"shares no packet with {first.path}" + (", and their times do not overlap" if apart else "")
        return CaptureError(point.path, reason, hint="name captures of the same traffic")

    def frame(self, transmission: int, point: int) -> int:
        return int(self.points[point].frame[self.matched.rows[transmission, point]])

    def result(self) -> dict[str, Any]:
        """Everything except the packets, as in the JSON output."""
        between = list(pairs(self))
        return {
            "schema": 1, "reference": self.points[0].name,
            "points": [
                {"name": point.name, "frames": point.frames, "clock": {"segments": self._segments(i)}}
                for i, point in enumerate(self.points)
            ],
            "pairs": between,
            "lost": list(lost_packets(self)),
            "not_captured": list(not_captured(self)),
            "ambiguous": {"matches": self.matched.matches, "losses": self.journey.unclear},
            "conversations": list(conversations(self)),
            "notes": list(notes(self, between)),
        }  # fmt: skip

    def _segments(self, i: int) -> list[dict[str, Any]]:
        segments = self.clocks.segments[i]
        ends = [*(segment.first_frame - 1 for segment in segments[1:]), self.points[i].frames]
        return [
            {
                "first_frame": segment.first_frame, "last_frame": end, "at_ns": segment.at_ns, "offset_ns": segment.offset_ns,
                "drift_ppm": round(segment.drift * 1e6, 6), "uncertainty_ns": segment.uncertainty_ns,
            }
            for segment, end in zip(segments, ends, strict=True)
        ]  # fmt: skip

    def packets(self) -> Iterator[list[int | list[int] | None]]:
        """One row per transmission in order of time: for each point the frame, all frames if it saw the packet more than once, or None."""
        columns = []
        for i, point in enumerate(self.points):
            cells: list[int | list[int] | None] = [None] * len(self.matched)
            for frame, number in zip(point.frame.tolist(), self.matched.number[i].tolist(), strict=True):
                known = cells[number]
                cells[number] = frame if known is None else [*known, frame] if isinstance(known, list) else [known, frame]
            columns.append(cells)
        for row in zip(*columns, strict=True):
            yield list(row)
