"""Records of SA MADs: one, a table of them, or those in one RMPP segment of a table.

A table is cut into segments without regard to record boundaries. Every segment has a number and repeats AttributeOffset, so the
records in a segment are found without the other segments of its transfer; but not where they may hold keys (`placed`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct as Record

from ibdissect.capture.gather import Bytes, flags
from ibdissect.wire.catalog import StructType
from ibdissect.wire.mad import BASE_VERSION_OPA, MAD, MAD_SIZE, RMPP
from ibdissect.wire.numbers import DATA, DM_CLASS, NO_DATA, RESPONSE_BIT, SA_CLASS, TABLE_RESPONSES
from ibdissect.wire.places import Mad, SaPiece
from ibdissect.wire.sa import SAFormat

from .bit_fields import value_at
from .header_cache import FieldReader
from .ignored_data import QUERY_CLASSES, segment, unread
from .inner_structures import holds_key
from .locate import Bool, Int
from .occurrences import Occurrences, merged
from .places_in_fields import whole_tails
from .rmpp_places import placed

if TYPE_CHECKING:
    from .chunk_table import ChunkTable

RMPP_END, HEADERS_END = MAD.size + RMPP.size, SAFormat.attribute_offset.span[1]
"""Offsets of the end of the RMPP header, and of the end of AttributeOffset."""
NO_RMPP = 0


class _Segments(Record, frozen=True, eq=False):
    """Rows that hold records or pieces of them; offsets count from the start of `chunk.data`. int64[k] each."""

    rows: Int
    start: Int
    """Start of the class's data."""
    stop: Int
    """End of its valid captured bytes."""
    step: Int
    """Bytes from one record to the next; 0 for a single record, at `start`."""
    phase: Int
    """Bytes from `start` to the first record that starts in this segment; negative if there is no record at all."""
    number: Int
    """Of the segment."""


