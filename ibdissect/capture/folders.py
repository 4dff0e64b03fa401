"""The files below a folder, or that match a glob. Links are followed, but a walk ends wherever they lead."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress

from ibdissect.capture.file_names import Irregular
from ibdissect.errors import CaptureError

KERNEL = frozenset(
    {"binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs", "fusectl", "mqueue", "nsfs",
     "proc", "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs"}
)  # fmt: skip
"""File systems whose files are the kernel's answers: folders of /proc lead to all others, and reading some of its files never ends."""
MOST_OUTSIDE = 100_000
"""Files that links out of a folder may add to it: one to `/` in somebody's archive adds whatever this machine has."""


def below(top: str, refused: list[Irregular] | None = None) -> Iterator[str]:
    """All files below `top`, sorted. Follows links, but enters each folder once.

    `refused` gets the folders that are not walked, with the reason; without it, the first one is a CaptureError.
    """
    entered: set[tuple[int, int]] = set()
    start, kernel, outside = os.path.realpath(top), _kernel(), 0

    def refuse(folder: str, reason: str) -> None:
        if refused is None:
            raise CaptureError(folder, reason)
        refused.append(Irregular(folder, reason))

    waiting = [(top, False)]
    while waiting:
        folder, is_outside = waiting.pop()
        try:
            status = os.stat(folder)
            if (status.st_dev, status.st_ino) in entered:
                continue
            entered.add((status.st_dev, status.st_ino))
            if reason := _of_kernel(kernel.get(status.st_dev)):
                refuse(folder, reason)
                continue
            entries = _entries(folder)
        except FileNotFoundError:  # removed since it was listed
            continue
        except OSError:
            if refused is not None:
                refused.append(Irregular(folder))
            continue
        if is_outside:
            if outside > MOST_OUTSIDE:
                continue  # it was said
            outside += len(entries)
            if outside > MOST_OUTSIDE:
                refuse(folder, f"is reached by links out of {top}, as more than {MOST_OUTSIDE:,} files are; name it itself")
                continue
        yield from (os.path.join(folder, name) for name, is_folder, _ in entries if not is_folder)
        for name, is_folder, is_link in reversed(entries):
            if is_folder:
                path = os.path.join(folder, name)
                waiting.append((path, is_outside if not is_link else not _within(os.path.realpath(path), start)))


def matches(pattern: str, *, follow: bool = True, entering: Callable[[], object] = lambda: None) -> Iterator[str]:
    """What a glob matches, as `glob.iglob` finds it, but each once. `**` enters each folder once, and without `follow` no links.

    A folder of the kernel that `**` leads to is an Irregular with the reason. `entering` is called before each folder.
    """
    fixed = fixed_part(pattern)
    parts = [part for part in pattern[len(fixed) :].split(os.sep) if part]
    kernel, seen, entered = _kernel(), set[tuple[str, int]](), set[tuple[int, int, int]]()
    if not parts and os.path.lexists(pattern):
        yield pattern
    waiting = [(fixed, parts)] if parts else []
    while waiting:
        folder, (part, *rest) = waiting.pop()
        entering()
        if (folder, len(rest)) in seen:
            continue
        seen.add((folder, len(rest)))
        if part != "**" and not has_magic(part):
            path = os.path.join(folder, part)
            if not os.path.lexists(path):
                continue
            if not rest:
                yield path
            else:
                waiting.append((path, rest))
            continue
        if part == "**":
            with suppress(OSError):
                status = os.stat(folder or os.curdir)
                if reason := _of_kernel(kernel.get(status.st_dev)):
                    yield Irregular(folder, reason)
                    continue
                place = status.st_dev, status.st_ino, len(rest)
                if place in entered:
                    continue
                entered.add(place)
            if not rest and folder != fixed:
                yield folder
        entries, deeper = list[tuple[str, bool, bool]](), [(folder, rest)] if part == "**" and rest else []
        with suppress(OSError):
            entries = _entries(folder or os.curdir)
        for name, is_folder, is_link in entries:
            if name[0] == "." and part[0] != ".":
                continue
            path = os.path.join(folder, name)
            if part == "**" and is_folder and (follow or not is_link):
                deeper.append((path, [part, *rest]))
            elif part == "**" or fnmatch.fnmatchcase(name, part):
                if not rest:
                    yield path
                elif part != "**" and is_folder:
                    deeper.append((path, rest))
        waiting += reversed(deeper)


def _entries(folder: str) -> list[tuple[str, bool, bool]]:
    """The names in a folder, sorted; whether each is a folder or a link to one; whether it is a link. OSError."""
    with os.scandir(folder) as found:
        links = ((entry, entry.is_symlink()) for entry in found)
        return sorted((entry.name, os.path.isdir(entry.path) if is_link else entry.is_dir(), is_link) for entry, is_link in links)


def _within(place: str, folder: str) -> bool:
    return place == folder or place.startswith(os.path.join(folder, ""))


def why_not_searched(folder: str) -> str:
    """Why a folder is not walked; empty if it may be. OSError."""
    return _of_kernel(_kernel().get(os.stat(folder).st_dev))


def _of_kernel(kind: str | None) -> str:
    return f"is in a file system of the kernel ({kind}), which is not searched" if kind is not None else ""


def _kernel() -> dict[int, str]:
    """The file systems of the kernel by device number; none where the system does not list what is mounted (proc(5), mountinfo)."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            found = re.finditer(r"^\S+ \S+ (\d+):(\d+) .* - (\S+) ", file.read(), re.M)
            return {os.makedev(int(one[1]), int(one[2])): one[3] for one in found if one[3] in KERNEL}
    except OSError:
        return {}


def has_magic(text: str) -> bool:
    """Whether a path is a glob, as `glob.has_magic` says; loading that takes a hundredth of the start."""
    return any(sign in text for sign in "*?[")


def fixed_part(pattern: str) -> str:
    """The folder that a glob begins with; of a path without signs, the path."""
    while has_magic(pattern):
        pattern = os.path.dirname(pattern)
    return pattern
