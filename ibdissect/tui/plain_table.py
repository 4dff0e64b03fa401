"""A table to read on a page: headings, aligned numbers, nothing to select."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual.widget import Widget

from .heads import GAP, MARGIN, Head, fitting
from .ink import fit


class PlainTable(Widget):
    """Rows of cells by the keys of `heads`; `more` further rows are only counted."""

    COMPONENT_CLASSES = {"plot--bar", "plot--two", "plot--dim", "plot--mark"}

    def __init__(self, title: str, heads: Sequence[Head], rows: Sequence[dict[str, str]], *, empty: str, more: int = 0) -> None:
        super().__init__(classes="bars")
        self.heading, self.heads, self.rows, self.empty, self.more = title, list(heads), rows, empty, more

    def _ink(self, name: str) -> Style:
        return self.get_component_rich_style(f"plot--{name}", partial=True)

    def render(self) -> Text:
        ink = self._ink
        lines = [Text(f" {self.heading}", "bold")]
        if not self.rows:
            lines.append(Text(f" {self.empty}", ink("dim")))
            return Text("\n").join(lines)
        heads = fitting(self.heads, self.size.width)
        lines.append(Text(" " * (MARGIN - 1) + "".join(fit(h.title, h.width, h.align) + " " * GAP for h in heads), ink("dim")))
        for row in self.rows:
            line = Text(" " * (MARGIN - 1))
            for head in heads:
                cell = row.get(head.key, "")
                line.append(fit(cell or ("·" if head.align == "right" else ""), head.width, head.align), None if cell else ink("dim"))
                line.append(" " * GAP)
            line.truncate(self.size.width)
            lines.append(line)
        if self.more:
            lines.append(Text(f" and {self.more} more", ink("dim")))
        return Text("\n", no_wrap=True, overflow="crop").join(lines)
