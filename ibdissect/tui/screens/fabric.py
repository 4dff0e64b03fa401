"""The fabric: nodes, ports, partitions and subnet managers on the left, links and details of the selection on the right; its history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical

from ibdissect.screen_model.background_analysis import Snapshot
from ibdissect.screen_model.fabric_view import Change, FabricLine, FabricView, route
from ibdissect.subnet import Port
from ibdissect.subnet.describe import port_name
from ibdissect.wire.text import counted

from ..keys.command import Command
from ..widgets.cells import fit, line_of, width_of
from ..widgets.link_map import LinkMap
from ..widgets.splitter import Splitter
from ..widgets.table import GAP, MARGIN, Cell, Heading, Table
from ..widgets.tree_list import TreeList
from .overlay import Overlay

if TYPE_CHECKING:
    from ..app import TuiApp

INKS = {"switch": "smp", "ca": "strong", "sm": "good", "partition": "cm", "down": "dim"}
CHANGE_INKS = {"Manager": "good", "P_Keys": "cm", "LID": "smp", "State": "sa", "Link": "gs"}
LABEL = 18
"""Cells of what a fact is called."""
LEAST_NOTE = 16
"""Cells beside the names from which on the tree's lines have their notes."""
Detail = tuple[str, str, int]
"""Label and text of a fact, and the frame that showed it; 0: none."""


class FabricTree(TreeList[FabricLine]):
    """Nodes, partitions and subnet managers, with what belongs to each below it."""

    BINDINGS = [Binding("enter", "choose", "open, or go to the frame that showed it", show=False)]
    empty = "No subnet management seen: nothing is known of the fabric."

    def __init__(self, entries: list[FabricLine]) -> None:
        super().__init__(id="fabric")
        self.entries = entries
        self.opened = {id(entry) for entry in entries if entry.kind == "sm"}
        self.text_width = 24
        """Cells of the names, with what stands in front of them."""

    def roots(self) -> list[FabricLine]:
        return self.entries

    def below(self, item: FabricLine) -> Sequence[FabricLine]:
        return item.children

    def parts(self, index: int, width: int) -> list[Segment]:
        depth, entry = self.lines[index]
        ink = self.ink(INKS[entry.kind]) if entry.kind in INKS else None
        dim = self.ink("dim")
        start = f" {'   ' * depth}{self.arrow(entry)} "
        note = f" {entry.note}" if width - self.text_width > LEAST_NOTE else ""
        return line_of(((start, dim), (fit(entry.text, self.text_width - 3 * depth), ink), (note, dim)), width - 1)

    def rebuild(self) -> None:
        super().rebuild()
        self.text_width = min(max((3 * depth + width_of(entry.text) for depth, entry in self.lines), default=0), 24)

    def moved(self) -> None:
        if isinstance(self.screen, FabricScreen):
            self.screen.show_entry(self.item)

    def choose(self) -> None:
        if self.item is not None and not self.item.children and self.item.frame:
            self.screen.dismiss(self.item.frame)
        else:
            super().choose()

    def go_to(self, slot: int) -> None:
        """Select the node in a slot."""
        for line, (depth, entry) in enumerate(self.lines):
            if not depth and entry.port is not None and entry.port.node.slot == slot:
                self.select(line)


class DetailTable(Table[Detail]):
    """Facts, each with the frame that showed it."""

    empty = "Select a node, port, partition or subnet manager."

    def __init__(self) -> None:
        super().__init__((), id="details")

    def show(self, details: list[Detail]) -> None:
        self.items, self.order, self.sorted_by, self.cursor = details, range(len(details)), -1, 0
        self.renew()

    def renew(self) -> None:
        digits = max(len("Frame"), *(len(str(frame)) for _, _, frame in self.items), 0)
        fact: Heading[Detail] = Heading("Fact", LABEL, lambda item: (item[0], "dim"), "left")
        frame: Heading[Detail] = Heading("Frame", digits, lambda item: (str(item[2] or ""), "accent"))
        text = self.line_width - MARGIN - sum(head.width + GAP for head in (fact, frame)) - GAP
        value: Heading[Detail] = Heading("Value", max(text, 1), lambda item: (item[1], "strong" if item is self.items[0] else ""), "left")
        self.columns = (fact, value, frame)
        super().renew()

    def on_resize(self, event: events.Resize) -> None:
        self.renew()
        super().on_resize(event)

    def answer(self, item: Detail) -> int | None:
        return item[2] or None


