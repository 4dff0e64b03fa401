"""Several captures written as one: a pcapng with an interface per point, one timeline, and verdicts as comments."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import IO

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from ibdissect.capture.chunk import Chunk
from ibdissect.capture.interfaces import NANOSECONDS, OPT_END, OPT_NAME, OPT_TSRESOL, Interfaces
from ibdissect.capture.records import LONGEST
from ibdissect.capture.writing import CaptureWriter
from ibdissect.decode.identity import Code, Frame, Index
from ibdissect.lint.finding import Related
from ibdissect.lint.point_faults import PointFaults
from ibdissect.python_interface import Capture

from .comparison import Comparison, TransmissionBlock
from .findings import point_faults
from .packet_identity import FIELDS, HOP
from .verdicts import WHY

Recorded = tuple[int, int, int, Chunk, int]
"""Time on the reference clock, point, frame number, chunk, row."""


def write_merged(comparison: Comparison, file: IO[bytes]) -> list[npt.NDArray[np.int64]]:
    """Write all frames of all points in reference time; for each point the number there of each of its frames."""
    numbers = [np.zeros(point.frames, np.int64) for point in comparison.points]
    interfaces = Interfaces()
    known: dict[tuple[Index, Code], int] = {}
    verdicts = _Comments(comparison)
    with CaptureWriter(file, container="pcapng") as writer:
        writer.interfaces = interfaces
        frames = (_frames(comparison, i) for i in range(len(comparison.points)))
        for time, i, number, chunk, row in heapq.merge(*frames, key=lambda one: one[:3]):
            link = int(chunk.link[row])
            if (i, link) not in known:
                known[i, link] = len(interfaces)
                interfaces.describe(_description(comparison.points[i].name, link), "little")
            start, stop = int(chunk.offset[row]), int(chunk.offset[row] + chunk.caplen[row])
            front = max(0, start - int(chunk.pseudo[row])) if chunk.pseudo[row] >= 0 else 0
            writer.write(
                chunk.data[start - front : stop].tobytes(), link=link, time_ns=max(time, 0), length=int(chunk.length[row]) + front,
                interface=known[i, link], comments=verdicts.of(i, number, time),
            )  # fmt: skip
            numbers[i][number - 1] = writer.frames
    return numbers


def merged_faults(comparison: Comparison, numbers: list[npt.NDArray[np.int64]]) -> PointFaults:
    """The faults of all points, with frame numbers of the merged capture, for rules."""
    found = PointFaults()
    by_path = {point.path: of for point, of in zip(comparison.points, numbers, strict=True)}
    for known, of in zip(point_faults(comparison), numbers, strict=True):
        for code, entries in known.by_rule.items():
            found.by_rule.setdefault(code, []).extend(
                replace(one, frame=int(of[one.frame - 1]), elsewhere=tuple(
                    Related(int(by_path[other.file][other.line - 1]), other.why) for other in one.elsewhere
                )) for one in entries
            )  # fmt: skip
    for entries in found.by_rule.values():
        entries.sort(key=lambda one: one.frame)
    return found


def delays(comparison: Comparison, numbers: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """For each frame of the merged capture the nanoseconds since the point that has the packet before; -1 for none."""
    found = np.full(sum(map(len, numbers)), -1, np.int64)
    for block in comparison.blocks():
        at, seen, frame = block.packets.at, block.seen, block.packets.frame
        for i, of in enumerate(numbers):
            earlier = np.where(seen & (at < at[:, [i]]), at, -1).max(axis=1)
            rows = np.flatnonzero(seen[:, i] & (earlier >= 0))
            found[of[frame[rows, i] - 1] - 1] = at[rows, i] - earlier[rows]
    return found


def _frames(comparison: Comparison, i: int) -> Iterator[Recorded]:
    """The frames of a point with their times on the reference clock, never decreasing."""
    point, latest = comparison.points[i], 0
    with Capture(point.path) as reading:
        for chunk in reading.chunks():
            numbers = np.arange(chunk.first, chunk.first + len(chunk), dtype=np.int32)
            for row, time in enumerate(comparison.clocks.on_reference(i, numbers, chunk.time_ns).tolist()):
                latest = max(latest, time)
                yield latest, i, chunk.first + row, chunk, row


def _description(name: str, link: int) -> bytes:
    """The body of an Interface Description Block."""
    body = link.to_bytes(2, "little") + bytes(2) + LONGEST.to_bytes(4, "little")
    for code, value in ((OPT_NAME, name.encode("utf-8", "replace")), (OPT_TSRESOL, bytes([NANOSECONDS])), (OPT_END, b"")):
        body += code.to_bytes(2, "little") + len(value).to_bytes(2, "little") + value + bytes(-len(value) % 4)
    return body


class _Comments:
    """The comments on RDMA frames; ask for them in order of time."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison, self._blocks = comparison, comparison.blocks()
        self._known: dict[tuple[Index, Frame], str] = {}
        self._until = np.iinfo(np.int64).min

    def of(self, point: int, frame: int, time: int) -> tuple[str, ...]:
        """The comment on a frame; no later call has an earlier time."""
        while self._until <= time and (block := next(self._blocks, None)) is not None:
            self._until = int(block.packets.time[-1])
            for i in range(len(block.packets)):
                self._read(block, i)
        found = self._known.pop((point, frame), None)
        return () if found is None else (found,)

    def _read(self, block: TransmissionBlock, i: int) -> None:
        """Take in the comments on all sightings of one transmission."""
        points, packets = self._comparison.points, block.packets
        there = [(j, frame, time, fields) for j, (frame, time, fields) in enumerate(zip(
            packets.frame[i].tolist(), packets.at[i].tolist(), packets.fields[i].tolist(), strict=True,
        )) if frame]  # fmt: skip
        repeats = [
            (int(block.repeats.point[k]), int(block.repeats.frame[k]), int(block.repeats.time[k]), block.repeats.fields[k].tolist())
            for k in range(*np.searchsorted(block.repeats.id, (i, i + 1)).tolist())
        ]
        verdict = _verdict(self._comparison, block, i)
        for point, frame, time, fields in there + repeats:
            text = f"packet {block.first + i + 1}"
            if fields[HOP] >= 0:
                text += f" on link {fields[HOP] + 1} of {self._comparison.flows.known[packets.flow[i]].hops} of its directed route"
            for j, other, when, values in there:
                if j != point:
                    text += f"; {points[j].name} frame {other} {when - time:+d} ns"
                    pairs = zip(FIELDS, fields, values, strict=True)
                    differs = ", ".join(name for name, here, there_ in pairs if here != there_ and min(here, there_) >= 0)
                    text += f" with other {differs}" if differs else ""
            self._known[point, frame] = text + verdict


def _verdict(comparison: Comparison, block: TransmissionBlock, i: int) -> str:
    """What became of a transmission, as the end of a comment."""
    points, journey, text = comparison.points, block.journey, ""
    if journey.lost[i]:
        after, likely_before, surely_before = block.lost_between(i)
        text += f"; lost after {points[after].name}" + (f", before {points[surely_before].name}" if surely_before >= 0 else "")
        text += f", most likely before {points[likely_before].name}" if likely_before != surely_before else ""
        text += f" ({WHY[journey.why[i]]})"
    elif journey.ambiguous[i]:
        text += "; equal packets are too close together to tell them apart"
    for j in np.flatnonzero(journey.due[i] & ~block.seen[i] & ~journey.lost[i]).tolist():
        passed = journey.passed[i, j] or journey.answered[i]
        text += f"; {points[j].name} "
        text += "was not capturing" if not journey.covered[i, j] else "did not capture it" if passed else "lacks it, why is unknown"
    return text
