"""Plots over time and bars, for statistics."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich.style import Style
from rich.text import Text
from textual.widget import Widget

from ibdissect.lint.finding import Severity
from ibdissect.screen_model.number_text import BLOCKS, duration, number, octets, per_point, squeeze

from .cells import fit, ink
from .line import DrawnLine

AXIS = 10
"""Cells left of a plot for its scale."""
MARKS = {severity.rank: severity.value for severity in Severity}
SHOWN = 12
"""Bars of one kind."""


class PlotDrawing(Widget):
    """Anything drawn in the colours of plots."""

    COMPONENT_CLASSES = {f"ink--{name}" for name in ("plot", "plot-two", "brush", "dim", *MARKS.values())}

    def ink(self, name: str) -> Style:
        return ink(self, name)


def stacked(values: Sequence[int], top: int, height: int) -> list[str]:
    """Values as columns of blocks, `height` lines from the top down; each value above zero has at least one eighth."""
    eighths = [max(round(value / (top or 1) * height * 8), value > 0) for value in values]
    return ["".join(BLOCKS[max(min(each - row * 8, 8), 0)] for each in eighths) for row in range(height - 1, -1, -1)]


class Plot(PlotDrawing):
    """Columns over time, `height` lines high, with a scale on the left and marks below: the highest rank of a finding, 0 for none."""

    def __init__(
        self, title: str, values: list[int], unit: str, step_ns: int, *, two: bool = False, marks: list[int] | None = None
    ) -> None:
        """`values` are of equal times, `step_ns` each."""
        super().__init__(classes="plot")
        self.step_ns = step_ns
        self.heading, self.values, self.unit, self.two, self.marks = title, values, unit, two, marks

    def render(self) -> Text:
        width, height = max(self.size.width - AXIS - 2, 1), max(self.size.height - 1 - (self.marks is not None), 1)
        points = squeeze(self.values, width)
        top = max(points, default=0) or 1
        scale = octets if self.unit == "bytes" else lambda value: number(round(value))
        time = duration(self.step_ns * per_point(len(self.values), width))
        lines = [Text.assemble((f"{self.heading:>{AXIS}}", "bold"), (f"  at most {scale(top)} in {time}", self.ink("dim")))]
        bar = self.ink("plot-two" if self.two else "plot")
        for place, cells in enumerate(stacked(points, top, height)):
            label = scale(top) if not place else "0" if place == height - 1 else ""
            lines.append(Text.assemble((f"{label:>{AXIS - 1}} ", self.ink("dim")), (cells, bar)))
        if self.marks is not None:
            edges = [i * len(self.marks) // width for i in range(width + 1)]
            found = [max(self.marks[low : max(high, low + 1)], default=0) for low, high in pairwise(edges)]
            marks = [("▲", self.ink(MARKS[rank])) if rank else ("─", self.ink("dim")) for rank in found]
            lines.append(Text.assemble((f"{'findings':>{AXIS - 1}} ", self.ink("dim")), *marks))
        return Text("\n").join(lines)


def axis(span: str) -> DrawnLine:
    """The time line below the plots."""
    return DrawnLine(lambda width: f"{'time':>{AXIS - 1}} 0 {'─' * max(width - AXIS - 2 - len(span) - 3, 1)} {span}", classes="plot-axis")


class CountBars(PlotDrawing):
    """Names with their counts as bars, the biggest first."""

    def __init__(self, title: str, entries: Sequence[tuple[str, int]], *, two: bool = False, empty: str = "none") -> None:
        super().__init__(classes="bars")
        self.heading, self.entries, self.two, self.empty = title, entries, two, empty
        self.total = sum(count for _, count in entries)

    def render(self) -> Text:
        width = max(self.size.width - 2, 10)
        lines = [Text(f" {self.heading}", "bold")]
        if not self.entries:
            lines.append(Text(f" {self.empty}", self.ink("dim")))
        shown = list(self.entries[:SHOWN])
        if len(self.entries) > SHOWN:
            rest = self.entries[SHOWN - 1 :]
            shown = [*self.entries[: SHOWN - 1], (f"{len(rest)} more", sum(count for _, count in rest))]
        label = min(max((len(name) for name, _ in shown), default=0), max(width // 2 - 6, 8))
        top = max((count for _, count in shown), default=0) or 1
        room = max(width - label - 19, 3)
        for name, count in shown:
            eighths = round(count / top * room * 8)
            bar = "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8] or "▏"
            share = f"{count / self.total:.1%}" if self.total else ""
            numbers = (f"{number(count):>9} {share:>6} ", self.ink("dim"))
            lines.append(Text.assemble(f" {fit(name, label)} ", numbers, (bar, self.ink("plot-two" if self.two else "plot"))))
        return Text("\n", no_wrap=True, overflow="crop").join(lines)
