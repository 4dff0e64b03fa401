"""The line at the top, with the capture and the progress of reading and checking, and the one at the bottom, with keys to click."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.timer import Timer
from textual.widget import Widget

from ibdissect.screen_model.background_analysis import BackgroundAnalysis
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.number_text import duration, number
from ibdissect.wire.text import counted, printable

from ..keys.command import Command
from ..widgets.cells import cut, ink, width_of
from .findings_pane import totals

BAR = 10
WHILE = 8.0
"""Seconds that a remark is shown."""
EIGHTHS = " ▏▎▍▌▋▊▉█"


Shown = tuple[list[str], list[tuple[str, str]]]
"""Texts at the left, and texts with their styles at the right."""


class TitleBar(Widget):
    COMPONENT_CLASSES = {"ink--strong", "ink--dim", "ink--error", "ink--warning", "ink--info", "ink--accent"}

    def __init__(self, model: CaptureModel, study: BackgroundAnalysis) -> None:
        super().__init__(id="title")
        self.model, self.study = model, study
        self._shown: Shown | None = None

    def update(self) -> None:
        shown = self._now()
        if shown != self._shown:
            self._shown = shown
            self.refresh()

    def _now(self) -> Shown:
        model, study = self.model, self.study
        total = model.index.frames
        name = model.path.rpartition("/")[2]
        span = max(model.last_ns - model.first_ns, 0)
        left = [name, counted(total, "frame", ","), f"{duration(span)} span" if total else ""]
        right: list[tuple[str, str]] = []
        if not model.complete:
            right.append(("following" if model.follow else "reading", "dim"))
        if total and study.done < total:
            share = study.done / total
            cells = int(share * BAR * 8)
            bar = ("█" * (cells // 8) + EIGHTHS[cells % 8].strip()).ljust(BAR)
            right.append((f"lint ▕{bar}▏", "accent"))
        found = totals(model.findings)
        right += [(f"{severity.sign} {text}", severity.value) for text, severity in found]
        if study.finished and not found:
            right.append(("no findings", "dim"))
        if model.error:
            right.append((f"✖ {model.error}", "error"))
        elif model.damage:
            first = model.damage[0]
            set_broken = first.kind in ("missing", "unreadable")
            right.append((f"⚠ {first.reason if set_broken else f'{first.kind} at byte {number(first.offset)}'}", "warning"))
        return left, right

    def render(self) -> Text:
        texts, found = self._shown or self._now()
        width = self.size.width
        right = Text("  ").join(Text(text, ink(self, style)) for text, style in found)
        room = width - min(width_of(right.plain), width * 2 // 3) - 4
        left = Text.assemble((" ibdissect  ", ink(self, "dim")), (cut(texts[0], max(room - 14, 8)), ink(self, "strong")))
        for text in texts[1:]:
            if text and left.cell_len + len(text) + 2 <= room:
                left.append(f"  {text}", ink(self, "dim"))
        right.truncate(max(width - left.cell_len - 2, 0), overflow="ellipsis")
        left.append(" " * max(width - left.cell_len - right.cell_len - 1, 1))
        return left.append_text(right)


class KeyBar(Widget):
    """Shows as many keys as fit, after a remark if there is one."""

    COMPONENT_CLASSES = {"ink--marked", "ink--dim", "ink--strong"}

    def __init__(self, commands: Sequence[Command]) -> None:
        super().__init__(id="keys")
        self.commands = sorted((one for one in commands if one.rank), key=lambda one: (one.rank < 0, abs(one.rank)))
        self.note = self.standing = ""
        """A remark for a while, and what is said whenever there is none."""
        self._passes: Timer | None = None
        """Ends the remark; None: it stays, as that of work that goes on."""
        self._places: list[tuple[int, int, str]] = []
        """Cells of each key that is shown, and its action."""

    def on_mount(self) -> None:
        self._begin(stays=False)  # a remark that was there before the screen

    def say(self, note: str, *, stays: bool = False) -> None:
        """Show a remark in front of the keys, for a while, or until the next one if it `stays`; an empty one removes it."""
        self.note = printable(note)
        self._begin(stays=stays)
        self.refresh()

    def stand(self, note: str) -> None:
        """Say something whenever there is no remark."""
        self.standing = printable(note)
        self.say("")

    def _begin(self, *, stays: bool) -> None:
        if self._passes is not None:
            self._passes.stop()
        self._passes = self.set_timer(WHILE, self.say_no_more) if self.note and not stays and self.is_mounted else None

    def say_no_more(self) -> None:
        """A key was pressed, or time is over: the remark is about something else. One that stays does."""
        if self._passes is not None:
            self.say("")

    def render(self) -> Text:
        width = self.size.width
        key, word, note = (ink(self, name) for name in ("marked", "dim", "strong"))
        line = Text(" ", no_wrap=True, overflow="ellipsis")
        if said := self.note or self.standing:
            line.append(cut(said, max(width - 2, 1)), note).append("   ")
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
