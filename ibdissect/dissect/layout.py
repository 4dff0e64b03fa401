"""The fields that every frame of one shape has: their nesting, and their bytes in each piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct as Record

from ibdissect.wire.catalog import StructType, is_plugin
from ibdissect.wire.column import ComputedField
from ibdissect.wire.dialogue import is_notes
from ibdissect.wire.places import Parsed
from ibdissect.wire.spec import BYTE_KINDS, Field, Struct
from ibdissect.wire.tail import NAME, Laid, Part

from .walk import ERF_HEADER, TAIL, Placement, Shape, Walk

BYTES = frozenset({"raw", "rest", "hole"})
"""Kinds shown as hex; they may contain bytes of a key that another structure shows."""
UNDEFINED = " (undefined)"
"""Behind an attribute, or a field of it, that means nothing."""
ALL = 1 << 62
"""More bytes than any field has."""
MAX_LAYOUTS = 2048
"""Layouts kept; limited because a hostile capture may hold a new shape in every frame."""
OPAQUE = BYTES | BYTE_KINDS
"""Kinds whose value is bytes, not a number."""


class Item(Record):
    """A field (or one entry of a repeated one) or a layer, at an offset in its piece."""

    struct: StructType
    field: Field[Any] | None
    """None for a layer."""
    label: str
    piece: int
    """Number of the piece in the shape."""
    view: int
    """Start of the structure that declares the field, in bytes from the start of the piece."""
    bit: int
    """First bit of the value, counted from `view`."""
    bits: int
    children: list[Item] = msgspec.field(default_factory=list)
    when: tuple[Item, frozenset[int]] | None = None
    """This item is valid only if that item has one of these values."""
    title: str = ""
    """Text shown instead of a value: the title of the structure inside."""
    hidden_spans: tuple[tuple[int, int], ...] = ()
    """(start, stop) of bytes to hide, counted from the item's first byte: the keys in a hex field, all of a checksum that reveals one."""

    @property
    def may_lack(self) -> bool:
        """Whether some frames of the shape lack it: its condition fails, or it holds notes and there are none."""
        return self.when is not None or (isinstance(self.field, ComputedField) and is_notes(self.field))

    @property
    def name(self) -> str:
        """Filter name; empty for a layer."""
        return self.field.filter_name if self.field is not None else ""

    @property
    def byte(self) -> int:
        """First byte, counted from the start of the piece."""
        return self.view + self.bit // 8

    @property
    def length(self) -> int:
        """Bytes that the item touches; 0 for a `rest`."""
        return (self.bit + self.bits + 7) // 8 - self.bit // 8

    @property
    def kind(self) -> str:
        """Kind of the field; `nested` for a structure."""
        return self.field.kind if self.field is not None else "nested"

    def walk(self) -> Iterator[Item]:
        """This item and all below, outer ones first."""
        yield self
        for child in self.children:
            yield from child.walk()


class PlacedStructure(Record):
    """A placed structure of the shape."""

    placement: Placement
    relative: int
    """Bytes from the frame's start; 0 for a piece of the tail (see `moving`)."""
    layer: Item | None
    """None if the structure is inside a field of another one, or has nothing to show."""

    @property
    def in_front(self) -> bool:
        """An ERF header: offsets count from its own start."""
        return self.placement.struct is ERF_HEADER

    @property
    def moving(self) -> bool:
        """Its offset varies between the frames of the shape."""
        return self.placement.struct in TAIL


class Layout(Record):
    """The items of a shape."""

    pieces: list[PlacedStructure]
    layers: list[Item]

    def secrets(self) -> list[Item]:
        """Items that hold a key."""
        return [item for layer in self.layers for item in layer.walk() if item.field is not None and item.field.secret]


class Layouts(dict[int, Layout]):
    """The layouts of the shapes met last, by their keys."""

    def of(self, walk: Walk, shape: Shape) -> Layout:
        """The layout of a shape, built when missing; all are forgotten when there are too many."""
        if shape.key not in self:
            if len(self) >= MAX_LAYOUTS:
                self.clear()
            self[shape.key] = layout_of(walk, shape)
        return self[shape.key]


