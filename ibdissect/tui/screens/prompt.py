"""A small window that asks for one line: a frame number, something to find, a file name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from ibdissect.wire.text import printable

from ..widgets.cells import width_of
from ..widgets.line import PlainInput
from .once import EndsOnce

WIDE = 72
"""Cells of the window, as the style sheet has it."""


class Prompt(EndsOnce, ModalScreen[tuple[str, str] | None]):
    """Returns (kind, text); None when it was left with Escape. `kinds` can be changed with the arrow keys.

    `ask` may return a question about a valid text; entering it again means yes.
    """

    BINDINGS = [Binding("escape", "dismiss(None)", "back"), Binding("up", "kind(-1)", show=False), Binding("down", "kind(1)", show=False),
                Binding("tab", "complete", show=False, priority=True)]  # fmt: skip

    def __init__(
        self, title: str, check: Callable[[str, str], str | None], *, value: str = "", kinds: tuple[str, ...] = (), kind: str = "",
        placeholder: str = "", ask: Callable[[str], str | None] | None = None, complete: Callable[[str], tuple[str, str]] | None = None,
        earlier: Sequence[str] = (), anew: bool = False,
    ) -> None:  # fmt: skip
        """`complete`: what Tab makes of a text, and what it says; `earlier`: texts that ↑ and ↓ bring back, the newest last; `anew`: the
        value is selected, so that what is typed takes its place.
        """
        super().__init__()
        self.heading, self.check, self.value, self.kinds, self.placeholder = title, check, value, kinds, placeholder
        self.ask, self._asked = ask, ""
        self.complete, self.earlier, self._recalled, self.anew = complete, earlier, 0, anew
        self.early: list[str] | None = []
        """Characters typed before it was drawn; afterwards None."""
        self.kind = kind or (kinds[0] if kinds else "")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(self.heading, classes="heading", markup=False)
            yield Label("", id="prompt-kinds", markup=False)
            yield PlainInput(self.value, placeholder=self.placeholder, id="prompt-input", compact=True)
            yield Label("", id="prompt-reason", markup=False)

    def on_mount(self) -> None:
        self._show_kinds()
        self.query_one(Input).focus()
        self.call_after_refresh(self._play)

    async def _play(self) -> None:
        """Insert what was typed before the prompt was drawn."""
        typed, self.early = "".join(self.early or ()), None
        line = self.query_one(Input)
        text = typed.partition("\n")[0]
        if self.anew and not text:
            line.action_select_all()
        elif self.anew:
            self._put(text)
        else:
            line.insert_text_at_cursor(text)
        if "\n" in typed:
            await line.action_submit()

    def _show_kinds(self) -> None:
        label = self.query_one("#prompt-kinds", Label)
        label.display = bool(self.kinds)
        kinds = [f"{'●' if kind == self.kind else '○'} {kind}" for kind in self.kinds]
        line = "   ".join([*kinds, "  ↑↓ changes"])
        label.update(line if width_of(line) <= min(self.app.size.width * 9 // 10, WIDE) - 4 else "\n".join(kinds))

    def action_kind(self, step: int) -> None:
        if self.kinds:
            self.kind = self.kinds[(self.kinds.index(self.kind) + step) % len(self.kinds)]
            self._show_kinds()
            self._judge(self.query_one(Input).value)
        elif self.earlier:
            self._recalled = max(1, min(self._recalled - step, len(self.earlier)))
            self._put(self.earlier[-self._recalled])

    def _put(self, text: str) -> None:
        line = self.query_one(Input)
        line.value = text
        line.cursor_position = len(text)

    def action_complete(self) -> None:
        if self.complete is not None:
            text, said = self.complete(self.query_one(Input).value)
            self._put(text)
            self.call_after_refresh(self.query_one("#prompt-reason", Label).update, printable(said))

    def _judge(self, text: str) -> str | None:
        reason = self.check(self.kind, text)
        self.query_one("#prompt-reason", Label).update(printable(reason or ""))
        self.query_one(Input).set_class(bool(text) and reason is not None, "invalid")
        return reason

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        self._judge(event.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        if self._judge(event.value) is not None:
            return
        question = self.ask(event.value) if self.ask is not None and self._asked != event.value else None
        if question is not None:
            self._asked = event.value
            self.query_one("#prompt-reason", Label).update(printable(question))
        else:
            self.dismiss((self.kind, event.value))
