"""How is a capture read that lies in an archive: `zip://MEMBER::ARCHIVE`, `tar://MEMBER::ARCHIVE`?

Members are streamed; nothing is unpacked to disk. What a hostile archive may claim is bounded: members, and lengths of their headers.
"""

from __future__ import annotations

import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from ibdissect.capture.remote import in_archive
from ibdissect.capture.stream import PACKED, PIECE, UNPACKED_PIECE, ByteStream, Unpacking, unpacked
from ibdissect.errors import CaptureError

MOST_MEMBERS = 100_000
"""Members of an archive that are looked at."""
MOST_LIST = 8 << 20
"""Most bytes of a zip's list of members, which is read at once."""
MOST_HEADER = 1 << 16
"""Most bytes of a header in a tar, which is read at once."""
BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, RecursionError, NotImplementedError, ValueError, RuntimeError)
"""What the libraries raise for damaged archives."""

Outer = Callable[[], io.RawIOBase]
"""Opens the archive's file, from its start."""


def split(path: str) -> tuple[str, str, str]:
    """Kind, member and archive of `zip://MEMBER::ARCHIVE`. CaptureError if the archive is missing."""
    link, _, archive = path.partition("::")
    kind, _, member = link.partition("://")
    if not archive:
        raise CaptureError(path, "names no archive", hint=f"write {kind}://MEMBER::ARCHIVE")
    if in_archive(archive):
        raise CaptureError(path, "is an archive in an archive, which is not read", hint="unpack one of them")
    return kind, member, archive


def members(kind: str, outer: Outer, path: str) -> Iterator[str]:
    """Names of the files in an archive. CaptureError if it is damaged or has too many members.

    Names that could be taken for another place are left out: nothing in an archive decides what is opened.
    """
    try:
        for number, name in enumerate(_zip_names(outer()) if kind == "zip" else (info.name for _, info in _tar_files(outer(), path))):
            if number >= MOST_MEMBERS:
                raise CaptureError(path, f"has more than {MOST_MEMBERS} members", hint="name the members to read")
            if "::" not in name and "://" not in name:
                yield name
    except BROKEN as error:
        raise CaptureError(path, f"is a damaged {kind} archive ({error})") from None


def opened(kind: str, outer: Outer, member: str, path: str) -> io.RawIOBase:
    """The bytes of a member, unpacked. CaptureError."""
    try:
        if kind == "zip":
            archive = zipfile.ZipFile(_Limited(outer(), MOST_LIST))
            found = archive.getinfo(member)
            if found.flag_bits & 1:
                raise CaptureError(path, "is encrypted")
            if found.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise CaptureError(path, f"is packed with method {found.compress_type}, which is not read", hint="unpack it first")
            return _Member(archive.open(found), None)
        for file, info in _tar_files(outer(), path):
            if info.name == member:
                file.most = PIECE
                file.seek(info.offset_data)
                return _Member(file, info.size)
    except KeyError:
        pass
    except BROKEN as error:
        raise CaptureError(path, f"is in a damaged {kind} archive ({error})") from None
    raise CaptureError(path, "no such file in the archive")


def _zip_names(file: io.RawIOBase) -> Iterator[str]:
    with zipfile.ZipFile(_Limited(file, MOST_LIST)) as archive:
        yield from (info.filename for info in archive.infolist() if not info.is_dir())


def _tar_files(file: io.RawIOBase, path: str) -> Iterator[tuple[_Limited, tarfile.TarInfo]]:
    """The plain files of a tar, compressed or not, in order, with the stream they are in."""
    stream = _Limited(file if file.seekable() and not _packed(file) else unpacked(file, path), MOST_HEADER)
    archive: Any = tarfile.TarFile(fileobj=stream)
    for number in range(MOST_MEMBERS + 1):
        info = archive.next()
        if info is None:
            return
        archive.members.clear()  # otherwise all that was read stays in memory
        archive.pax_headers.clear()
        if number == MOST_MEMBERS:
            raise CaptureError(path, f"is in an archive with more than {MOST_MEMBERS} members")
        if info.isfile() and not info.issparse():
            yield stream, info


def _packed(file: io.RawIOBase) -> bool:
    head = file.read(6) or b""
    file.seek(0)
    return head.startswith(PACKED)


class _Limited(ByteStream):
    """A file of which at most `most` bytes are read at once; a stream that cannot seek is skipped forward."""

    def __init__(self, file: io.RawIOBase, most: int) -> None:
        self.file, self.most, self.position = file, most, 0

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.file.tell() if self.file.seekable() else self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if self.file.seekable():
            return self.file.seek(offset, whence)
        while self.position < offset and self.read(min(PIECE, self.most, offset - self.position)):
            pass
        return self.position

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            at = self.tell()
            size = self.seek(0, io.SEEK_END) - at
            self.seek(at)
        if size > self.most:
            raise ValueError(f"it has a header of {size} bytes")
        parts, left = [], size
        while left > 0 and (data := self.file.read(left)):
            parts.append(data)
            left -= len(data)
        self.position += size - left
        return b"".join(parts)


class _Member(ByteStream):
    """A member's bytes; damage, or more of a compressed one than `Unpacking.most`, ends them and sets `broken`."""

    def __init__(self, file: Any, left: int | None) -> None:
        """`left`: the size of a member of a tar, which is stored as it is; None in a zip."""
        self.file, self.left, self.unpacked = file, left, 0
        self.broken: str | None = None

    def some(self, count: int) -> bytes:
        wanted = min(count, UNPACKED_PIECE) if self.left is None else min(count, PIECE, self.left)
        if self.broken is not None or not wanted:
            return b""
        try:
            data: bytes = self.file.read(wanted)
            if not data and self.left:
                raise EOFError("it ends too early")
        except BROKEN as error:
            self.broken = f"the archive breaks here ({error})"
            return b""
        if self.left is not None:
            self.left -= len(data)
            return data
        self.unpacked += len(data)
        self.broken = Unpacking.too_much(self.unpacked)
        return data if self.broken is None else b""
