"""Opening of named files: any file that the user names; of those that a configuration names which nobody named, only
regular ones below its folder, within limits.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from typing import IO, NoReturn, cast

from ibdissect.capture.file_names import Irregular
from ibdissect.capture.folders import below, fixed_part, matches
from ibdissect.errors import ConfigError

MOST_FILES, MOST_BYTES, MOST_S, MOST_PARTS = 10_000, 64 << 20, 30.0, 64
"""Files, bytes and seconds that the files which a found configuration names may take together: more than a large subnet has;
parts of a glob."""
KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFDIR: "a folder"}


def kind_of(mode: int) -> str:
    """What a file is that is not regular, by its `st_mode`; empty for a regular one."""
    return "" if stat.S_ISREG(mode) else KINDS.get(stat.S_IFMT(mode), "no regular file")


class NamedFiles:
    """Files that the user named: any. What may never end, a FIFO or a device, is told."""

    def __init__(self, tell: Callable[[str], object] = lambda _: None, named_by: str = "") -> None:
        """`named_by`: file and key of the configuration that names the files, which errors repeat; empty: the command line does."""
        self.tell, self.named_by = tell, named_by

    def open(self, path: str) -> IO[bytes]:
        """Raises OSError."""
        if kind := kind_of(os.stat(path).st_mode):
            self.tell(f"note: {path} is {kind}: it is read until it ends")
        return open(path, "rb")

    def enter(self, folder: str) -> None:
        """A folder is about to be read."""

    def below(self, top: str) -> Iterator[str]:
        """All files below a folder, sorted."""
        return below(top)

    def matches(self, pattern: str) -> Iterable[str]:
        """The files and folders that a glob matches."""
        return matches(pattern)

    def spend(self, count: int) -> None:
        """Bytes were read in some other way than by `open`."""


class Confined(NamedFiles):
    """Files that a key of a found configuration names. What it may not name is a ConfigError with file and key."""

    def __init__(self, source: str, key: str) -> None:
        super().__init__(named_by=f"{source}: {key}")
        self.source, self.key = source, key
        self.folder = os.path.realpath(os.path.dirname(os.path.abspath(source)))
        self._files = self._bytes = 0
        self._until = time.monotonic() + MOST_S

    def open(self, path: str) -> IO[bytes]:
        self._count(path)
        place = self._inside(path)
        kind = kind_of(os.stat(place).st_mode)
        descriptor = -1 if kind else os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor >= 0 and (kind := kind_of(os.fstat(descriptor).st_mode)):  # replaced since
            os.close(descriptor)
        if kind:
            self._refuse(f"{path} is {kind}")
        return cast("IO[bytes]", _Counted(os.fdopen(descriptor, "rb"), self.spend))

    def enter(self, folder: str) -> None:
        self._inside(folder)

    def below(self, top: str) -> Iterator[str]:
        self._inside(top)
        refused = list[Irregular]()
        for file in below(top, refused):
            self._count(file)
            self._inside(file)
            yield file
        for folder in refused:
            if folder.reason:
                self._refuse(f"{folder} {folder.reason}")

    def matches(self, pattern: str) -> Iterable[str]:
        if os.pardir in pattern.split(os.sep):
            self._refuse(f"{pattern} leads out of the folder")
        if pattern.count(os.sep) > MOST_PARTS:
            self._refuse(f"{pattern[:40]}... has more than {MOST_PARTS} parts")
        self._inside(fixed_part(pattern))
        for found in matches(pattern, follow=False, entering=lambda: self.spend(0)):
            self._count(found)
            self._inside(found)
            yield found

    def spend(self, count: int) -> None:
        self._bytes += count
        if self._bytes > MOST_BYTES:
            self._refuse(f"the files have more than {MOST_BYTES >> 20} million bytes together")
        if time.monotonic() > self._until:
            self._refuse(f"reading the files takes more than {MOST_S:.0f} seconds")

    def _count(self, path: str) -> None:
        self._files += 1
        if self._files > MOST_FILES:
            self._refuse(f"names more than {MOST_FILES} files, the last one {path}")
        self.spend(0)

    def _inside(self, path: str) -> str:
        """The place of a path without links, if that lies below the folder."""
        if "\0" in path:
            self._refuse(f"{path!r} is no path")
        place = os.path.realpath(path)
        if place != self.folder and not place.startswith(os.path.join(self.folder, "")):
            self._refuse(f"{path} does not lie below the folder of the file")
        return place

    def _refuse(self, reason: str) -> NoReturn:
        allowed = "a configuration that was found names regular files below its folder"
        raise ConfigError(self.source, self.key, f"{reason}; {allowed}", hint=f"to allow it, name it: --config {self.source}")


class _Counted:
    """A file whose bytes are counted."""

    def __init__(self, file: IO[bytes], spend: Callable[[int], None]) -> None:
        self.file, self.spend = file, spend

    def __enter__(self) -> _Counted:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def read(self, count: int = -1) -> bytes:
        data = self.file.read(MOST_BYTES + 1 if count < 0 else min(count, MOST_BYTES + 1))
        self.spend(len(data))
        return data

    def readline(self, count: int = -1) -> bytes:
        line = self.file.readline(count)
        self.spend(len(line))
        return line
