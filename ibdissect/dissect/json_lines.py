"""JSON lines of many frames at once: the same items as the tree, read as columns and formatted by shape.

Writing the tree of each frame instead takes 16 times the CPU.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record
from msgspec import field

from ibdissect.capture.gather import gather
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.bit_fields import extract, part_of_little
from ibdissect.decode.computed_fields import read_by, value_of
from ibdissect.decode.hidden.opaque_bytes import Masks, masks
from ibdissect.decode.ignored_data import IgnoredBits, as_read, beside, field_mask
from ibdissect.engine.offsets import MALFORMED
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.column import ComputedField
from ibdissect.wire.convert import decode_text
from ibdissect.wire.spec import Field
from ibdissect.wire.text import plain_value

from .dependent_names import ABOUT, context_text, depends
from .info_line import summaries
from .info_line_mad import NO_OUI, oui_at
from .layout import BYTES, OPAQUE, Item, Layout, Layouts
from .shown_value import BESIDE, Presenter
from .walk import Shape, Walk

BATCH = 2048
"""Summary lines made per step."""
CACHED = 1 << 16
"""Texts cached per field."""
SEPARATOR = "\x02"
"""Placeholder for a comma in lists whose first entry may be missing; never occurs in JSON."""
PERHAPS = "\x03"
"""Placeholder for the space before a list that is removed if it is empty."""

Column = Iterator[str] | list[str]


class _Known(dict[Any, str]):
    """Caches the JSON of a field's values; cleared when it holds CACHED entries."""

    def __init__(self, make: Callable[[Any], str]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, value: Any) -> str:
        if len(self) >= CACHED:
            self.clear()
        text = self[value] = self.make(value)
        return text


