"""What stands on the screen: every widget of it, as it is drawn."""

from __future__ import annotations

import re

from rich.segment import Segment
from textual.app import App
from textual.geometry import Region
from textual.widget import Widget


def segments(app: App[None]) -> list[Segment]:
    """All pieces of text that the widgets of the top screen draw, whatever lies over them."""
    found: list[Segment] = []
    for widget in app.screen.walk_children(Widget):
        if widget.display and widget.size.area:
            for strip in widget.render_lines(Region(0, 0, *widget.size)):
                found += [*strip, Segment("\n")]
    return found


def text(app: App[None]) -> str:
    """The text of all widgets of the top screen, a line for each of theirs."""
    return "".join(segment.text for segment in segments(app))


def picture(app: App[None], title: str) -> str:
    """The screen as an SVG: small, and with nothing fetched from elsewhere."""

    def move(match: re.Match[str]) -> str:
        """Text after leading spaces is moved to where it is seen, as not every renderer keeps them."""
        x, length, text = float(match["x"]), float(match["length"]), match["text"]
        plain = re.sub(r"&[^;]+;", "x", text.replace("&#160;", "\xa0"))
        bare = re.sub(r"^(?:&#160;|\xa0)+", "", text)
        lead = len(plain) - len(plain.lstrip("\xa0"))
        if not lead or not bare:
            return match[0]
        cell = length / len(plain)
        return f'{match["head"]}x="{x + lead * cell:.1f}"{match["mid"]}textLength="{length - lead * cell:.1f}">{bare}</text>'

    svg = app.export_screenshot(title=title, simplify=True)
    for pattern, instead in (
        (r"@font-face \{[^}]*\}\s*", ""), (r"terminal-\d+", "t"), (r' clip-path="url\(#t-line-\d+\)"', ""),
        (r'<clipPath id="t-line-\d+">.*?</clipPath>\s*', ""), (r' shape-rendering="crispEdges"', ""), (r"(?m)^ +", ""),
    ):  # fmt: skip
        svg = re.sub(pattern, instead, svg, flags=re.DOTALL)
    text = r'(?P<head><text class="t-r\d+" )x="(?P<x>[\d.]+)"(?P<mid> y="[\d.]+" )textLength="(?P<length>[\d.]+)">(?P<text>[^<]*)</text>'
    return re.sub(text, move, svg)
