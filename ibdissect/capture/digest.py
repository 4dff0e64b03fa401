"""Size and SHA-256 of a capture file, and of its bytes once they are unpacked."""

from __future__ import annotations

import hashlib
import io
import os

from msgspec import Struct as Record

from ibdissect.errors import CaptureError

from .compressed import unpacked
from .file_names import Unit, files_of
from .remote import is_url

PIECE = 1 << 20
"""Bytes read at once."""


class Digest(Record, frozen=True):
    """What identifies the bytes of a file."""

    size: int
    """In bytes."""
    sha256: str


def digest_of(path: str) -> Digest | None:
    """Of a regular file of this machine, as it lies there; None for what is none (a pipe, a URL), or cannot be read."""
    if path == "-" or is_url(path) or not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            return Digest(os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())
    except OSError:
        return None


def content_of(unit: Unit) -> str | None:
    """SHA-256 of a capture's bytes, unpacked: the same whatever the file is called and whether it is compressed; of a set, over its
    members in their order. None if one of them is no file of this machine, or cannot be read to its end.
    """
    found = hashlib.sha256()
    for path in files_of(unit):
        if path == "-" or is_url(path) or not os.path.isfile(path):
            return None
        try:
            with open(path, "rb", buffering=0) as raw:
                stream = unpacked(raw, path)
                buffered = io.BufferedReader(stream, PIECE)
                while piece := buffered.read(PIECE):
                    found.update(piece)
                if getattr(stream, "broken", None) is not None:
                    return None
        except (OSError, CaptureError):
            return None
    return found.hexdigest() if files_of(unit) else None
