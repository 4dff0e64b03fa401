"""A compact index of a whole capture, to read any of its frames again in any order.

Uses 12 to 16 bytes per frame: every array of a chunk is stored as its minimum and the differences from it in the smallest
unsigned type that holds them, or as the minimum alone if all rows are equal.
"""

from __future__ import annotations

import os
import sys
import threading
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.capture.chunk import Chunk, SetMember
from ibdissect.capture.gather import Ints
from ibdissect.capture.interfaces import Interfaces
from ibdissect.capture.remote import Remote, is_url
from ibdissect.capture.windows import SLACK
from ibdissect.errors import CaptureError

FIELDS = ("position", "caplen", "length", "time_ns", "link", "interface", "lead")
"""What is stored per frame: `position` is its offset in the (decompressed) file, `lead` the bytes of ERF header before it."""
MERGED = 8192
"""Small chunks, as read from pipes, are joined up to this many rows."""
SPAN = 16 << 20
"""Bytes that a joined block may span."""


class _Packed(Record, frozen=True):
    """Integers as minimum and differences."""

    least: int
    rest: npt.NDArray[Any] | None
    """None: all equal `least`."""

    @staticmethod
    def of(values: Ints) -> _Packed:
        least = int(values.min())
        spread = int(values.max()) - least
        if not spread:
            return _Packed(least, None)
        dtype = next(f"u{size}" for size in (1, 2, 4, 8) if spread < 1 << 8 * size)
        return _Packed(least, (values - least).astype(dtype))

    def get(self, rows: npt.NDArray[np.int64]) -> Ints:
        if self.rest is None:
            return np.full(len(rows), self.least, np.int64)
        return self.rest[rows].astype(np.int64) + self.least


class _Block(Record, frozen=True):
    """Consecutive frames."""

    first: int
    count: int
    packed: tuple[_Packed, ...]
    """In the order of FIELDS."""

    def get(self, rows: npt.NDArray[np.int64]) -> list[Ints]:
        return [packed.get(rows) for packed in self.packed]