def layout_of(walk: Walk, shape: Shape) -> Layout:
    """Build the items of a shape."""
    layout = Layout([], [])
    holders: dict[int, Item] = {}
    by_field: dict[int, Item] = {}
    entries: Counter[tuple[int, int]] = Counter()
    for number, (kind, relative) in enumerate(shape.pieces):
        placement = walk.placement(kind)
        struct = placement.struct
        items = list(_items(struct, number, 0))
        items += [Item(struct, field_, field_.label, number, 0, 0, 0) for field_ in walk.table.catalog.computed.get(struct, ())]
        # A structure that explains the raw bytes of another one is shown below them.
        holder = holders.get(relative) if placement.place is not None else None
        if isinstance(placement.place, Laid):
            around = (by_field.get(id(field_)) for field_ in (placement.place.inside, placement.place.field))
            holder = max(
                (item for item in around if item is not None), key=lambda item: item.piece, default=None
            )  # not one of a PDU before it
        elif isinstance(placement.place, Parsed):
            outer = placement.place.field
            family = outer.owner.key == struct.key
            holder = by_field.get(id(outer)) if family else None
        layer = None
        if holder is not None:
            if isinstance(placement.place, Laid) and struct.key != placement.place.field.owner.key:
                items = [Item(struct, None, struct.title, number, 0, 0, struct.size * 8, items)]
            if isinstance(placement.place, Laid) and placement.place.values is None and is_plugin(struct):
                _name_entry(placement.place.part, items, entries, id(holder))
            holder.children += items
            holder.title = holder.title or ("" if isinstance(placement.place, Laid | Parsed) else struct.title)
        elif items:  # a format that consists only of holes has nothing to show
            note = " (the request's)" if placement.repeated else UNDEFINED if placement.undefined else ""
            title = struct.title + note
            layer = Item(struct, None, title, number, 0, 0, struct.size * 8, items)
            layout.layers.append(layer)
        layout.pieces.append(PlacedStructure(placement, relative, layer))
        for item in items:
            for inner in item.walk():
                by_field[id(inner.field)] = inner
                if inner.kind in BYTES and not layout.pieces[number].moving:
                    holders[relative + inner.byte] = inner
    placed = [(item, layout.pieces[item.piece]) for layer in layout.layers for item in layer.walk()]
    _mark_secrets(layout, [item for item, piece in placed if piece.placement.hidden and item.kind == "rest" and piece.layer is None])
    for item, piece in placed:
        is_checksum = item.field is not None and item.field.holds == "checksum"
        if (piece.placement.hidden and item.kind == "rest") or (piece.placement.reveals and is_checksum):
            item.hidden_spans = ((0, ALL),)
    for layer in layout.layers:
        layer.children = _without_wrappers(layer.children)
    return layout


def _name_entry(part: Part, items: list[Item], entries: Counter[tuple[int, int]], holder: int) -> None:
    """Give an entry of a list its index, and a structure the label of its part; `entries`: how many each list has so far."""
    if part.entry is None or len(items) != 1:
        return
    label = part.entry.label
    if not part.single:
        label += f"[{entries[id(part), holder]}]"
        entries[id(part), holder] += 1
    items[0].label = label


def _without_wrappers(items: list[Item]) -> list[Item]:
    """These items, with the parts of a tail in place of its bytes where these have no name of their own."""
    shown = []
    for item in items:
        item.children = _without_wrappers(item.children)
        shown += item.children if item.children and item.field is not None and item.field.name == NAME else [item]
    return shown


def items_of(struct: type[Struct]) -> list[Item]:
    """The fields of a structure on its own, outside a frame."""
    return list(_items(struct, 0, 0))


def _items(struct: type[Struct], piece: int, view: int) -> Iterator[Item]:
    """The fields of a structure that starts at byte `view` of the piece; parts are children of their field."""
    made: dict[int, Item] = {}
    for field_ in struct.fields:
        if field_.kind == "hole":
            continue
        for entry, bit in enumerate(field_.entries()):
            label = f"{field_.label}[{entry}]" if field_.count > 1 else field_.label
            item = Item(struct, field_, label, piece, view, bit, field_.bits)
            if field_.kind == "nested" and field_.of is not None:
                item.children = list(_items(field_.of, piece, view + bit // 8))
                item.title = field_.of.title
            if field_.when is not None and (decider := made.get(id(field_.when[0]))) is not None:
                item.when = (decider, field_.when[1])
            whole = made.get(id(field_.part_of[0])) if field_.part_of is not None else None
            made.setdefault(id(field_), item)
            if whole is not None and not (whole.when is not None and field_.bits == whole.bits):  # else another reading of it, beside it
                whole.children.append(item)
            else:
                yield item


def _mark_secrets(layout: Layout, hidden: list[Item]) -> None:
    """Set `hidden_spans` of every hex field; `hidden`: masked items without an end, which are masked in the fields around them, too."""
    every = [(item, item.length) for item in layout.secrets()] + [(item, ALL) for item in hidden]
    spans = [(layout.pieces[item.piece].relative + item.byte, size) for item, size in every]
    if not spans:
        return
    for layer in layout.layers:
        for item in layer.walk():
            if item.kind in BYTES and item.field is not None and not item.field.secret:
                start = layout.pieces[item.piece].relative + item.byte
                stop = start + item.length if item.kind != "rest" else ALL
                item.hidden_spans = tuple((at - start, at - start + size) for at, size in spans if start <= at < stop)
