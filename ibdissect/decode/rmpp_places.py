"""RMPP segments whose place in their table is certain: those of which all earlier segments were captured.

A SegmentNumber says where in the table the data of a segment lies. Nothing in the packet shows that it is wrong, and records read elsewhere
would show a key as other fields. So a later segment of an attribute with keys is read only if the capture has shown segments 1 to n of its
transfer, in this order, up to its frame. Segments of all other attributes are read wherever they say that they belong.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict
from ibdissect.capture.gather import u16
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.mad import MAD, RMPP
from ibdissect.wire.numbers import DATA, LAST_SEGMENT, RESPONSE_BIT, SA_CLASS
from ibdissect.wire.sa import SAFormat

from .addresses import ends_of
from .bit_fields import value_at
from .equal_rows import is_in
from .identity import TransferId
from .inner_structures import holds_key
from .locate import Bool, Int

if TYPE_CHECKING:
    from .chunk_table import ChunkTable

MAX_TRANSFERS = 1024
"""Transfers that are remembered; the oldest is given up first."""
MAX_AGAIN = 64
"""Latest segments of a transfer whose repetitions are known."""
MAX_FRAMES = 1 << 18
"""Frames that are remembered; the data of older ones is hidden again."""
HEADERS_END = SAFormat.component_mask.span[1]
"""Where the data of a segment begins."""
Key = tuple[TransferId, int, int]
"""A transfer, its attribute and its AttributeOffset, which every segment repeats."""


class _Prefix(Record, eq=False):
    """The segments 1 to `count` of a transfer."""

    first: int
    """Hash of the data of segment 1."""
    latest: deque[int]
    """Hashes of the data of the latest segments."""
    count: int = 1
    ended: bool = False
    """The last segment was seen: another segment 1 begins a new transfer."""

    def takes(self, number: int, data: int, *, last: bool) -> bool:
        """Whether a segment is the next one, or repeats one."""
        back = self.count - number
        if back == -1 and not self.ended:
            self.count, self.ended = number, last
            self.latest.append(data)
            return True
        return 0 <= back < len(self.latest) and self.latest[-1 - back] == data


class PlacedSegments:
    """The later segments whose place is certain. `feed` the chunks of one capture in order, then ask about any frames."""

    def __init__(self) -> None:
        self.fed = 0
        """The last frame fed."""
        self._open = BoundedDict[Key, _Prefix](MAX_TRANSFERS, "transfers of several segments with keys")
        self._frames: list[Int] = []
        self._count = 0

    @property
    def dropped(self) -> object:
        """What was given up, because there is a bound."""
        return self._open.dropped

    def feed(self, table: ChunkTable) -> None:
        """Learn from a chunk; frames fed before are skipped. Nothing is kept in the table: its packets may still be left out."""
        last = table.chunk.first + len(table) - 1
        if last <= self.fed:
            return
        rows = _segments(table)
        rows, self.fed = rows[rows + table.chunk.first > self.fed], last
        if len(rows):
            self._keep(np.array(self._placed(table, rows), np.int64))

    def _placed(self, table: ChunkTable, rows: Int) -> list[int]:
        """The frames of these rows whose place is certain."""
        data, mad, stop, found = table.chunk.data, table.located.at("mad")[rows], table.located.payload_end[rows], []
        steps = value_at(data, mad, SAFormat.attribute_offset)
        places = zip(rows.tolist(), mad.tolist(), stop.tolist(), steps.tolist(), ends_of(table, rows), strict=True)
        for row, at, end, step, (source, to) in places:
            header, here = data[at : at + HEADERS_END].tobytes(), hash(data[at + HEADERS_END : end].tobytes())
            view, rmpp = MAD(header), RMPP(header, MAD.size)
            key = TransferId.of(view.mgmt_class, view.transaction_id, source, to, view.method), view.attribute_id, step
            known, frame = self._open.get(key), table.chunk.first + row
            number, last = rmpp.data1, bool(rmpp.rmpp_flags & LAST_SEGMENT)
            if number == 1:
                if known is None or known.ended or known.first != here:
                    self._open.pop(key, None)
                    self._open.put(key, _Prefix(here, deque([here], MAX_AGAIN), 1, last), frame, int(table.chunk.time_ns[row]))
            elif known is not None and known.takes(number, here, last=last):
                found.append(frame)
        return found

    def _keep(self, frames: Int) -> None:
        self._count += len(frames)
        kept = [*self._frames, frames]
        while self._count > MAX_FRAMES and len(kept) > 1:
            self._count -= len(kept.pop(0))
        self._frames = kept  # another thread may read the list that was

    def of(self, table: ChunkTable) -> Bool:
        """The rows of a table with such a segment, bool[n]."""
        numbers = np.arange(len(table)) + table.chunk.first if table.frames is None else np.array(table.frames, np.int64)
        found = np.zeros(len(table), np.bool_)
        for frames in self._frames if len(numbers) else ():
            if len(frames) and frames[0] <= numbers[-1] and frames[-1] >= numbers[0]:
                found |= is_in(numbers, frames)
        return found


def placed(table: ChunkTable) -> Bool:
    """Rows with a later segment of a table with keys whose place is certain, bool[n]. Call as `table.once(placed)`."""
    return table.services.placed.of(table)


@cache
def _with_keys(catalog: Catalog) -> tuple[int, ...]:
    """The attributes of the SA with keys."""
    return tuple(number for (mgmt_class, number), structs in catalog.attributes.items()
                 if mgmt_class == SA_CLASS and any(holds_key(catalog, struct) for _, struct in structs))  # fmt: skip


def _segments(table: ChunkTable) -> Int:
    """Rows with a segment of an answer with keys."""
    data, mad = table.chunk.data, table.located.at("mad")
    rows: Int = np.flatnonzero((mad >= 0) & (mad + HEADERS_END <= table.located.payload_end))
    rows = rows[value_at(data, mad[rows], MAD.mgmt_class) == SA_CLASS]
    rows = rows[value_at(data, mad[rows] + MAD.size, RMPP.rmpp_type) == DATA]
    rows = rows[(value_at(data, mad[rows], MAD.method) & RESPONSE_BIT) != 0]
    if not len(rows):
        return rows
    found: Int = rows[is_in(u16(data, mad[rows] + MAD.attribute_id.span[0]), np.array(_with_keys(table.catalog), np.int64))]
    return found
