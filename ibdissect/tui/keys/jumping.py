"""Go to findings (f, d), marks ('), and back (Alt+Left, Alt+Right)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ibdissect.dissect.tree import Tree
from ibdissect.lint.finding import Finding
from ibdissect.screen_model.findings_store import Int
from ibdissect.screen_model.search import FoundPlace
from ibdissect.screen_model.shown_frames import FilteredRows, SortedRows, in_order
from ibdissect.screen_model.tree_layers import proof_node

from ..panes.tree_pane import nodes_of
from .command import Command

if TYPE_CHECKING:
    from ..app import TuiApp

KEPT = 200
"""Views remembered in each direction."""
Reveal = Callable[[Tree], FoundPlace | None]


class View(NamedTuple):
    """What the list showed: jumps and filters lead away from it."""

    frame: int
    text: str
    """The filter."""
    sort: tuple[str, bool] | None
    """Key of the column that the list was sorted by, and whether the highest came first; None: by time."""


class Jumping:
    """Goes to frames, and remembers where it came from."""

    def __init__(self, app: TuiApp) -> None:
        self.app = app
        self.past: list[View] = []
        self.ahead: list[View] = []
        self._going = False
        """Whether a view is being shown again, which is no new one."""
        self._asked = 0
        """Frame at which `f` found no finding within the filter; pressed again there, it leaves the filter."""
        self._found = 0
        """Frame that `f` or `d` went to last."""

    def to(self, frame: int | None, reveal: Reveal | None = None) -> None:
        """Go to a frame, and to what `reveal` finds in its tree; a frame that the filter hides is shown without it."""
        if frame and frame != self.app.main.packets.frame:
            self.remember()
        self._go(frame, reveal)

    @property
    def here(self) -> View:
        """What the list shows now."""
        rows = self.app.main.packets.rows
        sort = (rows.key, rows.down) if isinstance(rows, SortedRows) else self.app.filtering.sort
        return View(self.app.main.packets.frame, self.app.filtering.text, sort)

    def remember(self) -> None:
        """What is shown now is about to be left: `Alt+←` leads back to it."""
        here = self.here
        if here.frame and not self._going and here not in self.past[-1:]:
            self.past, self.ahead = [*self.past[-KEPT:], here], []

    def to_finding(self, frame: int, finding: Finding | None = None) -> None:
        """Go to the field of a finding; without one, to that of the frame's worst."""

        def field(tree: Tree) -> FoundPlace | None:
            there = self.app.model.findings.of_frame(frame)
            found = [finding] if finding is not None else sorted(there, key=lambda one: -one.severity.rank)
            node = next((node for one in found for node in nodes_of(one, tree)), None)
            return FoundPlace(node) if node is not None else None

        self.to(frame, field)

    def to_proof(self, frame: int | None, finding: Finding) -> None:
        """Go to the field of a frame that proves a finding."""

        def field(tree: Tree) -> FoundPlace | None:
            node = proof_node(tree, finding)
            return FoundPlace(node) if node is not None else None

        if frame == finding.frame:
            self.to_finding(frame, finding)
        else:
            self.to(frame, field)

    def step(self, back: bool) -> None:
        source, target = (self.past, self.ahead) if back else (self.ahead, self.past)
        if not source:
            self.app.main.key_bar.say("no jump to go back from" if back else "no jump to go forward to")
            return
        here, view = self.here, source.pop()
        target.append(here)
        self._going = True
        if view[1:] == here[1:]:
            self._go(view.frame, None)
        else:
            self.app.main.filter_bar.put(view.text)
            self.app.filtering.apply(view.text, view.frame, view.sort)
        self._going = False

    def _go(self, frame: int | None, reveal: Reveal | None) -> None:
        app, packets = self.app, self.app.main.packets
        if not frame:
            return
        if self._is_missing(frame):
            if app.filtering.comes(frame):
                app.filtering.stay_at(frame)
                app.main.reveal = reveal
                return
            if app.filtering.text:
                app.main.key_bar.say(f"frame {frame} does not match the filter: all frames are shown; Alt+← goes back to it")
                app.main.filter_bar.put("")
                app.filtering.apply("")
            if self._is_missing(frame):  # it came after the list was sorted
                packets.show_rows(in_order(packets.rows), frame)
        row = packets.rows.nearest(frame)
        app.main.reveal = reveal
        packets.select(row, center=True)
        packets.tell()

    def _is_missing(self, frame: int) -> bool:
        rows = self.app.main.packets.rows
        return not len(rows) or rows.frame(rows.nearest(frame)) != frame

    def finding(self, *, forward: bool) -> None:
        """The next or previous frame with a finding, among the frames shown."""
        app, here = self.app, self.app.main.packets.frame
        frames = app.model.findings.frames()
        shown = self._shown(frames)
        if not len(frames):
            app.note("No findings" if app.study.finished else "No findings yet")
        elif not len(shown) and self._asked != here:
            self._asked = here
            app.note("No frame shown has a finding; the same key again leaves the filter")
        else:
            self._next(shown if len(shown) else frames, forward, "finding")

    def mark(self) -> None:
        marked = self._shown(np.sort(np.fromiter(self.app.model.marked, np.int64, len(self.app.model.marked))))
        if len(marked):
            self._next(marked, True, "mark")
        else:
            self.app.note("No frame shown is marked; m marks one")

    def _shown(self, frames: Int) -> Int:
        rows = self.app.main.packets.rows
        return frames[np.isin(frames, rows.numbers())] if isinstance(rows, FilteredRows | SortedRows) else frames

    def _next(self, frames: Int, forward: bool, what: str) -> None:
        packets = self.app.main.packets
        here = packets.frame
        first = not packets.cursor and self._found != here  # nobody has looked at the first frame yet
        place = int(np.searchsorted(frames, here, "left" if first else "right")) if forward else int(np.searchsorted(frames, here)) - 1
        around = place in (-1, len(frames))
        frame = int(frames[place % len(frames)])
        note = f"the only {what}" if frame == here else f"went round to the {'first' if forward else 'last'} {what}"
        self.app.main.key_bar.say(note if around else "")
        if what == "finding":
            self._found = frame
            self.to_finding(frame)
        else:
            self.to(frame)

    def only_marked(self) -> None:
        text = "" if self.app.filtering.text == "frame.marked" else "frame.marked"
        self.app.filtering.enter(text)


COMMANDS = (
    Command("f", "Next finding", lambda app: app.jumping.finding(forward=True), "Findings", "next, previous frame with a finding",
            "next finding", 2),
    Command("d", "Previous finding", lambda app: app.jumping.finding(forward=False), "Findings", "next, previous frame with a finding"),
    Command("alt+left", "Back", lambda app: app.jumping.step(True), "Move", "back to the frame, filter and order before, and forward"),
    Command("alt+right", "Forward", lambda app: app.jumping.step(False), "Move", "back to the frame, filter and order before, and forward"),
    Command("apostrophe", "Next mark", lambda app: app.jumping.mark(), "Move", "next marked frame"),
    Command("quotation_mark", "Only marked frames, or all", lambda app: app.jumping.only_marked(), "Search", "only marked frames, or all"),
)  # fmt: skip