def records(table: ChunkTable, rows: Int, place: Mad, data_at: int, struct: StructType) -> Occurrences:
    """All records of a structure that are whole in their frame, and those that were joined there. `rows`: MADs of the place's class and
    attribute."""
    seg = _segments(table, rows, place, data_at, struct)
    fitting = seg.stop - seg.start - seg.phase - struct.size
    several = seg.step > 0
    count = np.where(several, fitting // np.maximum(seg.step, 1) + 1, 1)
    count[(fitting < 0) | (seg.phase < 0)] = 0
    index = np.repeat(np.arange(len(count)), count)
    number = np.arange(len(index)) - np.repeat(np.cumsum(count) - count, count)
    at = seg.start[index] + seg.phase[index] + number * seg.step[index]
    stop = at + struct.size
    if struct.fields[-1].kind == "rest":
        stop = np.where(several[index], np.minimum(at + seg.step[index], seg.stop[index]), seg.stop[index])
    whole = Occurrences(seg.rows[index], at, stop)
    if struct.tail is not None and several.any() and holds_key(table.catalog, struct):
        # cut at another place, a record would seem to have an empty tail
        cut = (seg.number[index] > 1) & (at + seg.step[index] > seg.stop[index])
        wrong = whole.rows[cut | ~whole_tails(table, struct, whole)]
        whole = whole.pick(~np.isin(whole.rows, wrong[np.isin(wrong, seg.rows[several])]))
    return merged([whole, _joined(table, seg.rows[seg.step > 0], struct.size)]) if table.joined else whole


def _joined(table: ChunkTable, rows: Int, size: int) -> Occurrences:
    """The records that straddle segments and were complete in these rows; not those with only padding in another segment."""
    facts = np.array([(row, len(record.data), record.spans[0].length) for row, record in table.joined], np.int64)
    of_row, sizes, first = facts.T
    stop = table.window + np.cumsum(sizes)
    keep = np.isin(of_row, rows) & (sizes >= size) & (first < size)
    return Occurrences(of_row, stop - sizes, stop).pick(keep)


def pieces(table: ChunkTable, _place: SaPiece | None = None) -> Occurrences:
    """Byte ranges of records that are only partly in their frame, in frame order."""
    found = []
    for number, rows in table.attributes().items():
        for place, struct in table.catalog.attributes.get(number, ()) if number[0] == SA_CLASS else ():
            seg = _segments(table, of_methods(table, rows, place), place, table.catalog.start_of(place), struct)
            found += _of_segments(seg, struct.size)
    return merged(found)


def _of_segments(seg: _Segments, size: int) -> list[Occurrences]:
    cut = (seg.step > 0) & (seg.phase >= 0)
    first = np.minimum(seg.start + seg.phase, seg.stop)
    # A record may be shorter than the step: then the bytes before the first record may be padding only.
    head = cut & (seg.phase > seg.step - size) & (first > seg.start)
    whole = np.maximum((seg.stop - first - size) // np.maximum(seg.step, 1) + 1, 0)
    behind = first + whole * seg.step
    tail = cut & (behind < seg.stop)
    return [Occurrences(seg.rows[head], seg.start[head], first[head]), Occurrences(seg.rows[tail], behind[tail], seg.stop[tail])]


def of_methods(table: ChunkTable, rows: Int, place: Mad) -> Int:
    """The rows with a method of the place, without requests whose data is not read."""
    if place.mgmt_class in QUERY_CLASSES:
        rows = rows[~table.once(unread)[rows]]
    if place.methods is None:
        return rows
    fitting: Int = rows[flags(place.methods)[table.once(versions_and_methods)[1, rows]]]
    return fitting


def versions_and_methods(table: ChunkTable) -> Bytes:
    """Base version and method of the MAD in each row, uint8[2, n]; 0 for none. Call as `table.once(versions_and_methods)`."""
    mad = table.located.at("mad")
    rows = (mad >= 0).nonzero()[0]
    found = np.zeros((2, len(table)), np.uint8)
    found[:, rows] = FieldReader(table.located.front, rows, mad[rows]).part(0, 4)[:, [0, 3]].T
    return found


def starts_data(table: ChunkTable, rows: Int) -> Bool:
    """Which MADs with an RMPP header contain the start of their data: RMPP not in use, or the first DATA segment."""
    mad = table.located.at("mad")[rows]
    long = mad + RMPP_END <= table.located.payload_end[rows]
    first: Bool = np.ones(len(rows), np.bool_)
    kind, number = segment(table.chunk.data, mad[long])
    first[long] = (kind == NO_RMPP) | ((kind == DATA) & (number == 1))
    return first


def holds_data(table: ChunkTable, rows: Int) -> Bool:
    """Which MADs with an RMPP header contain all of their data: RMPP not in use, or a DATA segment that is the first and the last."""
    mad = table.located.at("mad")[rows]
    whole = starts_data(table, rows)
    long = mad + RMPP_END <= table.located.payload_end[rows]
    at = mad[long] + MAD.size
    goes_on = (segment(table.chunk.data, mad[long])[0] == DATA) & (value_at(table.chunk.data, at, RMPP.last) == 0)
    whole[long] &= ~goes_on
    return whole


def _segments(table: ChunkTable, rows: Int, place: Mad, data_at: int, struct: StructType) -> _Segments:
    data, located, size = table.chunk.data, table.located, struct.size
    mad = located.at("mad")[rows]
    good = (mad + max(data_at, HEADERS_END) <= located.payload_end[rows]) & (
        (data[mad] == BASE_VERSION_OPA) == (place.base_version == BASE_VERSION_OPA)
    )
    rows, mad = rows[good], mad[good]
    method, status = value_at(data, mad, MAD.method), value_at(data, mad, MAD.status)
    response = (method & RESPONSE_BIT) != 0
    kind, number = segment(data, mad)
    version, last, length = (value_at(data, mad + MAD.size, field) for field in (RMPP.rmpp_version, RMPP.last, RMPP.payload_length))
    if place.mgmt_class == DM_CLASS:  # the RMPP header is present only if its version is not 0 (kernel core/mad.c)
        kind = np.where(version == 0, NO_RMPP, kind)
    segmented = kind == DATA
    failed = response & ((status & NO_DATA) != 0)
    repeats = failed & (table.repeats and place.mgmt_class == SA_CLASS)
    empty = (failed & ~repeats) | ~(segmented | (kind == NO_RMPP))
    stop = located.payload_end[rows]
    step, phase = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    room, header = MAD_SIZE[place.base_version] - data_at, data_at - RMPP_END
    short = segmented & (last != 0) & (length <= room + header)
    stop = np.minimum(stop, mad + data_at + np.where(short, np.maximum(length - header, 0), room))
    if place.mgmt_class == SA_CLASS:
        offset = value_at(data, mad, SAFormat.attribute_offset) * 8
        answer = np.isin(method, TABLE_RESPONSES)
        empty |= answer & (offset == 0) & ~repeats
        if holds_key(table.catalog, struct):  # read elsewhere, a key would be another field
            least, open_end = -(-size // 8) * 8, struct.fields[-1].kind == "rest"
            unsure = (offset == least) if open_end else (offset >= size) & (offset != least)
            unsure |= value_at(data, mad + MAD.size, RMPP.first).astype(np.bool_) != (number == 1)
            empty |= answer & segmented & unsure & ~repeats
            empty |= response & (kind == NO_RMPP) & (number > 1) & ~repeats
            if (later := segmented & (number > 1)).any():
                empty |= later & ~table.once(placed)[rows]
        # An offset below the record size is invalid: only the first record is read.
        step = np.where(segmented & response & (offset >= size) & ~repeats, offset, 0)
        phase = np.where(step > 0, -(number - 1) * room % np.maximum(step, 1), 0)
    empty |= segmented & ((number == 0) | ((number > 1) & (step == 0)))
    phase[empty] = -1
    return _Segments(rows, mad + data_at, stop, step, phase, number)
