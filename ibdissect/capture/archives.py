"""Captures in archives: `zip://MEMBER::ARCHIVE`, `tar://MEMBER::ARCHIVE`.

Members are streamed; nothing is unpacked to disk. What a hostile archive may claim is bounded: members, and lengths of their headers.
"""

from __future__ import annotations

import errno
import io
import os
import posixpath
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Self

from msgspec import Struct as Record

from ibdissect.capture.compressed import PACKED, UNPACKED_PIECE, Unpacking, unpacked
from ibdissect.capture.remote import in_archive
from ibdissect.capture.windows import PIECE, ByteStream, read_up_to
from ibdissect.errors import CaptureError

MOST_MEMBERS = 100_000
"""Members of an archive that are looked at."""
MOST_LIST = 8 << 20
"""Most bytes of a zip's list of members, which is read at once."""
MOST_HEADER = 1 << 16
"""Most bytes of a header in a tar, which is read at once."""
LOCAL_HEADER = 30
"""Bytes in front of a file in a zip; its last four say how long the name and another field after it are."""
BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, RecursionError, NotImplementedError, ValueError, RuntimeError)
"""What the libraries raise for damaged archives."""

TWICE = "is in the archive more than once"
"""Why a member is not read whose name does not say which of several it is."""
SHARED = "shares its bytes with another member"
"""Why a member of a zip is not read whose bytes are those of another: a small archive could hold any number of them."""
UNIX = 3
"""Where a zip was made whose members have the modes of files."""


class _Link(Record):
    """A link in a tar, by the name of the member that it leads to."""

    target: str


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


class ArchiveFiles(Record):
    """The files in an archive by name, in their order: a ZipInfo, or where a tar has the data and how much, or why it is not read (str)."""

    files: dict[str, Any] = {}
    damage: str | None = None
    """Why there may be more files."""
    captures: set[str] = set()
    """Files that begin like a capture, if somebody looked (`Looks`)."""
    looked: bool = False


Looks = Callable[[str, io.RawIOBase], bool]
"""Tells from name and first bytes of a member whether it is a capture."""


def members(kind: str, outer: Outer, path: str, looks: Looks | None = None) -> ArchiveFiles:
    """The files in an archive, and its damage if there is any behind them. CaptureError if there are no files, or too many."""
    listed = _listed(kind, outer(), path, looks)
    if not listed.files and listed.damage is not None:
        raise CaptureError(path, listed.damage)
    return listed


def opened(kind: str, outer: Outer, member: str, path: str) -> io.RawIOBase:
    """The bytes of a member, unpacked. CaptureError."""
    file = outer()
    listed = _listed(kind, file, path)
    found = listed.files.get(member)
    if found is None:
        raise CaptureError(path, listed.damage or "no such file in the archive")
    if isinstance(found, str):
        raise CaptureError(path, found, hint="unpack the archive")
    try:
        if kind == "zip":
            if found.flag_bits & 1:
                raise CaptureError(path, "is encrypted")
            if found.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise CaptureError(path, f"is packed with method {found.compress_type}, which is not read", hint="unpack it first")
            return _zip_member(file, found, close=True)
        at, size = found
        stream = _tar_stream(file, path)
        stream.most = PIECE
        stream.seek(at)
        return _Member(stream, size)
    except BROKEN as error:
        raise CaptureError(path, f"is in a damaged {kind} archive ({error})") from None


def _zip_member(file: io.RawIOBase, info: zipfile.ZipInfo, *, close: bool) -> _Member:
    """The bytes of a member of a zip. What is in BROKEN."""
    file.seek(info.header_offset)
    head = read_up_to(file, LOCAL_HEADER)
    if head[:4] != b"PK\x03\x04" or len(head) < LOCAL_HEADER:
        raise zipfile.BadZipFile("a file's header is not where the list says")
    file.seek(sum(struct.unpack_from("<HH", head, LOCAL_HEADER - 4)), io.SEEK_CUR)
    kind: Any = zipfile.ZipExtFile  # Any: its type takes no bool
    return _Member(kind(file, "r", info, close_fileobj=close), None)


_LATEST: dict[tuple[Any, ...], ArchiveFiles] = {}
"""The list of the archive read last: without it, opening n members would read the list n times."""


def _listed(kind: str, file: io.RawIOBase, path: str, looks: Looks | None = None) -> ArchiveFiles:
    """All files in an archive. A local file's list is kept until another archive, or a changed one, is read."""
    try:
        status = os.fstat(file.fileno())
        key = kind, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    except OSError:  # at a URL
        return _list(kind, file, path, looks)
    if key not in _LATEST or (looks is not None and not _LATEST[key].looked):
        _LATEST.clear()
        _LATEST[key] = _list(kind, file, path, looks)
    return _LATEST[key]


