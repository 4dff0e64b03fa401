"""How are several captures written as one? A pcapng with an interface per point, one timeline, and verdicts as comments."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import IO

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from ibdissect.capture.chunk import Chunk
from ibdissect.capture.interfaces import OPT_END, OPT_NAME, OPT_TSRESOL, Interfaces
from ibdissect.capture.records import LONGEST
from ibdissect.capture.writing import NANOSECONDS, CaptureWriter
from ibdissect.lint.sightings import Sightings
from ibdissect.session.reading import open_reading

from .columns import FIELDS
from .comparison import Comparison
from .verdicts import WHY, lost_packets

Frame = tuple[int, int, int, Chunk, int]
"""Time on the reference clock, point, frame number, chunk, row."""


def write_merged(comparison: Comparison, file: IO[bytes]) -> list[npt.NDArray[np.int64]]:
    """Write all frames of all points in reference time; for each point the number there of each of its frames."""
    numbers = [np.zeros(point.frames, np.int64) for point in comparison.points]
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
            numbers[i][number - 1] = writer.frames
    return numbers


def merged_sightings(comparison: Comparison, numbers: list[npt.NDArray[np.int64]]) -> Sightings:
    """What rules hear of the merged capture."""
    from .findings import sightings

    found = Sightings()
    for known, of in zip(sightings(comparison, list(lost_packets(comparison))), numbers, strict=True):
        for code, entries in known.by_rule.items():
            found.by_rule.setdefault(code, []).extend(replace(one, frame=int(of[one.frame - 1])) for one in entries)
    for entries in found.by_rule.values():
        entries.sort(key=lambda one: one.frame)
    return found


def delays(comparison: Comparison, numbers: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """For each frame of the merged capture the nanoseconds since the point that has the packet before; -1 for none."""
    rows, never = comparison.matched.rows, np.iinfo(np.int64)
    at = np.full(rows.shape, never.max)
    for i, times in enumerate(comparison.clocks.times):
        seen = rows[:, i] >= 0
        at[seen, i] = times[rows[seen, i]]
    found = np.full(sum(map(len, numbers)), -1, np.int64)
    for i, point in enumerate(comparison.points):
        mine = np.flatnonzero(rows[:, i] >= 0)
        earlier = np.where(at[mine] < at[mine, i][:, None], at[mine], never.min).max(axis=1)
        some = earlier > never.min
        frames = point.frame[rows[mine[some], i]]
        found[numbers[i][frames - 1] - 1] = at[mine[some], i] - earlier[some]
    return found


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
