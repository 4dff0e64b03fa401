"""How does text become a line on the screen? Cut to cells, aligned, styled; never with markup."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style

from ibdissect.lint.finding import Severity

SHAPES = {Severity.ERROR: "✖", Severity.WARNING: "⚠", Severity.INFO: "ℹ"}
"""Severity is never told by colour alone."""
NAMES = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "info"}
BLOCKS = " ▁▂▃▄▅▆▇█"


def width_of(text: str) -> int:
    """Terminal cells of a text."""
    return len(text) if text.isascii() else cell_len(text)


def cut(text: str, width: int) -> str:
    """`text` in at most `width` cells, with … where something is missing."""
    if width <= 0:
        return ""
    if width_of(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…"


def fit(text: str, width: int, align: str = "left") -> str:
    """`text` in exactly `width` cells."""
    text = cut(text, width)
    space = " " * (width - width_of(text))
    return space + text if align == "right" else text + space


def line_of(parts: Iterable[tuple[str, Style | None]], width: int) -> list[Segment]:
    """Styled parts as one line of at most `width` cells."""
    segments: list[Segment] = []
    left = width
    for text, style in parts:
        if left <= 0:
            break
        text = cut(text, left)
        left -= width_of(text)
        segments.append(Segment(text, style))
    return segments


def number(value: int) -> str:
    """1,965"""
    return f"{value:,}"


def octets(value: float) -> str:
    """`1.4 MB`; powers of ten, as networks count."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def duration(ns: float) -> str:
    """`61 µs`, `2.5 ms`, `3.1 s`."""
    for unit, size in (("ns", 1e3), ("µs", 1e3), ("ms", 1e3)):
        if ns < size:
            return f"{ns:.0f} {unit}" if ns >= 100 or unit == "ns" else f"{ns:.3g} {unit}"
        ns /= size
    return f"{ns:.2f} s" if ns < 60 else f"{int(ns // 60)} min {ns % 60:.0f} s" if ns < 3600 else f"{ns / 3600:.1f} h"


def spark(values: Iterable[float], top: float | None = None) -> str:
    """Values as a row of blocks; anything above zero shows."""
    values = list(values)
    top = max(values, default=0) if top is None else top
    if top <= 0:
        return " " * len(values)
    return "".join(BLOCKS[0 if value <= 0 else max(1, min(8, round(value / top * 8)))] for value in values)


def squeeze(values: list[int], width: int) -> list[int]:
    """Sums of neighbours, so that `width` points remain; spread where there are fewer."""
    if not values or width <= 0:
        return [0] * max(width, 0)
    edges = [i * len(values) // width for i in range(width + 1)]
    return [sum(values[a:b]) if b > a else values[min(a, len(values) - 1)] for a, b in pairwise(edges)]
