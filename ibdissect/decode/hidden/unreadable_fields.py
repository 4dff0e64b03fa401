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

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from operator import index as number_of
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.capture.scattered import gather
from ibdissect.failures import complain, guarded
from ibdissect.wire.catalog import Catalog, StructType, is_foreign, is_plugin
from ibdissect.wire.kept import Memory
from ibdissect.wire.mad import MAD
from ibdissect.wire.places import Inside, Parsed
from ibdissect.wire.spec import Field
from ibdissect.wire.tail import Laid, Part
from ibdissect.wire.tail_walk import Found, Walked, walk

from ..bit_fields import extract, part_of_little, value_at
from ..conversation_values import memories
from ..locate import Bool, Int
from ..occurrences import Occurrences
from ..services import IN_PARTS
from .private_data import is_private

if TYPE_CHECKING:
    from ..chunk_table import ChunkTable

MOST_PARSED = 4096
"""How many structures a parsing function may find in one field."""
Inner = tuple[Inside | Laid | Parsed, StructType]
Spans = list[tuple[int, int]]


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
    for struct in table.catalog.structs:
        if is_plugin(struct) and struct.carried_by:
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
    for field in sorted(watched(table.catalog), key=repr):
        outer = table.occurrences(field.owner)
        if len(outer):
            one = insides(table, field)
            hide = (one.broken & ~_begun(table, field)) | one.unknown
            found.append(Occurrences(outer.rows[hide], one.at[hide], one.stop[hide]))
            if field.owner.tail is not None and field is field.owner.tail.field:
                found += [_unknown_cases(table, outer, part) for part in field.owner.tail.parts if _may_hold_key(table.catalog, part)]
    return found


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
        here = _due(table, place, outer)
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


