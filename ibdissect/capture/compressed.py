"""Decompression of captures: gzip, zstd, xz, bzip2 and LZ4, up to a bound."""

from __future__ import annotations

import io
import sys
import zlib
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from ibdissect.errors import CaptureError

from .windows import PIECE, ByteStream, ObjectBytes, read_up_to

COMPRESSED_PIECE = 1 << 13
"""Compressed bytes given to a decompressor at once; what is left of them after each member is copied."""
SMALL, MOST_SMALL = 256, 16_384
"""How many members of a compressed capture may unpack to fewer bytes than this: each takes as much time as some thousand bytes do."""
UNPACKED_PIECE = 4096
"""Decompressed bytes requested at once: the most that is lost before corrupt compressed data."""
MEMORY = 192 << 20
"""Dictionary memory that a compressed stream may use. `xz -9` needs 64 MiB, `zstd --long` 128 MiB."""
GZIP, ZSTD, XZ, BZIP2, LZ4 = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00", b"BZh", b"\x04\x22\x4d\x18"
PACKED = (GZIP, ZSTD, XZ, BZIP2, LZ4)
"""What compressed streams begin with."""


class TooMuch(str):
    """Why reading stopped at `Unpacking.most`, which is not damage."""


class Unpacking:
    """What this process may unpack."""

    usual = 1 << 40
    """Bytes of one compressed capture, unless a command says otherwise."""
    most = usual
    """Bytes of one compressed capture in this command."""

    @classmethod
    def too_much(cls, size: int) -> TooMuch | None:
        """Why no more is unpacked after `size` bytes; None: more may be."""
        return TooMuch(f"it unpacks to more than {cls.most:,} bytes (--max-unpacked)") if size > cls.most else None


def unpacked(raw: io.RawIOBase, path: str) -> io.RawIOBase:
    """The decompressed stream if the first bytes of `raw` say that it is compressed, else the same bytes."""
    head = read_up_to(raw, 6)
    whole = ObjectBytes(raw, head)
    for kind in PACKED:
        if head.startswith(kind):
            return DecompressedStream(whole, kind, path)
    return whole


class DecompressedStream(ByteStream):
    """The bytes of a compressed stream; corrupt data, or more than `Unpacking.most` bytes, end it and set `broken`."""

    def __init__(self, raw: io.RawIOBase, kind: bytes, path: str) -> None:
        self.broken: str | None = None
        self.rest = memoryview(b"")
        self.unpacked = 0
        # Imported here and below only when needed: each takes a millisecond.
        from lzma import LZMAError

        self.errors: tuple[type[BaseException], ...] = (EOFError, zlib.error, LZMAError)
        makers = {GZIP: self._gzip, ZSTD: self._zstd, XZ: self._xz, BZIP2: self._bzip2, LZ4: self._lz4}
        self.name, fresh = makers[kind](path)
        self.read_piece = _Members(io.BufferedReader(raw, PIECE), fresh, padded=kind in (GZIP, XZ)).read

    def readinto(self, buffer: Any) -> int:  # Any: the buffer protocol has no type before Python 3.12
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
        self.unpacked += len(data)
        self.broken = Unpacking.too_much(self.unpacked)
        return data if self.broken is None else b""

    def _gzip(self, _path: str) -> tuple[str, Callable[[], Any]]:
        return "gzip", _Gzip

    def _zstd(self, path: str) -> tuple[str, Callable[[], Any]]:
        try:
            zstd = zstd_library()
        except ImportError:
            raise CaptureError(path, "is compressed with zstd", hint="pip install backports.zstd, or unpack it first") from None
        self.errors += (zstd.ZstdError,)
        return "zstd", partial(zstd.ZstdDecompressor, options={zstd.DecompressionParameter.window_log_max: 27})

    def _xz(self, _path: str) -> tuple[str, Callable[[], Any]]:
        from lzma import FORMAT_XZ, LZMADecompressor

        return "xz", partial(LZMADecompressor, FORMAT_XZ, memlimit=MEMORY)

    def _bzip2(self, _path: str) -> tuple[str, Callable[[], Any]]:
        from bz2 import BZ2Decompressor

        self.errors += (OSError,)  # its only error
        return "bzip2", BZ2Decompressor

    def _lz4(self, path: str) -> tuple[str, Callable[[], Any]]:
        try:
            frame = import_module("lz4.frame")
        except ImportError:
            raise CaptureError(path, "is compressed with lz4", hint="pip install lz4, or unpack it first") from None
        self.errors += (RuntimeError,)
        return "lz4", frame.LZ4FrameDecompressor


def zstd_library() -> Any:
    """Python's own module since 3.14; before, the same as a package."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


class _Gzip:
    """A member of a gzip file, with the interface that the other decompressors have."""

    def __init__(self) -> None:
        self.member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self.member.eof

    @property
    def needs_input(self) -> bool:
        return not self.member.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self.member.unused_data

    def decompress(self, data: bytes, size: int) -> bytes:
        """At most `size` bytes of the rest of earlier data, then of these."""
        return self.member.decompress(self.member.unconsumed_tail + data, size)


class _Members:
    """The bytes of a compressed file's members, one after the other, of which there are not too many: its streams, or frames."""

    def __init__(self, raw: io.BufferedReader, fresh: Callable[[], Any], *, padded: bool) -> None:
        """`fresh` makes the decompressor of one member. `padded`: zeros may follow each (gzip(1); xz file format 2.2)."""
        self.raw, self.fresh, self.padding = raw, fresh, b"\0" if padded else b""
        self.member, self.rest = fresh(), b""
        self.members, self.size = 1, 0

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end. EOFError where it ends within a member, or has too many."""
        while True:
            if self.member.eof:
                self.rest = (self.member.unused_data or b"").lstrip(self.padding)
                while not self.rest:
                    if not (more := self.raw.read1(COMPRESSED_PIECE)):
                        return b""
                    self.rest = more.lstrip(self.padding)
                self.member = self.fresh()
                self.members += 1
                if self.members > MOST_SMALL + self.size // SMALL:
                    raise EOFError(f"it has {self.members:,} parts, more than {MOST_SMALL:,} of them smaller than {SMALL} bytes")
            ended = False
            if self.member.needs_input and not self.rest:
                self.rest = self.raw.read1(COMPRESSED_PIECE)
                ended = not self.rest
            data: bytes = self.member.decompress(self.rest, size)
            self.rest = b""
            self.size += len(data)
            if data:
                return data
            if ended and not self.member.eof:
                raise EOFError("it ends too early")
