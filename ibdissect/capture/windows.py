"""Byte streams from files, pipes and file objects, as windows of memory; compressed ones through `compressed`."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ibdissect.errors import CaptureError

T = TypeVar("T")
WINDOW = 12 << 20
"""Bytes of a window; it grows only for a single record that needs more. Two windows are in memory at a time, with columns of five
times their size for management traffic; smaller windows take more time (docs/performance.md)."""
SLACK = 64
"""Extra bytes after a window, so that a gather at its very end stays inside; their values are undefined."""
POLL = 0.2
"""Seconds between two polls of a growing file."""
PIECE = 1 << 17
"""Compressed bytes read at once, and the smallest window of a pipe."""


def _references_of_one_name() -> int:
    probe = np.empty(1, np.uint8)
    return sys.getrefcount(probe)


UNSHARED = _references_of_one_name()
"""`sys.getrefcount` of an array held by one local name (differs between Python versions); every view adds one."""

IN_FLIGHT = 2
"""Earlier windows kept to reuse their memory: one may be in use while the next is prepared."""


class ReadInterrupted(Exception):
    """Raised by `interrupt_reads` to interrupt a blocked read."""


class _Reads:
    """Process-wide state: number of blocked reads, and whether reading has been ended."""

    blocked, ended = 0, False


def interrupt_reads() -> None:
    """End the blocked read and all later ones; for signal handlers. Readers see the end of the stream."""
    _Reads.ended = True
    if _Reads.blocked:
        raise ReadInterrupted


def allow_reads() -> None:
    """Allow reads again after `interrupt_reads`."""
    _Reads.ended = False


def ended() -> bool:
    """Whether `interrupt_reads` has ended reading."""
    return _Reads.ended


def waited(read: Callable[[Any], T], argument: Any, nothing: T) -> T:  # Any: a buffer, or how many bytes
    """The result of a read that may block; `nothing` if `interrupt_reads` ended it."""
    _Reads.blocked += 1
    try:
        return nothing if _Reads.ended else read(argument)
    except ReadInterrupted:
        return nothing
    finally:
        _Reads.blocked -= 1


def read_up_to(source: io.RawIOBase, count: int) -> bytes:
    """`count` bytes, or fewer at the end of the stream."""
    head = b""
    while len(head) < count and (more := waited(source.read, count - len(head), None)):
        head += more
    return head


class ByteStream(io.RawIOBase):
    """A stream that can be read; `some` returns its next bytes."""

    def readable(self) -> bool:
        return True

    def some(self, count: int) -> bytes:
        """At most `count` bytes; none at the end."""
        raise NotImplementedError

    def readinto(self, buffer: Any) -> int:  # Any: the buffer protocol has no type before Python 3.12
        view = memoryview(buffer)
        data = self.some(len(view))
        view[: len(data)] = data
        return len(data)


class FileBytes(ByteStream):
    """A regular file from its start, with its own position, so that several readers can share the descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self.position = descriptor, 0

    @property
    def shorter(self) -> bool:
        """Whether the file now ends before what was read."""
        return os.fstat(self.descriptor).st_size < self.position

    def readinto(self, buffer: Any) -> int:  # Any: see above
        count = os.preadv(self.descriptor, [buffer], self.position)
        self.position += count
        return count


