"""The line at the bottom: the most useful keys, which can be clicked."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.widget import Widget

from ibdissect.wire.text import printable

from ..keys.command import Command
from ..widgets.cells import cut, ink


class KeyBar(Widget):
    """Shows as many keys as fit, after a remark if there is one."""

    COMPONENT_CLASSES = {"ink--marked", "ink--dim", "ink--strong"}

    def __init__(self, commands: Sequence[Command]) -> None:
        super().__init__(id="keys")
        self.commands = sorted((one for one in commands if one.rank), key=lambda one: (one.rank < 0, abs(one.rank)))
        self.note = ""
        self._places: list[tuple[int, int, str]] = []
        """Cells of each key that is shown, and its action."""

    def say(self, note: str) -> None:
        """Show a remark in front of the keys; an empty one removes it."""
        note = printable(note)
        if note != self.note:
            self.note = note
            self.refresh()

    def render(self) -> Text:
        width = self.size.width
        key, word, note = (ink(self, name) for name in ("marked", "dim", "strong"))
        line = Text(" ", no_wrap=True, overflow="ellipsis")
        if self.note:
            line.append(cut(self.note, width // 2), note).append("   ")
        left = width - line.cell_len
        chosen: set[str] = set()
        self._places = []
        for command in sorted(self.commands, key=lambda one: abs(one.rank)):
            need = len(_short(command)) + len(command.word) + 3
            if need <= left:
                chosen.add(command.keys)
                left -= need
        for command in self.commands:
            if command.keys in chosen:
                begin = line.cell_len
                line.append(_short(command), key)
                line.append(f" {command.word}", word)
                self._places.append((begin, line.cell_len, f"app.command('{command.keys}')"))
                line.append("  ")
        return line

    async def on_click(self, event: events.Click) -> None:
        for begin, end, action in self._places:
            if begin <= event.x < end:
                await self.app.run_action(action)


def _short(command: Command) -> str:
    return command.key.replace("Ctrl+", "^")
