"""The structures of each frame of a chunk: their places and their order.

All places come from `ChunkTable`; here they are sorted into frame order for all rows at once. Bytes that no structure covers
become their own pieces, so that every byte is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from msgspec import Struct as Record
from msgspec.structs import replace

from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.bit_fields import any_set
from ibdissect.decode.equal_rows import mix
from ibdissect.decode.find_structures import HEADERS, at_place
from ibdissect.decode.hidden.cut_keys import cut_keys, payloads_with_checksums, revealing_rows, with_keys
from ibdissect.decode.hidden.cut_messages import cut_messages, opaque_bytes
from ibdissect.decode.ignored_data import beside, failed, undefined, unread
from ibdissect.decode.locate import EXTENDED_STRUCTS
from ibdissect.wire import encapsulation
from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.headers import BTH, ICRC, VCRC, Payload
from ibdissect.wire.places import Inside, Mad, MadFormat
from ibdissect.wire.sa import SARecordPiece
from ibdissect.wire.spec import Field, Struct, rest
from ibdissect.wire.tail import Laid


class AttributeData(Struct):
    """Attribute of a MAD without a declared structure."""

    key, title = "mad", "Attribute data"
    data_bytes = rest("Attribute data", at="0", ws="infiniband.mad.data")


class UnusedData(Struct):
    """Bytes of a MAD after its attribute that should be zero but are not."""

    key, title = "mad", "Unused data"
    data_bytes = rest("Unused data", at="0", ws="infiniband.mad.unused")


class PadBytes(Struct):
    """Bytes between payload and ICRC that pad to a 32-bit word (BTH.PadCnt)."""

    key, title = "bth", "Pad"
    data_bytes = rest("Pad bytes", at="0", ws="infiniband.bth.padding")


class Trailer(Struct):
    """Bytes after the packet."""

    key, title = "frame", "Trailer"
    data_bytes = rest("Trailer", at="0", ws="frame.trailer")


class Data(Struct):
    """Bytes of a frame without a known structure."""

    key, title = "frame", "Data"
    data_bytes = rest("Data", at="0", ws="frame.data")


TAIL = frozenset({ICRC, VCRC, PadBytes, Trailer})
"""Pieces whose offset depends on the payload length only: ignored when frames are compared for equal shape."""
LEFT_OVER: tuple[StructType, ...] = (Data, Payload, AttributeData, UnusedData, PadBytes, Trailer)
"""Structures for bytes that no other structure covers."""
_DATA, _PAYLOAD, _ATTRIBUTE, _UNUSED, _PAD, _TRAILER = range(len(LEFT_OVER))


class Placement(Record, frozen=True):
    """A structure at one kind of place."""

    struct: StructType
    place: object
    """None for a header that `locate` finds."""
    hidden: bool = False
    """Its `rest` is masked because it may be part of a key."""
    reveals: bool = False
    """Its checksum is masked because it reveals a key."""
    repeated: bool = False
    """It is the request's record in an SA answer that failed."""
    undefined: bool = False
    """It is the attribute of another answer that failed: what it holds means nothing."""

    @property
    def inside(self) -> Field[Any] | None:
        """The field whose bytes it explains; None for a layer."""
        if isinstance(self.place, Laid):
            return self.place.inside
        return self.place.field if isinstance(self.place, Inside) else None

    def covered(self) -> list[tuple[int, int]]:
        """Byte ranges that it covers, without the holes that other structures fill; the last one may be longer (`rest`)."""
        runs: list[tuple[int, int]] = []
        at = 0
        for field in self.struct.fields:
            if field.kind == "hole":
                start = field.bit // 8
                if start > at:
                    runs.append((at, start))
                at = start + field.bits // 8
        if at < self.struct.size or not runs:
            runs.append((at, self.struct.size))
        return runs


