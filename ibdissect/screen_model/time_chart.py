"""Packets or bytes over time, in all frames or those that filters select, and their times between capture points.

All buckets last equally long, however far the user zooms in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ibdissect.dissect.named_values import seconds_text

from .capture_model import CaptureModel
from .number_text import duration

if TYPE_CHECKING:
    from ibdissect.dfilter.compile import Filter

MAX_FRAMES = 1 << 25
"""Frames kept, nine bytes each and one for every series; later ones are not drawn."""
TICKS = (1, 2, 5)
Range = tuple[int, int]
"""Nanoseconds since the first frame: from, and up to but not including."""


@dataclass(slots=True)
class Series:
    """One curve: the frames that a filter selects, all without one."""

    text: str
    matcher: Filter | None
    hits: list[npt.NDArray[np.bool_]] = field(default_factory=list)
    """By chunk."""


class TimeChart:
    """Times and lengths of all frames so far, and which of them each series selects. One thread adds, any may read."""

    def __init__(self, model: CaptureModel) -> None:
        self.model = model
        self.series: list[Series] = []
        self.frames = 0
        """Frames that are drawn."""
        self.measures = ("packets", "bytes", *["delay"] * (model.delays is not None))
        """What can be drawn of a bucket; `delay`: the longest one since the point before."""
        self._times: list[npt.NDArray[np.int64]] = []
        self._lengths: list[npt.NDArray[np.int32]] = []

    @property
    def span(self) -> int:
        """Nanoseconds from the first frame to just after the last one."""
        return max(self.model.last_ns - self.model.first_ns + 1, 1)

    def follow(self, wanted: Callable[[], bool], grew: Callable[[], None]) -> None:
        """Count frames until the capture ends, is closed, or `wanted()` is false; continues after the last call. Runs in a thread."""
        model = self.model

        def known() -> int:
            return min([model.known_to(series.matcher) for series in self.series if series.matcher is not None], default=model.index.frames)

        for chunk in model.chunks(self.frames, known, lambda: wanted() and self.frames < MAX_FRAMES, grew):
            for series in self.series:
                every = np.ones(len(chunk), np.bool_)
                series.hits.append(every if series.matcher is None else model.matches(series.matcher, chunk))
            self._times.append(np.maximum(chunk.time_ns - model.first_ns, 0))
            self._lengths.append(chunk.length.astype(np.int32))
            self.frames += len(chunk)
            grew()
        grew()

    def counts(self, shown: Range, columns: int, measure: str = "packets") -> tuple[int, list[list[int]]]:
        """Nanoseconds of a bucket, and per series one of `measures` in each bucket of a range: at most `columns`, all equally long."""
        step = max(-(-(shown[1] - shown[0]) // max(columns, 1)), 1)
        many = -(-(shown[1] - shown[0]) // step)
        sums = [np.zeros(many, np.int64) for _ in self.series]
        first, delays = 0, self.model.delays
        for number, (times, lengths) in enumerate(zip(self._times, self._lengths, strict=False)):
            first += len(times)
            inside = (times >= shown[0]) & (times < shown[1])
            for total, series in zip(sums, self.series, strict=True):
                some = inside & series.hits[number]
                bucket = (times[some] - shown[0]) // step
                if measure == "delay" and delays is not None:
                    np.maximum.at(total, bucket, delays[first - len(times) : first][some])
                    continue
                weights = lengths[some] if measure == "bytes" else None
                total += np.bincount(bucket, weights, many).astype(np.int64)
        return step, [total.tolist() for total in sums]

    def first_frame(self, shown: Range) -> int | None:
        """The first frame in a range, of those that the last series selects or else of all; None if there is none."""
        first = 1
        for number, times in enumerate(self._times):
            inside = np.flatnonzero((times >= shown[0]) & (times < shown[1]))
            if len(inside):
                return first + int(inside[0])
            first += len(self._times[number])
        return None


def ticks(shown: Range, columns: int, apart: int = 12) -> list[tuple[int, str]]:
    """Columns of an axis, and the round times that stand there, at least `apart` columns from each other."""
    span = max(shown[1] - shown[0], 1)
    least, step = span * apart / max(columns, 1), 1
    while (found := next((step * digit for digit in TICKS if step * digit >= least), None)) is None:
        step *= 10
    first = -(-shown[0] // found) * found
    return [((time - shown[0]) * columns // span, duration(time)) for time in range(first, shown[1], found)]


def time_filter(shown: Range, before: str = "") -> str:
    """The display filter for a range of time, with the one that was there before."""
    low, high = map(seconds_text, shown)
    found = f"frame.time_relative >= {low} && frame.time_relative < {high}"
    return f"({before}) && {found}" if before else found
