"""The ladder (flow graph) of a conversation: who sent what to whom, what was sent again, refused or lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from rich.segment import Segment
from textual import events
from textual.binding import Binding

from ibdissect.diagnosis.connection import Connection
from ibdissect.engine.episodes import LOSS, REORDERING, RNR, TIMEOUT
from ibdissect.screen_model.background_analysis import Snapshot
from ibdissect.screen_model.connections import connection_of, diagnosed, points_of
from ibdissect.screen_model.ladder import AGAIN, LOST, MALFORMED, OTHER, REFUSED, Ladder, short_ends
from ibdissect.screen_model.number_text import number
from ibdissect.screen_model.related_frames import filter_for_ladder
from ibdissect.screen_model.shown_frames import FilteredRows
from ibdissect.screen_model.stalls import stalls
from ibdissect.wire.text import counted, printable

from ..keys.command import Command
from ..widgets.cells import fit, line_of
from ..widgets.ladder_lines import LEAST, LadderColumns
from ..widgets.line_list import LineList
from .overlay import Overlay

if TYPE_CHECKING:
    from ..app import TuiApp

PIECE = 1024
"""Frames read at once."""
INKS = {AGAIN: "again", LOST: "nak", REFUSED: "nak", MALFORMED: "nak", OTHER: "nak"}
STALL_INKS = {TIMEOUT: "nak", RNR: "again", LOSS: "again", REORDERING: "again"}


SAID = ((AGAIN, "sent again"), (LOST, "with packets missing before"), (REFUSED, "refused"))


class LadderList(LineList):
    """The packets, a line each, a line for what is missing, and lines for stalls, as many as they are long."""

    empty = "No packets to draw."
    headed = True

    def __init__(self, ladder: Ladder, frame: int, start_ns: int, one: Connection | None = None) -> None:
        super().__init__(id="ladder")
        self.stalls = stalls(ladder.steps, one)
        self.ladder, self.frame, self.start_ns = ladder, frame, start_ns
        self.lanes = LadderColumns(ladder, LEAST)
        self.lines: list[tuple[int, str, str]] = []
        """Of each the place of its step, its text and its ink."""

    @property
    def head(self) -> str:
        return self.lanes.head()

    def on_resize(self, _: events.Resize) -> None:
        self.call_after_refresh(self.lay_out)

    def lay_out(self) -> None:
        """Draw for the width there is; the cursor stays on its step."""
        there = [i for i, step in enumerate(self.ladder.steps) if step.frame == self.frame]
        at = self.lines[self.cursor][0] if self.lines else there[0] if there else 0
        self.lanes = LadderColumns(self.ladder, self.line_width, self.start_ns)
        steps = self.ladder.steps
        self.lines = [
            (i, line, STALL_INKS.get(stall.kind, "dim") if stall is not None else INKS.get(steps[i].mark, ""))
            for i, line, stall in self.lanes.lines(steps, self.stalls)
        ]
        self.renew()
        self.select(max((n for n, (i, *_) in enumerate(self.lines) if i == at), default=0), center=True)

    def parts(self, index: int, width: int) -> list[Segment]:
        _, line, ink = self.lines[index]
        return line_of(((fit(line, width), self.ink(ink) if ink else None),), width)

    def action_again(self, step: int) -> None:
        """Before anything was searched for: the next (1) or previous (-1) packet that is marked, or stall that is trouble."""
        if self.sought:
            super().action_again(step)
            return
        at, total = self.cursor, len(self.lines)
        while 0 <= (at := at + step) < total:
            if self.lines[at][2] not in ("", "dim") and self.lines[at][0] != self.lines[self.cursor][0]:
                self.select(at, center=True)
                return
        self.app.bell()
        self.notify(f"nothing sent again, missing or refused {'below' if step > 0 else 'above'}", markup=False)

    def choose(self) -> None:
        self.screen.dismiss(self.ladder.steps[self.lines[self.cursor][0]].frame)


class LadderScreen(Overlay[int]):
    """Returns a frame to go to."""

    BINDINGS = [Binding("L", "dismiss(None)", "back")]
    keys = "Enter goes to the frame · n N next trouble · ═ sent again · ╌✕ missing · ┊ nothing sent, to scale"

    def __init__(self, ladder: Ladder, frame: int, what: str, start_ns: int, one: Connection | None = None) -> None:
        """`start_ns`: the first frame of the capture; times count from it, as in the packet list. `one`: the connection, if it is known."""
        more = f", {number(ladder.left_out)} more are not drawn" if ladder.left_out else ""
        title = f"Ladder   {counted(len(ladder.steps), 'packet', ',')}{more}{marked(ladder)}: {printable(what)}"
        super().__init__(title, LadderList(ladder, frame, start_ns, one))


def marked(ladder: Ladder) -> str:
    """How many packets were sent again or refused, and before how many some are missing: `, 103 ═, 2 ✕`."""
    number_of = Counter(step.mark for step in ladder.steps)
    return "".join(f", {number(number_of[mark])} {said}" for mark, said in SAID if number_of[mark])


def _open(app: TuiApp) -> None:
    if app.main.packets.frame:
        app.with_snapshot(lambda shot: _find(app, shot))


def _find(app: TuiApp, shot: Snapshot) -> None:
    model, frame = app.model, app.main.packets.frame
    text = filter_for_ladder(model, frame, shot.conversations, app.study.connections.all) or app.filtering.text
    study = app.study

    def owner() -> Connection | None:
        found = diagnosed(study).connections if study.finished else []
        return connection_of(found, model.table([frame]), frame, points_of(found, model.table)) if found else None

    draw(app, text, frame, owner)


def draw(app: TuiApp, text: str, frame: int, owner: Callable[[], Connection | None]) -> None:
    """Open the ladder of the frames that a filter shows, at a frame. `owner`: finds the connection they belong to, which may take long."""
    model = app.model
    matcher, _ = model.filter(text)

    def work(wanted: Callable[[], bool]) -> None:
        ladder, rows = Ladder(model.presenter(model.index.frames), app.study.repeated), FilteredRows()
        if matcher is not None:
            model.fill(rows, matcher, lambda: wanted() and (model.complete or rows.checked < model.index.frames), lambda: None)
        frames = rows.frames(0, len(rows)) if matcher is not None else list(range(1, model.index.frames + 1))
        for at in range(0, len(frames), PIECE):
            if wanted():
                some = frames[at : at + PIECE]
                fed = len(ladder.steps)
                ladder.feed(model.table(some), np.arange(len(some)), some)
                ladder.steps[fed:] = app.main.packets.names.of_packets(ladder.steps[fed:])
        if app.main.packets.names.wanted:
            short = short_ends(end for step in ladder.steps for end in (step.source, step.destination))
            ladder.steps = [
                replace(step, source=short.get(step.source, step.source), destination=short.get(step.destination, step.destination))
                for step in ladder.steps
            ]
        one = owner() if wanted() else None
        if wanted():
            app.call_later(show, ladder, one)

    def show(ladder: Ladder, one: Connection | None) -> None:
        what = f"{one.transport} {one.ends[0]} → {one.ends[1]}" if one is not None else text or "all frames"
        app.push_screen(LadderScreen(ladder, frame, what, model.first_ns, one), app.jump)

    app.searching.work.run(work, "ladder", app.model)


COMMAND = Command("L", "Ladder of the conversation", _open, "Follow", "ladder (flow graph) of this frame's conversation", "ladder", 16)