class Kinds:
    """All placements of a catalog, and what a walk asks of each: bool[k] or int64[k]."""

    def __init__(self, catalog: Catalog) -> None:
        self.placements = every = placements(catalog)
        self.each = len(every) + len(LEFT_OVER)
        self.open = np.array([p.struct.fields[-1].kind == "rest" for p in every])
        self.pieces = np.array([p.struct is SARecordPiece for p in every])
        self.records = np.array([isinstance(p.place, Mad) for p in every])
        self.described = np.array([p.place is not None and not isinstance(p.place, (MadFormat, Inside, Laid)) for p in every])
        self.open_formats = self.open & np.array([isinstance(p.place, MadFormat) for p in every])
        self.sums = np.array([any(f.holds == "checksum" for f in p.struct.fields) for p in every])
        self.tail = np.array([struct in TAIL for struct in (*(p.struct for p in every), *LEFT_OVER)])
        """bool[each]: also of `LEFT_OVER`."""
        runs = [p.covered() for p in every]
        self.runs = [
            (
                *(np.array([r[i][end] if i < len(r) else -1 for r in runs]) for end in (0, 1)),
                self.open & np.array([i == len(r) - 1 for r in runs]),
            )
            for i in range(max(map(len, runs)))
        ]
        """First byte and end of the run of that number (-1: none), and whether it goes on to the end of the structure."""
        self._anywhere, self._of_attributes = list[int](), dict[tuple[int, int], list[int]]()
        for number, p in enumerate(every):
            of = self._of_attributes.setdefault((p.place.mgmt_class, p.place.attr_id), []) if isinstance(p.place, Mad) else self._anywhere
            of.append(number)

    def sought(self, table: ChunkTable) -> list[int]:
        """Numbers of the placements that a chunk may have, ascending: of attributes of MADs, as most are, only those that it has."""
        return sorted(chain(self._anywhere, *(self._of_attributes.get(number, ()) for number in table.attributes())))


kinds_of = lru_cache(maxsize=8)(Kinds)
"""They depend on the catalog alone."""


def placements(catalog: Catalog) -> tuple[Placement, ...]:
    """All placements, in display order for structures that start at the same byte."""
    headers = [Placement(struct, None) for struct in (*HEADERS, *EXTENDED_STRUCTS) if struct is not Payload]
    carried = [Placement(struct, place) for struct in catalog.structs if struct not in HEADERS for place in catalog.places(struct)]
    formats = [p for p in carried if isinstance(p.place, MadFormat)]
    inner = [p for p in carried if isinstance(p.place, Inside | Laid)]
    others = [p for p in carried if not isinstance(p.place, (MadFormat, Inside, Laid))]
    return (*headers, *formats, *others, *_outer_first(inner))


def _outer_first(inner: list[Placement]) -> list[Placement]:
    """Sort structures inside others after those that may contain them."""
    ordered: list[Placement] = []
    waiting = inner
    while waiting:
        pending = {p.struct for p in waiting}
        ready = [p for p in waiting if p.inside is None or p.inside.owner not in pending]
        if not ready:
            return ordered + waiting
        ordered += ready
        waiting = [p for p in waiting if p not in ready]
    return ordered


class Shape(Record, frozen=True):
    """Rows whose frames contain the same structures at the same offsets; the tail and the payload length may differ."""

    key: int
    rows: Int
    pieces: tuple[tuple[int, int], ...]
    """Placement number and offset from the frame's start (0 for a piece of the tail), in order."""


