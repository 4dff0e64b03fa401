"""The parts of a structure of variable size, found in the bytes of a packet. `tail` declares them."""

from __future__ import annotations

from typing import cast

from msgspec import Struct as Record
from msgspec import field as each_new

from .kept import Memory, NotKnown, nothing
from .tail import CHOICE, FIELDS, LIST, TEXT, Bounds, Data, Part, StructType, Where
from .tail_flat import MOST as MOST

MOST_FIXED = 1 << 16
"""Most entries of one list whose entries have all one size: as many as a PDU has bytes."""

DEEPEST = 16
"""Most structures of variable size that may lie in each other."""


class Found(Record, eq=False):
    """What a walk through a tail found; offsets count from the start of the bytes."""

    stop: int
    """Where the structure ends."""
    whole: bool = True
    """Whether every part could be read to its end."""
    parts: dict[int, list[Bounds]] = each_new(default_factory=dict)
    cases: dict[int, list[tuple[int, int, int]]] = each_new(default_factory=dict)
    """Of each choice: the deciding value, start and end."""
    marks: dict[int, list[Bounds]] = each_new(default_factory=dict)
    """What ends lists and texts, and belongs to none of their entries."""
    why: str = ""
    """What does not fit, or where a bound was reached; empty if nothing of its own: it is whole, or a structure inside it is not."""


Walked = dict[tuple[StructType, int, int], Found]
"""What walks found, by the structure, its start and its end."""


