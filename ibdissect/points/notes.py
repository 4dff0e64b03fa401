"""Notes on a comparison, to be read before trusting its figures. Plain sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ibdissect.wire.text import counted

from .clocks import QUICK
from .comparison import Comparison
from .losses_by_conversation import LISTED
from .matching_in_windows import REORDERED_NS
from .verdicts import ON_PATH

FAR_NS = 60 * 10**9
"""Clocks that differ by more are mentioned."""


def notes(comparison: Comparison, pairs: list[dict[str, Any]]) -> Iterator[str]:
    """The notes, one sentence each. `pairs`: as in the JSON output."""
    yield from _clock_notes(comparison, pairs)
    yield from _capture_notes(comparison)
    yield from _forgotten(comparison)


def _clock_notes(comparison: Comparison, pairs: list[dict[str, Any]]) -> Iterator[str]:
    points, clocks, directions = comparison.points, comparison.clocks, comparison.directions
    reference = points[0].name
    for point, segments in zip(points[1:], clocks.segments[1:], strict=True):
        offset = segments[0].offset_ns
        if abs(offset) >= FAR_NS:
            yield f"The clock of {point.name} is {_duration(abs(offset))} {'ahead of' if offset > 0 else 'behind'} that of {reference}."
        if len(segments) > 1:
            frames = ", ".join(str(segment.first_frame) for segment in segments[1:])
            yield f"The clock of {point.name} or of {reference} was set at frame {frames} of {point.name}."
        if not all(segment.two_way for segment in segments):
            yield (
                f"The clock of {point.name} is not known exactly, as packets pass in one direction only: latencies are counted from "
                f"the quickest packets, and up to {QUICK * 100:.0f} % of them may be negative."
            )
    unsure = {
        point.name: max(segment.uncertainty_ns for segment in segments) for point, segments in zip(points, clocks.segments, strict=True)
    }
    early = max(pairs, key=lambda pair: -(pair["latency_ns"]["min"] or 0), default=None)
    if early is not None and -(early["latency_ns"]["min"] or 0) > unsure[early["from"]] + unsure[early["to"]]:
        yield (
            f"By their stamps, packets come to {early['to']} up to {-early['latency_ns']['min'] / 1000:.3f} us before they leave "
            f"{early['from']}: stamps of one of them are late at times, and latencies and jitter are off by as much."
        )
    for i, j in directions.assumed:
        yield f"Nothing shows whether packets pass {points[i].name} or {points[j].name} first; the order of the command line was taken."


def _capture_notes(comparison: Comparison) -> Iterator[str]:
    points, verdicts, coverage = comparison.points, comparison.verdicts, comparison.coverage
    for i, point in enumerate(points):
        if verdicts.partly[i]:
            yield (
                f"{point.name} has less than {ON_PATH * 100:.0f} % of the packets between some addresses: it misses many, or they take "
                "several ways. Those that it lacks are not counted."
            )
        if verdicts.missed[i]:
            yield (
                f"{point.name} lacks {verdicts.missed[i]} of {verdicts.tested[i]} packets that certainly passed it: a packet that it lacks "
                "is not necessarily lost."
            )
        elif not verdicts.complete[i]:
            yield f"Nothing shows that {point.name} captures all that passes it: a packet that it lacks is not necessarily lost."
    starts, stops = coverage.starts.tolist(), coverage.stops.tolist()
    shared, longest = min(stops) - max(starts), max(stops) - min(starts)
    if shared <= 0:
        yield "There is no time in which all points were capturing."
    elif 2 * shared < longest:
        yield f"All points were capturing for {_duration(shared)} of {_duration(longest)} only."
    if verdicts.journey.lost.any() and not verdicts.complete.any():
        yield "A loss is reported only if a NAK asks for the packet, or two later points do not have it."


def _forgotten(comparison: Comparison) -> Iterator[str]:
    """What a limit of memory left out."""
    late, divided = comparison.windows.late, comparison.matcher.divided
    if late:
        yield (
            f"{counted(late, 'packet')} came more than {REORDERED_NS // 10**6} ms after later ones of the same file: they were compared "
            "with what was still in memory."
        )
    if divided:
        what = "group of them was split at its longest gap" if divided == 1 else "groups of them were split at their longest gaps"
        yield f"Equal packets followed each other without a pause for so long that {divided} {what}."
    flows = int(np.count_nonzero(np.bincount(comparison.of_flows()[0])))
    if flows > LISTED:
        yield f"Not listed: {counted(flows - LISTED, 'conversation')} with fewest losses and packets."
    if comparison.classes.merged:
        yield "There are too many UDP source ports: those of a flow were taken for one route from some packet on."


def _duration(nanoseconds: int) -> str:
    """`2 h 3 min 4.500 s`, `0.250 ms`."""
    if nanoseconds < 10**9:
        return f"{nanoseconds / 1e6:.3f} ms"
    minutes, milliseconds = divmod(round(nanoseconds / 1e6), 60_000)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours} h " if hours else "") + (f"{minutes} min " if minutes else "") + f"{milliseconds / 1000:.3f} s"
