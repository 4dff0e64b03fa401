"""Structures that lie inside others: which hold a key, and the table and the occurrences to ask for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.places import Inside, Parsed
from ibdissect.wire.spec import Field
from ibdissect.wire.tail import Laid

from .hidden.private_data import is_private
from .locate import Bool, Int

if TYPE_CHECKING:
    from .chunk_table import ChunkTable

Inner = tuple[Inside | Laid | Parsed, StructType]


@cache
def inner_of(catalog: Catalog) -> Mapping[Field[Any], tuple[Inner, ...]]:
    """The structures that are found in the bytes of each field."""
    found: dict[Field[Any], list[Inner]] = {}
    for struct in catalog.structs:
        for place in catalog.places(struct):
            if isinstance(place, Inside | Laid | Parsed):
                found.setdefault(place.field, []).append((place, struct))
    return {field: tuple(inner) for field, inner in found.items()}


@cache
def holds_key(catalog: Catalog, struct: StructType) -> bool:
    """Whether a structure has a key field, itself or in a structure nested or found inside it, or private data that may be one."""
    return any(field.secret or is_private(field) for one in _with_inner(catalog, [struct]) for field in one.fields)


@cache
def of_streams(catalog: Catalog) -> frozenset[StructType]:
    """The structures that are PDUs of streams or of vendors' MADs, and those inside them: some are only in `ChunkTable.shown`."""
    return frozenset(_with_inner(catalog, [struct for _, struct in (*catalog.streams, *catalog.of_vendors)]))


def _with_inner(catalog: Catalog, structs: list[StructType]) -> Iterator[StructType]:
    """Structures, and those nested or found inside them."""
    waiting, seen = structs, set(structs)
    while waiting:
        one = waiting.pop()
        yield one
        more = {field.of for field in one.fields if field.of is not None}
        more |= {other for field in one.fields for _, other in inner_of(catalog).get(field, ())}
        waiting += more - seen
        seen |= more


def with_pdus(table: ChunkTable, *structs: StructType) -> ChunkTable:
    """The table to ask for occurrences of some structures: that which shows PDUs of several packets, if one of them may be such a PDU."""
    return table.shown if table.completes and not of_streams(table.catalog).isdisjoint(structs) else table


def in_frame_order(table: ChunkTable, structs: tuple[StructType, ...]) -> Iterator[tuple[int, StructType, int, ChunkTable]]:
    """The occurrences of some structures as they follow each other: row, structure, index, and the table that has it. In a frame, PDUs
    that began earlier come first, and a structure comes before those inside it."""
    found = []
    for struct in structs:
        of = with_pdus(table, struct)
        one = of.occurrences(struct)
        entries = zip(one.rows.tolist(), (one.at < of.window).tolist(), one.at.tolist(), (-one.stop).tolist(), strict=True)
        found += [(entry, struct, i, of) for i, entry in enumerate(entries)]
    if len(structs) > 1:
        found.sort(key=lambda one: one[0])
    return ((entry[0], struct, i, of) for entry, struct, i, of in found)


def of_plugins(table: ChunkTable) -> Bool:
    """Which frames hold what plugins declare, bool[n]. Call as `table.once(of_plugins)`."""
    found = np.zeros(len(table), np.bool_)
    for struct in table.catalog.of_plugins:
        if struct.carried_by:
            found[with_pdus(table, struct).occurrences(struct).rows] = True
    return found


@cache
def parts_of(struct: StructType) -> frozenset[StructType]:
    """The structures that were made of the parts of variable size of a structure."""
    return frozenset(struct.tail.structs()) if struct.tail is not None else frozenset()


def owners_of(table: ChunkTable, struct: StructType, part: StructType) -> Int:
    """Of each occurrence of a part: the index of the occurrence of its structure, int64[k]; -1 if that is not shown."""
    outer, inner = table.occurrences(struct), table.occurrences(part)
    if not len(outer):
        return np.full(len(inner), -1, np.int64)
    order = np.argsort(outer.at, kind="stable")
    before = np.searchsorted(outer.at[order], inner.at, "right") - 1
    found = order[np.maximum(before, 0)]
    return np.where((before >= 0) & (inner.at <= outer.stop[found]), found, -1)


def values_beside(table: ChunkTable, struct: StructType, field: Field[Any]) -> list[npt.NDArray[Any]]:
    """The values of a field in each occurrence of its structure, also of one behind a part of variable size: then 0, and whether it is
    there."""
    if field.owner not in parts_of(struct):
        return [table.values(field)]
    of, count = owners_of(table, struct, field.owner), len(table.occurrences(struct))
    known = np.flatnonzero(of >= 0)
    values, there = np.zeros(count, np.int64), np.zeros(count, np.int64)
    values[of[known]], there[of[known]] = table.values(field)[known], 1
    return [values, there]
