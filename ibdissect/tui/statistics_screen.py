"""The statistics: packets and bytes over time with the findings on the time line, the mix of OpCodes and classes, who talks."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from .conversations import LATENCIES
from .ink import BLOCKS, duration, fit, number, octets, squeeze
from .study import Snapshot

AXIS = 10
"""Cells left of a plot for its scale."""
SHOWN = 12
"""Bars of one kind."""


class Plot(Widget):
    """Columns over time, `height` lines high, with a scale on the left and marks below."""

    COMPONENT_CLASSES = {"plot--bar", "plot--two", "plot--dim", "plot--mark"}

    def __init__(self, title: str, values: list[int], unit: str, *, two: bool = False, marks: list[int] | None = None) -> None:
        super().__init__(classes="plot")
        self.heading, self.values, self.unit, self.two, self.marks = title, values, unit, two, marks

    def _ink(self, name: str) -> Style:
        return self.get_component_rich_style(f"plot--{name}", partial=True)

    def render(self) -> Text:
        width, height = max(self.size.width - AXIS - 2, 1), max(self.size.height - 1 - (self.marks is not None), 1)
        ink = self._ink
        points = squeeze(self.values, width)
        top = max(points, default=0) or 1
        scale = octets if self.unit == "bytes" else lambda value: number(round(value))
        lines = [Text.assemble((f"{self.heading:>{AXIS}}", "bold"), (f"  at most {scale(top)} a column", ink("dim")))]
        bar = ink("two" if self.two else "bar")
        for row in range(height - 1, -1, -1):
            label = scale(top) if row == height - 1 else "0" if row == 0 else ""
            cells = "".join(BLOCKS[max(min(round((value / top * height - row) * 8), 8), 1 if value and not row else 0)] for value in points)
            lines.append(Text.assemble((f"{label:>{AXIS - 1}} ", ink("dim")), (cells, bar)))
        if self.marks is not None:
            found = squeeze(self.marks, width)
            cells = "".join("▲" if value else "─" for value in found)
            marks = [(cell, ink("mark" if cell == "▲" else "dim")) for cell in cells]
            lines.append(Text.assemble((f"{'findings':>{AXIS - 1}} ", ink("dim")), *marks))
        return Text("\n").join(lines)


class Axis(Widget):
    """The time line below the plots."""

    def __init__(self, span: str) -> None:
        super().__init__(classes="plot-axis")
        self.span = span

    def render(self) -> Text:
        room = max(self.size.width - AXIS - 2 - len(self.span) - 3, 1)
        return Text(f"{'time':>{AXIS - 1}} 0 {'─' * room} {self.span}", no_wrap=True, overflow="crop")


class Bars(Widget):
    """Names with their counts as bars, the biggest first."""

    COMPONENT_CLASSES = {"plot--bar", "plot--two", "plot--dim", "plot--mark"}

    def __init__(self, title: str, entries: Sequence[tuple[str, int]], *, two: bool = False, empty: str = "none") -> None:
        super().__init__(classes="bars")
        self.heading, self.entries, self.two, self.empty = title, entries, two, empty
        self.total = sum(count for _, count in entries)

    def _ink(self, name: str) -> Style:
        return self.get_component_rich_style(f"plot--{name}", partial=True)

    def render(self) -> Text:
        width = max(self.size.width - 2, 10)
        ink = self._ink
        lines = [Text(f" {self.heading}", "bold")]
        if not self.entries:
            lines.append(Text(f" {self.empty}", ink("dim")))
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
            numbers = (f"{number(count):>9} {share:>6} ", ink("dim"))
            lines.append(Text.assemble(f" {fit(name, label)} ", numbers, (bar, ink("two" if self.two else "bar"))))
        return Text("\n", no_wrap=True, overflow="crop").join(lines)


class StatisticsScreen(Screen[None]):
    """Numbers of the frames studied so far."""

    BINDINGS = [Binding("escape,q,s", "dismiss(None)", "back")]

    def __init__(self, snapshot: Snapshot, findings: list[int]) -> None:
        super().__init__()
        self.snapshot, self.findings = snapshot, findings

    def compose(self) -> ComposeResult:
        shot = self.snapshot
        tally, line = shot.tally, shot.tally.line
        used = max(line.used, 1)
        marks = [0] * used
        for time_ns in self.findings:
            marks[min(line.bucket(time_ns), used - 1)] += 1
        span = duration(used * line.step_ns)
        yield Static(f" Statistics   {number(tally.frames)} frames, {octets(tally.octets)}, {span}", classes="screen-title", markup=False)
        with VerticalScroll(id="statistics"):
            with Vertical(id="plots"):
                yield Plot("Packets", line.packets[:used].tolist(), "packets", marks=marks)
                yield Plot("Bytes", line.octets[:used].tolist(), "bytes", two=True)
                yield Axis(span)
            with Horizontal(classes="bar-row"):
                yield Bars("OpCodes", tally.opcode_mix(), empty="no InfiniBand transport")
                yield Bars("Management classes", tally.class_mix(), two=True, empty="no management datagrams")
            with Horizontal(classes="bar-row"):
                yield Bars("Top talkers (packets sent)", tally.talkers.most_common(50), empty="no addresses")
                times = _latencies(shot.latency.tolist())
                yield Bars("Response time of management requests", times, two=True, empty="no request was answered")
        yield Static(" ↑ ↓ scroll · Esc back", classes="screen-keys", markup=False)

    def on_mount(self) -> None:
        self.query_one("#statistics").focus()


def _latencies(counts: list[int]) -> list[tuple[str, int]]:
    """Steps of the histogram from the first to the last that has answers; factors of four where there are many."""
    used = [place for place in range(LATENCIES) if counts[place]]
    if not used:
        return []
    step = 1 if used[-1] - used[0] < 9 else 2
    first = used[0] // step * step
    return [(f"≤ {duration(1 << (place + step))}", sum(counts[place : place + step])) for place in range(first, used[-1] + 1, step)]
