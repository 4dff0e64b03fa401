"""How do bytes get in? Files, pipes, file objects and compressed ones, all as windows of fresh memory."""

from __future__ import annotations

import io
import os
import sys
import threading
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from ibdissect.errors import CaptureError

if TYPE_CHECKING:
    from lzma import LZMADecompressor

T = TypeVar("T")
WINDOW = 32 << 20
"""Bytes of a window; a window grows only for a single record that needs more."""
SLACK = 64
"""Bytes behind a window that may be gathered together with a header at its very end; their values mean nothing."""
POLL = 0.2
"""Seconds between two looks at a file that grows."""
PIECE = 1 << 17
"""Compressed bytes read at once, and the smallest window of a pipe."""
UNPACKED_PIECE = 4096
"""Decompressed bytes asked for at once: so much is lost at most before the place where compressed data breaks."""
MEMORY = 192 << 20
"""Dictionary memory a compressed stream may claim; more is refused. `xz -9` claims 64 MiB, `zstd --long` 128 MiB."""

GZIP, ZSTD, XZ = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00"


def _references_of_one_name() -> int:
    probe = np.empty(1, np.uint8)
    return sys.getrefcount(probe)


UNSHARED = _references_of_one_name()
"""What `sys.getrefcount` says of an array that one local name holds (it differs between versions); every view would count as well."""


class Woken(Exception):
    """Somebody wants to stop while a read waits."""


class _Patience:
    """Of this process: whether a read waits now, and whether reads are ended."""

    reads, over = 0, False


def wake() -> None:
    """End the read that waits, and all that follow; for handlers of signals. To readers that looks like the end of their streams."""
    _Patience.over = True
    if _Patience.reads:
        raise Woken


def calm() -> None:
    """Let reads give what there is again."""
    _Patience.over = False


def waited(read: Callable[[Any], T], argument: Any, nothing: T) -> T:  # Any: a buffer, or how many bytes
    """What a read gives; `nothing` where `wake` ended it."""
    _Patience.reads += 1
    try:
        return nothing if _Patience.over else read(argument)
    except Woken:
        return nothing
    finally:
        _Patience.reads -= 1


def read_up_to(source: io.RawIOBase, count: int) -> bytes:
    """`count` bytes, fewer only where the stream ends."""
    head = b""
    while len(head) < count and (more := waited(source.read, count - len(head), None)):
        head += more
    return head


def unpacked(raw: io.RawIOBase, path: str) -> io.RawIOBase:
    """The stream inside `raw` if that is compressed, else `raw` itself; told by its first bytes."""
    head = read_up_to(raw, 6)
    whole = ObjectBytes(raw, head)
    for kind in (GZIP, ZSTD, XZ):
        if head.startswith(kind):
            return Decompressed(whole, kind, path)
    return whole


