"""SA records that came in several RMPP segments and messages that came in several packets, with their bytes and completing frames.

Most segments end in the middle of a record. No frame has all bytes of that record, so its fields belong to the frame that completed it,
as in Wireshark. `mad.rmpp_reassembly.RecordReassembler` puts such records together; only `ChunkTable.shown` has them, behind the bytes of
the window. Conditions of rules judge them (`Linter._with_joined`), but nothing is learnt from them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.bounded import Dropped
from ibdissect.wire.places import Parsed, Stream, VendorOui
from ibdissect.wire.spec import Field, Struct
from ibdissect.wire.tail import Laid

from .conversation_keys import Conversation
from .locate import Bool, Int
from .occurrences import Occurrences

if TYPE_CHECKING:
    from .chunk_table import ChunkTable

MAX_BYTES = 64 << 20
"""Memory of the records kept, in bytes. The records of one window need less than half, so reading a capture in order misses none."""
MAX_MESSAGE_BYTES = 96 << 20
"""The same of messages and PDUs: those of a window need about 40 MiB, and one is read while the next is put together."""
OVERHEAD, SPAN = 500, 150
"""Memory that a record takes besides its data, and each of its spans, in bytes."""


class FrameSpan(Record, frozen=True):
    """Bytes of one frame."""

    frame: int
    offset: int
    length: int


class SaRecord(Record, frozen=True):
    """One record of an RMPP transfer."""

    number: int
    """Index in the whole transfer, from 0; missing records count."""
    data: bytes
    spans: tuple[FrameSpan, ...]
    """Where its bytes came from, in order."""
    view: Struct | None
    """None if the attribute is unknown or the record is too short for it."""
    place: VendorOui | None = None
    """Where a vendor's MADs carry it."""
    spoken: Conversation | None = None
    """The conversation of these MADs, on which its parts may depend."""


class WholeMessage(Record, frozen=True):
    """A SEND of several packets on a queue pair whose service is known, or one with its chunks (`transport.reassembled_messages`)."""

    data: bytes
    spans: tuple[FrameSpan, ...]
    """Where its bytes came from, in order."""
    service: int
    """As `Services.messages` has it."""
    side: int
    known: int = 0
    """Bytes at its start that an earlier frame, or the same one, shows already."""
    chunks: tuple[FrameSpan, ...] = ()
    """The spans that RDMA READ or WRITE moved (`transport.rpc_rdma_chunks`)."""
    stream: object = None
    """Of a PDU of a stream, and of what a vendor's MADs carry in several RMPP segments: its place (`places.Stream`, `places.VendorOui`).
    A PDU that lies in one packet has no `data` here, only its span."""


Joined = Callable[[], Sequence[tuple[int, SaRecord | WholeMessage]]]
"""Gives the records and messages that the rows of a table completed, each with its row."""


class JoinedRecords:
    """The records that straddle segments, or the messages, by the frame that completed each; the oldest are forgotten."""

    def __init__(self, limit: int | None = None) -> None:
        """`limit`: memory of those that are kept, in bytes."""
        self._found: list[tuple[int, SaRecord | WholeMessage]] = []
        self._limit = limit if limit is not None else MAX_BYTES
        self._bytes = 0
        self._missed = Dropped("messages and PDUs of one window")
        self._first = self._time_ns = 0
        self.makers: list[Any] = []
        """What puts them together, with its own `dropped`."""
        self.forgotten_to = 0
        """Last frame whose records are forgotten."""

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """What nobody could read, because there is a bound."""
        return self._missed, *(one.dropped for one in self.makers)

    def begin(self, first: int, time_ns: int) -> None:
        """A window that starts with this frame is put together; those before it were read."""
        self._first, self._time_ns = first, time_ns

    def put(self, frame: int, record: SaRecord | WholeMessage) -> None:
        """Add a record that `frame` completed. In frame order."""
        self._found.append((frame, record))
        self._bytes += _memory(record)
        if self._bytes > self._limit:
            half = (len(self._found) + 1) // 2
            past = bisect_left(self._found, self._first, key=itemgetter(0))
            half = min(half, past) or half  # first what was read
            unread = half - bisect_left(self._found, self._first, 0, half, key=itemgetter(0))
            if unread and self._first:
                self._missed.add(self._found[half - unread][0], self._time_ns, unread)
                for one in self.makers:
                    one.give_up()
            self.forgotten_to = self._found[half - 1][0]
            self._bytes -= sum(_memory(one) for _, one in self._found[:half])
            self._found = self._found[half:]  # another thread may read the list that was

    def among(self, frames: Sequence[int]) -> list[tuple[int, SaRecord | WholeMessage]]:
        """The records that any of `frames` (ascending) completed, each with the index of its frame."""
        found, frame_of = self._found, itemgetter(0)
        if not found or not len(frames):
            return []
        some = found[bisect_left(found, frames[0], key=frame_of) : bisect_right(found, frames[-1], key=frame_of)]
        rows = [bisect_left(frames, frame) for frame, _ in some]
        return [(row, record) for row, (frame, record) in zip(rows, some, strict=True) if frames[row] == frame]


