"""The fabric: nodes, ports, partitions and subnet managers on the left, what is known of the selected one on the right."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal

from ibdissect.study.fabric_view import Entry, FabricView
from ibdissect.wire.text import counted

from ..keys.command import Command
from ..widgets.cells import fit, line_of, width_of
from ..widgets.line_list import LineList
from ..widgets.splitter import Splitter
from ..widgets.tree_list import TreeList
from .overlay import Overlay

INKS = {"switch": "smp", "ca": "strong", "sm": "good", "partition": "cm", "down": "dim"}
NARROW = 60
"""Cells of the right half that make it save some."""


class FabricTree(TreeList[Entry]):
    """Nodes, partitions and subnet managers, with what belongs to each below it."""

    empty = "No subnet management seen: nothing is known of the fabric."

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__(id="fabric")
        self.entries = entries
        self.opened = {id(entry) for entry in entries if entry.kind == "sm"}
        self.text_width = 24
        """Cells of the names, with what stands in front of them."""

    def roots(self) -> list[Entry]:
        return self.entries

    def below(self, item: Entry) -> Sequence[Entry]:
        return item.children

    def parts(self, index: int, width: int) -> list[Segment]:
        depth, entry = self.lines[index]
        ink = self.ink(INKS[entry.kind]) if entry.kind in INKS else None
        dim = self.ink("dim")
        start = f" {'   ' * depth}{self.arrow(entry)} "
        return line_of(((start, dim), (fit(entry.text, self.text_width - 3 * depth), ink), (f" {entry.note}", dim)), width - 1)

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


class DetailTable(LineList):
    """What is known, each with the frame that taught it."""

    empty = "Select a node, port, partition or subnet manager."

    def __init__(self) -> None:
        super().__init__(id="details")
        self.details: list[tuple[str, str, int]] = []

    def count(self) -> int:
        return len(self.details)

    def show(self, details: list[tuple[str, str, int]]) -> None:
        self.details, self.cursor = details, 0
        self.renew()

    def parts(self, index: int, width: int) -> list[Segment]:
        label, text, frame = self.details[index]
        where = f"{'frame' if width > NARROW else '→'} {frame} " if frame else ""
        label, ink = f" {fit(label, 20 if width > NARROW else 18)} ", None if index else self.ink("strong")
        left = line_of(((label, self.ink("dim")), (text, ink)), width - len(where) - 1)
        gap = width - sum(segment.cell_length for segment in left) - len(where)
        return [*left, Segment(" " * max(gap, 1)), Segment(where, self.ink("accent"))]

    def choose(self) -> None:
        frame = self.details[self.cursor][2]
        if frame:
            self.screen.dismiss(frame)


class FabricScreen(Overlay[int]):
    """Returns a frame to go to."""

    BINDINGS = [Binding("b", "dismiss(None)", "back")]
    keys = "→ ← open, close · / search · Tab other half · Enter to the frame"

    def __init__(self, view: FabricView) -> None:
        counts = ((view.nodes, "node"), (view.ports, "port"), (view.partitions, "partition"), (view.sms, "subnet manager"))
        super().__init__("Fabric   " + ", ".join(counted(count, what, ",") for count, what in counts))
        self.known, self.details = FabricTree(view.entries), DetailTable()

    def content(self) -> ComposeResult:
        with Horizontal():
            yield self.known
            yield Splitter("details", vertical=True)
            yield self.details

    def on_mount(self) -> None:
        self.known.rebuild()
        self.show_entry(self.known.item)

    def show_entry(self, entry: Entry | None) -> None:
        self.details.show(entry.details if entry is not None else [])


COMMAND = Command(
    "b", "Fabric", lambda app: app.with_snapshot(lambda shot: app.push_screen(FabricScreen(shot.fabric), app.jump)), "Look",
    "fabric: nodes, ports, partitions, SMs", "fabric", 13,
)  # fmt: skip
