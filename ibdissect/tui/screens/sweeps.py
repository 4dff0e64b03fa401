"""The sweeps of subnet managers: what each node and port was asked and set, in which order, how fast; one sweep beside another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.binding import Binding

from ibdissect.screen_model.number_text import duration, number
from ibdissect.screen_model.sweeps import PortAsked, Sweep, Sweeps, find_sweeps, frames_filter
from ibdissect.wire.text import counted

from ..keys.command import Command
from ..widgets.cells import width_of
from ..widgets.table import Cell, Heading, Table
from .choice import Choice
from .overlay import Overlay

if TYPE_CHECKING:
    from ..app import TuiApp

NONE: Cell = "·", "dim"
LEAST, MOST = 8, 26
"""Cells of a node's name."""
Row = tuple[PortAsked, PortAsked | None]
"""A port in the sweep that is shown, and in the one beside it. A port that is only in the latter has no requests in the former."""


def _time(ns: int, ink: str = "") -> Cell:
    return (duration(ns), ink) if ns >= 0 else NONE


def _some(count: int, ink: str) -> Cell:
    return (number(count), ink) if count else NONE


def rows_of(sweep: Sweep, beside: Sweep | None) -> list[Row]:
    """The ports of a sweep, and at the end those that only the one beside it asked."""
    other = {port.key: port for port in beside.ports} if beside is not None else {}
    rows: list[Row] = [(port, other.pop(port.key, None)) for port in sweep.ports]
    return rows + [(PortAsked(port.node, port.port, 0, port.start_ns), port) for port in other.values()]


class SweepTable(Table[Row]):
    empty = "No subnet manager asked anything."
    rest_title, least_rest, rest_rank = "In this order", 24, 5

    def __init__(self, sweeps: Sweeps) -> None:
        super().__init__([], id="sweep")
        self.sweeps = sweeps

    def show(self, at: int, beside: int) -> None:
        """Show a sweep, and another one beside it (-1: none)."""
        sweep, other = self.sweeps.all[at], self.sweeps.all[beside] if beside >= 0 else None
        self.items = rows_of(sweep, other)
        self.order, self.sorted_by = range(len(self.items)), -1
        name = min(max((width_of(row[0].node) for row in self.items), default=LEAST), MOST)
        said = f"in {beside + 1}"

        def of(count: Callable[[PortAsked], Cell]) -> Callable[[Row], Cell]:
            return lambda row: count(row[0])

        def before(count: Callable[[PortAsked], Cell]) -> Callable[[Row], Cell]:
            return lambda row: count(row[1]) if row[1] is not None else NONE

        slowest: Callable[[PortAsked], Cell] = lambda one: ("no answer", "nak") if one.unanswered else _time(one.slowest_ns)  # noqa: E731
        self.columns = [
            Heading("#", 5, of(lambda one: _some(one.order, "dim"))),
            Heading("Node", name, of(lambda one: (one.node, "")), "left"),
            Heading("Port", 4, of(lambda one: _some(one.port, ""))),
            Heading("Slowest", 9, of(slowest)),
            *([Heading(said, 9, before(slowest), rank=1)] if other is not None else []),
            Heading("Median", 8, of(lambda one: _time(one.median_ns)), rank=6),
            Heading("Retries", 7, of(lambda one: _some(one.retries, "again")), rank=2),
            Heading("Unanswered", 10, of(lambda one: _some(one.unanswered, "nak")), rank=5),
            Heading("Asked", 5, of(lambda one: _some(one.asked, "")), rank=3),
            Heading("Set", 4, of(lambda one: _some(one.sets, "strong")), rank=3),
            *([Heading(said, 6, before(lambda one: _some(one.asked + one.sets, "dim")), rank=8)] if other is not None else []),
            Heading("After", 8, of(lambda one: _time(one.start_ns - sweep.start_ns, "dim") if one.order else NONE), rank=7),
        ]
        self.cursor = 0
        self.renew()

    def rest(self, item: Row, room: int) -> Cell:
        now, other = item
        if not now.order:
            return "not asked in this sweep", "again"
        return (now.story, "") if other is not None or len(self.columns) < 12 else (f"new: {now.story}", "accent")

    def answer(self, item: Row) -> str:
        now, other = item
        return frames_filter(now.frames or (other.frames if other is not None else ()))


