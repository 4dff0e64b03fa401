"""Which records came in several RMPP segments, which messages in several packets, and in which frame was each complete?

Most segments end in the middle of a record. No frame has all bytes of that record, so its fields belong to the frame that completed it,
as in Wireshark. `flow.transfers.Joiner` puts such records together; only `ChunkTable.shown` has them. Conditions of rules judge them
(`Linter._with_joined`), but nothing is learnt from them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import itemgetter

from msgspec import Struct as Record

from ibdissect.wire.spec import Struct

MAX_BYTES = 64 << 20
"""Memory of the records kept, in bytes. The records of one window need less than half, so reading a capture in order misses none."""
OVERHEAD, SPAN = 500, 150
"""Memory that a record takes besides its data, and each of its spans, in bytes."""


class Span(Record, frozen=True):
    """Bytes of one frame."""

    frame: int
    offset: int
    length: int


class SaRecord(Record, frozen=True):
    """One record of an RMPP transfer."""

    number: int
    """Index in the whole transfer, from 0; missing records count."""
    data: bytes
    spans: tuple[Span, ...]
    """Where its bytes came from, in order."""
    view: Struct | None
    """None if the attribute is unknown or the record is too short for it."""


class WholeMessage(Record, frozen=True):
    """A SEND of several packets on a queue pair whose service is known, or one with its chunks (`flow.whole_messages`)."""

    data: bytes
    spans: tuple[Span, ...]
    """Where its bytes came from, in order."""
    service: int
    """As `Services.messages` has it."""
    side: int
    known: int = 0
    """Bytes at its start that an earlier frame, or the same one, shows already."""
    chunks: tuple[Span, ...] = ()
    """The spans that RDMA READ or WRITE moved (`flow.rdma_chunks`)."""


Joined = Callable[[], Sequence[tuple[int, SaRecord | WholeMessage]]]
"""Gives the records and messages that the rows of a table completed, each with its row."""


class JoinedRecords:
    """The records that straddle segments, or the messages, by the frame that completed each; the oldest are forgotten."""

    def __init__(self) -> None:
        self._found: list[tuple[int, SaRecord | WholeMessage]] = []
        self._bytes = 0

    def put(self, frame: int, record: SaRecord | WholeMessage) -> None:
        """Add a record that `frame` completed. In frame order."""
        self._found.append((frame, record))
        self._bytes += _memory(record)
        if self._bytes > MAX_BYTES:
            half = (len(self._found) + 1) // 2
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
    return OVERHEAD + len(record.data) + SPAN * len(record.spans)