class FrameIndex:
    """Frames by number; one thread may add, any thread may read.

    `files` are uncompressed files that can be read again, which may grow in number. Without them (a pipe, a compressed file) the
    records are copied to an unnamed temporary file, which disappears when the index is closed or the program ends.
    """

    def __init__(self, files: Sequence[SetMember] | None) -> None:
        self._blocks: list[_Block] = []
        self._firsts: list[int] = []
        self._lock = threading.Lock()
        self.frames = 0
        """Frames indexed so far."""
        self.comments: Mapping[int, Sequence[str]] = {}
        self.interfaces: Interfaces | None = None
        self.reach = 0
        """End of the last indexed frame in the (decompressed) file."""
        import tempfile

        self._spool = None if files is not None else tempfile.TemporaryFile(prefix="ibdissect-")  # noqa: SIM115 - closed by close()
        self._files: Sequence[SetMember] = () if files is None else files
        self._descriptor, self._opened = -1, ""
        """Descriptor of the open local file, and the path of the open file or URL."""
        self._remote: Remote | None = None
        if self._files:
            self._file_at(0)

    def __enter__(self) -> FrameIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; deletes the temporary copy."""
        with self._lock:
            self._leave()
            self._files = ()
            if self._spool is not None:
                self._spool.close()

    def add(self, chunk: Chunk) -> None:
        """Add the next chunk of the capture; raises OSError if the temporary copy cannot be written."""
        count = len(chunk)
        if not count:
            return
        lead = np.where(chunk.pseudo >= 0, chunk.offset - chunk.pseudo, 0)
        if self._spool is not None:
            begin = int((chunk.offset - lead).min())
            stop = int((chunk.offset + chunk.caplen).max())
            os.pwrite(self._spool.fileno(), chunk.data[begin:stop].data, chunk.base + begin)
        arrays = [chunk.base + chunk.offset, chunk.caplen, chunk.length, chunk.time_ns, chunk.link, chunk.interface, lead]
        columns = [np.asarray(array, np.int64) for array in arrays]
        last = self._blocks[-1] if self._blocks else None
        if last is not None and last.count + count <= MERGED and int(columns[0][-1]) - last.packed[0].least < SPAN:
            before = last.get(np.arange(last.count))
            columns = [np.concatenate(pair) for pair in zip(before, columns, strict=True)]
            self._blocks[-1] = _Block(last.first, last.count + count, tuple(map(_Packed.of, columns)))
        else:
            self._blocks.append(_Block(chunk.first, count, tuple(map(_Packed.of, columns))))
            self._firsts.append(chunk.first)
        self.reach = chunk.base + int((chunk.offset + chunk.caplen).max())
        self.frames = chunk.first + count - 1
        self.comments, self.interfaces = chunk.comments, chunk.interfaces

    def time_ns(self, frame: int) -> int:
        """Time of a frame; raises KeyError if there is no such frame (yet)."""
        block = self._block(frame)
        return int(block.packed[3].get(np.array([frame - block.first]))[0])

    def after(self, frame: int, limit: int = 65536) -> Chunk:
        """The next frames after `frame`, up to the end of their block and at most `limit`; none at the end of the capture."""
        first = frame + 1
        if first > self.frames:
            return self.chunk(range(0))
        block = self._block(first)
        stop = min(block.first + block.count, self.frames + 1, first + limit)
        return self.chunk(range(first, stop))

    def chunk(self, frames: Sequence[int]) -> Chunk:
        """The given frames (ascending) as one chunk; row i is frames[i].

        `first` is the first of them; if they are not consecutive, the caller must keep track of the other numbers.
        If the file has been truncated, the captured bytes of a frame end early.
        """
        parts = []
        at = 0
        while at < len(frames):
            block = self._block(frames[at])
            stop = min(bisect_right(frames, block.first + block.count - 1, at), len(frames))
            numbers = np.array(frames[at:stop], np.int64)
            parts.append(block.get(numbers - block.first))
            at = stop
        if not parts:
            empty = np.empty(0, np.int64)
            columns = [empty] * len(FIELDS)
        else:
            columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        position, caplen, length, time_ns, link, interface, lead = columns
        data, start, there = self._bytes(position - lead, position + caplen)
        offset = start + lead
        return Chunk(
            first=int(frames[0]) if len(frames) else self.frames + 1, base=int(position[0]) - int(offset[0]) if len(frames) else 0,
            data=data, offset=np.minimum(offset, start + there), caplen=np.maximum(there - lead, 0), length=length, time_ns=time_ns,
            link=link.astype(np.uint16), interface=interface.astype(np.uint16),
            pseudo=np.where((lead > 0) & (there >= lead), start, -1), comments=self.comments, interfaces=self.interfaces,
        )  # fmt: skip

    def _block(self, frame: int) -> _Block:
        number = bisect_right(self._firsts, frame) - 1
        if number < 0 or frame > self.frames:
            raise KeyError(frame)
        return self._blocks[number]

    def _bytes(self, begin: Ints, stop: Ints) -> tuple[npt.NDArray[np.uint8], Ints, Ints]:
        """Read ranges of the file into one array: the array, where each range starts in it, and how many of its bytes were read."""
        sizes = stop - begin
        if not len(begin):
            return np.zeros(SLACK, np.uint8), begin, sizes
        # Ranges close together are read at once, including the record headers between them.
        gap = np.flatnonzero((begin[1:] - stop[:-1] > 4096) | (begin[1:] < stop[:-1])) + 1
        runs = list(zip([0, *gap.tolist()], [*gap.tolist(), len(begin)], strict=True))
        total = sum(int(stop[b - 1] - begin[a]) for a, b in runs)
        data = np.empty(total + SLACK, np.uint8)
        data[total:] = 0
        start, there = np.empty_like(begin), sizes.copy()
        at = 0
        for a, b in runs:
            size = int(stop[b - 1] - begin[a])
            got = self._read(data[at : at + size], int(begin[a]))
            start[a:b] = at + begin[a:b] - begin[a]
            if got < size:
                data[at + got : at + size] = 0
                there[a:b] = np.clip(at + got - start[a:b], 0, there[a:b])
            at += size
        return data, start, there

    def _read(self, into: npt.NDArray[np.uint8], position: int) -> int:
        """Read into an array; returns the number of bytes read."""
        done = 0
        while done < len(into):
            try:
                with self._lock:
                    file, begin, stop = self._file_at(position + done)
                    wanted = into[done : stop - position]
                    count = os.preadv(file, [wanted.data], position + done - begin) if isinstance(file, int) and file >= 0 else 0
                if isinstance(file, Remote):
                    data = file.read(position + done - begin, len(wanted))
                    count = len(data)
                    wanted[:count] = np.frombuffer(data, np.uint8)
            except (OSError, CaptureError):
                break  # disk or network failure, or a ring buffer removed the file: keep what was read
            if not count:
                break
            done += count
        return done

    def _file_at(self, position: int) -> tuple[int | Remote, int, int]:
        """The file with the byte at `position` as a descriptor or Remote, and where its bytes begin and end; -1 if it is closed."""
        if self._spool is not None:
            return (-1 if self._spool.closed else self._spool.fileno()), 0, sys.maxsize
        if not self._files:
            return -1, 0, 0
        number = bisect_right(self._files, position, key=lambda file: file.base) - 1
        file = self._files[number]
        if file.path != self._opened:
            self._leave()
            if is_url(file.path):
                self._remote = Remote(file.path)
            else:
                self._descriptor = os.open(file.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            self._opened = file.path
        end = self._files[number + 1].base if number + 1 < len(self._files) else sys.maxsize
        return self._remote if self._remote is not None else self._descriptor, file.base, end

    def _leave(self) -> None:
        """Close the file that is open."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        if self._remote is not None:
            self._remote.close()
        self._descriptor, self._remote, self._opened = -1, None, ""