def walk(
    struct: StructType, data: Data, at: int, stop: int, known: Walked | None = None, depth: int = 0, memory: Memory = nothing,
) -> Found:  # fmt: skip
    """Find the parts of the tail of a structure that starts at `at` and has bytes up to `stop`. Nothing is read beyond; the walk ends at
    the first part that does not fit, or that `memory` should decide and cannot. `known` gets what was found of the structures inside."""
    found, where, tail = Found(stop), {struct: at}, struct.tail
    assert tail is not None
    known = {} if known is None else known
    first = pos = at + struct.size
    if pos > stop or depth > DEEPEST:
        found.whole = False
        found.why = (
            f"{struct.title} needs {struct.size} bytes, {stop - at} are there"
            if pos > stop
            else f"more than {DEEPEST} structures lie in each other"
        )
        return found
    try:
        for part, key, form, present, offset, size, align in tail.steps:
            if present is not None and not present(data, where, memory):
                continue
            if offset is not None:
                pos = at + offset(data, where, memory)
                if not first <= pos <= stop:
                    found.whole, found.why = False, f"{part.field.label} should start at byte {pos - at}, outside of {struct.title}"
                    return found
            limit = stop if size is None else pos + size(data, where, memory)
            if not pos <= limit <= stop:
                found.whole, found.why = False, _too_few(part, limit - pos, stop - pos)
                limit = stop
                if form != LIST:
                    return found
            end = limit
            if form == LIST:
                end = _entries(part, key, data, where, pos, limit, found, known, depth, memory)
            elif form == CHOICE:
                assert part.by_of is not None
                value = part.by_of(data, where, memory)
                if size is None and (chosen := part.cases.get(value)) is not None:
                    end, found.whole, found.why = _extent(chosen, data, pos, limit, known, depth, memory)
                found.cases.setdefault(key, []).append((value, pos, end))
                if found.whole:
                    found.parts[key] = [(pos, end)]
            elif form == TEXT:
                stops, end = _text_end(part, data, pos, limit)
                found.marks[key], found.parts[key] = [(stops, end)], [(pos, stops)]
            else:
                if form == FIELDS:
                    end, found.whole = pos + part.struct.size, pos + part.struct.size <= limit
                    where[part.struct] = pos
                    found.why = "" if found.whole else _too_few(part, part.struct.size, limit - pos)
                if found.whole:
                    found.parts[key] = [(pos, end)]
            if not found.whole:
                return found
            pos = end if size is None else limit
            if align > 1:
                pos = min(at + -(-(pos - at) // align) * align, stop)
    except NotKnown:
        found.whole = False
        return found
    found.stop = pos
    return found


def _entries(
    part: Part, key: int, data: Data, where: Where, pos: int, limit: int, found: Found, known: Walked, depth: int, memory: Memory,
) -> int:  # fmt: skip
    """Find the entries of a list, which may not be whole."""
    entry, ends, struct, fixed = part.entry, part.ends, part.struct, part.fixed
    assert entry is not None
    count = None if part.count_of is None else part.count_of(data, where, memory)
    places = found.parts.setdefault(key, [])
    if fixed:
        fits = (limit - pos) // fixed
        wanted = fits if count is None else count
        taken = max(min(wanted, fits, MOST_FIXED), 0)
        stop = pos + taken * fixed
        places += zip(range(pos, stop, fixed), range(pos + fixed, stop + fixed, fixed), strict=True)
        if taken == wanted:
            return stop
        if not 0 <= wanted <= fits:
            found.whole, found.why = False, f"{part.field.label} should have {wanted:,} entries, {fits:,} are there"
        if taken < min(wanted, fits):
            found.why = _bound(part, taken, wanted - taken)
            found.whole &= entry.kind == "uint" and not entry.secret  # in others may lie what must be seen
        return pos + min(wanted, fits) * fixed if found.whole else stop
    if part.flat is not None and depth < DEEPEST:
        flat, stop, whole, mark = part.flat(data, pos, limit, count)
        places += flat
        found.whole &= whole
        if not whole and not found.why and not (flat and flat[-1][0] == stop):  # else that entry says what does not fit
            found.why = _ended(part, len(flat), count, limit - stop)
        if mark is not None:
            found.marks.setdefault(key, []).append(mark)
        return int(stop)
    number = 0
    while pos < limit if count is None else number < count:
        if entry.kind == "rest":
            end, after = _text_end(part, data, pos, limit)
            fits_in = True
        else:
            end, fits_in, why = _extent(struct, data, pos, limit, known, depth, memory)
            after = end
        if ends is not None and fits_in and ends(data, {struct: pos}, memory):
            found.marks.setdefault(key, []).append((pos, after))
            return after
        if after > end:
            found.marks.setdefault(key, []).append((end, after))
        number += 1
        if not fits_in or after <= pos or number > MOST:
            found.whole = False
            found.why = found.why or (why if not fits_in else _ended(part, number - 1, count, limit - pos))
            if not fits_in and struct.tail is not None and pos + struct.size <= limit:
                places.append((pos, limit))  # it is cut off: what it begins with is shown
            return pos
        if end > pos:  # an empty text is none
            places.append((pos, end))
        pos = after
    return pos


def _text_end(part: Part, data: Data, pos: int, limit: int) -> Bounds:
    """Where a text ends, and what follows it begins."""
    mark = cast(bytes, part.until)
    end = bytes(data[pos:limit]).find(mark)
    return (limit, limit) if end < 0 else (pos + end, pos + end + len(mark))


def _too_few(part: Part, wanted: int, there: int) -> str:
    return f"{part.field.label} should have {wanted} bytes, {max(there, 0)} are there"


def _bound(part: Part, taken: int, more: int) -> str:
    return f"the first {taken:,} entries of {part.field.label} are shown, {more:,} more are not"


def _ended(part: Part, taken: int, count: int | None, left: int) -> str:
    """Why a list whose entries differ in size ends early."""
    if taken >= MOST:
        more = f"{count - taken:,} more" if count is not None else f"those in the {left:,} bytes behind them"
        return f"the first {taken:,} entries of {part.field.label} are shown, {more} are not"
    if count is not None:
        return f"{part.field.label} should have {count:,} entries, {taken:,} fit"
    return f"{part.field.label} number {taken + 1} does not fit into the {left} bytes that are left"


def _extent(struct: StructType, data: Data, at: int, stop: int, known: Walked, depth: int, memory: Memory) -> tuple[int, bool, str]:
    """Where a structure ends, whether it fits, and what does not, unless its own tail says so."""
    if struct.tail is not None:
        found = walk(struct, data, at, stop, known, depth + 1, memory)
        if found.whole:
            known[struct, at, found.stop] = found
        return found.stop, found.whole, found.why if at + struct.size > stop or depth >= DEEPEST else ""
    end = stop if struct.fields[-1].kind == "rest" else at + struct.size
    fits = at + struct.size <= end <= stop
    return end, fits, "" if fits else f"{struct.title} needs {struct.size} bytes, {max(stop - at, 0)} are there"