class FabricScreen(Overlay[int]):
    """Returns a frame to go to."""

    BINDINGS = [
        Binding("b", "dismiss(None)", "back"), Binding("m", "map", "map"), Binding("r", "route", "route from here"),
        Binding("t", "history", "history"),
    ]  # fmt: skip
    keys = "/ search · o sort · Tab side · r route · m map · t history · Enter"

    def __init__(
        self, view: FabricView, seconds: Callable[[int], float], span: float, sizes: Mapping[str, str] = MappingProxyType({})
    ) -> None:  # fmt: skip
        """`sizes` of the panes in per cent, as the user left them."""
        counts = ((view.nodes, "node"), (view.ports, "port"), (view.partitions, "partition"), (view.sms, "subnet manager"))
        super().__init__("Fabric   " + ", ".join(counted(count, what, ",") for count, what in counts))
        self.view, self.seconds, self.span, self.sizes = view, seconds, span, sizes
        self.known, self.details = FabricTree(view.entries), DetailTable()
        self.map = LinkMap(view.levels, view.names.__getitem__, self.known.go_to)
        self.start: Port | None = None
        """Where a route begins."""

    def content(self) -> ComposeResult:
        with Horizontal():
            yield self.known
            yield Splitter("fabric-side", vertical=True)
            with Vertical(id="fabric-side"):
                yield self.map
                yield Splitter("details")
                yield self.details

    def on_mount(self) -> None:
        side, details = (size if (size := self.sizes.get(pane, "")).isdecimal() else "" for pane in ("fabric-side", "details"))
        if side:
            self.query_one("#fabric-side").styles.width = f"{side}%"
        if details:
            self.details.styles.height = f"{details}%"
        self.known.rebuild()
        self.show_entry(self.known.item)

    def show_entry(self, entry: FabricLine | None) -> None:
        """What is known of an entry, and how packets get to it."""
        goal = entry.port if entry is not None else None
        details = list(entry.details) if entry is not None else []
        slots: list[int] = []
        if goal is not None and self.start is not None and goal.node is not self.start.node:
            details[1:1], slots = route(self.start, goal)
        self.details.show(details)
        self.map.show(goal.node.slot if goal is not None else -1, slots)

    def action_map(self) -> None:
        for part in (self.map, self.query_one("#split-details")):
            part.display = not part.display

    def action_route(self) -> None:
        """Show routes from the selected port; pressed there again: hide them."""
        here = self.known.item.port if self.known.item is not None else None
        if here is None:
            self.notify("Select the node or port that routes begin at")
            return
        self.start = here if here is not self.start else None
        self.notify(f"Routes from {port_name(here)}: select where to" if self.start else "Routes are no longer shown")
        self.show_entry(self.known.item)

    def action_history(self) -> None:
        def done(frame: int | None) -> None:
            if frame is not None:
                self.dismiss(frame)

        self.app.push_screen(HistoryScreen(self.view.history, self.seconds, self.span), done)


def _open(app: TuiApp) -> None:
    model = app.model

    def show(shot: Snapshot) -> None:
        span = max(model.last_ns - model.first_ns, 1) / 1e9
        sizes = app.memory.by_kind("size")
        app.over(FabricScreen(shot.fabric, lambda frame: (model.index.time_ns(frame) - model.first_ns) / 1e9, span, sizes), app.jump)

    app.with_snapshot(show)


COMMAND = Command("b", "Fabric", _open, "Look", "fabric: nodes, links, routes, SMs, their history", "fabric", 13)


class HistoryTable(Table[Change]):
    """Changes in the order of time. The axis has a dot for each change of the same port, a full one for that of the line."""

    empty = "Nothing changed, as far as the capture shows."
    rest_title, least_rest = "Time axis", 16

    def __init__(self, changes: Sequence[Change], seconds: Callable[[int], float], span: float) -> None:
        super().__init__(changes, id="history")
        who, text = (max((width_of(one) for one in texts), default=9)
                     for texts in ([change.who for change in changes], [change.text for change in changes]))  # fmt: skip
        self.columns = (
            Heading("Seconds", 11, lambda change: (f"{seconds(change.frame):.6f}", "dim")),
            Heading("Frame", 7, lambda change: (str(change.frame), "accent")),
            Heading("What", 7, lambda change: (change.what, CHANGE_INKS[change.what]), "left"),
            Heading("Who", min(who, 28), lambda change: (change.who, ""), "left"),
            Heading("Change", min(text, 40), lambda change: (change.text, "strong"), "left"),
        )
        self.seconds, self.span = seconds, span
        self.of: dict[str, list[Change]] = {}
        for change in changes:
            self.of.setdefault(change.who, []).append(change)

    def rest(self, item: Change, room: int) -> Cell:
        axis = ["─"] * max(room, 1)
        for change in (*self.of[item.who], item):
            axis[round(self.seconds(change.frame) / self.span * (len(axis) - 1))] = "●" if change is item else "○"
        return "".join(axis), "plot"

    def answer(self, item: Change) -> int:
        return item.frame


class HistoryScreen(Overlay[int]):
    """Returns a frame to go to."""

    keys = "Enter to the frame · o O sort · / search"

    def __init__(self, changes: Sequence[Change], seconds: Callable[[int], float], span: float) -> None:
        title = f"History of the fabric   {counted(len(changes), 'change', ',')} in {span:.3f} s"
        super().__init__(title, HistoryTable(changes, seconds, span))