class Walk:
    """The pieces of every row of a chunk: parallel arrays, sorted by row and start."""

    def __init__(self, table: ChunkTable) -> None:
        self.table = table = table.shown
        self.traits = kinds_of(table.catalog)
        self.kinds, self.each = self.traits.placements, self.traits.each
        self.count = len(self.kinds)
        kind, rows, at, stop = self._structures()
        pieces = [(self._variants(kind, rows, stop), rows, at, stop), *self._left_over(kind, rows, at, stop)]
        kind, rows, at, stop = (np.concatenate([p[i] for p in pieces]) for i in range(4))
        order = np.lexsort((kind, at, rows))
        self.kind, self.rows, self.at, self.stop = kind[order], rows[order], at[order], stop[order]
        self.start: Int = np.searchsorted(self.rows, np.arange(len(table) + 1))
        """First piece of each row, int64[n + 1]."""

    def placement(self, number: int) -> Placement:
        variant, base = divmod(number, self.each)
        if base < self.count:
            kind = self.kinds[base]
            about = {"hidden": 1, "repeated": 2, "reveals": 4, "undefined": 8}
            return replace(kind, **{name: bool(variant & bit) for name, bit in about.items()}) if variant else kind
        return Placement(LEFT_OVER[base - self.count], None, bool(variant))

    def _variants(self, kind: Int, rows: Int, stop: Int) -> Int:
        """Replace structures by their hidden variant if their open end may be part of a key, or their checksum reveals one.

        Those that repeat a request become their repeated variant, those without a meaning their undefined one.
        """
        traits = self.traits
        pieces, forms, opened, sums = (of[kind] for of in (traits.pieces, traits.open_formats, traits.open, traits.sums))
        hide = np.zeros(len(kind), np.bool_)
        tell = sums & self.table.once(revealing_rows)[rows]
        if pieces.any():
            hide |= pieces & self.table.once(with_keys)[rows]
        if forms.any():
            hide |= forms & (self.table.once(cut_keys) | self.table.once(unread))[rows]
        opaque = self.table.once(opaque_bytes)
        skipped = self.table.located.at("skipped")
        if len(opaque) or (skipped >= 0).any():
            since = np.where(skipped >= 0, skipped, len(self.table.chunk.data))
            np.minimum.at(since, opaque.rows, opaque.at)
            hide |= opened & (stop > since[rows])
        if self.table.repeats:
            kind = kind + 2 * self.each * (traits.records[kind] & self.table.once(failed)[rows])
        nothing = traits.records[kind % self.each] & self.table.once(undefined)[rows]
        return np.asarray(kind + self.each * (hide + 4 * tell + 8 * nothing))

    def _structures(self) -> tuple[Int, Int, Int, Int]:
        parts: list[tuple[int, Any]] = []
        for number in self.traits.sought(self.table):
            struct, place = self.kinds[number].struct, self.kinds[number].place
            found = self.table.occurrences(struct)
            if place is not None and len(found):
                found = at_place(self.table, struct, place)
            if self.table.joined:
                found = found.pick(found.at < self.table.window)  # the others are in no frame
            if len(found):
                parts.append((number, found))
        if not parts:
            return _EMPTY, _EMPTY, _EMPTY, _EMPTY
        kind = np.repeat([number for number, _ in parts], [len(found) for _, found in parts])
        rows, at, stop = (np.concatenate([getattr(found, name) for _, found in parts]) for name in ("rows", "at", "stop"))
        return kind, rows, at, stop

    def _left_over(self, kind: Int, rows: Int, at: Int, stop: Int) -> Iterator[tuple[Int, Int, Int, Int]]:
        """Pieces for the bytes between and after the structures."""
        table, chunk, located = self.table, self.table.chunk, self.table.located
        in_frame = at >= chunk.offset[rows]
        starts, stops, of_row = [chunk.offset], [chunk.offset], [np.arange(len(table))]
        for run in self.traits.runs:
            first, last, is_last = (of[kind] for of in run)
            use = in_frame & (first >= 0)
            starts.append((at + first)[use])
            stops.append(np.where(is_last, stop, at + last)[use])
            of_row.append(rows[use])
        begin, end, row = np.concatenate(starts), np.concatenate(stops), np.concatenate(of_row)
        order = np.lexsort((begin, row))
        begin, end, row = begin[order], end[order], row[order]
        # Offsets grow with the row, so one running maximum gives how far each row is covered.
        reached = np.maximum.accumulate(end)
        following = np.append(begin[1:], 0)
        last_of_row = np.append(row[1:] != row[:-1], True)
        following[last_of_row] = located.end[row[last_of_row]]
        gap = following > reached
        yield from self._named(row[gap], reached[gap], following[gap], kind, rows)

    def _named(self, row: Int, at: Int, stop: Int, kind: Int, rows: Int) -> Iterator[tuple[Int, Int, Int, Int]]:
        if not len(row):
            return
        located, unread_rows = self.table.located, self.table.once(unread)
        payload, mad, icrc, vcrc = (located.at(name)[row] for name in ("payload", "mad", "icrc", "vcrc"))
        payload_end = located.payload_end[row]
        sort = np.full(len(row), _DATA)
        behind = (icrc >= 0) & (at >= icrc)
        sort[behind | ((vcrc >= 0) & (at >= vcrc))] = _TRAILER
        sort[(icrc >= 0) & (stop == icrc)] = _PAD
        whole = (payload >= 0) & (at < payload_end) & (stop > payload)  # options of IP and tunnels are before it
        sort[whole] = _PAYLOAD
        # A gap from the payload into its pad bytes, or into an ICRC that was cut off, becomes two pieces.
        both = whole & (((icrc < 0) & (located.at("bth")[row] >= 0)) | (stop == icrc)) & (stop > payload_end)
        managed = (mad >= 0) & (at >= mad) & (at < payload_end)
        if managed.any():
            known = np.zeros(len(self.table), np.bool_)
            known[rows[self.traits.described[kind]]] = True
            known |= unread_rows
            sort[managed] = np.where(known[row[managed]], _UNUSED, _ATTRIBUTE)
        if both.any():
            cut = icrc[both] < 0
            second = np.where(cut, _DATA, _PAD) + self.each * (cut & self.table.once(revealing_rows)[row[both]])
            yield self.count + second, row[both], payload_end[both], stop[both]
            stop = np.where(both, payload_end, stop)
        keep = (sort != _UNUSED) | any_set(self.table.chunk.data, at, stop)
        opaque = self.table.once(cut_messages) | self.table.once(payloads_with_checksums)
        opaque[self.table.once(opaque_bytes).rows] = True
        hide = np.where(sort == _PAYLOAD, opaque[row], (self.table.once(cut_keys) | unread_rows)[row])
        ignored = self.table.once(beside)
        if ignored is not None:
            hide |= ignored.of(at) != 0
        behind |= (sort == _DATA) & (located.at("bth")[row] >= 0) & (at >= located.limit[row])  # the beginning of an ICRC
        hide |= (behind | (sort == _TRAILER)) & self.table.once(revealing_rows)[row]
        hide &= (located.at("bth")[row] >= 0) | (stop - at > BTH.size)  # a BTH contains no key
        skipped = located.at("skipped")[row]
        hide |= (skipped >= 0) & (stop > skipped)
        yield (sort + self.count + self.each * hide)[keep], row[keep], at[keep], stop[keep]

    def shapes(self, rows: Int | None = None) -> Iterator[Shape]:
        """Group the rows (all by default) by shape."""
        chunk = self.table.chunk
        relative = self.at - chunk.offset[self.rows]
        relative[self.traits.tail[self.kind % self.each]] = 0
        total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mix([self.kind, relative]), dtype=np.uint64)])
        key = total[self.start[1:]] - total[self.start[:-1]]  # a hash of each row's pieces
        chosen = np.arange(len(self.table)) if rows is None else rows
        if not len(chosen):
            return
        values, inverse = np.unique(key[chosen], return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        bounds = np.searchsorted(inverse[order], np.arange(len(values) + 1))
        for i, value in enumerate(values.tolist()):
            members = chosen[order[bounds[i] : bounds[i + 1]]]
            first = slice(self.start[members[0]], self.start[members[0] + 1])
            yield Shape(value, members, tuple(zip(self.kind[first].tolist(), relative[first].tolist(), strict=True)))


_EMPTY = np.empty(0, np.int64)
ERF_HEADER: StructType = encapsulation.ERF
"""Precedes the frame; the offsets of its fields count from its own start."""
