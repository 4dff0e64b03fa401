"""Which frames of a capture are wanted: by number, by display filter, or both?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ibdissect.errors import ConfigError
from ibdissect.record import record
from ibdissect.table.table import ChunkTable
from ibdissect.wire.catalog import Catalog

if TYPE_CHECKING:
    from ibdissect.dfilter.answers import Answers
    from ibdissect.dfilter.compile import Filter

ENDLESS = (1 << 63) - 1


@record(eq=True, frozen=False)
class Limits:
    """Frames by number and display filter."""

    ranges: tuple[tuple[int, int], ...]
    """(first, last) of every run of frames; empty: all."""
    filter: Filter | None = None
    findings: Mapping[int, Iterable[str]] = field(default_factory=dict)
    """Codes by frame, for filters that ask for findings (`needs_findings`)."""
    answers: Answers | None = None
    """Of the whole capture, for filters that ask for answers which come later (`needs_answers`)."""

    @classmethod
    def parse(cls, text: str | None, frames: str | None, catalog: Catalog | None) -> Limits:
        """From the options. FilterError and ConfigError say what is wrong where."""
        ranges = parse_frames(frames) if frames is not None else ()
        if text is None:
            return cls(ranges)
        from ibdissect.dfilter.compile import compile_filter  # loaded only when there is a filter

        return cls(ranges, compile_filter(text, catalog))

    @property
    def needs_findings(self) -> bool:
        """Whether the filter asks for findings."""
        return self.filter is not None and self.filter.codes

    @property
    def needs_answers(self) -> bool:
        """Whether the filter asks which later frame answers a request."""
        return self.filter is not None and self.filter.ahead

    def rows(self, table: ChunkTable) -> npt.NDArray[np.bool_]:
        """Which rows of a chunk are wanted, bool[n]."""
        first = table.chunk.first
        chosen = np.full(len(table), not self.ranges)
        for low, high in self.ranges:
            chosen[max(low - first, 0) : max(min(high, first + len(table)) - first + 1, 0)] = True
        if self.filter is not None:  # also where no frame is wanted: it remembers times from chunk to chunk
            chosen &= self.filter.rows(table, self.findings, self.answers)
        return chosen

    @property
    def last(self) -> int:
        """Behind this frame nothing is wanted."""
        return max((high for _, high in self.ranges), default=ENDLESS)


def parse_frames(text: str) -> tuple[tuple[int, int], ...]:
    """`1-10,17,100-` as (first, last) pairs. ConfigError when it is none."""
    ranges = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(?:(\d{1,18})\s*(?:(-)\s*(\d{1,18})?)?|-\s*(\d{1,18}))\s*", part, re.ASCII)
        if match is None:
            raise ConfigError("--frames", text, f"{part!r} is neither a frame number nor a range", hint="write 1-10,17,100-")
        low = int(match[1]) if match[1] else 1
        high = int(match[4]) if match[4] else int(match[3]) if match[3] else ENDLESS if match[2] else low
        if low < 1 or high < low:
            raise ConfigError("--frames", text, f"{part!r} is no range of frames, which count from 1")
        ranges.append((low, high))
    return tuple(ranges)
