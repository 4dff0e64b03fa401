"""Lists of any number of lines: one widget for all, with a cursor; only visible lines are made."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.color import Color
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ..messages import ValuesWanted
from ..themes import readable
from .cells import INKS, cut, ink

LONGEST = 1000
"""Cells of a line with all that it says."""


def _readable(part: Segment, palette: str) -> Segment:
    """The same text in a colour that stands out from its background in the terminal's palette."""
    style = part.style
    if style is None or style.color is None or style.bgcolor is None or not style.color.triplet or not style.bgcolor.triplet:
        return part
    color = readable(Color(*style.color.triplet), Color(*style.bgcolor.triplet), palette=palette)
    return Segment(part.text, style + Style(color=color.rich_color), part.control)


class LineList(ScrollView, can_focus=True):
    """Lines by index. A subclass says how many there are and what each holds."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*INKS}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home", "edge(0)", "first", show=False),
        Binding("end", "edge(1)", "last", show=False),
        Binding("enter", "choose", "choose", show=False),
        Binding("slash", "search", "search", show=False),
        Binding("n", "again(1)", "next match", show=False),
        Binding("N", "again(-1)", "previous match", show=False),
        Binding("space,shift+f10,f22", "values", "nodes, ports, queue pairs, frames that the line names", show=False),
    ]
    empty = ""
    """Text shown when there are no lines."""
    bar = True
    """Whether the cursor's line is marked as a whole."""
    headed = False
    """Whether `head` is shown above the lines."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.lines: Any = ()
        """What each line is about; a subclass whose lines are elsewhere has its own `count`."""
        self.cursor = self.total = 0
        """The line of the cursor, and how many lines were there when they were last looked at."""
        self.generation = 0
        self.sought = ""
        """The text last searched for."""
        self._strips: LRUCache[tuple[int, ...], Strip] = LRUCache(2048)

    # -- what a subclass says

    def count(self) -> int:
        """How many lines there are."""
        return len(self.lines)

    def parts(self, index: int, width: int) -> list[Segment]:
        """What a line holds, at most `width` cells."""
        raise NotImplementedError

    @property
    def head(self) -> str:
        """The line above the others; shown if `headed`."""
        raise NotImplementedError

    def moved(self) -> None:
        """The cursor is on another line."""

    def choose(self) -> None:
        """Enter or a double click on the line of the cursor."""

    # -- the rest is the same for all

    def ink(self, name: str) -> Style:
        return ink(self, name)

    @property
    def line_width(self) -> int:
        return max(self.scrollable_content_region.width, 1)

    @property
    def line_text(self) -> str:
        """All that the line of the cursor says, also what has no room."""
        return "".join(part.text for part in self.parts(self.cursor, LONGEST)) if self.count() else ""

    @property
    def page_size(self) -> int:
        """Lines that are visible at once."""
        return max(self.scrollable_content_region.height - self.headed, 1)

    def renew(self) -> None:
        """Lines changed: forget what was drawn and measure again."""
        self.generation += 1
        self._strips.clear()
        total = self.count()
        self.cursor = max(0, min(self.cursor, total - 1))
        self.resize_lines(total)
        self.refresh()

    def redraw(self) -> None:
        """The text of lines changed, but not their number."""
        self.generation += 1
        self._strips.clear()
        self.refresh()

    def resize_lines(self, total: int) -> None:
        """The number of lines changed; what is drawn stays."""
        self.total = total
        if self.virtual_size.height != total + self.headed:
            self.virtual_size = Size(0, total + self.headed)

    def notify_style_update(self) -> None:
        """Theme or classes changed."""
        self._strips.clear()
        super().notify_style_update()

    def on_resize(self, _: events.Resize) -> None:
        """The selected line stays in sight."""
        self.call_after_refresh(self._reveal, False)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.line_width
        index = y - self.headed + int(self.scroll_offset.y)
        total = self.count()
        base = self.rich_style
        if self.headed and not y:
            style = base + self.ink("head")
            return Strip([Segment(cut(self.head, width), style)]).extend_cell_length(self.size.width, style)
        if index >= total:
            text = [Segment(cut(f" {self.empty}", width), base + self.ink("dim"))] if not total and y == self.headed else []
            return Strip(text).extend_cell_length(width, base).crop(0, width)
        selected = self.bar and index == self.cursor
        key = (index, selected, selected and self.has_focus, width, self.generation)
        strip = self._strips.get(key)
        if strip is None:
            segments = list(Segment.apply_style(self.parts(index, width), style=base))
            strip = Strip(segments).extend_cell_length(width, base).crop(0, width)
            if selected:
                style = self.ink("cursor" if self.has_focus else "cursor-quiet")
                palette = getattr(self.app, "palette", "truecolor")
                strip = Strip([_readable(part, palette) for part in Segment.apply_style(strip, post_style=style)], width)
            self._strips[key] = strip
        return strip

    def renew_at(self, place: int, above: int) -> None:
        """Lines changed: the cursor goes to a line, `above` lines below the top of the screen."""
        self.renew()
        if place != self.cursor:
            self.cursor = place
            self.scroll_to(y=max(place - above, 0), animate=False, immediate=True, force=True)

    def select(self, index: int, *, tell: bool = True, center: bool = False) -> None:
        """Put the cursor on a line and show it."""
        total = self.count()
        if not total:
            return
        index = max(0, min(index, total - 1))
        self.resize_lines(total)
        before, self.cursor = self.cursor, index
        self._reveal(center)
        self.refresh()
        if tell and index != before:
            self.moved()

    def _reveal(self, center: bool) -> None:
        top, page = int(self.scroll_offset.y), self.page_size
        if top <= self.cursor < top + page:
            return
        if center or not top - page <= self.cursor <= top + 2 * page:
            target = self.cursor - page // 2
        else:
            target = self.cursor if self.cursor < top else self.cursor - page + 1
        self.scroll_to(y=max(target, 0), animate=False, force=True, immediate=True)

    def action_move(self, step: int) -> None:
        self.select(self.cursor + step)

    def action_page(self, step: int) -> None:
        self.select(self.cursor + step * max(self.page_size - 1, 1))

    def action_edge(self, last: int) -> None:
        self.select(self.count() - 1 if last else 0)

    def action_choose(self) -> None:
        if self.count():
            self.choose()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """On the main screen the keys of searching are those of the packets."""
        if action in ("search", "again", "values"):
            return len(self.app.screen_stack) > 1
        return super().check_action(action, parameters)

    def action_search(self) -> None:
        """Ask for a text, and go to the next line that holds it."""
        from ..screens.prompt import Prompt  # which is built of widgets

        def found(answer: tuple[str, str] | None) -> None:
            if answer is not None:
                self.sought = answer[1]
                self.action_again(1)

        reason = "type what to look for"
        prompt = Prompt("Find in this list", lambda _, text: None if text.strip() else reason, value=self.sought, anew=True)
        self.app.push_screen(prompt, found)

    def action_again(self, step: int) -> None:
        """Go to the next (1) or previous (-1) line that contains the text last searched for, ignoring case."""
        total, folded = self.count(), self.sought.casefold()
        for away in range(1, total + 1) if folded else ():
            index = (self.cursor + step * away) % total
            if folded in "".join(segment.text for segment in self.parts(index, LONGEST)).casefold():
                self.select(index, center=True)
                return
        self.app.bell()
        if folded:
            self.notify(f"text not found: {self.sought}", markup=False)

    def action_values(self) -> None:
        """What the line of the cursor names: its frames can be shown, or gone to."""
        if self.count():
            self.post_message(ValuesWanted(self.line_text))

    async def on_click(self, event: events.Click) -> None:
        index = int(event.y + self.scroll_offset.y) - self.headed
        if event.y >= self.headed and index < self.count():
            self.clicked(index, event)
            if event.button == 3:
                if len(self.app.screen_stack) == 1:
                    await self.app.run_action("app.menu")
                elif self.screen is self.app.screen:  # else a base class heard the click, too, and has opened a menu
                    self.action_values()
            elif event.chain == 2:
                self.choose()

    def clicked(self, index: int, event: events.Click) -> None:
        self.select(index)
