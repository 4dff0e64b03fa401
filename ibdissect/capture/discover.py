"""Which captures do the path arguments of a command name? Files, directories, globs and "-"."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator

from msgspec import Struct as Record
from msgspec import field

from ibdissect.errors import CaptureError

SUFFIXES = (".pcap", ".pcapng", ".cap", ".erf", ".dmp", ".sniffer")
PACKED = ("", ".gz", ".zst", ".xz")
NAMES = tuple(suffix + packed for suffix in SUFFIXES for packed in PACKED)


class Found(Record):
    """What path arguments expand to."""

    files: list[str] = field(default_factory=list)
    """In the order of the arguments, sorted within a directory or glob; each file once, under its first spelling."""
    left_out: int = 0
    """Number of skipped directory entries: files without a capture extension, and anything but regular files."""


def discover(paths: Iterable[str]) -> Found:
    """Expand path arguments. A file named explicitly is accepted whatever its extension, even if it does not exist.

    Raises CaptureError for a directory without captures and for a glob without match.
    """
    found = Found()
    seen: set[str] = set()
    for path in paths:
        for file in _expand(path, found):
            place = os.path.abspath(file)
            if place not in seen:
                seen.add(place)
                found.files.append(file)
    return found


def _expand(path: str, found: Found) -> list[str]:
    if os.path.isdir(path):
        return _directory(path, found)
    if path == "-" or os.path.lexists(path) or not glob.has_magic(path):
        return [path]
    matches = sorted(glob.glob(path, recursive=True))
    if not matches:
        raise CaptureError(path, "matches no file")
    files = [file for file in matches if not os.path.isdir(file)]
    for directory in matches:
        if os.path.isdir(directory) and not any(file.startswith(os.path.join(directory, "")) for file in files):
            files += _captures_below(directory, found)
    if not files:
        raise CaptureError(path, "matches no capture", hint=f"captures are named *{' *'.join(SUFFIXES)}")
    return files


def _directory(path: str, found: Found) -> list[str]:
    files = _captures_below(path, found)
    if not files:
        raise CaptureError(path, "is a directory without captures", hint=f"captures are named *{' *'.join(SUFFIXES)}")
    return files


def _captures_below(path: str, found: Found) -> list[str]:
    files = []
    for file in below(path):
        if file.lower().endswith(NAMES) and os.path.isfile(file):
            files.append(file)
        else:
            found.left_out += 1
    return files


def below(top: str) -> Iterator[str]:
    """All files below `top`, sorted. Follows links, but enters each directory once."""
    entered: set[tuple[int, int]] = set()
    for folder, folders, files in os.walk(top, followlinks=True):
        folders.sort()
        try:
            status = os.stat(folder)
        except OSError:
            continue  # removed since it was listed
        if (status.st_dev, status.st_ino) in entered:
            folders.clear()
            continue
        entered.add((status.st_dev, status.st_ino))
        yield from (os.path.join(folder, file) for file in sorted(files))