class ObjectBytes(ByteStream):
    """A binary stream: first the `head` already read from it, then the rest, from `position` if it can seek."""

    def __init__(self, source: Any, head: bytes = b"", position: int | None = None) -> None:  # Any: whatever can read
        self.source, self.head, self.position = source, head, position
        # readinto1 of a buffered pipe would wait for more although its buffer has bytes, so use read1.
        self.read1 = getattr(source, "read1", None) if position is None else None
        self.into = None if self.read1 else getattr(source, "readinto", None)

    @property
    def broken(self) -> str | None:
        """Why a compressed stream ended early, if it did."""
        return getattr(self.source, "broken", None)

    @property
    def shorter(self) -> bool:
        """Whether a regular file below now ends before what was read."""
        return isinstance(self.source, FileBytes) and self.source.shorter

    def go_to(self, position: int) -> bool:
        """Continue at a byte of a regular file; returns False for other sources."""
        if not isinstance(self.source, FileBytes):
            return False
        self.head, self.source.position = b"", position
        return True

    def readinto(self, buffer: Any) -> int:  # Any: see above
        view = memoryview(buffer)
        if self.head:
            count = min(len(view), len(self.head))
            view[:count] = self.head[:count]
            self.head = self.head[count:]
            return count
        if self.position is not None:
            self.source.seek(self.position)
        if self.into is not None:
            count = self.into(view) or 0
        else:
            data = (self.read1 or self.source.read)(min(len(view), PIECE)) or b""
            count = len(data)
            view[:count] = data
        if self.position is not None:
            self.position += count
        return count


class Windows:
    """The stream, one window at a time: `raw[:filled]` holds the bytes from file position `base`.

    A `live` stream returns available bytes without waiting for a full window.
    """

    def __init__(
        self, source: io.RawIOBase, path: str, size: int = WINDOW, *, live: bool = False, follow: threading.Event | None = None
    ) -> None:
        self.source, self.path, self.size, self.live, self.stopping = source, path, max(1, size), live, follow
        self.raw: npt.NDArray[np.uint8] = np.empty(SLACK, np.uint8)
        self.filled = self.base = 0
        self._past: list[npt.NDArray[np.uint8]] = []
        """Earlier windows; their memory is reused once unreferenced, because fresh pages cost as much as reading."""
        self.final = False
        """True if nothing follows `raw[:filled]`."""
        self._room = min(self.size, PIECE) if live else self.size

    @property
    def broken(self) -> str | None:
        """Why a compressed stream ended early, if it did."""
        return getattr(self.source, "broken", None)

    def _memory(self, size: int) -> npt.NDArray[np.uint8]:
        """Memory for a window of `size` bytes: that of an earlier window if nothing else references it."""
        self._past, past = [self.raw], self._past
        while past:
            found = past.pop()
            if found.size == size and sys.getrefcount(found) == UNSHARED:
                return found
            if len(self._past) < IN_FLIGHT:
                self._past.append(found)
        return np.empty(size, np.uint8)

    def begin_at(self, position: int) -> None:
        """Forget the present window: the stream goes on at another position."""
        self.filled, self.base = 0, position

    def advance(self, used: int, need: int = 0) -> None:
        """Drop `used` bytes and read more, at least `need` bytes in all if available, into memory that no chunk uses."""
        carried = self.filled - used
        size = max(self._room, need, carried + 1)
        fresh = self._memory(size + SLACK)
        fresh[:carried] = self.raw[used : self.filled]
        view = fresh.data
        self.raw, self.base, start = fresh, self.base + used, carried
        while carried < size and not self.final:
            count = self._read(view[carried:size])
            carried += count
            self.final = count == 0
            if self.live and carried >= need and count:
                break
        if self.live:
            # Grow the window for a fast writer; keep it small for a slow one to save memory.
            self._room = min(self.size, self._room * 4) if carried - start == size - start else min(self.size, PIECE)
        self.filled = carried

    def _read(self, view: memoryview) -> int:
        while True:
            try:
                # Reads of plain files do not block for long, so `interrupt_reads` need not interrupt them.
                count = (waited(self.source.readinto, view, 0) if self.live else self.source.readinto(view)) or 0
            except OSError as error:
                raise CaptureError(self.path, f"cannot be read: {error.strerror or error}") from error
            if not count and self.stopping is not None and getattr(self.source, "shorter", False):
                raise CaptureError(self.path, "was made shorter while it was followed", hint="open it again")
            if count or self.stopping is None or self.stopping.wait(POLL):
                return count
