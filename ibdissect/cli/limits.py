"""Which frames of a capture are wanted: by number, by display filter, or both?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.errors import ConfigError
from ibdissect.table.table import ChunkTable
from ibdissect.wire.catalog import Catalog

ENDLESS = (1 << 63) - 1


@dataclass(slots=True)
class Limits:
    """Frames by number and display filter; goes to worker processes as text and is compiled there again."""

    text: str | None
    ranges: tuple[tuple[int, int], ...]
    """(first, last) of every run of frames; empty: all."""
    first_ns: int = 0
    """Time of the capture's first frame, for frame.time_relative."""
    _compiled: Any = field(default=None, repr=False)  # Any: the display-filter room is loaded only when there is a filter

    @classmethod
    def parse(cls, text: str | None, frames: str | None, catalog: Catalog | None) -> Limits:
        """From the options. FilterError and ConfigError say what is wrong where."""
        limits = cls(text, parse_frames(frames) if frames is not None else ())
        limits._compile(catalog)
        return limits

    def _compile(self, catalog: Catalog | None) -> None:
        if self.text is not None and self._compiled is None:
            from ibdissect.dfilter import compile_filter

            self._compiled = compile_filter(self.text, catalog)

    def __reduce__(self) -> tuple[Any, ...]:
        return Limits, (self.text, self.ranges)

    def rows(self, table: ChunkTable) -> npt.NDArray[np.bool_]:
        """Which rows of a chunk are wanted, bool[n]."""
        self._compile(table.catalog)
        first = table.chunk.first
        if first == 1 and len(table):
            self.first_ns = int(table.chunk.time_ns[0])
        chosen = np.full(len(table), not self.ranges)
        for low, high in self.ranges:
            chosen[max(low - first, 0) : max(min(high, first + len(table)) - first + 1, 0)] = True
        if self._compiled is not None and chosen.any():
            chosen &= self._compiled.rows(table, self.first_ns)
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