class SweepScreen(Overlay[str]):
    """Returns the filter of the port that was chosen."""

    BINDINGS = [
        Binding("E", "dismiss(None)", "back"), Binding("left", "step(-1)", "earlier sweep", priority=True),
        Binding("right", "step(1)", "later sweep", priority=True), Binding("v", "beside", "which sweep is beside it"),
        Binding("V", "which", "which sweep, the slowest first"),
    ]  # fmt: skip
    keys = "Enter its frames · ← → sweep · V slowest sweeps · v beside · o O sort · / search"

    def __init__(self, sweeps: Sweeps, frame: int = 0) -> None:
        """`frame`: the sweep that holds it is shown first, else the last one."""
        self.sweeps, self.table = sweeps, SweepTable(sweeps)
        there = [i for i, sweep in enumerate(sweeps.all) if any(frame in port.frames for port in sweep.ports)]
        self.at, self.other = (there or [len(sweeps.all) - 1])[0], -1
        super().__init__("Sweeps", self.table)

    def on_mount(self) -> None:
        self.table.focus()
        if self.sweeps.all:
            self.show(self.at)

    def show(self, at: int, beside: int | None = None) -> None:
        """Show a sweep, beside it the manager's one before, unless another one is given (-1: none)."""
        every = self.sweeps.all
        self.at = at
        earlier = [i for i in range(at) if every[i].manager == every[at].manager]
        self.other = beside if beside is not None else (earlier or [-1])[-1]
        self.table.show(self.at, self.other)
        more = f", {counted(self.sweeps.left_out, 'further request', ',')} not shown" if self.sweeps.left_out else ""
        self.title_text(f"Sweep {at + 1} of {len(every)}   {said(every[at])}{more}")

    def action_step(self, by: int) -> None:
        if self.sweeps.all:
            self.show((self.at + by) % len(self.sweeps.all))

    def action_beside(self) -> None:
        entries = [entry for entry in entries_of(self.sweeps.all) if int(entry[0]) != self.at]
        if entries:
            done: Callable[[str | None], None] = lambda key: self.show(self.at, int(key)) if key is not None else None  # noqa: E731
            self.app.push_screen(Choice("Beside it (the slowest first)", [*entries, ("-1", "none", "")]), done)

    def action_which(self) -> None:
        if self.sweeps.all:
            done: Callable[[str | None], None] = lambda key: self.show(int(key)) if key is not None else None  # noqa: E731
            self.app.push_screen(Choice("Sweeps (the slowest first)", entries_of(self.sweeps.all)), done)


def entries_of(sweeps: Sequence[Sweep]) -> list[tuple[str, str, str]]:
    """The sweeps to choose from: those with most ports that did not answer first, then those with the slowest answer."""
    order = sorted(range(len(sweeps)), key=lambda i: (-sweeps[i].silent, -sweeps[i].slowest.slowest_ns))
    return [(str(i), f"sweep {i + 1}", f"{'; '.join(filter(None, (trouble(sweeps[i]), size(sweeps[i]))))}") for i in order]


def said(sweep: Sweep) -> str:
    """Who, how much, how long, and what was slowest."""
    return ", ".join(filter(None, (size(sweep), trouble(sweep))))


def size(sweep: Sweep) -> str:
    """Who asked how much, and how long it took."""
    asked = f"{counted(sweep.requests, 'request', ',')} to {counted(len(sweep.ports), 'port', ',')}"
    return f"{sweep.manager}: {asked} in {duration(sweep.end_ns - sweep.start_ns)}"


def trouble(sweep: Sweep) -> str:
    """Which port was slowest, and how many did not answer; empty if nothing was answered nor is missing."""
    slow = sweep.slowest
    at = f"{slow.node} port {slow.port}" if slow.port else slow.node
    slowest = f"slowest {at}: {duration(slow.slowest_ns)}" if slow.slowest_ns >= 0 else ""
    return ", ".join(filter(None, (slowest, f"{sweep.silent} without an answer" if sweep.silent else "")))


def _open(app: TuiApp) -> None:
    model, frame, study = app.model, app.main.packets.frame, app.study

    def work(wanted: Callable[[], bool]) -> None:
        found = find_sweeps(study, wanted)
        if wanted():
            app.call_later(show, found)

    def show(found: Sweeps) -> None:
        app.main.key_bar.say("")
        if found.all:
            app.over(SweepScreen(found, frame), app.filtering.enter)
        else:
            app.note("No subnet manager asked anything in the frames that have been read")

    app.main.key_bar.say("reading sweeps…", stays=True)
    app.searching.work.run(work, "sweeps", model)


COMMAND = Command("E", "Sweeps of subnet managers", _open, "Look", "sweeps: what each node and port was asked and set, how fast")
