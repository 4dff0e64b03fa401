"""An opened capture in one file, pipe or file object: its chunks, repeatedly for a file, once for a pipe."""

from __future__ import annotations

import io
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter

from msgspec import Struct as Record

from ibdissect.capture.chunk import LINK_NAMES, Chunk, Reader
from ibdissect.capture.pcap import no_infiniband
from ibdissect.capture.pcapng import PcapngRecords
from ibdissect.capture.records import Records
from ibdissect.capture.windows import WINDOW, ObjectBytes, Windows
from ibdissect.errors import CaptureError

PROBE = 1 << 18
"""Window size to look for the first interfaces of a pcapng file."""


class CaptureSource(Record, frozen=True, kw_only=True):
    """Where the bytes of a capture come from."""

    path: str
    start: Callable[[], io.RawIOBase]
    """Returns the (decompressed) bytes from the start."""
    rereadable: bool
    """Whether `start` may be called more than once."""
    close: Callable[[], None]
    far: bool = False
    """Whether each reading transfers the bytes over a network."""


class CaptureReader(Reader):
    """A capture in one file, pipe or file object."""

    def __init__(
        self, origin: CaptureSource, records: Callable[[], Records], *, window: int = WINDOW, follow: threading.Event | None = None,
        packed: bool = False,
    ) -> None:  # fmt: skip
        """With `follow`, reading continues as the file grows, until the event is set."""
        super().__init__(origin.path, follow, rereadable=origin.rereadable, far=origin.far)
        self._origin, self._records, self._window = origin, records, window
        self._packed, self._closed = packed, False
        self._marks: list[tuple[int, int, int | None]] = []
        """Where a reading may begin, a place for each window: first frame, position, and `Records.second` before it."""
        first = records()
        self.link_types = first.link_types
        self.interfaces = first.interfaces if isinstance(first, PcapngRecords) else None
        if isinstance(first, PcapngRecords) and origin.rereadable:
            self._probe(first)

    @property
    def packed(self) -> bool:
        return self._packed

    def chunks(self, frames: Sequence[int] = ()) -> Iterator[Chunk]:
        if self._closed:  # another file may have the number of its descriptor now
            raise CaptureError(self.path, "is closed", hint="open it again")
        stream, records = self._origin.start(), self._records()
        self.damage, self.link_types, self.comments = records.damage, records.link_types, records.comments
        self.interfaces = records.interfaces if isinstance(records, PcapngRecords) else None
        return self._read(stream, records, frames)

    def close(self) -> None:
        super().close()
        self._closed = True
        self._origin.close()

    def _read(self, stream: io.RawIOBase, records: Records, frames: Sequence[int]) -> Iterator[Chunk]:
        live = self._stop is not None or not self.rereadable
        windows = Windows(stream, self.path, self._window, live=live, follow=self._stop)
        marks = self._marks
        if not frames:
            self._marks = marks = []
        while not (windows.final or records.stopped):
            if frames and marks:
                first, position, second = marks[bisect_right(marks, frames[0], key=itemgetter(0)) - 1]
                if first > records.frames + 1 and isinstance(stream, ObjectBytes) and stream.go_to(position):
                    windows.begin_at(position)
                    records.begin_at(first, second)
            elif records.anew:
                marks.append((records.frames + 1, windows.base + records.used, records.second))
            windows.advance(records.used, records.need)
            # While following a file, an incomplete record at the end is not damage.
            final = windows.final and self._stop is None
            for chunk in records.feed(windows.raw, windows.filled, windows.base, final, windows.broken):
                if not self.rereadable:
                    self._require_infiniband(records)
                yield chunk
            if frames and not (frames := frames[bisect_right(frames, records.frames) :]):
                return

    def _probe(self, records: Records) -> None:
        """Read until an interface that can carry InfiniBand is found; nearly always the first one."""
        windows = Windows(self._origin.start(), self.path, PROBE)
        while not (windows.final or records.stopped):
            windows.advance(records.used, records.need)
            for _ in records.feed(windows.raw, windows.filled, windows.base, windows.final, windows.broken):
                pass
            if any(link in LINK_NAMES for link in records.link_types):
                return
        self._require_infiniband(records)

    def _require_infiniband(self, records: Records) -> None:
        if records.link_types and not any(link in LINK_NAMES for link in records.link_types):
            raise no_infiniband(self.path, records.link_types[0])
