"""Fields that cannot be read to their end although a key may lie in them, and the bytes that are hidden for that.

A key that stands in a list, in a TLV or behind a length is known only where everything before it was read. So a field in which a key may
lie is hidden as a whole, and nothing is found inside it, if

- a function that reads it raises, or names a place that does not fit;
- a structure that belongs there does not fit, or leaves bytes over (a plugin's field must be covered; ours may have words between its
  structures, but not behind them).

A field of which no structure is declared for the value that decides (a TLV of another type) is hidden, but not what is around it.
Zeros are padding and stay. The beginning of a message whose rest is elsewhere is read from the front by our own functions; `cut_messages`
hides its bytes.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.wire.catalog import Catalog, StructType, is_foreign
from ibdissect.wire.places import Parsed
from ibdissect.wire.spec import Field
from ibdissect.wire.tail import Laid, Part
from ibdissect.wire.tail_walk import Found

from ..inner_structures import holds_key, inner_of
from ..locate import Bool, Int
from ..occurrences import Occurrences
from ..places_in_fields import Spans, due_in, extent, spans_of, walks
from ..services import IN_PARTS

if TYPE_CHECKING:
    from ..chunk_table import ChunkTable


@cache
def watched(catalog: Catalog) -> frozenset[Field[Any]]:
    """Fields in which a structure with a key may lie."""
    return frozenset(field for field, inner in inner_of(catalog).items() if any(holds_key(catalog, struct) for _, struct in inner))


class Insides(Record, frozen=True, eq=False):
    """How far a field was read in each of k occurrences of its structure."""

    at: Int
    """Its bytes in the chunk's data, int64[k]."""
    stop: Int
    broken: Bool
    """It cannot be read to its end, bool[k]."""
    unknown: Bool
    """No structure is declared for what it holds, bool[k]."""


def insides(table: ChunkTable, field: Field[Any]) -> Insides:
    """How far a watched field was read in every occurrence of its structure."""
    known: dict[Field[Any], Insides] = table.results(insides)
    if field not in known:
        known[field] = _read(table, field, table.occurrences(field.owner))
    return known[field]


def readable(table: ChunkTable, field: Field[Any]) -> Bool | None:
    """In which occurrences of its structure structures are looked for in a field, bool[k]; None: in all."""
    if field not in watched(table.catalog):
        return None
    broken = insides(table, field).broken
    return ~(broken & ~_begun(table, field)) if broken.any() else None


def unread_insides(table: ChunkTable) -> list[Occurrences]:
    """The fields that are hidden as a whole."""
    found = []
    for field in _in_order(table.catalog):
        outer = table.occurrences(field.owner)
        if len(outer):
            one = insides(table, field)
            hide = (one.broken & ~_begun(table, field)) | one.unknown
            found.append(Occurrences(outer.rows[hide], one.at[hide], one.stop[hide]))
            if field.owner.tail is not None and field is field.owner.tail.field:
                found += [_unknown_cases(table, outer, part) for part in field.owner.tail.parts if _may_hold_key(table.catalog, part)]
    return found


@cache
def _in_order(catalog: Catalog) -> list[Field[Any]]:
    return sorted(watched(catalog), key=repr)


@cache
def _may_hold_key(catalog: Catalog, part: Part) -> bool:
    """Whether one of the structures of a choice holds a key."""
    return any(holds_key(catalog, struct) for struct, _ in _cases(catalog, part))


def _cases(catalog: Catalog, part: Part) -> list[tuple[StructType, frozenset[int]]]:
    """The structures of a choice, with their values."""
    laid = ((place, struct) for place, struct in inner_of(catalog).get(part.within, ()) if isinstance(place, Laid) and place.part is part)
    return [(struct, place.values) for place, struct in laid if place.values is not None]


@cache
def _values_of(catalog: Catalog, part: Part) -> frozenset[int]:
    """The values of a choice for which a structure is declared."""
    return frozenset().union(*(values for _, values in _cases(catalog, part)))


def _apart(found: Found, part: Part, known: frozenset[int]) -> Spans:
    """The bytes of a choice whose value has no structure, and the marks that end a list or a text."""
    apart = [(a, b) for value, a, b in found.cases.get(id(part), ()) if value not in known] if part.by is not None else []
    return apart + found.marks.get(id(part), [])


def _unknown_cases(table: ChunkTable, outer: Occurrences, part: Part) -> Occurrences:
    """The bytes of a choice for which no structure is declared."""
    values, founds = _values_of(table.catalog, part), walks(table, part.within.owner, outer)[0]
    found = [(row, a, b) for row, one in zip(outer.rows.tolist(), founds, strict=True) for a, b in _apart(one, part, values)]
    return Occurrences(*np.array(found, np.int64).reshape(-1, 3).T)


