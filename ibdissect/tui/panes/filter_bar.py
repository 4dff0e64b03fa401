"""The filter bar: checks the filter while it is typed, completes names and values, remembers earlier filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Label, OptionList
from textual.widgets.option_list import Option

from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.number_text import number
from ibdissect.screen_model.saved_state import FilterHistory
from ibdissect.screen_model.value_filters import doubted, meant
from ibdissect.wire.text import printable

from ..messages import FilterEntered, FilterLeft, KeysWanted
from ..widgets.cells import fit, width_of
from ..widgets.line import PlainInput

if TYPE_CHECKING:
    from ibdissect.dfilter.complete import Completion

LABEL = 10
"""Cells in front of the input."""
OFFERED = 32


class FilterBar(Vertical):
    BINDINGS = [
        Binding("escape", "leave", "back", show=False),
        Binding("tab", "accept", "complete", show=False, priority=True),
        Binding("up", "older(1)", "older", show=False),
        Binding("down", "older(-1)", "newer", show=False),
        Binding("ctrl+u", "clear_line", "clear", show=False, priority=True),
    ]

    def __init__(self, model: CaptureModel, history: FilterHistory) -> None:
        super().__init__(id="filter")
        self.model, self.history = model, history
        self.input = PlainInput(placeholder="press / and type, e.g. infiniband.bth.p_key < 0x8000", id="filter-input", compact=True)
        self.input.can_focus = False  # only / leads here: Tab completes in it, and would not lead out again
        self.count = Label("", id="filter-count", markup=False)
        self.reason = Label("", id="filter-reason", markup=False)
        self.choices = OptionList(id="filter-choices", markup=False)
        self.choices.can_focus = False
        self._said = ""
        self._recalled = 0
        self._draft = ""
        self._found: list[Completion] = []
        self._inserting = False

    def compose(self) -> ComposeResult:
        with Horizontal(id="filter-line"):
            yield Label("Filter ▸", id="filter-label")
            yield self.input
            yield self.count
        yield self.reason
        yield self.choices

    def on_mount(self) -> None:
        self.hide_choices()

    def hide_choices(self) -> None:
        """Hide the completions; show what is wrong with the filter again."""
        self.choices.display = False
        self.reason.display = self.has_class("invalid")

    def put(self, text: str) -> None:
        """Write a filter into the bar without applying it; of a long one, the start is seen until it is edited."""
        self._inserting = True
        self.input.value = text
        self.input.cursor_position = len(self.input.value) if self.input.has_focus else 0
        self._judge(self.input.value)

    def say(self, shown: int | None, total: int, busy: bool, order: str = "") -> None:
        """How many frames the filter shows (None: there is none), and in which order if not that of the capture."""
        parts = [] if shown is None else [f"{number(shown)} of {number(total)} shown{' …' if busy else ''}"]
        text = "  ".join([*parts, *([f"by {order}"] if order else [])])
        if text != self._said:
            self._said = text
            self.count.update(text)

    def _judge(self, text: str) -> None:
        error = self.model.filter(text)[1]
        reason = self.reason
        self.set_class(bool(text.strip()) and error is None, "valid")
        self.set_class(error is not None, "invalid")
        reason.display = error is not None
        if error is not None:
            said = printable(f"▴ {error.reason}" + (f"; {error.hint}" if error.hint else ""))
            room = max(self.size.width - width_of(said) - 1, 0)  # a long sentence begins left of its place rather than being cut
            reason.update(Text(" " * min(LABEL + max(error.column, 0), room) + said))

    @on(Input.Changed, "#filter-input")
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._judge(event.value)
        if self._inserting:
            self._inserting = False
            return
        if self.input.has_focus:
            self._offer()

    def _offer(self) -> None:
        value, cursor = self.input.value, self.input.cursor_position
        from ibdissect.dfilter.complete import Completion, complete  # not needed for the first rows

        found = complete(value, cursor, self.model.catalog) if value.strip() else []
        if found and found[0].start == cursor and not value[:cursor][-1:].isspace() and self.model.filter(value)[1] is None:
            found = []  # it is whole, and no word has been begun
        found = [*(Completion(text, start, said) for start, text, said in meant(value[:cursor])), *found][:OFFERED]
        self._found = [entry for entry in found if entry.text != value[entry.start : cursor]]
        choices = self.choices
        choices.clear_options()
        if not self._found:
            self.hide_choices()
            return
        wide = max(width_of(entry.text) for entry in self._found)
        choices.add_options(
            [Option(Text(f"{fit(entry.text, wide)}  {entry.label}", no_wrap=True, overflow="ellipsis")) for entry in self._found]
        )
        choices.highlighted = 0
        choices.display = True
        self.reason.display = False
        choices.styles.offset = (min(LABEL + self._found[0].start, max(self.size.width - wide - 30, 0)), 0)

    def action_leave(self) -> None:
        if self.choices.display:
            self.hide_choices()
        else:
            self.post_message(FilterLeft())
        self.post_message(KeysWanted())

    def action_clear_line(self) -> None:
        self.input.value = ""

    def action_accept(self) -> None:
        """Insert the highlighted completion; if none is shown, offer some."""
        choices = self.choices
        if not choices.display or choices.highlighted is None:
            self._offer()
            return
        self._take(choices.highlighted)

    def _take(self, place: int) -> None:
        chosen = self._found[place]
        value, cursor = self.input.value, self.input.cursor_position
        self._inserting = True
        self.input.value = value[: chosen.start] + chosen.text + value[cursor:]
        self.input.cursor_position = chosen.start + len(chosen.text)
        self._judge(self.input.value)
        self.hide_choices()

    @on(OptionList.OptionSelected, "#filter-choices")
    def _picked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._take(event.option_index)
        self.input.focus()

    def action_older(self, step: int) -> None:
        """Go to the completion above (1) or below (-1); without completions, to an older or newer filter."""
        choices, texts = self.choices, self.history.texts
        if choices.display:
            if choices.highlighted is not None and choices.option_count:
                choices.highlighted = (choices.highlighted - step) % choices.option_count
            return
        if not self._recalled:
            self._draft = self.input.value
        self._recalled = max(0, min(self._recalled + step, len(texts)))
        self.put(texts[-self._recalled] if self._recalled else self._draft)

    @on(Input.Submitted, "#filter-input")
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.hide_choices()
        self._recalled = 0
        if self.model.filter(event.value)[1] is None:
            self.history.add(event.value)
            if doubt := doubted(event.value):
                self.notify(doubt, markup=False)
            self.post_message(FilterEntered(event.value.strip()))
        self.post_message(KeysWanted())

    async def on_click(self, _: events.Click) -> None:
        """A click focuses the bar, as / does."""
        await self.app.run_action("app.command('slash')")

    def on_descendant_blur(self, _: events.DescendantBlur) -> None:
        self.hide_choices()
