"""Files that are never seen half-written: written under a temporary name in the same folder, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from ibdissect.capture.file_names import files_of
from ibdissect.capture.file_owners import followed
from ibdissect.capture.opening import Source
from ibdissect.errors import CaptureError, ConfigError, writing


@contextmanager
def replacing(target: str, source: Source | None = None, option: str = "--output") -> Iterator[IO[bytes]]:
    """A file object whose bytes become `target` if the block succeeds; otherwise the old file stays.

    Even if the process is killed, there is the old or the new file, never a partial one. Raises CaptureError if it cannot
    be written, ConfigError if the target is the capture being read.
    """
    with writing(target):
        path = followed(target)
    if os.path.exists(path) and any(os.path.exists(file) and os.path.samefile(file, path) for file in files_of(source)):
        raise ConfigError(option, target, "is the capture itself", hint="name another file")
    if os.path.exists(path) and not os.path.isfile(path):
        raise CaptureError(target, "cannot be written: is not a regular file")
    with writing(target):
        descriptor, private = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", suffix=".part", dir=os.path.dirname(path))
    try:
        with writing(target):
            with open(target, "w+b", opener=lambda *_: descriptor) as file:  # errors name the target
                yield file
                file.flush()
                os.fsync(descriptor)
                os.fchmod(descriptor, mode_of(path))
            os.replace(private, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(private)


def mode_of(path: str) -> int:
    """Permissions of the file to replace, if it is this user's, or the default for a new file."""
    if os.path.exists(path) and os.stat(path).st_uid == os.geteuid():
        return os.stat(path).st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
