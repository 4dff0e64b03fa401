"""How are several captures written as one? A pcapng with an interface per point, one timeline, and verdicts as comments."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import IO

import numpy as np

from ibdissect.capture.chunk import Chunk
from ibdissect.capture.interfaces import OPT_END, OPT_NAME, OPT_TSRESOL, Interfaces
from ibdissect.capture.records import LONGEST
from ibdissect.capture.writing import NANOSECONDS, CaptureWriter
from ibdissect.session.reading import open_reading

from .columns import FIELDS
from .comparison import Comparison
from .verdicts import WHY

Frame = tuple[int, int, int, Chunk, int]
"""Time on the reference clock, point, frame number, chunk, row."""


def write_merged(comparison: Comparison, file: IO[bytes]) -> int:
    """Write all frames of all points in reference time, and return their number."""
    interfaces = Interfaces()
    known: dict[tuple[int, int], int] = {}
    verdicts = [_verdicts(comparison, i) for i in range(len(comparison.points))]
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
                interface=known[i, link], comments=verdicts[i].get(number, ()),
            )  # fmt: skip
        return writer.frames


def _frames(comparison: Comparison, i: int) -> Iterator[Frame]:
    """The frames of a point with their times on the reference clock, never decreasing."""
    point, latest = comparison.points[i], 0
    with open_reading(point.path) as reading:
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


def _verdicts(comparison: Comparison, i: int) -> dict[int, list[str]]:
    """The comment on each RDMA frame of a point."""
    points, matched, journey = comparison.points, comparison.matched, comparison.journey
    found = {}
    columns = points[i].frame.tolist(), matched.number[i].tolist(), comparison.clocks.times[i].tolist(), points[i].fields
    for frame, number, time, fields in zip(*columns, strict=True):
        text = f"packet {number + 1}"
        for j, row in enumerate(matched.rows[number].tolist()):
            if row >= 0 and j != i:
                text += f"; {points[j].name} frame {points[j].frame[row]} {int(comparison.clocks.times[j][row]) - time:+d} ns"
                pairs = zip(FIELDS, fields.tolist(), points[j].fields[row].tolist(), strict=True)
                other = ", ".join(name for name, here, there in pairs if here != there and min(here, there) >= 0)
                text += f" with other {other}" if other else ""
        if journey.lost[number]:
            after, before = int(journey.after[number]), int(journey.before[number])
            text += f"; lost after {points[after].name}" + (f", before {points[before].name}" if before >= 0 else "")
            text += f" ({WHY[journey.why[number]]})"
        elif matched.ambiguous[number]:
            text += "; equal packets are too close together to tell them apart"
        missing = journey.due[number] & ~journey.seen[number] & ~journey.lost[number]
        for j in np.flatnonzero(missing).tolist():
            outside = not journey.covered[number, j]
            passed = journey.passed[number, j] or journey.proofs.answered[number]
            text += f"; {points[j].name} "
            text += "was not capturing" if outside else "did not capture it" if passed else "lacks it, why is unknown"
        found[frame] = [text]
    return found
