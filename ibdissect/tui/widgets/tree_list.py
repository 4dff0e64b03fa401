"""Trees of lines that open and close: a list whose items may have others below them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from textual import events

from .line_list import LineList

T = TypeVar("T")


class TreeList(LineList, Generic[T]):
    """A subclass says what the roots are, what lies below an item, and how a line looks."""

    BINDINGS = [("right,l", "open(True)", "open"), ("left,h", "open(False)", "close"), ("asterisk", "open_all", "open all")]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.lines: list[tuple[int, T]] = []
        """Depth and item of each line."""
        self.opened: set[object] = set()
        """Keys of items that are open."""

    # -- what a subclass says

    def roots(self) -> Iterable[T]:
        """The items of the first level."""
        raise NotImplementedError

    def below(self, item: T) -> Sequence[T]:
        """The items below an item; empty for a leaf."""
        raise NotImplementedError

    def key(self, item: T) -> object:
        """Identifies an item when the lines are made again."""
        return id(item)

    def is_open(self, item: T) -> bool:
        """Whether the items below are shown."""
        return self.key(item) in self.opened

    def mark_open(self, item: T, wanted: bool) -> None:
        """Remember that an item is open, or closed."""
        (self.opened.add if wanted else self.opened.discard)(self.key(item))

    # -- the rest is the same for all

    @property
    def item(self) -> T | None:
        return self.lines[self.cursor][1] if self.cursor < len(self.lines) else None

    def arrow(self, item: T) -> str:
        """The sign in front of an item: open, closed or a leaf."""
        return " " if not self.below(item) else "▾" if self.is_open(item) else "▸"

    def rebuild(self) -> None:
        """Make the lines again; the cursor stays on its item, as high on the screen as it was."""
        at, above = self.item, self.cursor - int(self.scroll_offset.y)
        self.lines = []
        for root in self.roots():
            self._add(root, 0)
        key = self.key(at) if at is not None else None
        place = next((i for i, (_, item) in enumerate(self.lines) if at is not None and self.key(item) == key), self.cursor)
        self.renew_at(min(place, max(len(self.lines) - 1, 0)), above)

    def _add(self, item: T, depth: int) -> None:
        self.lines.append((depth, item))
        if self.is_open(item):
            for child in self.below(item):
                self._add(child, depth + 1)

    def set_open(self, item: T, wanted: bool) -> None:
        if self.below(item) and wanted != self.is_open(item):
            self.mark_open(item, wanted)
            self.rebuild()

    def choose(self) -> None:
        if self.item is not None:
            self.set_open(self.item, not self.is_open(self.item))

    def action_open(self, wanted: bool) -> None:
        item = self.item
        if item is None:
            return
        if wanted or (self.below(item) and self.is_open(item)):
            self.set_open(item, wanted)
            return
        depth = self.lines[self.cursor][0]
        above = next((i for i in range(self.cursor - 1, -1, -1) if self.lines[i][0] < depth), None)
        if above is not None:
            self.select(above)

    def action_again(self, step: int) -> None:
        """Go to the next or previous item that holds the text, also below closed ones: first to those that begin with it."""
        folded, shown, at = self.sought.strip().casefold(), self.lines, self.item
        ways = self._all()
        self.lines = [(len(way) - 1, way[-1]) for way in ways]
        texts = ["".join(part.text for part in self.parts(i, 1000)).casefold() for i in range(len(ways) if folded else 0)]
        self.lines = shown
        found = [i for i, text in enumerate(texts) if folded in text]
        found.sort(key=lambda i: not texts[i].lstrip(" ▸▾").startswith(folded))
        if not found:
            self.app.bell()
            return
        key = self.key(at) if at is not None else None
        here = next((place for place, i in enumerate(found) if self.key(ways[i][-1]) == key), -1 if step > 0 else 0)
        way = ways[found[(here + step) % len(found)]]
        for item in way[:-1]:
            self.mark_open(item, True)
        self.rebuild()
        self.select(next(i for i, (_, item) in enumerate(self.lines) if self.key(item) == self.key(way[-1])), center=True)

    def _all(self) -> list[tuple[T, ...]]:
        """Every item, in order, with those above it."""
        found: list[tuple[T, ...]] = []
        rest: list[tuple[T, ...]] = [(root,) for root in reversed([*self.roots()])]
        while rest:
            way = rest.pop()
            found.append(way)
            rest += [(*way, item) for item in reversed(self.below(way[-1]))]
        return found

    def action_open_all(self) -> None:
        rest = list(self.roots())
        while rest:
            item = rest.pop()
            self.mark_open(item, True)
            rest += self.below(item)
        self.rebuild()

    def clicked(self, index: int, event: events.Click) -> None:
        """The first click on an item selects it and opens or closes what lies below."""
        self.select(index)
        if event.chain == 1 and self.below(self.lines[index][1]):
            self.toggle_line(index, event)

    def toggle_line(self, index: int, event: events.Click) -> None:
        """A click on a line that has others below it."""
        item = self.lines[index][1]
        self.set_open(item, not self.is_open(item))
