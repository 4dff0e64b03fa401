"""Selection of frames by number, by display filter, or both."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record
from msgspec import field

from ibdissect.decode import ChunkTable
from ibdissect.errors import ConfigError
from ibdissect.wire.catalog import Catalog

if TYPE_CHECKING:
    from ibdissect.dfilter.answers import AnswerFrames
    from ibdissect.dfilter.compile import Filter
    from ibdissect.dfilter.frame_properties import Findings

ENDLESS = (1 << 63) - 1


class FrameSelection(Record):
    """Frames by number and display filter."""

    ranges: tuple[tuple[int, int], ...]
    """(first, last) of each range of frames; empty: all."""
    filter: Filter | None = None
    findings: Findings = field(default_factory=dict)
    """By frame, for a filter that uses findings."""
    answers: AnswerFrames | None = None
    """Answers in the whole capture, for a filter that uses later answers."""
    reached: int = 0
    """The last frame that was looked at."""

    @classmethod
    def parse(cls, text: str | None, frames: str | None, catalog: Catalog | None, *, show_keys: bool = False) -> FrameSelection:
        """Make them from the options -Y and --frames. Raises FilterError or ConfigError."""
        ranges = parse_frames(frames) if frames is not None else ()
        if text is None:
            return cls(ranges)
        from ibdissect.dfilter.compile import compile_filter  # loaded only when there is a filter

        return cls(ranges, compile_filter(text, catalog, hide_keys=not show_keys))

    @property
    def hidden_checksums(self) -> int:
        """Number of checksums that the filter did not compare so far, as they tell a hidden key."""
        return self.filter.hidden_checksums if self.filter is not None else 0

    def rows(self, table: ChunkTable) -> npt.NDArray[np.bool_]:
        """Which rows of a chunk are selected, bool[n]."""
        first = table.chunk.first
        self.reached = max(self.reached, first + len(table) - 1)
        chosen = np.full(len(table), not self.ranges)
        for low, high in self.ranges:
            chosen[max(low - first, 0) : max(min(high, first + len(table)) - first + 1, 0)] = True
        if self.filter is not None:  # run it even if no row is selected: it keeps times from chunk to chunk
            chosen &= self.filter.rows(table, self.findings, self.answers)
        return chosen

    @property
    def absent(self) -> str:
        """Which of the frames that were asked for by number the capture does not have, once all of it was read; empty if it has all."""
        beyond = [low for low, _ in self.ranges if low > self.reached]
        return f"there is no frame {min(beyond)}: the capture ends with frame {self.reached}" if beyond else ""

    @property
    def edges(self) -> list[int]:
        """First frame of each range, and the frame after it."""
        return [edge for low, high in self.ranges for edge in (low, high + 1)]

    @property
    def last(self) -> int:
        return max((high for _, high in self.ranges), default=ENDLESS)


def parse_frames(text: str) -> tuple[tuple[int, int], ...]:
    """`1-10,17,100-` as (first, last) pairs. Raises ConfigError if it is not valid."""
    ranges = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(?:(\d{1,18})\s*(?:(-)\s*(\d{1,18})?)?|-\s*(\d{1,18}))\s*", part, re.ASCII)
        if match is None:
            raise ConfigError("--frames", text, f"{part!r} is neither a frame number nor a range", hint="write 1-10,17,100-")
        low = int(match[1]) if match[1] else 1
        high = int(match[4]) if match[4] else int(match[3]) if match[3] else ENDLESS if match[2] else low
        if low < 1 or high < low:
            raise ConfigError("--frames", text, f"{part!r} is not a range of frames (they count from 1)")
        ranges.append((low, high))
    return tuple(ranges)
