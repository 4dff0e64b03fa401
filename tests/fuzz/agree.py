"""Agreement of columns, trees, JSON lines and Scapy's layers on every packet, broken ones too."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import numpy as np

from ibdissect.decode.chunk_table import ChunkTable, FieldColumn
from ibdissect.decode.find_structures import HEADERS
from ibdissect.decode.locate import EXTENDED_STRUCTS, Int
from ibdissect.dissect.frame_trees import tree_of
from ibdissect.dissect.info_line import summaries
from ibdissect.dissect.json_lines import JsonLines
from ibdissect.dissect.layout import Layouts
from ibdissect.dissect.shown_value import BESIDE, Presenter
from ibdissect.dissect.tree import Node, Tree
from ibdissect.dissect.walk import LEFT_OVER, Walk
from ibdissect.wire.column import ComputedField
from ibdissect.wire.headers import Payload
from ibdissect.wire.spec import BYTE_KINDS, Field
from ibdissect.words import Struct

SLOW = 1.0
"""Seconds of CPU that one packet may take."""


@dataclass(slots=True)
class Disagreement:
    """Two views of the same packets differ."""

    what: str
    rows: list[int]


@dataclass(slots=True)
class Seen:
    """What the trees of a chunk said."""

    found: list[Disagreement] = field(default_factory=list)
    slow: list[tuple[int, float]] = field(default_factory=list)
    """Rows that took longer than `SLOW`, with their seconds."""


class Values:
    """The values of one field as trees show them."""

    __slots__ = ("keys", "rows", "values")

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.keys: list[int] = []
        self.values: list[Any] = []


def columns(table: ChunkTable) -> list[Disagreement]:
    """Every structure lies within its frame, and every field of it can be read."""
    wrong = []
    end, start = table.located.end, table.chunk.offset
    for what in {*table.catalog.structs, *HEADERS, *EXTENDED_STRUCTS}:
        found = table.occurrences(what)
        if not len(found):
            continue
        in_front = what.__name__ == "ERF"
        bad = (found.at + what.size > found.stop) | (found.stop > end[found.rows])
        bad |= (found.at < start[found.rows]) & (not in_front)
        bad[1:] |= found.rows[1:] < found.rows[:-1]
        if bad.any():
            wrong.append(Disagreement(f"{what.__name__} lies outside its frame", found.rows[bad].tolist()))
        for one in what.fields:
            if one.kind not in ("rest", "nested", "hole"):
                column_of(table, one)
    return wrong


def is_bytes(one: Field[Any]) -> bool:
    """Compared as bytes: addresses, text, raw bytes, and numbers too wide for a column of numbers."""
    return one.kind in BYTE_KINDS or one.bits > 64


def column_of(table: ChunkTable, one: Field[Any]) -> FieldColumn:
    """The column of a field; reserved bytes that are no number of any dtype as bytes."""
    if one.kind in BYTE_KINDS or one.bits <= 64:
        return table.column(one)
    assert one.owner is not None and one.count == 1 and one.when is None
    low, high = one.span
    found = table.occurrences(one.owner)
    read = table.read_mask(one, None)
    which = slice(None) if read is None else read
    return FieldColumn(found.rows[which], found.at[which] + low, table.matrix(one.owner)[which, low:high])


class Views:
    """What is kept from chunk to chunk: layouts of shapes, texts of values."""

    def __init__(self) -> None:
        self.presenter = Presenter(show_keys=True)
        self.lines = JsonLines(self.presenter)
        self.layouts = Layouts()


def trees(table: ChunkTable, views: Views, seen: Seen, *, json_every: int = 1) -> Iterator[tuple[int, Tree]]:
    """The tree of every row; what is wrong with them is in `seen` when all have been taken."""
    rows = np.arange(len(table))
    presenter, walk = views.presenter, Walk(table)
    layouts: dict[int, Any] = {}
    for shape in walk.shapes(rows):
        layouts |= dict.fromkeys(shape.rows.tolist(), views.layouts.of(walk, shape))
    lines = views.lines.lines(table, rows[::json_every])
    shown = summaries(table, rows, presenter)
    values: dict[Field[Any], Values] = defaultdict(Values)
    reasons = table.located.malformed.tolist()
    for row in rows.tolist():
        began = process_time()
        tree = tree_of(walk, layouts[row], row, presenter, shown[row])
        spent = process_time() - began
        line = next(lines) if row % json_every == 0 else ""  # the first one makes what many share: no time of one packet
        if spent > SLOW:
            seen.slow.append((row, spent))
        for layer in tree.layers:
            _collect(values, row, layer.children)
        if bool(reasons[row]) != (tree.malformed is not None):
            seen.found.append(Disagreement("malformed: columns and tree", [row]))
        if line:
            seen.found += _as_line(row, tree, json.loads(line))
        if row == len(table) - 1:
            seen.found += _with_columns(table.shown, values)
        yield row, tree


def _collect(values: dict[Field[Any], Values], row: int, nodes: list[Node]) -> None:
    for node in nodes:
        if node.field is not None and node.text != BESIDE:  # filters and columns do not have it
            kept = values[node.field]
            kept.rows.append(row)
            kept.keys.append(node.offset * 8 + node.bit)
            kept.values.append(node.raw if is_bytes(node.field) else node.value)
        if node.children:
            _collect(values, row, node.children)


def _with_columns(table: ChunkTable, values: dict[Field[Any], Values]) -> Iterator[Disagreement]:
    for what in {*table.catalog.structs, *HEADERS, *EXTENDED_STRUCTS} - {*LEFT_OVER, Payload}:
        if len(table.occurrences(what)):
            for one in what.fields:
                if one.kind not in ("hole", "rest", "nested"):
                    yield from _one_column(table, one, values.pop(one, None) or Values())
                else:
                    values.pop(one, None)
    for one, kept in values.items():
        if isinstance(one, ComputedField):  # the length of a header that is shown beside its number of words
            yield from _one_column(table, one, kept)
        elif one.owner not in LEFT_OVER:
            yield Disagreement(f"{one.filter_name}: in the tree, not in the columns", sorted(set(kept.rows)))


def _one_column(table: ChunkTable, one: Field[Any], kept: Values) -> Iterator[Disagreement]:
    column = column_of(table, one)
    rows, keys = np.array(kept.rows, np.int64), np.array(kept.keys, np.int64)
    order = np.lexsort((keys, rows))
    if not np.array_equal(rows[order], column.rows):
        yield Disagreement(f"{one.filter_name}: columns and tree differ in where it is", _different_rows(rows, column.rows))
        return
    if not len(rows):
        return
    if is_bytes(one):
        width = column.values.shape[1]
        if any(len(value) != width for value in kept.values):
            yield Disagreement(f"{one.filter_name}: length of the tree's bytes", rows.tolist())
            return
        mine = np.frombuffer(b"".join(kept.values), np.uint8).reshape(len(rows), width)[order]
        differ = (mine != column.values).any(axis=1)
    else:
        mine = np.array([int(value) for value in kept.values], np.uint64)[order]
        differ = mine != column.values.astype(np.uint64)
    if differ.any():
        yield Disagreement(f"{one.filter_name}: columns and tree differ in its value", rows[order][differ].tolist())


def _different_rows(rows: Int, other: Int) -> list[int]:
    size = int(max(rows.max(initial=0), other.max(initial=0))) + 1
    found: list[int] = np.flatnonzero(np.bincount(rows, minlength=size) != np.bincount(other, minlength=size)).tolist()
    return found


def _as_line(row: int, tree: Tree, line: dict[str, Any]) -> Iterator[Disagreement]:
    if line["malformed"] != tree.malformed:
        yield Disagreement("malformed: tree and JSON line", [row])
    if len(line["layers"]) != len(tree.layers):
        yield Disagreement("layers: tree and JSON line", [row])
        return
    for layer, node in zip(line["layers"], tree.layers, strict=True):
        if (layer["layer"], layer["offset"], layer["length"]) != (node.label, node.offset, node.length):
            yield Disagreement(f"{node.label}: tree and JSON line", [row])
        elif not _same(layer["fields"], node.children):
            yield Disagreement(f"{node.label}: fields of tree and JSON line", [row])


def _same(entries: list[dict[str, Any]], nodes: list[Node]) -> bool:
    if len(entries) != len(nodes):
        return False
    for entry, node in zip(entries, nodes, strict=True):
        if "layer" in entry:  # a structure in a list
            if (entry["layer"], entry["offset"], entry["length"], None) != (node.label, node.offset, node.length, node.field):
                return False
            if not _same(entry["fields"], node.children):
                return False
            continue
        if entry["value"] != node.value or entry["text"] != node.text or entry["offset"] != node.offset or entry["length"] != node.length:
            return False
        if (entry["name"], entry["label"], entry["bit"], entry["bits"]) != (node.name, node.label, node.bit, node.bits):
            return False
        if (node.children or "fields" in entry) and not _same(entry.get("fields", []), node.children):
            return False
    return True


def structs_of(tree: Tree) -> list[type[Struct]]:
    """The structures of a tree's layers."""
    return [layer.struct for layer in tree.layers if layer.struct is not None]
