"""Text as a line on the screen: cut to cells, aligned, in an ink of the style sheet; never with markup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.widget import Widget

INKS = frozenset(f"ink--{name}" for name in (
    "error", "warning", "info", "dim", "strong", "accent", "key", "smp", "sa", "cm", "gs", "nak", "again", "other", "good",
    "cursor", "cursor-quiet", "marked", "span", "bits", "brush", "code", "plot", "plot-two", "head",
))  # fmt: skip
"""Component classes of a widget that draws with inks."""


def ink(widget: Widget, name: str) -> Style:
    """A style by its name in INKS; its background only where the theme gives one."""
    return widget.get_component_rich_style(f"ink--{name}", partial=True)


def width_of(text: str) -> int:
    """Terminal cells of a text."""
    return len(text) if text.isascii() else cell_len(text)


def cut(text: str, width: int) -> str:
    """`text` in at most `width` cells, with … where something is missing."""
    if width <= 0:
        return ""
    if width_of(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip(" …") + "…"


def fit(text: str, width: int, align: str = "left") -> str:
    """`text` in exactly `width` cells."""
    text = cut(text, width)
    space = " " * (width - width_of(text))
    return space + text if align == "right" else text + space


def line_of(parts: Iterable[tuple[str, Style | None]], width: int) -> list[Segment]:
    """Styled parts as one line of at most `width` cells; nothing follows the part that is cut."""
    segments: list[Segment] = []
    left = width
    for text, style in parts:
        short = cut(text, left)
        if short == "…" and segments and segments[-1].text.endswith("…"):
            break  # what was cut already needs no second sign
        if short:
            segments.append(Segment(short, style))
        if short != text:
            break
        left -= width_of(text)
    return segments


def cut_apart(names: Iterable[str], width: int) -> Mapping[str, str]:
    """Names in at most `width` cells, cut so that as many as can be stay different: at the end, in front, or in the middle."""
    names = dict.fromkeys(names)
    ways = [{name: cut_at(name, width, tail) for name in names} for tail in (0, max(width - 1, 0), width // 2)]
    return max(ways, key=lambda way: len(set(way.values())))


def cut_at(text: str, width: int, tail: int) -> str:
    """`text` in at most `width` cells, the last `tail` of which are its end."""
    if tail <= 0 or width_of(text) <= width:
        return cut(text, width)
    end = text
    while width_of(end) > tail:
        end = end[1:]
    begin = set_cell_size(text, width - 1 - width_of(end)) if width - 1 > width_of(end) else ""
    return begin.rstrip(" …") + "…" + end.lstrip()
