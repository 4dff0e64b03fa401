"""The result of comparing several captures, as data for scripts, and for the text that `points` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .comparison import Comparison
from .losses_between_points import pairs
from .losses_by_conversation import conversations
from .notes import notes
from .verdicts import WHY


def result(comparison: Comparison) -> dict[str, Any]:
    """Everything except the packets, as in the JSON output."""
    between = pairs(comparison)
    return {
        "schema": 1, "reference": comparison.points[0].name,
        "points": [
            {"name": point.name, "frames": point.frames, "clock": {"segments": _segments(comparison, i)}}
            for i, point in enumerate(comparison.points)
        ],
        "pairs": between,
        "lost": list(lost_packets(comparison)),
        "not_captured": list(not_captured(comparison)),
        "ambiguous": {"matches": comparison.matcher.unjoined, "losses": comparison.verdicts.unclear},
        "conversations": conversations(comparison),
        "notes": list(notes(comparison, between)),
    }  # fmt: skip


def _segments(comparison: Comparison, i: int) -> list[dict[str, Any]]:
    segments = comparison.clocks.segments[i]
    ends = [*(segment.first_frame - 1 for segment in segments[1:]), comparison.points[i].frames]
    return [
        {
            "first_frame": segment.first_frame, "last_frame": end, "at_ns": segment.at_ns, "offset_ns": segment.offset_ns,
            "drift_ppm": round(segment.drift * 1e6, 6), "uncertainty_ns": segment.uncertainty_ns,
        }
        for segment, end in zip(segments, ends, strict=True)
    ]  # fmt: skip


def packets(comparison: Comparison) -> Iterator[list[int | list[int] | None]]:
    """One row per transmission in order of time: for each point the frame, all frames if it saw the packet more than once, or None."""
    for block in comparison.blocks():
        rows: list[list[Any]] = [[frame or None for frame in row] for row in block.packets.frame.tolist()]
        repeats = block.repeats
        for number, point, frame in zip(repeats.id.tolist(), repeats.point.tolist(), repeats.frame.tolist(), strict=True):
            cell = rows[number][point]
            rows[number][point] = [*cell, frame] if isinstance(cell, list) else [cell, frame]
        yield from rows


def lost_packets(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """As in the JSON output, with the frame at the last point that has the packet."""
    points = comparison.points
    for block in comparison.blocks():
        journey = block.journey
        for i in np.flatnonzero(journey.lost).tolist():
            last, likely_before, surely_before = block.lost_between(i)
            latest = points[surely_before].name if surely_before >= 0 else None
            hop, hops = block.hop(i, last), comparison.flows.known[block.packets.flow[i]].hops
            yield {
                "point": points[last].name, "frame": int(block.packets.frame[i, last]), "after": points[last].name,
                "before": points[likely_before].name if likely_before >= 0 else None,
                "certainty": "likely" if journey.likely[i] else "proved", "why": WHY[journey.why[i]],
                **({"hop": hop, "hops": hops} if hop else {}), **({"at_the_latest": latest} if surely_before != likely_before else {}),
            }  # fmt: skip


def not_captured(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """Packets that passed a point but are missing in its file, as in the JSON output."""
    points = comparison.points
    for block in comparison.blocks():
        journey = block.journey
        gone = journey.due & ~block.seen & journey.covered & ~journey.not_reached & (journey.passed | journey.answered[:, None])
        for i, point in np.argwhere(gone).tolist():
            last, why = int(journey.after[i]), "later-point" if journey.passed[i, point] else "answered"
            frame = int(block.packets.frame[i, last])
            yield {"point": points[last].name, "frame": frame, "missing_at": points[point].name, "why": why}
