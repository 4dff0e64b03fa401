"""Which captures do the path arguments of a command name? Files, directories, globs and "-"."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from msgspec import Struct as Record
from msgspec import field

from ibdissect.capture.remote import filesystem, in_archive, is_url, shown, tried
from ibdissect.errors import CaptureError

SUFFIXES = (".pcap", ".pcapng", ".cap", ".erf", ".dmp", ".sniffer")
PACKED = ("", ".gz", ".zst", ".xz", ".bz2", ".lz4")
NAMES = tuple(suffix + packed for suffix in SUFFIXES for packed in PACKED)
RING = re.compile(rf"(?:{'|'.join(map(re.escape, SUFFIXES))})\d*(?:{'|'.join(map(re.escape, PACKED))})$")
"""NAMES, also with the number that `tcpdump -C` appends: x.pcap1."""


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
            place = file if is_url(file) else os.path.abspath(file)
            if place not in seen:
                seen.add(place)
                found.files.append(file)
    return found


def _expand(path: str, found: Found) -> list[str]:
    if is_url(path):
        return _remote(path, found)
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


def _remote(url: str, found: Found) -> list[str]:
    """What a URL names: itself, the matches of a glob, or all captures below a folder (`s3://bucket/day/`) or in an archive."""
    link, chain, rest = url.partition("::")
    scheme, _, place = link.partition("://")
    archived = in_archive(link)
    # In the address of a web server, a question mark begins the query.
    many = re.search(r"[*?[]" if scheme not in ("http", "https") else r"[*[]", place) is not None
    folder = not many and (place.endswith("/") or (archived and not place))
    if not many and not folder and link.partition("?")[0].lower().endswith(NAMES):
        return [url]
    if archived:
        files = _members(url, place, many, folder)
    else:
        system, path = filesystem(url)
        files, folder = tried(partial(_listed, system, path, many, folder), url)
        system.invalidate_cache()  # the list of a large bucket is a large list
        # What comes before the path: s3://, or sftp://user@host
        front = link.rstrip("/").removesuffix(path.rstrip("/"))
        files = [front + file + chain + rest for file in files]
    if not many and not folder:
        return [url]
    kept = [file for file in sorted(files) if many or file.partition("::")[0].lower().endswith(NAMES)]
    found.left_out += len(files) - len(kept)
    if not kept:
        reason = "matches no file" if many else "is a folder without captures"
        raise CaptureError(shown(url), reason, hint=f"captures are named *{' *'.join(SUFFIXES)}" if not many else "")
    return kept


def _listed(system: Any, path: str, many: bool, folder: bool) -> tuple[list[str], bool]:
    """Files that a glob matches, or below a folder; and whether the path is one."""
    if many:
        matches = system.glob(path, detail=True)
        return [name for name, about in matches.items() if about["type"] == "file"], False
    if folder or system.isdir(path):
        return system.find(path), True
    return [], False


def _members(url: str, pattern: str, many: bool, folder: bool) -> list[str]:
    """Members of an archive that a glob matches, or below a folder of it."""
    if not many and not folder:
        return []
    from ibdissect.capture import archives, opening  # rarely needed

    kind, _, archive = archives.split(url)
    outer, close = opening.seekable(archive)
    try:
        listed = archives.members(kind, outer, shown(url))
    finally:
        close()
    matches = [name for name in listed.files if (fnmatch.fnmatchcase(name, pattern) if many else name.startswith(pattern))]
    # Further members of a damaged archive are one capture that cannot be read, and says why.
    return [*(f"{kind}://{name}::{archive}" for name in matches), *([url] if listed.damage is not None else [])]


def _directory(path: str, found: Found) -> list[str]:
    files = _captures_below(path, found)
    if not files:
        raise CaptureError(path, "is a directory without captures", hint=f"captures are named *{' *'.join(SUFFIXES)}")
    return files


def _captures_below(path: str, found: Found) -> list[str]:
    files = []
    for file in below(path):
        if RING.search(file.lower()) and os.path.isfile(file):
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
