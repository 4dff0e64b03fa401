"""The line at the bottom: the keys that help here; each can be clicked."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.widget import Widget

from ibdissect.wire.text import printable

from .ink import cut

KEYS = (
    ("/", "filter", "app.filter", 1), ("f", "next finding", "app.next_finding", 2), ("e", "explain", "app.explain", 5),
    ("g", "go to", "app.go_to", 6), ("^F", "find", "app.find", 7), ("a", "apply as filter", "app.as_filter(True)", 8),
    ("F", "findings", "app.findings", 9), ("c", "follow", "app.follow", 11), ("r", "answer", "app.counterpart", 12),
    ("C", "conversations", "app.conversations", 14), ("b", "fabric", "app.fabric", 13),
    ("s", "statistics", "app.statistics", 10), ("m", "mark", "app.mark", 15), ("w", "write", "app.write", 16),
    ("y", "copy", "app.copy", 17), ("t", "time", "app.time_format", 18), ("?", "help", "app.help", 3), ("q", "quit", "app.quit", 4),
)  # fmt: skip
"""Key, what it does, action, rank: keys with a high rank go first when there is no room."""


class KeyBar(Widget):
    """Shows as many keys as fit; something to say stands in front of them."""

    COMPONENT_CLASSES = {"keys--key", "keys--word", "keys--note"}

    def __init__(self) -> None:
        super().__init__(id="keys")
        self.note = ""
        self._places: list[tuple[int, int, str]] = []
        """Cells of each key that is shown, and its action."""

    def say(self, note: str) -> None:
        """Show a remark in front of the keys; empty takes it away."""
        note = printable(note)
        if note != self.note:
            self.note = note
            self.refresh()

    def render(self) -> Text:
        width = self.size.width
        key, word, note = (self.get_component_rich_style(f"keys--{name}", partial=True) for name in ("key", "word", "note"))
        line = Text(" ", no_wrap=True, overflow="ellipsis")
        if self.note:
            line.append(cut(self.note, width // 2), note).append("   ")
        left = width - line.cell_len
        chosen: set[str] = set()
        self._places = []
        for name, text, _, _ in sorted(KEYS, key=lambda entry: entry[3]):
            need = len(name) + len(text) + 3
            if need <= left:
                chosen.add(name)
                left -= need
        for name, text, action, _ in KEYS:
            if name in chosen:
                begin = line.cell_len
                line.append(name, key)
                line.append(f" {text}", word)
                self._places.append((begin, line.cell_len, action))
                line.append("  ")
        return line

    async def on_click(self, event: events.Click) -> None:
        for begin, end, action in self._places:
            if begin <= event.x < end:
                await self.app.run_action(action)
