"""A reassembled RMPP transfer: its records with the frames that brought them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.binding import Binding

from ibdissect.decode.services import Services
from ibdissect.dissect.shown_value import Presenter
from ibdissect.dissect.tree import Node
from ibdissect.mad.rmpp_reassembly import Reassembled
from ibdissect.transport.completed import record_nodes, transfer_text
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.text import printable

from ..widgets.cells import fit, line_of
from ..widgets.tree_list import TreeList
from .overlay import Overlay

LABEL = 30
"""Cells of a field's label before its value."""
ABOUT = 34
"""Cells that say what a record is about."""


def about(record: Node) -> str:
    """A short title of a record: its LIDs or GIDs, and its name."""
    ends = [f"{node.label} {node.text}" for node in record.children if node.bits in (16, 128) and node.name.endswith(("lid", "gid"))]
    names = [node.text for node in record.walk() if node.field is not None and node.field.kind == "text" and node.text]
    return printable(", ".join([*ends[:2], *names[:1]]))


class RecordTree(TreeList[Node]):
    """Records that open and close; the first one is open."""

    empty = "No complete record of this transfer was captured."

    def __init__(self, found: list[tuple[Node, int]]) -> None:
        super().__init__(id="records")
        self.records = [record for record, _ in found]
        self.frames = {id(node): frame for record, frame in found for node in record.walk()}
        """Where the record of each node begins."""
        self.opened = {id(record) for record in self.records[:1]}
        self.wide = max((len(record.label) for record in self.records), default=0)

    def roots(self) -> list[Node]:
        return self.records

    def below(self, item: Node) -> Sequence[Node]:
        return item.children

    def parts(self, index: int, width: int) -> list[Segment]:
        depth, node = self.lines[index]
        start, dim = f" {'  ' * depth}{self.arrow(node)} ", self.ink("dim")
        if not depth:
            label = fit(node.label, self.wide)
            return line_of(((start, dim), (label, self.ink("strong")), (f"  {fit(about(node), ABOUT)}", None),
                            (f"  {node.text}", dim)), width)  # fmt: skip
        label = fit(node.label, max(min(LABEL, width // 2) - 2 * depth, 8))
        masked = self.ink("key") if node.value is None and node.masked else None
        return line_of(((start, dim), (label, dim), ("  " + printable(node.text), masked)), width)

    def choose(self) -> None:
        if self.item is not None:
            self.screen.dismiss(self.frames[id(self.item)])


class TransferScreen(Overlay[int]):
    """Returns a frame to go to."""

    BINDINGS = [Binding("R", "dismiss(None)", "back")]
    keys = "→ ← open, close · * open all · Enter goes to its frame"

    def __init__(self, transfer: Reassembled, catalog: Catalog, services: Services, presenter: Presenter) -> None:
        found = record_nodes(transfer, catalog, services, presenter)
        self.records = RecordTree([(node, record.spans[0].frame) for record, node in found])
        super().__init__(f"Transfer   {printable(transfer_text(transfer, catalog))}", self.records)

    def on_mount(self) -> None:
        self.records.rebuild()
