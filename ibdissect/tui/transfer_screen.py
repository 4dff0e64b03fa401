"""A reassembled RMPP transfer: its records with the frames that brought them."""

from __future__ import annotations

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Static

from ibdissect.dissect.rmpp import Transfer
from ibdissect.dissect.transfers import headline, nodes, records
from ibdissect.dissect.tree import Node
from ibdissect.dissect.value import Presenter
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.text import printable

from .ink import fit, line_of
from .line_list import LineList

LABEL = 30
"""Cells of a field's label before its value."""
ABOUT = 34
"""Cells that say what a record is about."""


def about(record: Node) -> str:
    """What a person would call a record: its LIDs or GIDs, and its name."""
    ends = [f"{node.label} {node.text}" for node in record.children if node.bits in (16, 128) and node.name.endswith(("lid", "gid"))]
    names = [node.text for node in record.walk() if node.field is not None and node.field.kind == "text" and node.text]
    return printable(", ".join([*ends[:2], *names[:1]]))


class RecordTree(LineList):
    """Records that open and close; the first one is open."""

    empty = "No record of this transfer is there whole."
    BINDINGS = [("right,l", "open(True)", "open"), ("left,h", "open(False)", "close"), ("asterisk", "open_all", "open all")]

    def __init__(self, found: list[tuple[Node, int]]) -> None:
        super().__init__(id="records")
        self.records = found
        """Each with the frame where it begins."""
        self.opened: set[int] = {id(found[0][0])} if found else set()
        self.lines: list[tuple[int, Node, int]] = []
        self.wide = max((len(node.label) for node, _ in found), default=0)
        self._flatten()

    def _flatten(self) -> None:
        self.lines = []

        def add(node: Node, depth: int, frame: int) -> None:
            self.lines.append((depth, node, frame))
            if id(node) in self.opened:
                for child in node.children:
                    add(child, depth + 1, frame)

        for node, frame in self.records:
            add(node, 0, frame)

    def count(self) -> int:
        return len(self.lines)

    def parts(self, index: int, width: int) -> list[Segment]:
        depth, node, _ = self.lines[index]
        arrow = " " if not node.children else "▾" if id(node) in self.opened else "▸"
        indent, dim = " " + "  " * depth, self.ink("dim")
        if not depth:
            label = fit(node.label, self.wide)
            return line_of(((f"{indent}{arrow} ", dim), (label, self.ink("strong")), (f"  {fit(about(node), ABOUT)}", None),
                            (f"  {node.text}", dim)), width)  # fmt: skip
        label = fit(node.label, max(min(LABEL, width // 2) - 2 * depth, 8))
        masked = self.ink("key") if node.value is None and node.masked else None
        return line_of(((f"{indent}{arrow} ", dim), (label, dim), ("  " + printable(node.text), masked)), width)

    def choose(self) -> None:
        if self.lines:
            self.screen.dismiss(self.lines[self.cursor][2])

    def _set(self, node: Node, wanted: bool) -> None:
        (self.opened.add if wanted else self.opened.discard)(id(node))
        self._flatten()
        self.renew()

    def action_open(self, wanted: bool) -> None:
        depth, node, _ = self.lines[self.cursor] if self.lines else (0, None, 0)
        if node is None:
            return
        if node.children and wanted != (id(node) in self.opened):
            self._set(node, wanted)
        elif not wanted and depth:
            self.select(next(i for i in range(self.cursor, -1, -1) if self.lines[i][0] < depth))

    def action_open_all(self) -> None:
        for node, _ in self.records:
            self.opened.update(id(below) for below in node.walk())
        self._flatten()
        self.renew()

    def clicked(self, index: int, event: events.Click) -> None:
        self.select(index)
        _, node, _ = self.lines[index]
        if node.children and event.chain == 1:
            self._set(node, id(node) not in self.opened)


class TransferScreen(Screen[int | None]):
    """Returns a frame to go to."""

    BINDINGS = [Binding("escape,q,R", "dismiss(None)", "back")]

    def __init__(self, transfer: Transfer, catalog: Catalog, presenter: Presenter) -> None:
        super().__init__()
        self.heading = printable(headline(transfer, catalog))
        starts = [record.spans[0].frame for record in records(transfer, catalog)]
        self.found = list(zip(nodes(transfer, catalog, presenter), starts, strict=True))

    def compose(self) -> ComposeResult:
        yield Static(f" Transfer   {self.heading}", classes="screen-title", markup=False)
        yield RecordTree(self.found)
        yield Static(
            " → ← open, close · * open all · Enter goes to the frame that brought the record · Esc back", classes="screen-keys",
            markup=False,
        )  # fmt: skip

    def on_mount(self) -> None:
        tree = self.query_one(RecordTree)
        tree.renew()
        tree.focus()