class FileBytes(io.RawIOBase):
    """A regular file from its start, with a position of its own: several readers can share the descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self.position = descriptor, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # Any: the buffer protocol has no type before Python 3.12
        count = os.preadv(self.descriptor, [buffer], self.position)
        self.position += count
        return count


class ObjectBytes(io.RawIOBase):
    """A binary stream after the `head` that was already read from it; from `position` on when it can seek."""

    def __init__(self, source: Any, head: bytes = b"", position: int | None = None) -> None:  # Any: whatever can read
        self.source, self.head, self.position = source, head, position
        # A buffered pipe must not be asked for readinto1: with bytes in its buffer it waits for more all the same.
        self.some = getattr(source, "read1", None) if position is None else None
        self.into = None if self.some else getattr(source, "readinto", None)

    @property
    def broken(self) -> str | None:
        """Why a compressed stream ended early, if it did."""
        reason: str | None = getattr(self.source, "broken", None)
        return reason

    def readable(self) -> bool:
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
            data = (self.some or self.source.read)(min(len(view), PIECE)) or b""
            count = len(data)
            view[:count] = data
        if self.position is not None:
            self.position += count
        return count


class Decompressed(io.RawIOBase):
    """The bytes inside a compressed stream; a break in it ends it and is told in `broken`."""

    def __init__(self, raw: io.RawIOBase, kind: bytes, path: str) -> None:
        self.broken: str | None = None
        self.rest = memoryview(b"")
        # Here and below: only for who needs them, since each takes a millisecond to load.
        from gzip import BadGzipFile
        from lzma import LZMAError

        self.errors: tuple[type[BaseException], ...] = (EOFError, zlib.error, BadGzipFile, LZMAError)
        self.name, self.read_piece = {GZIP: self._gzip, ZSTD: self._zstd, XZ: self._xz}[kind](raw, path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # Any: see above
        view = memoryview(buffer)
        done = 0
        while done < len(view):
            if not self.rest:
                self.rest = memoryview(self._piece())
                if not self.rest:
                    break
            count = min(len(view) - done, len(self.rest))
            view[done : done + count] = self.rest[:count]
            self.rest = self.rest[count:]
            done += count
        return done

    def _piece(self) -> bytes:
        if self.broken is not None:
            return b""
        try:
            data: bytes = self.read_piece(UNPACKED_PIECE)
        except self.errors as error:
            self.broken = f"the {self.name} data breaks here ({error})"
            return b""
        return data

    def _gzip(self, raw: io.RawIOBase, path: str) -> tuple[str, Any]:  # Any: isal has no types
        buffered = io.BufferedReader(raw, PIECE)
        try:
            from isal import igzip, isal_zlib
        except ImportError:
            from gzip import GzipFile

            return "gzip", GzipFile(fileobj=buffered, mode="rb").read1
        opened: Any = igzip.GzipFile  # Any: it has no types
        error: Any = isal_zlib.error
        self.errors += (error,)
        return "gzip", opened(fileobj=buffered, mode="rb").read1

    def _zstd(self, raw: Any, path: str) -> tuple[str, Any]:
        try:
            import zstandard
        except ImportError:
            raise CaptureError(path, "is compressed with zstd", hint="pip install zstandard, or unpack it first") from None
        self.errors += (zstandard.ZstdError,)
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(raw, read_across_frames=True)
        return "zstd", reader.read1

    def _xz(self, raw: io.RawIOBase, path: str) -> tuple[str, Any]:
        return "xz", _XzPieces(raw).read


class _XzPieces:
    """xz streams, one behind the other, with a limit on memory, which lzma.LZMAFile cannot set."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self.raw, self.decompressor, self.rest = raw, self._fresh(), b""

    @staticmethod
    def _fresh() -> LZMADecompressor:
        from lzma import FORMAT_XZ, LZMADecompressor

        return LZMADecompressor(FORMAT_XZ, memlimit=MEMORY)

    def read(self, size: int) -> bytes:
        while True:
            if self.decompressor.eof:
                # Stream padding is a multiple of four zero bytes (xz file format 2.2).
                self.rest = (self.decompressor.unused_data or self.rest).lstrip(b"\0")
                if not self.rest:
                    self.rest = (self.raw.read(PIECE) or b"").lstrip(b"\0")
                if not self.rest:
                    return b""
                self.decompressor = self._fresh()
            elif self.decompressor.needs_input:
                self.rest = self.raw.read(PIECE) or b""
                if not self.rest:
                    raise EOFError("it ends too early")
            data = self.decompressor.decompress(self.rest, size)
            self.rest = b""
            if data:
                return data


class Windows:
    """The stream, a window at a time: `raw[:filled]` holds the bytes from file position `base` on.

    A `live` stream hands out what is there instead of waiting for a full window.
    """

    def __init__(
        self, source: io.RawIOBase, path: str, size: int = WINDOW, *, live: bool = False, follow: threading.Event | None = None
    ) -> None:
        self.source, self.path, self.size, self.live, self.stopping = source, path, max(1, size), live, follow
        self.raw: npt.NDArray[np.uint8] = np.empty(SLACK, np.uint8)
        self.filled = self.base = 0
        self._spare = self.raw
        """The window before; its memory serves again when nobody looks at it any more: fresh pages cost as much as reading."""
        self.final = False
        """True when nothing follows `raw[:filled]`."""
        self._room = min(self.size, PIECE) if live else self.size

    @property
    def broken(self) -> str | None:
        """Why a compressed stream ended early, if it did."""
        reason: str | None = getattr(self.source, "broken", None)
        return reason

    def _memory(self, size: int) -> npt.NDArray[np.uint8]:
        """Memory for a window of `size` bytes: that of the window before last if only we hold it."""
        spare, self._spare = self._spare, self.raw
        if spare is not self.raw and spare.size == size and sys.getrefcount(spare) == UNSHARED:
            return spare
        return np.empty(size, np.uint8)

    def advance(self, used: int, need: int = 0) -> None:
        """Drop `used` bytes and read on into memory that no chunk shows, for at least `need` bytes from there if they exist."""
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
            # A fast writer earns a bigger window, a slow one does not make us hold empty memory.
            self._room = min(self.size, self._room * 4) if carried - start == size - start else min(self.size, PIECE)
        self.filled = carried

    def _read(self, view: memoryview) -> int:
        while True:
            try:
                # Files are quick: what is left of the window is judged as well.
                count = (waited(self.source.readinto, view, 0) if self.live else self.source.readinto(view)) or 0
            except OSError as error:
                raise CaptureError(self.path, f"cannot be read: {error.strerror or error}") from error
            if count or self.stopping is None or self.stopping.wait(POLL):
                return count