def _list(kind: str, file: io.RawIOBase, path: str, looks: Looks | None) -> ArchiveFiles:
    listed = ArchiveFiles(looked=looks is not None)
    try:
        for name, found, start in _zip_files(file) if kind == "zip" else _tar_files(file, path):
            listed.files[name] = TWICE if name in listed.files else found
            if looks is not None and start is not None and looks(name, start):
                listed.captures.add(name)
    except (*BROKEN, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # of a member larger than any file
            raise
        listed.damage = f"is a damaged {kind} archive ({_damage(error)})"
    if len(listed.files) > MOST_MEMBERS:
        raise _too_many(path)
    _follow(listed.files)
    return listed


def _damage(error: BaseException) -> str:
    """What a library says of damage; a sentence of ours where it only stumbled over it."""
    stumbled = isinstance(error, RecursionError) or "unpack" in str(error) or "int()" in str(error)
    return "its headers make no sense" if stumbled else str(error)


def _follow(files: dict[str, Any]) -> None:
    """Put in place of each link the file of the archive that it leads to, or else why it is not read. Links to folders are dropped."""
    folders = {folder for name in files for folder in _above(name)}
    for name, found in [*files.items()]:
        seen = set[str]()
        while isinstance(found, _Link) and found.target not in seen:
            seen.add(found.target)
            if found.target in folders:
                break
            found = files.get(found.target, f"is a link to {found.target}, which is not in the archive")
        files[name] = "is a link to itself" if isinstance(found, _Link) and found.target not in folders else found
    for name in [name for name, found in files.items() if isinstance(found, _Link)]:
        del files[name]


def _above(name: str) -> Iterator[str]:
    """The folders that a member lies in."""
    while name := posixpath.dirname(name):
        if name == "/":
            return
        yield name


def _too_many(path: str) -> CaptureError:
    return CaptureError(path, f"has more than {MOST_MEMBERS} members", hint="unpack it first")


Found = tuple[str, Any, "io.RawIOBase | None"]
"""Name of a member, as in `ArchiveFiles.files`, and its first bytes if it has any that can be read."""


def _zip_files(file: io.RawIOBase) -> Iterator[Found]:
    with zipfile.ZipFile(_Limited(file, MOST_LIST)) as archive:
        taken = 0  # up to here other members have their bytes
        for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
            shared, taken = info.header_offset < taken, max(taken, info.header_offset + LOCAL_HEADER + info.compress_size)
            if not info.is_dir() or info.file_size:
                linked = info.create_system == UNIX and stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR)
                why = "is a folder with data" if info.is_dir() else "is a link or no file" if linked else SHARED if shared else ""
                yield info.filename, why or info, None if why else _Start(partial(_zip_member, file, info, close=False))


def _tar_stream(file: io.RawIOBase, path: str) -> _Limited:
    return _Limited(file if file.seekable() and not _packed(file) else unpacked(file, path), MOST_HEADER)


def _tar_files(file: io.RawIOBase, path: str) -> Iterator[Found]:
    """The files of a tar, compressed or not, and what is no folder."""
    stream = _tar_stream(file, path)
    archive: Any = tarfile.TarFile(fileobj=stream, ignore_zeros=True, tarinfo=_Header)  # one may follow another
    for _ in range(MOST_MEMBERS + 1):
        info = archive.next()
        if info is None:
            return
        archive.members.clear()  # otherwise all that was read stays in memory
        archive.pax_headers.clear()
        if info.issym():
            yield info.name, _Link(posixpath.normpath(posixpath.join(posixpath.dirname(info.name), info.linkname))), None
        elif info.islnk():
            yield info.name, _Link(info.linkname), None
        elif info.issparse():
            yield info.name, "is a sparse file, which is not read", None
        elif info.isfile() or info.type not in tarfile.SUPPORTED_TYPES:  # POSIX reads other types as files
            yield info.name, (info.offset_data, info.size), _Start(partial(_tar_member, stream, info))
        elif not info.isdir():
            yield info.name, "is a pipe" if info.isfifo() else "is a device", None
    raise _too_many(path)


class _Header(tarfile.TarInfo):
    """A header in a tar. One that is damaged is an error: `tarfile` would end there, or look for the next one, and say nothing."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        if not any(buf):
            return super().frombuf(buf, encoding, errors)  # raises what says that zeros, or nothing, follow
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"one of its headers is damaged: {error}") from None


def _packed(file: io.RawIOBase) -> bool:
    file.seek(0)
    head = file.read(6) or b""
    file.seek(0)
    return head.startswith(PACKED)


def _tar_member(stream: _Limited, info: tarfile.TarInfo) -> io.BytesIO:
    """The first bytes of a member, but not the last of its block, from which on the next header is looked for."""
    stream.seek(info.offset_data)
    return io.BytesIO(stream.read(min(info.size, tarfile.BLOCKSIZE - 2)))


class _Start(ByteStream):
    """The bytes of a member that is opened when somebody reads it; none where that fails."""

    def __init__(self, opening: Callable[[], io.RawIOBase | io.BytesIO]) -> None:
        self.opening: Callable[[], io.RawIOBase | io.BytesIO] | None = opening
        self.file: io.RawIOBase | io.BytesIO = io.BytesIO()

    def some(self, count: int) -> bytes:
        try:
            if self.opening is not None:
                opening, self.opening = self.opening, None
                self.file = opening()
            return self.file.read(count) or b""
        except BROKEN:
            return b""


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
            raise ValueError(f"its headers are larger than {self.most} bytes")
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
