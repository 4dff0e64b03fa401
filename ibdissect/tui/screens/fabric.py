"""The fabric: nodes, ports, partitions and subnet managers on the left, what is known of the selected one on the right."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Static

from ibdissect.study.fabric_view import Entry, FabricView
from ibdissect.study.number_text import number

from ..keys.command import Command
from ..widgets.cells import fit, line_of
from ..widgets.line_list import LineList
from ..widgets.splitter import Splitter
from ..widgets.tree_list import TreeList

INKS = {"switch": "smp", "ca": "strong", "sm": "good", "partition": "cm", "down": "dim"}


class FabricTree(TreeList[Entry]):
    """Nodes, partitions and subnet managers, with what belongs to each below it."""

    empty = "No subnet management seen: nothing is known of the fabric."

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__(id="fabric")
        self.entries = entries
        self.opened = {id(entry) for entry in entries if entry.kind == "sm"}

    def roots(self) -> list[Entry]:
        return self.entries

    def below(self, item: Entry) -> Sequence[Entry]:
        return item.children

    def parts(self, index: int, width: int) -> list[Segment]:
        depth, entry = self.lines[index]
        ink = self.ink(INKS[entry.kind]) if entry.kind in INKS else None
        dim = self.ink("dim")
        start = f" {'   ' * depth}{self.arrow(entry)} "
        return line_of(((start, dim), (fit(entry.text, 24 - 3 * depth), ink), (f" {entry.note}", dim)), width - 1)

    def moved(self) -> None:
        if isinstance(self.screen, FabricScreen):
            self.screen.show_entry(self.item)

    def choose(self) -> None:
        if self.item is not None and not self.item.children and self.item.frame:
            self.screen.dismiss(self.item.frame)
        else:
            super().choose()


class DetailTable(LineList):
    """What is known, each with the frame that taught it."""

    empty = "Select a node, port, partition or subnet manager."

    def __init__(self) -> None:
        super().__init__(id="details")
        self.details: list[tuple[str, str, int]] = []

    def count(self) -> int:
        return len(self.details)

    def show(self, details: list[tuple[str, str, int]]) -> None:
        """Show other facts."""
        self.details, self.cursor = details, 0
        self.renew()

    def parts(self, index: int, width: int) -> list[Segment]:
        label, text, frame = self.details[index]
        where = f"frame {frame} " if frame else ""
        left = line_of(((f" {fit(label, 20)}", self.ink("dim")), (text, None if index else self.ink("strong"))), width - len(where) - 1)
        gap = width - sum(segment.cell_length for segment in left) - len(where)
        return [*left, Segment(" " * max(gap, 1)), Segment(where, self.ink("accent"))]

    def choose(self) -> None:
        frame = self.details[self.cursor][2]
        if frame:
            self.screen.dismiss(frame)


class FabricScreen(Screen[int | None]):
    """Returns a frame to go to."""

    BINDINGS = [Binding("escape,q,b", "dismiss(None)", "back")]

    def __init__(self, view: FabricView) -> None:
        super().__init__()
        self.view = view

    def compose(self) -> ComposeResult:
        view = self.view
        yield Static(
            f" Fabric   {number(view.nodes)} nodes, {number(view.ports)} ports, {number(view.partitions)} partitions,"
            f" {number(view.sms)} subnet managers, as learnt from the capture", classes="screen-title", markup=False,
        )  # fmt: skip
        with Horizontal():
            yield FabricTree(view.entries)
            yield Splitter("details", vertical=True)
            yield DetailTable()
        yield Static(
            " → ← open, close · Tab other half · Enter on a fact goes to the frame that taught it · Esc back", classes="screen-keys",
            markup=False,
        )  # fmt: skip

    def on_mount(self) -> None:
        tree = self.query_one(FabricTree)
        tree.rebuild()
        tree.focus()
        self.show_entry(tree.item)

    def show_entry(self, entry: Entry | None) -> None:
        """Show what is known of an entry."""
        self.query_one(DetailTable).show(entry.details if entry is not None else [])


COMMAND = Command(
    "b", "Fabric", lambda app: app.with_snapshot(lambda shot: app.push_screen(FabricScreen(shot.fabric), app.jump)), "Look",
    "fabric: nodes, ports, partitions, SMs", "fabric", 13,
)  # fmt: skip
