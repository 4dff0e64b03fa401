"""Owners of the files and links that a path leads to: in a folder that everybody may write in, another user may have put them there."""

from __future__ import annotations

import os
import stat

from ibdissect.errors import CaptureError

MOST_LINKS = 40
"""As Linux follows at most."""


def followed(target: str) -> str:
    """The place of an output without links. Raises CaptureError for a link, or a FIFO, that another user has put into a sticky folder, as
    Linux does with `fs.protected_symlinks`, also where that is off or the system has none; OSError.
    """
    here, left, links = os.path.abspath(os.sep), _parts(os.path.join(os.getcwd(), target)), 0
    while left:
        part = left.pop()
        if part == os.pardir:
            here = os.path.dirname(here)
            continue
        folder, path = here, os.path.join(here, part)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            here = path
            continue
        if (stat.S_ISLNK(found.st_mode) or stat.S_ISFIFO(found.st_mode)) and _put_there(folder, found):
            kind = "link" if stat.S_ISLNK(found.st_mode) else "FIFO"
            reason = f"{path} is a {kind} that another user has put into a folder for everybody"
            raise CaptureError(target, reason, hint="name another file")
        if not stat.S_ISLNK(found.st_mode):
            here = path
            continue
        links += 1
        if links > MOST_LINKS:
            raise CaptureError(target, "is a link to itself")
        to = os.readlink(path)
        here = os.path.abspath(os.sep) if os.path.isabs(to) else folder
        left += _parts(to)
    return here


def private(path: str | os.PathLike[str] | int, *, folder: bool) -> str:
    """Why others may have written a regular file or a folder, of which links are not followed; empty if only this user can."""
    found = os.fstat(path) if isinstance(path, int) else os.lstat(path)
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(found.st_mode):
        return "is no folder" if folder else "is no regular file"
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    return "can be written by others" if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else ""


def _parts(path: str) -> list[str]:
    """The parts of a path, the last one first."""
    return [part for part in reversed(path.split(os.sep)) if part not in ("", os.curdir)]


def _put_there(folder: str, found: os.stat_result) -> bool:
    """Whether another user, who does not own the sticky folder either, has put something there."""
    around = os.stat(folder)
    open_to_all = around.st_mode & stat.S_ISVTX and around.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return bool(open_to_all) and found.st_uid not in (os.geteuid(), around.st_uid)
