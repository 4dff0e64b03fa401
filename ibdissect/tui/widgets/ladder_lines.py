"""Ladders drawn as text: a line for each packet, with an arrow between the lines of its two ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ibdissect.screen_model.ladder import AGAIN, LOST, MALFORMED, OTHER, Ladder, LadderStep, shorter, without_qp
from ibdissect.screen_model.number_text import duration
from ibdissect.screen_model.stalls import Stall

from .cells import cut, cut_apart

MARGIN = 22
"""Cells for frame number and time."""
SIDE = 8
"""Cells beside the first and the last end."""
WIDE = 60
"""Cells between two ends from which on labels name the queue pair."""
LEAST = 100
"""Width of a drawing, if the screen's is unknown or smaller."""


class LadderColumns:
    """Draws a ladder: the place of each end, in a drawing of `width` cells."""

    def __init__(self, ladder: Ladder, width: int, start_ns: int = 0) -> None:
        """`start_ns`: where the times begin; 0: at the first packet of the ladder."""
        self.ends = ladder.ends
        self.start_ns = start_ns or (ladder.steps[0].time_ns if ladder.steps else 0)
        self.width, gaps = max(width - MARGIN - 1, 20), max(len(self.ends) - 1, 1)
        self.at = {end: SIDE + place * (self.width - 2 * SIDE) // gaps for place, end in enumerate(self.ends)}

    def head(self) -> str:
        """The line above: the names of the ends."""
        line, room = f"{'frame':>8} {'seconds':>11}  ".ljust(MARGIN), (self.width - 2 * SIDE) // max(len(self.ends) - 1, 1) - 1
        names = cut_apart(self.ends, max(room, 4))
        for end, place in self.at.items():
            name = names[end]
            line = line.ljust(MARGIN + max(place - len(name) // 2, 0)) + name
        return line

    def lines(self, steps: Sequence[LadderStep], found: Mapping[int, Stall]) -> Iterator[tuple[int, str, Stall | None]]:
        """All lines: the place of the step of each, its text, and the stall before that step if the line draws it."""
        for i, step in enumerate(steps):
            if (stall := found.get(i)) is not None:
                yield from ((i, line, stall) for line in self.stall(stall))
            yield from ((i, line, None) for line in self.rows(step))

    def rows(self, step: LadderStep) -> Iterator[str]:
        """The lines of a step: what is missing before it, and itself."""
        if step.mark == LOST:
            yield " " * MARGIN + self._arrow(step.source, step.destination, f"✕ {step.note}", "╌", "✕").rstrip()
        label = f"{step.label} ({step.note})" if step.mark in (AGAIN, MALFORMED, OTHER) else step.label
        line = "═" if step.mark == AGAIN else "─"
        arrow = self._arrow(step.source, step.destination, label, line, "")
        yield f"{step.frame:>8} {(step.time_ns - self.start_ns) / 1e9:>11.6f}  {arrow}".rstrip()

    def stall(self, stall: Stall) -> Iterator[str]:
        """The lines of a time in which nothing was sent, as many as it is long; how long it was stands in the middle."""
        for row in range(stall.lines):
            cells = [" "] * self.width
            for place in self.at.values():
                cells[place] = "┊"
            text = f" {duration(stall.ns)} {stall.what} " if row == stall.lines // 2 else ""
            first, last = min(self.at.values(), default=0), max(self.at.values(), default=0)
            text = cut(text, self.width - first - 2)
            start = max(first + (last - first - len(text)) // 2 + 1, first + 1)
            cells[start : start + len(text)] = text
            yield (" " * MARGIN + "".join(cells)).rstrip()

    def _arrow(self, source: str, destination: str, label: str, line: str, end: str) -> str:
        cells = [" "] * self.width
        for place in self.at.values():
            cells[place] = "│"
        a, b = self.at.get(source), self.at.get(destination)
        if a is None or b is None or a == b:  # a broadcast, or an end without a line of its own
            end_at = a if a is not None else b if b is not None else 0
            left, right = end_at - 1, self.width - end_at - 2
            room = max(left, right)
            text = f"{source} → {destination} " if a is None or b is None else ""
            text = cut(text, max(room // 2, room - len(shorter(label, room // 2)) - 1)) if len(text) + len(label) > room else text
            text += shorter(label, room - len(text))
            start = end_at + 2 if right >= left else end_at - 1 - len(text)
            cells[start : start + len(text)] = text
            return "".join(cells)
        low, high = min(a, b), max(a, b)
        cells[low + 1 : high] = line * (high - low - 1)
        cells[high - 1 if b > a else low + 1] = end or ("▶" if b > a else "◀")
        label, inside = label if high - low >= WIDE else without_qp(label), max(high - low - 5, 3)
        left, right = low - 2, self.width - high - 3
        if len(label) > inside and max(left, right) > inside:  # between neighbours of many: beside the arrow, over the lines of others
            text = f" {shorter(label, max(left, right))} "
            start = high + 1 if right >= left else low - len(text)
        else:
            text = f" {shorter(label, inside)} "
            start = low + (high - low - len(text)) // 2 + 1
        cells[start : start + len(text)] = text
        return "".join(cells[: max(self.width, start + len(text))])
