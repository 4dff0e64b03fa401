"""A page to read: help, or the explanation of a rule with the frames that prove the finding."""

from __future__ import annotations

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList, Static
from textual.widgets.option_list import Option


class PageScreen(ModalScreen[int | None]):
    """Returns the frame that was chosen among `frames`, None when the page was only read."""

    BINDINGS = [
        Binding("escape,q,e,question_mark", "dismiss(None)", "back"),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("pageup", "scroll(-12)", show=False),
        Binding("pagedown,space", "scroll(12)", show=False),
    ]

    def __init__(self, title: Text, body: Text, frames: list[tuple[int, str]] | None = None) -> None:
        super().__init__()
        self.heading, self.body, self.frames = title, body, frames or []

    def compose(self) -> ComposeResult:
        with Vertical(classes="page"):
            yield Label(self.heading, classes="heading")
            with VerticalScroll(id="page-body", classes="" if self.frames else "alone"):
                yield Static(self.body)
            if self.frames:
                wide = max(len(str(frame)) for frame, _ in self.frames)
                yield OptionList(
                    *(Option(Text.assemble(("frame ", "dim"), str(frame).rjust(wide), ("  " + why, "dim"), no_wrap=True))
                      for frame, why in self.frames),
                    id="page-frames", compact=True,
                )  # fmt: skip
            hint = "Enter goes to the frame · " if self.frames else ""
            yield Label(f"{hint}PgUp PgDn scroll · Esc back", classes="hint", markup=False)

    def on_mount(self) -> None:
        body = self.query_one("#page-body", VerticalScroll)
        if self.frames:
            body.can_focus = False
            self.query_one(OptionList).focus()
        else:
            body.focus()

    def action_scroll(self, lines: int) -> None:
        self.query_one("#page-body", VerticalScroll).scroll_relative(y=lines, animate=False)

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self.frames[event.option_index][0])
