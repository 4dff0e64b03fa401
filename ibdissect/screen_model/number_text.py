"""Numbers for people: with separators, in bytes, as a duration, as a small graph."""

from __future__ import annotations

from collections.abc import Iterable

BLOCKS = " ▁▂▃▄▅▆▇█"


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


def per_point(count: int, width: int) -> int:
    """How many of `count` neighbours `squeeze` sums for one of `width` points."""
    return max(-(-count // max(width, 1)), 1)


def squeeze(values: list[int], width: int) -> list[int]:
    """Sums of neighbours, of equally many everywhere (the last one may have fewer), spread over `width` points."""
    if not values or width <= 0:
        return [0] * max(width, 0)
    many = per_point(len(values), width)
    sums = [sum(values[at : at + many]) for at in range(0, len(values), many)]
    return [sums[point * len(sums) // width] for point in range(width)]