def _begun(table: ChunkTable, field: Field[Any]) -> Bool:
    """Which occurrences of our own structures are the beginning of a message that goes on elsewhere, or is cut off, bool[k]."""
    outer = table.occurrences(field.owner)
    if is_foreign(field):
        return np.zeros(len(outer), np.bool_)
    located = table.located
    begun: Bool = (IN_PARTS[located.opcode] & (located.at("bth") >= 0)) | located.snapped | (located.malformed != 0)
    return begun[outer.rows] & (outer.at < table.window)


def _read(table: ChunkTable, field: Field[Any], outer: Occurrences) -> Insides:
    """How far a field was read in these occurrences of its structure, and what is found inside it."""
    count, strict = len(outer), is_foreign(field)
    begin, stop = extent(field, outer)
    broken, due, listed = np.zeros(count, np.bool_), np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    covered: list[Spans] = [[] for _ in range(count)]
    data, one_by_one = table.chunk.data, _one_by_one(field)
    if one_by_one:
        founds = walks(table, field.owner, outer)[0]
        covered = [[(first, found.stop)] for first, found in zip(begin.tolist(), founds, strict=True)]
        behind = (_behind_marks(table.catalog, field.owner, found) for found in founds)
        broken |= np.array([any(data[a:b].any() for a, b in spans) for spans in behind], np.bool_)
    for place, struct in inner_of(table.catalog)[field]:
        here = due_in(table, place, outer)
        due |= here
        listed |= here & isinstance(place, Laid | Parsed)
        index, at, end, failed = spans_of(table, struct, place, outer, here)
        broken |= failed
        itself = not one_by_one and isinstance(place, Laid) and place.values is None
        if itself and isinstance(place, Laid) and (place.part.by is not None or place.part.until is not None):
            values = _values_of(table.catalog, place.part)  # the cases of a choice must cover it themselves
            for i, found in enumerate(walks(table, place.field.owner, outer)[0]):
                covered[i] += _apart(found, place.part, values)
            if place.part.by is not None:
                continue
        within = Occurrences(outer.rows[index], at, end)
        for inner in _fields_below(table.catalog, struct):
            np.logical_or.at(broken, index, _read(table, inner, _owners(struct, inner, within)).broken)
        ends = end if struct.fields[-1].kind == "rest" else at + struct.size
        if one_by_one and isinstance(place, Laid):
            for k in np.flatnonzero(ends < end).tolist():  # a choice holds more than its structure
                broken[index[k]] |= data[ends[k] : end[k]].any()
            continue
        for i, a, b in zip(index.tolist(), at.tolist(), ends.tolist(), strict=True):
            covered[i].append((a, b))
    for i in np.flatnonzero((due if strict else listed) & ~broken).tolist():
        reached = int(begin[i])
        last = max((b for _, b in covered[i]), default=reached)
        for a, b in sorted(covered[i]) if strict else ():
            broken[i] |= a > reached and data[reached:a].any()
            reached = max(reached, b)
        broken[i] |= data[last : stop[i]].any()
    return Insides(begin, stop, broken, ~due)


def _behind_marks(catalog: Catalog, owner: StructType, found: Found) -> Spans:
    """What belongs to the entries that end lists, behind their fixed fields: a key may lie there, as in the others."""
    lists = (part for part in owner.tail.parts if part.entry is not None and holds_key(catalog, part.struct)) if owner.tail else ()
    return [(a + part.struct.size, b) for part in lists for a, b in found.marks.get(id(part), [])]


def _one_by_one(field: Field[Any]) -> bool:
    """Whether a field holds a tail whose parts follow each other without a gap."""
    tail = field.owner.tail
    return tail is not None and field is tail.field and all(part.align == 1 and part.at is None for part in tail.parts)


def _fields_below(catalog: Catalog, struct: StructType) -> tuple[Field[Any], ...]:
    """Watched fields of a structure and of those nested in it."""
    mine = tuple(field for field in struct.fields if field in watched(catalog))
    return mine + tuple(one for field in struct.fields if field.of is not None for one in _fields_below(catalog, field.of))


def _owners(struct: StructType, field: Field[Any], found: Occurrences) -> Occurrences:
    """Where the structure that declares a field is in these occurrences of one that has it, perhaps nested."""
    if field.owner is struct:
        return found
    for nested in struct.fields:
        if nested.of is not None and (nested.of is field.owner or any(one.of is field.owner for one in nested.of.fields)):
            at = found.at + nested.bit // 8
            return _owners(nested.of, field, Occurrences(found.rows, at, at + nested.bits // 8))
    return found
