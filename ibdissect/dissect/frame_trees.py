"""Dissection of frames into their trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.addresses import ends_at
from ibdissect.decode.computed_fields import read_by, value_of
from ibdissect.decode.hidden.opaque_bytes import Masks, masks
from ibdissect.decode.ignored_data import as_read, beside
from ibdissect.engine.offsets import MALFORMED
from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.column import ComputedField
from ibdissect.wire.mad import MAD
from ibdissect.wire.port_kinds import ALL_PORTS

from .dependent_names import ABOUT, context_text, depends
from .info_line import FrameSummary, summaries
from .info_line_mad import NO_OUI, oui_at
from .layout import BYTES, UNDEFINED, Item, Layout, PlacedStructure, items_of, layout_of
from .shown_value import BESIDE, Presenter
from .tree import Node, Tree, masked_bytes
from .unfit import unfit
from .walk import Placement, Walk

NOTHING: Mapping[int, int] = MappingProxyType({})
"""Nobody knows the ports."""


def dissect_row(table: ChunkTable, row: int, presenter: Presenter) -> Tree:
    """The tree of one row. Walks the whole table, so a table of one row is cheapest."""
    walk = Walk(table)
    shape = next(walk.shapes(_one(row)))
    return tree_of(walk, layout_of(walk, shape), row, presenter, summaries(table, _one(row), presenter)[0])


def dissect_rows(table: ChunkTable, presenter: Presenter) -> Iterator[tuple[int, Tree]]:
    """Each row of a table with its tree, rows of one shape together. Walks the table once for all."""
    if not len(table):
        return
    walk, lines = Walk(table), summaries(table, np.arange(len(table)), presenter)
    for shape in walk.shapes():
        layout = layout_of(walk, shape)
        for row in shape.rows.tolist():
            yield row, tree_of(walk, layout, row, presenter, lines[row])


def _one(row: int) -> Int:
    return np.array([row], np.int64)


def tree_of(
    walk: Walk, layout: Layout, row: int, presenter: Presenter, summary: FrameSummary, ports: Mapping[int, int] = NOTHING
) -> Tree:  # fmt: skip
    """The tree of a row of a shape. `ports`: the kinds of port (`wire.port_kinds`) that an attribute may be about, by where it starts."""
    chunk, first = walk.table.chunk, int(walk.start[row])
    at, stop = (ends[first : first + len(layout.pieces)].tolist() for ends in (walk.at, walk.stop))
    frame = int(chunk.offset[row])
    start = min([frame, *at])
    end = frame + int(chunk.caplen[row])
    buffer, read = (data[start:end].tobytes() for data in (chunk.data, walk.table.once(as_read).data))
    ignored = walk.table.once(beside)
    unread = ignored.of(np.arange(start, end)).tobytes() if ignored is not None else b""
    hidden, catalog = walk.table.once(masks), walk.table.catalog
    maker = _Maker(layout, presenter, catalog, at, stop, start, frame, buffer, read, unread, hidden, walk.table, ports)
    layers = [node for layer in layout.layers for node in maker.nodes(layer)]
    reason = MALFORMED[int(walk.table.located.malformed[row])]
    tree = Tree(
        frame=chunk.first + row,
        time_ns=int(chunk.time_ns[row]),
        length=int(chunk.length[row]),
        caplen=int(chunk.caplen[row]),
        interface=int(chunk.card_ports(np.array([row]))[0]),
        summary=summary,
        ends=ends_at(walk.table, row),
        layers=layers,
        malformed=reason or None,
        data=buffer[frame - start :],
        unfit=unfit(walk.table, row),
    )
    if not presenter.show_keys:
        tree.secret_bytes = masked_bytes(tree.walk())
    return tree


def fields_of(struct: StructType, data: bytes, presenter: Presenter, catalog: Catalog) -> list[Node]:
    """The fields of a structure on its own; offsets count from its start."""
    layout = Layout([PlacedStructure(Placement(struct, None), 0, None)], items_of(struct))
    maker = _Maker(layout, presenter, catalog, [0], [len(data)], 0, 0, data, data)
    return [node for item in layout.layers for node in maker.nodes(item)]


class _Maker(Record):
    """Reads the values of one row through views."""

    layout: Layout
    presenter: Presenter
    catalog: Catalog
    at: list[int]
    """Start and end of each piece in the chunk's data."""
    stop: list[int]
    start: int
    """Where `buffer` starts: at the frame, or at the ERF header before it."""
    base: int
    """Where the frame starts."""
    buffer: bytes
    """The captured bytes."""
    data_as_read: bytes
    """The same bytes, with unread bits (`decode.ignored_data`) as zeros."""
    ignored: bytes = b""
    """Their unread bits; empty if there are none."""
    masks: Masks | None = None
    """Bytes of the chunk that may be a key; None if there are none."""
    table: ChunkTable | None = None
    """None for a structure on its own."""
    ports: Mapping[int, int] = NOTHING
    """The kinds of port that an attribute may be about, by where it starts in the chunk's data."""

    def nodes(self, item: Item) -> Iterator[Node]:
        """The node of an item; none if its condition fails."""
        if item.when is not None and self.read(item.when[0]) not in item.when[1]:
            return
        piece = self.layout.pieces[item.piece]
        at, stop = self.at[item.piece], self.stop[item.piece]
        begin = at + item.byte
        length = item.length if item.kind != "rest" else max(stop - begin, 0)
        if item.field is None and item.struct.fields[-1].kind == "rest":
            length = stop - at
        node = Node(
            name=item.name,
            label=item.label,
            offset=item.byte if piece.in_front else begin - self.base,
            length=length,
            bit=item.bit % 8,
            bits=item.bits if length == item.length else length * 8,
            value=None,
            text="",
            field=item.field,
            struct=item.struct if item.field is None else item.field.of,
            in_front=piece.in_front,
            raw=self.buffer[begin - self.start : begin - self.start + length],
        )
        if item.field is None or item.kind == "nested":
            node.text = item.title
        elif self.beside(item, begin - self.start, length):
            node.text = BESIDE
            ignored = self.ignored[begin - self.start :][:length]
            node.masked = () if self.presenter.show_keys else tuple((i, i + 1) for i, bits in enumerate(ignored) if bits)
        elif item.kind in BYTES and not item.field.secret:
            opaque = self.masks.within(begin, begin + length) if self.masks is not None else ()
            node.value, node.text = self.presenter.present_bytes(item, self.read(item), opaque)
            if node.value is None:
                node.masked = tuple((low, min(high, length)) for low, high in (*item.hidden_spans, *opaque))
            node.text = item.title or node.text
        else:
            opaque = self.masks.within(begin, begin + length) if self.masks is not None and item.kind == "pad" else ()
            node.value, node.text = self.presenter.present(item.field, self.read(item), reveals=bool(item.hidden_spans or opaque))
            if node.value is None:
                node.masked = ((0, length),)
        if item.field is not None and depends(self.catalog, item.field):
            at_mad = self.at[item.piece] - self.start + item.view
            header = MAD(self.buffer, at_mad)
            oui = oui_at(self.buffer, at_mad, max(self.stop) - self.start) if self.catalog.vendor_classes else NO_OUI
            about = *(field.read(header, field.bit) for field in ABOUT), oui
            node.text = context_text(self.catalog, item.field, self.read(item), about) or node.text
        if item.may_lack and item.when is None and not node.text:
            return
        if item.field is not None and item.field.ports and item.field.part_of is None:
            node.text += "" if self.ports.get(at + item.view, ALL_PORTS) & item.field.ports else UNDEFINED
        node.children = [child for below in item.children for child in self.nodes(below)]
        yield node

    def beside(self, item: Item, begin: int, length: int) -> bool:
        """Whether a field has unread bits."""
        if not self.ignored or item.kind == "rest":
            return False
        bits = int.from_bytes(self.ignored[begin : begin + length], "big")
        return bits >> (length * 8 - item.bit % 8 - item.bits) & ((1 << item.bits) - 1) != 0

    def read(self, item: Item) -> Any:
        """The value of an item."""
        assert item.field is not None
        start = self.at[item.piece] - self.start
        buffer = self.buffer if item.kind == "rest" else self.data_as_read  # bytes outside any structure are shown, or hidden, as they are
        view = item.struct(buffer, start + item.view, self.stop[item.piece] - self.start)
        if isinstance(item.field, ComputedField):
            first, stop = self.at[item.piece], self.stop[item.piece]
            data = view.buffer[start:] if self.table is None else read_by(self.table, item.field)[first:stop].tobytes()
            return value_of(item.field, item.struct(data, 0, stop - first))
        return item.field.read(view, item.bit)