class _Rows(Record):
    """The rows of one shape."""

    data: npt.NDArray[np.uint8]
    data_as_read: npt.NDArray[np.uint8]
    """The same bytes, with unread bits (`decode.ignored_data`) as zeros."""
    at: list[Int]
    """Start of each piece, per row."""
    stop: list[Int]
    base: Int
    """Start of the frame, per row."""
    layout: Layout
    catalog: Catalog
    ignored: IgnoredBits | None
    """The unread bits of requests."""
    masks: Masks | None
    """Bytes of the chunk that may be a key."""
    table: ChunkTable
    matrices: dict[int, npt.NDArray[np.uint8]] = field(default_factory=dict)

    def matrix(self, piece: int) -> npt.NDArray[np.uint8]:
        """The bytes of a piece, one row per frame."""
        found = self.matrices.get(piece)
        if found is None:
            size = self.layout.pieces[piece].placement.struct.size
            found = self.matrices[piece] = gather(self.data_as_read, self.at[piece], size)
        return found

    def numbers(self, item: Item) -> list[Any]:
        """An integer item of every row."""
        bit, bits = item.view * 8 + item.bit, item.field.wire_bits if item.field is not None else item.bits
        matrix = self.matrix(item.piece)
        if bits <= 64:
            found = extract(matrix, bit, bits)
            if item.field is not None and item.field.little:
                found = part_of_little(item.field, found.byteswap())
            values: list[Any] = found.tolist()
            return [bool(v) for v in values] if item.kind == "flag" else values
        stop = (bit + bits + 7) // 8
        shift, mask = stop * 8 - bit - bits, (1 << bits) - 1
        return [int.from_bytes(row, "big") >> shift & mask for row in self.cut(item, bit // 8, stop)]

    def beside(self, item: Item) -> npt.NDArray[np.bool_] | None:
        """Rows in which a field has unread bits; None for no row."""
        if self.ignored is None or item.kind in ("rest", "nested") or item.field is None or not item.length:
            return None
        first = item.view + item.bit // 8
        bits = self.ignored.of(self.at[item.piece][:, None] + np.arange(first, first + item.length)) & field_mask(item.bit % 8, item.bits)
        found = np.asarray(bits.any(axis=1))
        return found if found.any() else None

    def opaque(self, item: Item, values: list[bytes]) -> list[tuple[tuple[int, int], ...]] | None:
        """The parts of a field of bytes that may be a key, in every row; None if there are none."""
        if self.masks is None:
            return None
        starts = (self.at[item.piece] + item.byte).tolist()
        found = [self.masks.within(at, at + len(value)) for at, value in zip(starts, values, strict=True)]
        return found if any(found) else None

    def cut(self, item: Item, start: int, stop: int) -> list[bytes]:
        """Bytes start:stop of the item's piece in every row."""
        part = np.ascontiguousarray(self.matrix(item.piece)[:, start:stop])
        return part.view(f"V{stop - start}").ravel().tolist()

    def computed(self, item: Item, field: ComputedField) -> list[int | str]:
        """A computed field in every row."""
        data, starts, stops = read_by(self.table, field).data, self.at[item.piece].tolist(), self.stop[item.piece].tolist()
        # The view gets a copy that starts at 0, so that a plugin function cannot see other frames.
        return [value_of(field, item.struct(bytes(data[a:b]), 0, b - a)) for a, b in zip(starts, stops, strict=True)]

    def there(self, item: Item) -> list[bool]:
        """Whether each row has an item that may be absent."""
        if item.when is not None:
            return [value in item.when[1] for value in self.numbers(item.when[0])]
        assert isinstance(item.field, ComputedField)
        return [bool(text) for text in self.computed(item, item.field)]

    def ouis(self, item: Item) -> list[int]:
        """The OUI of the MAD that the item's structure begins, in every row."""
        ends = np.max(self.stop, axis=0).tolist()
        return [oui_at(self.data, at, stop) for at, stop in zip((self.at[item.piece] + item.view).tolist(), ends, strict=True)]

    def rest(self, item: Item) -> list[bytes]:
        """From the item to the end of its piece, in every row."""
        starts = self.at[item.piece] + item.byte
        data = self.data.data
        return [bytes(data[a:b]) for a, b in zip(starts.tolist(), self.stop[item.piece].tolist(), strict=True)]


class JsonLines:
    """Formats rows of chunks as objects of the `jsonl` format; caches shapes and values."""

    def __init__(self, presenter: Presenter) -> None:
        self.presenter = presenter
        self._known: dict[Field[Any], _Known] = {}
        self._layouts = Layouts()

    def lines(self, table: ChunkTable, rows: Int) -> Iterator[str]:
        """One line per row, without newline."""
        walk = Walk(table)
        malformed = table.located.malformed[rows].tolist()
        tails = {code: f'], "malformed": {quoted(MALFORMED[code]) if code else "null"}}}' for code in set(malformed)}
        # Values are looked up shape by shape, lines are written in frame order.
        bodies: list[Iterator[str]] = []
        which = np.zeros(len(table), np.int64)
        for shape in walk.shapes(rows):
            which[shape.rows] = len(bodies)
            bodies.append(self._bodies(walk, shape))
        of_row = which[rows].tolist()
        for start in range(0, len(rows), BATCH):
            heads = self._heads(table, rows[start : start + BATCH])
            for head, number, code in zip(heads, of_row[start : start + BATCH], malformed[start : start + BATCH], strict=True):
                yield head + next(bodies[number]) + tails[code]

    def _bodies(self, walk: Walk, shape: Shape) -> Iterator[str]:
        """The layers of each row of a shape, in row order."""
        layout = self._layouts.of(walk, shape)
        first = walk.start[shape.rows]
        group = _Rows(
            walk.table.chunk.data,
            walk.table.once(as_read).data,
            [walk.at[first + i] for i in range(len(shape.pieces))],
            [walk.stop[first + i] for i in range(len(shape.pieces))],
            walk.table.chunk.offset[shape.rows],
            layout,
            walk.table.catalog,
            walk.table.once(beside),
            walk.table.once(masks),
            walk.table,
        )
        template, columns = self._list(layout.layers, group)
        bodies = _filled(template, columns, len(shape.rows))
        if any(item.may_lack for layer in layout.layers for item in layer.walk()):
            return map(_joined, bodies)
        return bodies

    def _heads(self, table: ChunkTable, rows: Int) -> list[str]:
        chunk = table.chunk
        summary = summaries(table, rows, self.presenter)
        times = np.datetime_as_string(chunk.time_ns[rows].astype("M8[ns]"), unit="ns").tolist()
        ends: dict[tuple[str, str, str], str] = {}
        heads = []
        for frame, time, time_ns, length, caplen, interface, source, destination, protocol, info in zip(
            (rows + chunk.first).tolist(), times, chunk.time_ns[rows].tolist(), chunk.length[rows].tolist(),
            chunk.caplen[rows].tolist(), chunk.card_ports(rows).tolist(), summary.source, summary.destination, summary.protocol,
            summary.info, strict=True,
        ):  # fmt: skip
            who = (source, destination, protocol)
            middle = ends.get(who)
            if middle is None:
                middle = ends[who] = (
                    f'"source": {quoted(source)}, "destination": {quoted(destination)}, "protocol": {quoted(protocol)}, "info": '
                )
            heads.append(
                f'{{"frame": {frame}, "time": "{time}Z", "time_ns": {time_ns}, "len": {length}, "caplen": {caplen}, '
                f'"interface": {interface}, {middle}{quoted(info)}, "layers": ['
            )
        return heads

    def _list(self, items: list[Item], rows: _Rows) -> tuple[str, list[Column]]:
        """The template of a list of items, and the columns that fill it."""
        templates, columns = [], []
        optional = any(item.may_lack for item in items)
        for item in items:
            template, more = self._object(item, rows)
            if item.may_lack:
                decides = rows.there(item)
                filled = _filled(template, more, len(decides))
                template, more = "%s", [[SEPARATOR + text if yes else "" for text, yes in zip(filled, decides, strict=True)]]
            elif optional:
                template = SEPARATOR + template
            templates.append(template)
            columns += more
        return ("" if optional else ", ").join(templates), columns

    def _object(self, item: Item, rows: _Rows) -> tuple[str, list[Column]]:
        piece = rows.layout.pieces[item.piece]
        columns: list[Column] = []
        byte = item.byte
        if piece.moving:
            offset, more = "%s", rows.at[item.piece] - rows.base + byte
            columns.append(list(map(str, more.tolist())))
        else:
            offset = str(byte if piece.in_front else piece.relative + byte)
        ends_open = item.kind == "rest" or (item.field is None and item.struct.fields[-1].kind == "rest")
        length = str(item.length)
        if ends_open:
            sizes = np.maximum(rows.stop[item.piece] - rows.at[item.piece] - byte, 0)
            length = "%s"
            columns.append(list(map(str, sizes.tolist())))
        if item.field is None:
            inner, more_columns = self._list(item.children, rows)
            head = f'{{"layer": {_literal(item.label)}, "offset": {offset}, "length": {length}, "fields": ['
            return head + inner + "]}", columns + more_columns
        bits = str(item.bits)
        if ends_open:
            bits = "%s"
            columns.append(list(map(str, (sizes * 8).tolist())))
        template = (
            f'{{"name": {_literal(item.name)}, "label": {_literal(item.label)}, "offset": {offset}, "length": {length}, '
            f'"bit": {item.bit % 8}, "bits": {bits}, "value": '
        )
        value, column = self._value(item, rows)
        template += value
        columns += column
        if item.children:
            inner, more_columns = self._list(item.children, rows)
            optional = all(child.may_lack for child in item.children)
            template += f', "fields":{PERHAPS if optional else " "}[{inner}]'
            columns += more_columns
        return template + "}", columns

    def _value(self, item: Item, rows: _Rows) -> tuple[str, list[Column]]:
        """`VALUE, "text": TEXT` of every row."""
        template, columns = self._carried(item, rows)
        beside = rows.beside(item)
        if beside is None:
            return template, columns
        filled = _filled(template, columns, len(beside))
        return "%s", [[_said(None, BESIDE) if ignored else text for text, ignored in zip(filled, beside.tolist(), strict=True)]]

    def _carried(self, item: Item, rows: _Rows) -> tuple[str, list[Column]]:
        """`VALUE, "text": TEXT` of every row, including rows in which the field is unread."""
        field = item.field
        assert field is not None
        if item.kind == "nested":
            return 'null, "text": ' + _literal(item.title), []
        if isinstance(field, ComputedField):
            return "%s", [[_said(*self.presenter.present(field, value)) for value in rows.computed(item, field)]]
        if depends(rows.catalog, field):
            return "%s", [self._in_context(field, item, rows)]
        if item.kind in BYTES and not field.secret:
            values = rows.rest(item) if item.kind == "rest" else rows.cut(item, item.byte, item.byte + item.length)
            opaque = rows.opaque(item, values)
            if opaque is not None:
                return "%s", [[_bytes_json(self.presenter, item, value, spans) for value, spans in zip(values, opaque, strict=True)]]
            if item.kind != "rest" and not item.hidden_spans and not item.title and item.length <= 64:
                return "%s", [list(map(self._texts(field, item).__getitem__, values))]
            return "%s", [[_bytes_json(self.presenter, item, value) for value in values]]
        if item.kind == "pad" and (opaque := rows.opaque(item, rows.cut(item, item.byte, item.byte + item.length))) is not None:
            return "%s", [[_said(*self.presenter.present(field, value, reveals=bool(spans)))
                           for value, spans in zip(rows.numbers(item), opaque, strict=True)]]  # fmt: skip
        if item.hidden_spans:
            shown = (self.presenter.present(field, value, reveals=True) for value in rows.numbers(item))
            return "%s", [[_said(plain, text) for plain, text in shown]]
        values = rows.cut(item, item.byte, item.byte + item.length) if item.kind in OPAQUE else rows.numbers(item)
        known = self._texts(field, item)
        if values and values[0] == values[-1] and values.count(values[0]) == len(values):
            return known[values[0]].replace("%", "%%"), []
        return "%s", [list(map(known.__getitem__, values))]

    def _in_context(self, field: Field[Any], item: Item, rows: _Rows) -> list[str]:
        """Values whose text depends on the common MAD header."""
        known = self._known.get(field)
        if known is None:
            catalog = rows.catalog

            def make(key: tuple[Any, ...]) -> str:
                text = context_text(catalog, field, key[0], key[1:]) or self.presenter.present(field, key[0])[1]
                return _said(plain_value(field, key[0]), text)

            known = self._known[field] = _Known(make)
        matrix = rows.matrix(item.piece)
        about: list[Sequence[int]] = [extract(matrix, item.view * 8 + other.bit, other.bits).tolist() for other in ABOUT]
        about.append(rows.ouis(item) if rows.catalog.vendor_classes else [NO_OUI] * len(about[0]))
        raw = item.kind in OPAQUE
        values = rows.cut(item, item.byte, item.byte + item.length) if raw else rows.numbers(item)
        return list(map(known.__getitem__, zip(values, *about, strict=True)))

    def _texts(self, field: Field[Any], item: Item) -> _Known:
        known = self._known.get(field)
        if known is None:
            known = self._known[field] = _Known(self._maker(field, item))
        return known

    def _maker(self, field: Field[Any], item: Item) -> Callable[[Any], str]:
        presenter = self.presenter
        if field.kind in BYTES and not field.secret:
            return lambda value: _bytes_json(presenter, item, value)

        if field.kind in ("uint", "pad") and not (field.secret or field.tells or field.show or field.values or field.unit):
            # Fast path for plain numbers: they have most of the distinct values (checksums, PSNs, addresses).
            shown = f"0x%0{(field.bits + 3) // 4}x" if field.base in ("hex", "guid") else "%d"
            template = f'%d, "text": "{shown}"'
            return lambda value: template % (value, value)

        return lambda value: _said(*presenter.present(field, decode_text(value) if field.kind == "text" else value))


def _bytes_json(presenter: Presenter, item: Item, value: bytes, opaque: tuple[tuple[int, int], ...] = ()) -> str:
    plain, text = presenter.present_bytes(item, value, opaque)
    return _said(plain, item.title or text)


def _said(plain: Any, text: str) -> str:
    """The JSON of a value and its text."""
    return f'{json.dumps(plain)}, "text": {quoted(text)}'


def _literal(text: str) -> str:
    return quoted(text).replace("%", "%%")


def _filled(template: str, columns: list[Column], count: int) -> Iterator[str]:
    """The template filled with each row's values."""
    return map(template.__mod__, zip(*columns, strict=True) if columns else repeat((), count))


def _joined(text: str) -> str:
    """Replace the placeholders SEPARATOR and PERHAPS."""
    text = text.replace("[" + SEPARATOR, "[").replace(SEPARATOR, ", ")
    return text.replace(f', "fields":{PERHAPS}[]', "").replace(PERHAPS, " ")
