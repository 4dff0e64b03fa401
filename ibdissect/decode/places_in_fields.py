"""Where structures lie in the bytes of a field: at a declared place, in a tail, or where a function finds them."""

from __future__ import annotations

from itertools import pairwise
from operator import index as number_of
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ibdissect.capture.gather import gather
from ibdissect.failures import complain, guarded
from ibdissect.wire.catalog import StructType
from ibdissect.wire.kept import Memory
from ibdissect.wire.mad import MAD
from ibdissect.wire.places import Inside, Parsed
from ibdissect.wire.spec import Field
from ibdissect.wire.tail import Laid
from ibdissect.wire.tail_walk import Found, Walked, walk

from .bit_fields import extract, part_of_little, value_at
from .conversation_values import memories
from .locate import Bool, Int
from .occurrences import Occurrences

if TYPE_CHECKING:
    from .chunk_table import ChunkTable

MOST_PARSED = 4096
"""How many structures a parsing function may find in one field."""
Spans = list[tuple[int, int]]


def extent(field: Field[Any], outer: Occurrences) -> tuple[Int, Int]:
    """Start and end of a field in each occurrence of its structure."""
    begin = outer.at + field.bit // 8
    return begin, np.maximum(outer.stop if field.kind == "rest" else begin + field.bits // 8, begin)


def due_in(table: ChunkTable, place: Inside | Laid | Parsed, outer: Occurrences) -> Bool:
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
