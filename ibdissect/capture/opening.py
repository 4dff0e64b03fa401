"""Opening of captures: compression and container are detected by magic number, never by name."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import IO

from msgspec.structs import replace

from ibdissect.capture import pcap, pcapng, remote
from ibdissect.capture.chained import ChainedReader
from ibdissect.capture.chunk import Reader
from ibdissect.capture.compressed import PACKED, unpacked
from ibdissect.capture.erf import ErfRecords, looks_like_erf
from ibdissect.capture.file_names import NUMBERED_ENDING, CaptureSet, Irregular
from ibdissect.capture.reader import CaptureReader, CaptureSource
from ibdissect.capture.records import Records
from ibdissect.capture.windows import WINDOW, FileBytes, ObjectBytes, read_up_to, waited
from ibdissect.errors import CaptureError, nearest
from ibdissect.shown_urls import public_name

FOREIGN = {
    b"snoop\0\0\0": "snoop capture", b"RTSS": "Network Monitor capture", b"GMBU": "Network Monitor capture",
    b"TRSNIFF data": "Sniffer capture", b"XCP\0": "NetXRay capture", b"iptrace ": "iptrace capture",
    **dict.fromkeys(pcap.MODIFIED, "modified pcap"),
}  # fmt: skip
"""How captures begin that are not read, and what they are."""
ZIP = b"PK\x03\x04"
TAR, TAR_AT = b"ustar", 257
"""What stands in the first header of a tar, and where."""
CONVERT = "convert it: editcap -F pcap IN OUT"
TAR_BLOCK, TAR_HEAD = 512, 1 << 20
"""Bytes of a header in a tar, and those from the start of a compressed one in which captures are looked for."""
ERF_HEAD = 1 << 17
"""Bytes checked before a file without magic number is accepted as ERF; a record has at most 65535."""

Source = str | os.PathLike[str] | IO[bytes] | CaptureSet


def open_capture(source: Source, *, window: int = WINDOW, follow: bool = False) -> Reader:
    """Open a path, "-" (standard input), a binary file object or a set; raises CaptureError if it is not a capture.

    `window` is the number of bytes read at once. With `follow`, reading continues as the file grows, until `stop()`.
    """
    if isinstance(source, CaptureSet):
        return ChainedReader(source, partial(_open, window), follow=follow)
    return _open(window, source, threading.Event() if follow else None)


def _open(window: int, source: str | os.PathLike[str] | IO[bytes], follow: threading.Event | None) -> CaptureReader:
    """Open a single capture; with `follow`, reading continues as the file grows, until the event is set."""
    origin = _origin(source)
    if origin.far:  # more is not requested at once, and Ctrl+C waits for less
        window = min(window, remote.BLOCK)
    try:
        stream = unpacked(origin.start(), origin.path)
        packed = not isinstance(stream, ObjectBytes)
        if packed and follow is not None:
            raise CaptureError(origin.path, "a compressed capture cannot be followed")
        head = read_up_to(stream, pcap.FILE_HEADER)
        if head[:4] not in pcap.MAGICS and head[:4] != pcapng.MAGIC:
            head += read_up_to(stream, ERF_HEAD - len(head))
        records = _container(head, origin.path, getattr(stream, "broken", None))
        if origin.rereadable:
            start = origin.start
            again = replace(origin, start=lambda: unpacked(start(), origin.path))
        else:
            again = _once(origin.path, ObjectBytes(stream, head), origin.close)
        return CaptureReader(again, records, window=window, follow=follow, packed=packed)
    except OSError as error:
        origin.close()
        raise CaptureError(origin.path, f"cannot be read: {error.strerror or error}") from error
    except CaptureError:
        origin.close()
        raise


def _container(head: bytes, path: str, broken: str | None) -> Callable[[], Records]:
    """A factory of readers for the container that starts with `head`."""
    magic = head[:4]
    if not head:
        raise CaptureError(path, broken or "is empty")
    if magic in pcap.MAGICS:
        return lambda: pcap.PcapRecords(head, path)
    if magic == pcapng.MAGIC:
        return lambda: pcapng.PcapngRecords(head, path)
    if foreign := _foreign(head):
        raise CaptureError(path, f"is a {foreign} (magic {magic.hex()}), which is not read", hint=CONVERT)
    if kind := _archive(head):
        raise CaptureError(path, f"is a {kind} archive", hint=f"name its captures: {kind}://*::{path}")
    if looks_like_erf(head, len(head) < ERF_HEAD):
        return ErfRecords
    if head.startswith(PACKED):
        raise CaptureError(path, "is compressed twice", hint="unpack it once")
    known = "known are pcap, pcapng, ERF, also .gz .zst .xz .bz2 .lz4"
    raise CaptureError(path, f"not a capture: starts with {head[:8].hex(' ')}", hint=known)


def _foreign(head: bytes) -> str:
    """What a capture is that is not read; empty if it is none."""
    return next((name for magic, name in FOREIGN.items() if head.startswith(magic)), "")


def _archive(head: bytes) -> str:
    """`zip` or `tar`, if it begins like one; otherwise empty."""
    return "zip" if head.startswith(ZIP) else "tar" if head[TAR_AT : TAR_AT + len(TAR)] == TAR else ""


def looks_like_capture(path: str) -> bool:
    """Whether the first bytes of a file, packed or not, are those of a capture, or of an archive that holds one (`is_member`).

    ERF has no magic number: its name must say it. Never raises; what is no regular file, or cannot be read, does not look like one.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with _at_once(path) as file:
            stream = unpacked(file, path)
            head = read_up_to(stream, TAR_BLOCK)
            kind = _archive(head)
            if not kind:
                return _begins_like_one(head)
            if not isinstance(stream, ObjectBytes):  # packed as a whole
                head += read_up_to(stream, TAR_HEAD - len(head))
                return _holds_one(kind, ObjectBytes(io.BytesIO(head)), path)
        with _at_once(path) as file:
            return _holds_one(kind, file, path)
    except (OSError, ValueError, CaptureError):
        return False


