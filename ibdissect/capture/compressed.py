"""How are compressed captures read? gzip, zstd, xz, bzip2 and LZ4, up to a bound."""

from __future__ import annotations

import io
import sys
import zlib
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ibdissect.errors import CaptureError

from .stream import PIECE, ByteStream, ObjectBytes, read_up_to

if TYPE_CHECKING:
    from lzma import LZMADecompressor

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
        from gzip import BadGzipFile
        from lzma import LZMAError

        self.errors: tuple[type[BaseException], ...] = (EOFError, zlib.error, BadGzipFile, LZMAError)
        openers = {GZIP: self._gzip, ZSTD: self._zstd, XZ: self._xz, BZIP2: self._bzip2, LZ4: self._lz4}
        self.name, self.read_piece = openers[kind](raw, path)

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

    def _gzip(self, raw: io.RawIOBase, path: str) -> tuple[str, Any]:
        from gzip import GzipFile

        return "gzip", GzipFile(fileobj=io.BufferedReader(raw, PIECE), mode="rb").read1

    def _zstd(self, raw: io.RawIOBase, path: str) -> tuple[str, Any]:
        try:
            zstd = zstd_library()
        except ImportError:
            raise CaptureError(path, "is compressed with zstd", hint="pip install backports.zstd, or unpack it first") from None
        self.errors += (zstd.ZstdError,)
        limit = {zstd.DecompressionParameter.window_log_max: 27}
        return "zstd", zstd.ZstdFile(io.BufferedReader(raw, PIECE), options=limit).read1

    def _xz(self, raw: io.RawIOBase, path: str) -> tuple[str, Any]:
        return "xz", _XzPieces(raw).read

    def _bzip2(self, raw: io.RawIOBase, path: str) -> tuple[str, Any]:
        from bz2 import BZ2File

        self.errors += (OSError,)  # its only error
        return "bzip2", BZ2File(io.BufferedReader(raw, PIECE)).read1

    def _lz4(self, raw: io.RawIOBase, path: str) -> tuple[str, Any]:
        try:
            frame = import_module("lz4.frame")
        except ImportError:
            raise CaptureError(path, "is compressed with lz4", hint="pip install lz4, or unpack it first") from None
        self.errors += (RuntimeError,)
        return "lz4", frame.LZ4FrameFile(io.BufferedReader(raw, PIECE)).read1


def zstd_library() -> Any:
    """Python's own module since 3.14; before, the same as a package."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


class _XzPieces:
    """Concatenated xz streams with a memory limit, which lzma.LZMAFile lacks."""

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