def extent(field: Field[Any], outer: Occurrences) -> tuple[Int, Int]:
    """Start and end of a field in each occurrence of its structure."""
    begin = outer.at + field.bit // 8
    return begin, np.maximum(outer.stop if field.kind == "rest" else begin + field.bits // 8, begin)


def _due(table: ChunkTable, place: Inside | Laid | Parsed, outer: Occurrences) -> Bool:
    """In which occurrences of the outer structure a structure belongs into the field."""
    due = np.ones(len(outer), np.bool_)
    for field, values in place.when:
        due &= np.isin(_value(table, outer, field), list(values))
    if isinstance(place, Inside) and place.modifier is not None:
        mask, value = place.modifier
        mad = table.located.at("mad")[outer.rows]
        due &= (mad >= 0) & (value_at(table.chunk.data, np.maximum(mad, 0), MAD.attribute_modifier) & mask == value)
    return due


def _value(table: ChunkTable, outer: Occurrences, field: Field[Any]) -> npt.NDArray[Any]:
    """A number in each occurrence of its structure, read from the bytes: the structure may be one that is not shown."""
    low, high = field.span
    value = extract(gather(table.chunk.data, outer.at + low, high - low), field.bit - low * 8, field.wire_bits)
    return part_of_little(field, value.byteswap()) if field.little else value


def spans_of(
    table: ChunkTable, struct: StructType, place: Inside | Laid | Parsed, outer: Occurrences, here: Bool
) -> tuple[Int, Int, Int, Bool]:
    """Where a structure is in the field of a place, for the outer occurrences where `here` holds.

    Returns the index of the outer occurrence, start and end of each, and which outer occurrences could not be read (bool[k]).
    """
    if isinstance(place, Laid):
        return _laid(table, struct, place, outer, here)
    begin, stop = extent(place.field, outer)
    failed = np.zeros(len(outer), np.bool_)
    if isinstance(place, Inside):
        at = begin + place.at
        if place.skip is not None:
            field, unit, add = place.skip
            at += _value(table, outer, field).astype(np.int64) * unit + add
        fits = (at >= begin) & (at + struct.size <= stop)
        failed |= here & ~fits
        index = np.flatnonzero(here & fits)
        return index, at[index], stop[index], failed
    found: list[tuple[int, int, int]] = []
    for i in np.flatnonzero(here).tolist():
        spans, whole = _parsed(table, struct, place, int(outer.at[i] if place.whole else begin[i]), int(stop[i]))
        failed[i] = not whole
        found += [(i, a, b) for a, b in spans]
    index, at, end = np.array(found, np.int64).reshape(-1, 3).T
    return index, at, end, failed


def _parsed(table: ChunkTable, struct: StructType, place: Parsed, first: int, stop: int) -> tuple[Spans, bool]:
    """Where a function finds a structure in bytes of the chunk, sorted, without places that do not fit; and whether all do and it did not
    raise. Asked once for each place and field."""
    known: dict[tuple[int, int, int], tuple[Spans, bool]] = table.results(_parsed)
    key = id(place), first, stop
    if key not in known:
        found, whole = guarded(place.find, table.chunk.data[first:stop].tobytes(), limit=MOST_PARSED)
        pairs = [_span(place, struct, given) for given in found]
        pairs = [(a, b) for a, b in pairs if a != b or struct.size == 0]
        _refuse_overlaps(place, pairs)
        good = [(a, b) for a, b in pairs if a >= 0 and a + struct.size <= b <= stop - first]
        known[key] = sorted((first + a, first + b) for a, b in good), whole and len(good) == len(pairs)
    return known[key]


def _refuse_overlaps(place: Parsed, pairs: Spans) -> None:
    """Report a plugin's function that finds one structure at places that overlap."""
    if len(pairs) > 1 and not place.find.__module__.startswith("ibdissect."):
        for (a, b), (c, d) in pairwise(sorted(pairs)):
            if c < b and a >= 0:
                complain(place.find, ValueError(f"it gave bytes {a} to {b - 1} and {c} to {d - 1}, which overlap"))
                return


def _laid(table: ChunkTable, struct: StructType, place: Laid, outer: Occurrences, here: Bool) -> tuple[Int, Int, Int, Bool]:
    """As `spans_of`, for a part of a tail."""
    founds, failed = walks(table, place.field.owner, outer)
    which: list[int] = []
    spans: Spans = []
    part, values = id(place.part), place.values
    for i, found in enumerate(founds):
        if values is None:
            bounds = found.parts.get(part, ())
            spans += bounds
            which += [i] * len(bounds)
            continue
        for value, first, stop in found.cases.get(part, ()):
            if value in values:
                spans.append((first, stop))
                which.append(i)
    index = np.array(which, np.int64)
    at, end = np.array(spans, np.int64).reshape(-1, 2).T
    failed = failed & here
    keep = here[index]
    if place.values is not None:
        fits = at + struct.size <= end
        failed[index[~fits]] = True
        keep = keep & fits
    return (index, at, end, failed) if keep.all() else (index[keep], at[keep], end[keep], failed & here)


def walks(table: ChunkTable, owner: StructType, outer: Occurrences) -> tuple[list[Found], Bool]:
    """What is in the tail of each of these occurrences of a structure, and which could not be read to their end; once for all its parts."""
    known: dict[tuple[StructType, int], tuple[Occurrences, list[Found], Bool]] = table.results(walks)
    key = owner, id(outer)
    if key not in known:
        remembered = memories(table, owner, outer.rows)
        places = zip(outer.at.tolist(), outer.stop.tolist(), remembered, strict=True)
        found = [walked(table, owner, at, stop, memory) for at, stop, memory in places]
        known[key] = outer, found, np.array([not one.whole for one in found], np.bool_)
    return known[key][1:]


def whole_tails(table: ChunkTable, owner: StructType, outer: Occurrences) -> Bool:
    """In which of these occurrences the tail of a structure is read to its end, with nothing but zeros behind it."""
    found, ends = walks(table, owner, outer)[0], outer.stop.tolist()
    return np.array([one.whole and not table.chunk.data[one.stop : end].any() for one, end in zip(found, ends, strict=True)], np.bool_)


def walked(table: ChunkTable, owner: StructType, first: int, stop: int, memory: Memory) -> Found:
    """What is in the tail of a structure at these bytes of the chunk."""
    known: Walked = table.results(walked)
    key = owner, first, stop
    if key not in known:
        known[key] = walk(owner, table.chunk.data.data, first, stop, known, memory=memory)
    return known[key]


def _span(place: Parsed, struct: StructType, given: object) -> tuple[int, int]:
    """Start and stop of what a parsing function gave; nowhere for anything else, which is reported."""
    try:
        start, stop = map(number_of, given) if isinstance(given, tuple) else (number_of(given), number_of(given) + struct.size)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        complain(place.find, TypeError(f"it gave {type(given).__name__}, not a start or (start, stop)"))
        return -1, 0
    if min(start, stop) < 0:
        complain(place.find, ValueError(f"it gave {given!r}; bytes are counted from 0"))
    return start, stop