def is_member(name: str, start: io.RawIOBase) -> bool:
    """Whether a member of an archive is a capture: its name says it, or its first bytes do."""
    if re.search(NUMBERED_ENDING, name.lower()):
        return True
    try:
        return _begins_like_one(read_up_to(unpacked(start, name), TAR_BLOCK))
    except (OSError, ValueError, CaptureError):
        return False


def _begins_like_one(head: bytes) -> bool:
    return head[:4] in pcap.MAGICS or head[:4] == pcapng.MAGIC or bool(_foreign(head))


def _at_once(path: str) -> io.FileIO:
    """A file that is never waited for, as /proc/kmsg is: a regular file that may deliver nothing."""
    return io.FileIO(path, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))


def _holds_one(kind: str, file: io.RawIOBase, path: str) -> bool:
    """Whether an archive holds a capture."""
    from ibdissect.capture import archives  # rarely needed

    return bool(archives.members(kind, lambda: file, path, is_member).captures)


def _origin(source: str | os.PathLike[str] | IO[bytes]) -> CaptureSource:
    """The bytes of `source`, still compressed."""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if path == "-":
            if sys.stdin is None:
                raise CaptureError("-", "there is no standard input")
            return _object(sys.stdin.buffer, "-")
        return _url(path) if remote.is_url(path) and not isinstance(path, Irregular) else _file(path)
    name = getattr(source, "name", None)
    return _object(source, name if isinstance(name, str) else "file object")


def _url(url: str) -> CaptureSource:
    if remote.in_archive(url):
        return _archived(url)
    found = remote.Remote(url)
    if found.size is None:
        return _once(public_name(url), found.once(), found.close)
    return CaptureSource(path=public_name(url), start=lambda: remote.RemoteBytes(found), rereadable=True, close=found.close, far=True)


def _archived(url: str) -> CaptureSource:
    """A member of an archive: unpacked anew for each reading."""
    from ibdissect.capture import archives  # rarely needed

    kind, member, archive = archives.split(url)
    outer, close = seekable(archive)
    return CaptureSource(
        path=public_name(url), start=lambda: archives.opened(kind, outer, member, public_name(url)), rereadable=True,
        close=close, far=remote.is_url(archive),
    )  # fmt: skip


