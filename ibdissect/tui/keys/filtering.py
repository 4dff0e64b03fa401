"""The filter bar, and the keys /, a, p and B."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibdissect.screen_model.shown_frames import FilteredRows, SortedRows
from ibdissect.screen_model.threads import Latest
from ibdissect.screen_model.value_filters import combined

from ..screens.prompt import Prompt
from . import columns
from .command import Command

if TYPE_CHECKING:
    from ..app import TuiApp

SAVED = "filter "
"""Prefix of the profile entries that hold saved filters."""


class Filtering:
    """The display filter: entered, applied, taken from a field."""

    def __init__(self, app: TuiApp) -> None:
        self.app = app
        self.text = ""
        self.work = Latest()
        """Fills or sorts the list."""
        self._anchor: tuple[int, int] | None = None
        """Frame and row to stay at while the filter is still finding frames."""
        self.sort: tuple[str, bool] | None = None
        """Key of the column that the list is to be sorted by when the filter has found all frames, and whether the highest come first."""

    @property
    def busy(self) -> bool:
        """Whether the filter is still checking frames."""
        return self.work.busy

    def edit(self) -> None:
        """Put the focus into the filter bar."""
        bar = self.app.main.filter_bar
        bar.input.can_focus = True
        bar.input.cursor_position = len(bar.input.value)
        self.app.main.set_focus(bar.input)  # at once: what is typed next must not go to the list

    def leave(self) -> None:
        """Give the focus back to the packets."""
        self.app.main.set_focus(self.app.main.packets)
        line = self.app.main.filter_bar.input
        line.can_focus, line.cursor_position = False, 0

    def enter(self, text: str) -> None:
        """Put a filter into the bar, remember it, and apply it."""
        self.app.main.filter_bar.put(text)
        self.app.history.add(text)
        self.apply(text)

    def apply(self, text: str, frame: int = 0, sort: tuple[str, bool] | None = None) -> None:
        """Show the frames that a filter matches; an empty one shows all. `frame`: go there; else stay where it is. `sort`: another order
        than now, if a frame is given.
        """
        app, model, packets = self.app, self.app.model, self.app.main.packets
        matcher, error = model.filter(text)
        if error is not None:
            app.warn(str(error))
            return
        if text != self.text:
            app.jumping.remember()
        self.sort = sort if frame else app.jumping.here.sort
        frame = frame or packets.frame
        self.text, self._anchor = text, None
        if matcher is None:
            self.work.cancel()
            packets.show_rows(model.rows, frame)
        else:
            rows = FilteredRows()
            self.work.run(lambda wanted: model.fill(rows, matcher, wanted, app.news), "filter", model, app.news)
            app.main.say_empty(0, text, True)  # until the first match
            packets.show_rows(rows, frame)
            self._anchor = (frame, 0)
        app.news()

    def comes(self, frame: int) -> bool:
        """Whether the filter, which has not come to this frame yet, will show it."""
        rows, (matcher, _) = self.app.main.packets.rows, self.app.model.filter(self.text)
        late = self.busy and isinstance(rows, FilteredRows) and rows.checked < frame
        return late and matcher is not None and frame in self.app.model.matching(matcher, [frame])

    def in_order(self) -> None:
        """If the filter has found all frames and they are to be sorted: sort them."""
        if self.sort is not None and not self.busy and self._anchor is None:
            (key, down), self.sort = self.sort, None
            if not isinstance(self.app.main.packets.rows, SortedRows):
                columns.sort(self.app, key, down, again=True)

    def stay_at(self, frame: int) -> None:
        """Select a frame as soon as it is there."""
        self._anchor = (frame, 0)

    def hold(self) -> bool:
        """While the filter works, stay at the frame that was selected; False when nothing is held."""
        if self._anchor is None:
            return False
        app, (frame, row), packets = self.app, self._anchor, self.app.main.packets
        rows = packets.rows
        if packets.cursor != row:
            self._anchor = None
            return True
        nearest = rows.nearest(frame)
        if nearest != row:
            packets.select(nearest, center=True)
            self._anchor = (frame, packets.cursor)
        if (rows.checked >= frame or not self.busy) if isinstance(rows, FilteredRows) else len(rows) >= frame or app.model.complete:
            self._anchor = None
            packets.tell()
        return True

    def from_field(self, *, apply: bool) -> None:
        text = self.app.main.tree_pane.as_filter
        if text is None:
            self.app.note("Select a field of the tree that has a value; masked keys need --show-keys")
        elif apply:
            self.enter(text)
        else:
            self.prepare(text)

    def prepare(self, text: str) -> None:
        """Put a filter into the bar, to be changed before it is applied."""
        self.app.main.filter_bar.put(text)
        self.edit()

    def combine(self, text: str) -> None:
        """Offer to add a condition to the filter, or to have its opposite."""
        now = self.text
        ways = ("and", "or", "and not", "not") if now else ("not",)
        entries = [(one, how, one) for how in ways if (one := combined(now, text, how))]
        self.app.choose("Filter", entries, self.enter)

    def saved(self) -> None:
        app, now = self.app, self.text
        names = app.memory.by_kind("filter")
        entries = [(text, name, text) for name, text in names.items()]
        if now:
            entries.append((SAVED, "forget this filter" if now in names.values() else "save this filter", now))

        def done(chosen: str) -> None:
            if chosen != SAVED:
                self.enter(chosen)
            elif now in names.values():
                for name in [name for name, text in names.items() if text == now]:
                    app.memory.keep(SAVED + name, "")
            else:
                prompt = Prompt("Name of this filter", lambda _, name: None if name.strip() else "type a name")
                app.over(prompt, lambda answer: app.memory.keep(SAVED + answer[1].strip(), now))

        app.choose("Saved filters", entries, done, "No filter is saved; apply one, and the same key saves it")


COMMANDS = (
    Command("slash", "Display filter", lambda app: app.filtering.edit(), "Search", "display filter; Tab completes, ↑ ↓ earlier ones",
            "filter", 1),
    Command("a", "Apply the selected field as filter", lambda app: app.filtering.from_field(apply=True), "Search",
            "apply the selected field as filter", "apply as filter", 8),
    Command("p", "Prepare the selected field as filter", lambda app: app.filtering.from_field(apply=False), "Search",
            "prepare it in the filter bar"),
    Command("B", "Saved filters", lambda app: app.filtering.saved(), "Search", "saved filters; save or forget this one"),
)  # fmt: skip
