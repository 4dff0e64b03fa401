"""Bars and lines of a page for numbers. Coordinates only: the templates draw them as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct as Record

from ibdissect.lint.finding import Finding
from ibdissect.wire.text import counted

WIDTH, HEIGHT = 760, 150
"""Size of a time line in pixels."""
STEPS = 76
"""Bars of a time line."""
BAR = 160
"""Pixels of the longest horizontal bar."""
SHOWN = 12
"""Bars of a list; the rest is summed up as `others`."""
LEVELS = ("info", "warning", "error")
"""Severities from the bottom of a stacked bar to its top."""


class Bar(Record):
    label: str
    count: int
    width: float
    share: str


class NameBars(Record):
    """Numbers by name, most first."""

    title: str
    bars: list[Bar]


class BarPiece(Record):
    """A rectangle of a stacked bar."""

    level: str
    x: float
    y: float
    width: float
    height: float
    title: str


class FindingsTimeLine(Record):
    """Findings over time, stacked by severity, above the packets of the same time."""

    pieces: list[BarPiece]
    packets: str
    """The packets as points of a polygon; empty where they are not known."""
    most: int
    """Findings of the highest bar."""
    seconds: float
    rows: list[tuple[str, int, int, int]]
    """The same as a table: time, errors, warnings, infos; only where there are any."""


def bars(title: str, counts: Sequence[tuple[str, int]]) -> NameBars:
    """The most frequent names and the sum of the others."""
    shown, rest = list(counts[:SHOWN]), sum(count for _, count in counts[SHOWN:])
    if rest:
        shown.append((f"{len(counts) - SHOWN} others", rest))
    total, most = sum(count for _, count in shown), max((count for _, count in shown), default=1)
    return NameBars(title, [Bar(name, n, max(BAR * n / most, 1.0), f"{n / total:.1%}") for name, n in shown if n])


def steps(findings: Iterable[Finding], first_ns: int, last_ns: int) -> list[dict[str, int]]:
    """Findings by severity, in STEPS equal parts of the time between two moments."""
    span = max(last_ns - first_ns, 1)
    counts = [dict.fromkeys(LEVELS, 0) for _ in range(STEPS)]
    for finding in findings:
        counts[min(max(finding.time_ns - first_ns, 0) * STEPS // span, STEPS - 1)][finding.severity.value] += 1
    return counts


def time_line(counts: Sequence[Mapping[str, int]], first_ns: int, last_ns: int, packets: Sequence[int] = ()) -> FindingsTimeLine:
    """Findings by severity in STEPS equal parts of the time between two moments; `packets` are numbers for equal parts of it, too."""
    span = max(last_ns - first_ns, 1)
    most = max(sum(step.values()) for step in counts)
    width, pieces, rows = WIDTH / STEPS, list[BarPiece](), list[tuple[str, int, int, int]]()
    for i, step in enumerate(counts):
        top = float(HEIGHT)
        when = f"{span * i / STEPS / 1e9:.3f} s"
        for level in LEVELS:
            if step[level]:
                height = max(step[level] / most * (HEIGHT - 20), 3.0)
                top -= height
                title = f"{counted(step[level], level)} from {when} on"
                pieces.append(BarPiece(level, i * width + 1, top, width - 2, height, title))
        if any(step.values()):
            rows.append((when, step["error"], step["warning"], step["info"]))
    return FindingsTimeLine(pieces, _polygon(packets), most, span / 1e9, rows)


def _polygon(values: Sequence[int]) -> str:
    if not values or not any(values):
        return ""
    top, width = max(values), WIDTH / len(values)
    heights = [f"{HEIGHT - value / top * (HEIGHT - 20):.1f}" for value in values]
    points = [f"{i * width:.1f},{height} {(i + 1) * width:.1f},{height}" for i, height in enumerate(heights)]
    return f"0,{HEIGHT} {' '.join(points)} {WIDTH},{HEIGHT}"


def polyline(values: Sequence[int], width: float, height: float) -> str:
    """Values as points of a small line."""
    top, step = max(max(values, default=0), 1), width / max(len(values) - 1, 1)
    return " ".join(f"{i * step:.1f},{height - value / top * (height - 1):.1f}" for i, value in enumerate(values))