def seekable(path: str) -> tuple[Callable[[], io.RawIOBase], Callable[[], None]]:
    """How to open a file or URL for reading at any position, and how to close it in the end. CaptureError if it cannot be."""
    if not remote.is_url(path):
        descriptor = _file(path)
        if not descriptor.rereadable:
            raise CaptureError(path, "an archive in a pipe cannot be read", hint="store it in a file")
        return lambda: open(path, "rb", buffering=0), descriptor.close
    found = remote.Remote(path)
    if found.size is None:
        raise CaptureError(public_name(path), "an archive cannot be read from a server that sends no ranges", hint="copy it first")
    return lambda: remote.RemoteBytes(found), found.close


def _neighbour(path: str) -> str:
    """A hint at a file of the same folder whose name is nearly that of `path`; empty if there is none."""
    folder, name = os.path.split(path)
    try:
        names = os.listdir(folder or ".")
    except (OSError, ValueError):
        return ""
    return nearest(name, names, "", least=0.8)


def _irregular(path: Irregular) -> str:
    """Why a path that no user named is not opened; empty if it is a regular file by now."""
    if path.reason:
        return path.reason
    if remote.is_url(path):
        return "has :: in its name, which no command can name"
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return f"is a link to {os.readlink(path)}, which does not exist" if os.path.islink(path) else "no such file"
    kinds = {stat.S_IFREG: "", stat.S_IFIFO: "is a pipe", stat.S_IFSOCK: "is a socket", stat.S_IFDIR: "is a folder that cannot be listed"}
    return kinds.get(stat.S_IFMT(mode), "is a device")


def _file(path: str) -> CaptureSource:
    irregular, path = path if isinstance(path, Irregular) else None, str(path)
    try:
        if irregular is not None and (reason := _irregular(irregular)):
            raise CaptureError(path, reason, hint="name it itself to read it" if reason.endswith("pipe") else "")
        # Opening a named pipe blocks until a writer opens it.
        descriptor = waited(partial(os.open, path), os.O_RDONLY | getattr(os, "O_CLOEXEC", 0), -1)
        if descriptor < 0:
            raise CaptureError(path, "was not opened: interrupted")
    except FileNotFoundError:
        hint = "URLs are SCHEME://..., members of archives zip:// or tar://MEMBER::ARCHIVE" if "://" in path else _neighbour(path)
        raise CaptureError(path, "no such file", hint=hint) from None
    except PermissionError:
        raise CaptureError(path, "permission denied") from None
    except OSError as error:
        raise CaptureError(path, f"cannot be opened: {error.strerror}") from None
    except ValueError as error:
        raise CaptureError(path, f"cannot be opened: {error}") from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        os.close(descriptor)
        raise CaptureError(path, "is a directory")
    if not stat.S_ISREG(mode):
        pipe = io.FileIO(descriptor, "r")
        return _once(path, pipe, pipe.close)
    owner = io.FileIO(descriptor, "r")  # closes only once, as the descriptor number may be reused
    return CaptureSource(path=path, start=lambda: FileBytes(descriptor), rereadable=True, close=owner.close)


def _object(source: IO[bytes], path: str) -> CaptureSource:
    """A file object owned by the caller: read from its current position, never closed."""
    if isinstance(source, io.TextIOBase) or not hasattr(source, "read"):
        raise CaptureError(path, "is not a binary file object")
    try:
        position = source.tell() if source.seekable() else None
    except (OSError, AttributeError):
        position = None

    def leave() -> None:
        """The caller closes the file object."""

    if position is None:
        return _once(path, ObjectBytes(source), leave)
    return CaptureSource(path=path, start=lambda: ObjectBytes(source, position=position), rereadable=True, close=leave)


def _once(path: str, stream: io.RawIOBase, close: Callable[[], None]) -> CaptureSource:
    """A stream that can be read only once."""
    streams = [stream]

    def start() -> io.RawIOBase:
        if not streams:
            raise CaptureError(path, "a pipe can be read only once")
        return streams.pop()

    return CaptureSource(path=path, start=start, rereadable=False, close=close)
