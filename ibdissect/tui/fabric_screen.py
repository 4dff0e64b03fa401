"""The fabric: nodes, ports, partitions and subnet managers on the left, what is known of the selected one on the right."""

from __future__ import annotations

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Static

from .fabric_view import Entry, FabricView
from .ink import fit, line_of, number
from .line_list import LineList
from .splitter import Splitter

INKS = {"switch": "smp", "ca": "strong", "sm": "good", "partition": "cm", "down": "dim"}


class FabricTree(LineList):
    """Entries that open and close."""

    empty = "No subnet management seen: nothing is known of the fabric."
    BINDINGS = [("right", "open(True)", "open"), ("left", "open(False)", "close")]

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__(id="fabric")
        self.entries = entries
        self.opened: set[int] = {id(entry) for entry in entries if entry.kind == "sm"}
        self.lines: list[tuple[int, Entry]] = []
        self._flatten()

    def _flatten(self) -> None:
        self.lines = []
        for entry in self.entries:
            self.lines.append((0, entry))
            if id(entry) in self.opened:
                self.lines += [(1, child) for child in entry.children]

    def count(self) -> int:
        return len(self.lines)

    @property
    def entry(self) -> Entry | None:
        """What the cursor is on."""
        return self.lines[self.cursor][1] if self.cursor < len(self.lines) else None

    def parts(self, index: int, width: int) -> list[Segment]:
        depth, entry = self.lines[index]
        arrow = " " if not entry.children else "▾" if id(entry) in self.opened else "▸"
        ink = self.ink(INKS[entry.kind]) if entry.kind in INKS else None
        dim = self.ink("dim")
        return line_of(((f" {'   ' * depth}{arrow} ", dim), (fit(entry.text, 24 - 3 * depth), ink), (f" {entry.note}", dim)), width - 1)

    def moved(self) -> None:
        if isinstance(self.screen, FabricScreen):
            self.screen.show_entry(self.entry)

    def choose(self) -> None:
        entry = self.entry
        if entry is not None and entry.children:
            self._set(entry, id(entry) not in self.opened)
        elif entry is not None and entry.frame:
            self.screen.dismiss(entry.frame)

    def _set(self, entry: Entry, wanted: bool) -> None:
        (self.opened.add if wanted else self.opened.discard)(id(entry))
        self._flatten()
        self.renew()

    def action_open(self, wanted: bool) -> None:
        entry = self.entry
        if entry is None:
            return
        if entry.children:
            self._set(entry, wanted)
        elif not wanted:
            self.select(next(i for i in range(self.cursor, -1, -1) if self.lines[i][0] == 0))

    def clicked(self, index: int, event: events.Click) -> None:
        self.select(index)
        entry = self.entry
        if entry is not None and entry.children and event.chain == 1:
            self.choose()


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
        tree.renew()
        tree.focus()
        self.show_entry(tree.entry)

    def show_entry(self, entry: Entry | None) -> None:
        """Show what is known of an entry."""
        self.query_one(DetailTable).show(entry.details if entry is not None else [])
