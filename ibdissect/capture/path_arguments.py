"""The captures that the path arguments of a command name: files, directories, globs, URLs and "-"."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable
from functools import partial
from typing import Any

from msgspec import Struct as Record
from msgspec import field

from ibdissect.capture.file_names import NUMBERED_ENDING, OTHERWISE_PACKED, SUFFIXES, Irregular
from ibdissect.capture.folders import below, has_magic, matches
from ibdissect.capture.opening import is_member, looks_like_capture, seekable
from ibdissect.capture.remote import filesystem, in_archive, is_url, tried
from ibdissect.errors import CaptureError
from ibdissect.shown_urls import public_name


class FoundFiles(Record):
    """The files that path arguments expand to."""

    files: list[str] = field(default_factory=list)
    """In the order of the arguments, sorted within a directory or glob; each file once, under its first spelling."""
    left_out: int = 0
    """Number of skipped directory entries: neither name nor first bytes are those of a capture."""


def discover(paths: Iterable[str]) -> FoundFiles:
    """Expand path arguments. A file named explicitly is accepted whatever its extension, even if it does not exist.

    What looks like a capture in a folder and cannot be read (a link to nothing, a pipe, a folder that may not be listed) is among the
    files: opening it says why, and no job passes by it.

    Raises CaptureError for a directory without captures and for a glob without match.
    """
    found = FoundFiles()
    seen: set[str] = set()
    for path in paths:
        for file in _expand(path, found):
            place = file if is_url(file) else os.path.abspath(file)
            if place not in seen:
                seen.add(place)
                found.files.append(file)
    return found


def _expand(path: str, found: FoundFiles) -> list[str]:
    if is_url(path):
        return _remote(path, found)
    if os.path.isdir(path):
        return _directory(path, found)
    if path == "-" or os.path.lexists(path) or "://" in path:
        return [path]
    if not has_magic(path):  # the shell has expanded most patterns
        return [path]
    found_by = sorted(matches(path))
    if not found_by:
        raise CaptureError(path, "matches no file")
    files = [file if os.path.isfile(file) or isinstance(file, Irregular) else Irregular(file) for file in found_by if _no_folder(file)]
    for directory in found_by:
        if not _no_folder(directory) and not any(file.startswith(os.path.join(directory, "")) for file in files):
            files += _captures_below(directory, found)
    if not files:
        raise CaptureError(path, "matches no capture", hint=f"captures are named *{' *'.join(SUFFIXES)}")
    return files


def _no_folder(path: str) -> bool:
    """Whether a glob found no folder, or one that is not walked."""
    return isinstance(path, Irregular) or not os.path.isdir(path)


def _remote(url: str, found: FoundFiles) -> list[str]:
    """What a URL names: itself, the matches of a glob, or all captures below a folder (`s3://bucket/day/`) or in an archive."""
    link, chain, rest = url.partition("::")
    scheme, _, place = link.partition("://")
    archived = in_archive(link)
    # In the address of a web server, a question mark begins the query.
    many = re.search(r"[*?[]" if scheme not in ("http", "https") else r"[*[]", place) is not None
    folder = not many and (place.endswith("/") or (archived and not place))
    if not many and not folder and re.search(NUMBERED_ENDING, link.partition("?")[0].lower()):
        return [url]
    captures = set[str]()
    if archived:
        files, captures = _members(url, place, many, folder)
    else:
        system, path = filesystem(url)
        files, folder = tried(partial(_listed, system, path, many, folder), url)
        system.invalidate_cache()  # the list of a large bucket is a large list
        # What comes before the path: s3://, or sftp://user@host
        front = link.rstrip("/").removesuffix(path.rstrip("/"))
        files = [(Irregular if "::" in file else str)(front + file + chain + rest) for file in files]
    if not many and not folder:
        return [url]
    kept = [file for file in sorted(files) if many or file in captures or _named_like_one(file)]
    found.left_out += len(files) - len(kept)
    if not kept:
        reason = "matches no file" if many else "is a folder without captures"
        raise CaptureError(public_name(url), reason, hint=f"captures are named *{' *'.join(SUFFIXES)}" if not many else "")
    return kept


def _listed(system: Any, path: str, many: bool, folder: bool) -> tuple[list[str], bool]:
    """Files that a glob matches, or below a folder; and whether the path is one."""
    if many:
        globbed = system.glob(path, detail=True)
        return [name for name, about in globbed.items() if about["type"] == "file"], False
    if folder or system.isdir(path):
        return system.find(path), True
    return [], False


def _members(url: str, pattern: str, many: bool, folder: bool) -> tuple[list[str], set[str]]:
    """Members of an archive that a glob matches, or below a folder of it; and which of them begin like a capture.

    At a URL nobody looks how they begin: it would take a request for each.
    """
    if not many and not folder:
        return [], set()
    from ibdissect.capture import archives  # rarely needed

    kind, _, archive = archives.split(url)
    outer, close = seekable(archive)
    try:
        listed = archives.members(kind, outer, public_name(url), None if many or is_url(archive) else is_member)
    finally:
        close()
    chosen = [name for name in listed.files if (fnmatch.fnmatchcase(name, pattern) if many else name.startswith(pattern))]
    # Further members of a damaged archive are one capture that cannot be read, and says why.
    named = {name: (Irregular if "::" in name else str)(f"{kind}://{name}::{archive}") for name in chosen}
    return [*named.values(), *([url] if listed.damage is not None else [])], {named[name] for name in chosen if name in listed.captures}


def _named_like_one(url: str) -> bool:
    """Whether a URL names a capture, packed or not, by its ending; of a name with `::` each part may end it."""
    names = [name.rstrip("/") for name in url.lower().split("::")]
    names = names[:-1] if isinstance(url, Irregular) and in_archive(url) else names if isinstance(url, Irregular) else names[:1]
    return any(re.search(ending, name) for name in names for ending in (NUMBERED_ENDING, OTHERWISE_PACKED))


def _directory(path: str, found: FoundFiles) -> list[str]:
    files = _captures_below(path, found)
    if not files:
        raise CaptureError(path, "is a directory without captures", hint=f"captures are named *{' *'.join(SUFFIXES)}")
    return files


def _captures_below(path: str, found: FoundFiles) -> list[str]:
    files, refused = list[str](), list[Irregular]()
    for file in below(path, refused):
        if is_capture(file):
            files.append(file if os.path.isfile(file) else Irregular(file))
        else:
            found.left_out += 1
    return files + refused


def is_capture(path: str) -> bool:
    """Whether a file in a folder is to be checked: its name is that of a capture, packed or not, or its first bytes are."""
    name = path.lower()
    return re.search(NUMBERED_ENDING, name) is not None or re.search(OTHERWISE_PACKED, name) is not None or looks_like_capture(path)