def _memory(record: SaRecord | WholeMessage) -> int:
    return (OVERHEAD + len(record.data) if record.data else OVERHEAD // 2) + SPAN * len(record.spans)


def starts(table: ChunkTable) -> Int:
    """Where each record or message begins in the data, and where the last one ends, int64[k + 1]."""
    return table.window + np.cumsum([0, *(len(one.data) for _, one in table.joined)])


def homes(table: ChunkTable) -> Int:
    """Where the part of each record or message starts in the frame that completed it, int64[k]."""
    last = (max(one.spans, key=lambda span: span.frame) for _, one in table.joined)
    return np.array([table.chunk.offset[row] + span.offset for (row, _), span in zip(table.joined, last, strict=True)], np.int64)


def in_order(table: ChunkTable, rows: Int, at: Int) -> Int:
    """A sort order by row and place; bytes of a record that was put together count as its part in the completing frame."""
    if not table.joined:
        return np.lexsort((at, rows))
    of = np.searchsorted(table.once(starts), at, "right") - 1
    place = np.where(of >= 0, table.once(homes)[np.minimum(of, len(table.joined) - 1)], at)
    return np.lexsort((at, place, rows))


def whole_messages(table: ChunkTable) -> tuple[Occurrences, npt.NDArray[np.uint64], Int]:
    """The messages that rows completed; the service of each, and the side it goes to."""
    of = [(i, row, one) for i, (row, one) in enumerate(table.joined) if isinstance(one, WholeMessage) and one.stream is None]
    at, index = starts(table), np.array([i for i, _, _ in of], np.int64)
    found = Occurrences(np.array([row for _, row, _ in of], np.int64), at[index], at[index + 1])
    return found, np.array([one.service for _, _, one in of], np.uint64), np.array([one.side for _, _, one in of], np.int64)


def pdus(table: ChunkTable, place: Stream | VendorOui) -> Occurrences:
    """The PDUs of a stream, or the data in several segments, that rows completed."""
    begin, found = starts(table), []
    for i, (row, one) in enumerate(table.joined):
        if isinstance(one, WholeMessage) and one.stream is place:
            at = int(begin[i]) if one.data else int(table.chunk.offset[row]) + one.spans[0].offset
            found.append((row, at, at + sum(span.length for span in one.spans)))
    rows, first, stop = np.array(found, np.int64).reshape(-1, 3).T
    return Occurrences(rows, first, stop)


def known_bytes(table: ChunkTable) -> Int:
    """Bytes of each record or message that its first packets show, int64[k]; none of a record."""
    return np.array([one.known if isinstance(one, WholeMessage) else 0 for _, one in table.joined], np.int64)


def not_in_first(table: ChunkTable, field: Field[Any], found: Occurrences) -> Bool:
    """Which entries of a field, in occurrences of its structure, only the frame that completed a message shows, bool[k, entries].

    The first packets of a message (`known` bytes) show the structures that fit into them, perhaps with only part of the last field.
    """
    begin, first = table.once(starts), table.once(known_bytes)
    of = np.searchsorted(begin, found.at, "right") - 1
    has = np.where(of >= 0, begin[of] + first[np.minimum(of, len(first) - 1)], -1)
    listed = any(isinstance(place, Laid | Parsed) for place in table.catalog.places(field.owner))
    stop = found.stop if listed else found.at + field.owner.size  # a list's entry is found only where all of it fits
    if field.kind == "rest":
        stop = np.maximum(found.stop, stop)
    return np.repeat((stop > has)[:, None], field.count, axis=1)
