"""Which columns of a table fit the screen, and what stands above them?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .cells import fit

MARGIN = 2
"""Cells in front of the first column."""
NARROW = 12
"""Cells that the widest column keeps."""
GAP = 2
"""Cells between two columns."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A column of a table."""

    key: str
    title: str
    width: int
    align: str = "right"
    rank: int = 0
    """Columns with a higher rank go first when there is no room; 0 stays."""


def fitting(columns: Sequence[Heading], width: int, rest: int = 0) -> list[Heading]:
    """The columns that fit, in order, with `rest` cells left behind them; at last the widest one is narrowed."""
    shown = list(columns)
    while (over := MARGIN + sum(head.width + GAP for head in shown) + rest - width) > 0:
        least = max(shown, key=lambda head: head.rank)
        if not least.rank:
            widest = max(range(len(shown)), key=lambda i: shown[i].width)
            shown[widest] = replace(shown[widest], width=max(shown[widest].width - over, min(NARROW, shown[widest].width)))
            break
        shown.remove(least)
    return shown


def room_behind(columns: Sequence[Heading], width: int) -> int:
    """Cells left behind the columns."""
    return max(width - MARGIN - sum(head.width + GAP for head in columns), 0)


UNITS = {"": 1.0, "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 6e10,
         "h": 3.6e12}  # fmt: skip


def sort_value(text: str) -> tuple[float, str]:
    """What the text of a cell is sorted by: its number in one unit, else the text with its numbers in order (LID 9 before LID 10)."""
    found = re.fullmatch(r"(\d[\d,]*(?:\.\d+)?)(?: (\w+)(?: \d+ s)?)?", text)
    if found is None or (found[2] or "") not in UNITS:
        return -1.0, re.sub(r"0x[0-9a-f]+|\d+", lambda part: part[0] if part[0][:2] == "0x" else part[0].zfill(20), text)
    return float(found[1].replace(",", "")) * UNITS[found[2] or ""], ""


def titles(columns: Sequence[Heading], last: str = "") -> str:
    """The line above a table."""
    return " " * MARGIN + "".join(fit(head.title, head.width, head.align) + " " * GAP for head in columns) + last
