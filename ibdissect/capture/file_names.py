"""What the names of captures tell: their endings, the files of ring buffers, dates; and sets of files that are read as one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from msgspec import Struct as Record
from msgspec.structs import replace

from ibdissect.capture.remote import WEB, in_archive
from ibdissect.shown_urls import public_name

SUFFIXES = (".pcap", ".pcapng", ".cap", ".erf", ".dmp", ".sniffer")
PACKED = ("", ".gz", ".zst", ".xz", ".bz2", ".lz4")
ENDINGS = tuple(suffix + packed for suffix in SUFFIXES for packed in PACKED)

_SUFFIX, _PACKED = (f"(?:{'|'.join(map(re.escape, endings))})" for endings in (SUFFIXES, PACKED))
NUMBERED_ENDING = rf"{_SUFFIX}\d*{_PACKED}$"
"""ENDINGS, also with the number that `tcpdump -C` appends: x.pcap1. A regular expression, like these, that is compiled on first use."""
OTHERWISE_PACKED = rf"{_SUFFIX}\d*(?:\.(?:zip|7z|rar|tar|tgz|tbz2?|txz|z|lz|lzma|lzo|br|sz))+{_PACKED}$"
"""A capture by its name, in what is not read: it is said, not left out."""
_DUMPCAP = rf"(?P<stem>.+)_(?:(?P<number>\d{{5,}})_(?P<time>\d{{14}})|(?P<time2>\d{{14}})_(?P<number2>\d{{5,}}))(?P<tail>\..+?)?{_PACKED}"
"""dumpcap -b, editcap -c: cap_00001_20261121120000.pcapng; with `-b nametimenum:2` the time comes first."""
_NUMBERED = rf"(?P<stem>.+{_SUFFIX})(?P<number>\d*){_PACKED}"
"""tcpdump -C: x.pcap, x.pcap1, x.pcap2; with -W x.pcap0, x.pcap1."""
_TIME = r"(?<!\d)(?:19|20)\d\d([-_.]?)[01]\d\1[0-3]\d[-_.T]?[0-2]\d(?:[-_.:]?[0-5]\d){0,2}(?!\d)"
"""tcpdump -G: a day and at least an hour, as strftime writes them."""


class Irregular(str):
    """A path that a folder or a glob leads to, not the user, and that is no regular file. It is never opened: a pipe would wait for its
    writer, a device may never end.
    """

    reason: str
    """Why it is not read; empty: what it is says it."""

    def __new__(cls, path: str, reason: str = "") -> Irregular:
        made = super().__new__(cls, path)
        made.reason = reason
        return made


class CaptureSet(Record, frozen=True):
    """Files that are read as one capture."""

    name: str
    """What reports call it: the members' names with `*` where they differ, without secrets of URLs."""
    members: tuple[str, ...]
    """Paths in the order of recording."""

    def __str__(self) -> str:
        return self.name


def files_of(source: object) -> list[str]:
    """The paths that a source is read from; none for a file object."""
    return list(source.members) if isinstance(source, CaptureSet) else [os.fspath(source)] if isinstance(source, str | os.PathLike) else []


Unit = str | CaptureSet
"""What one report is about: a path or URL, or the files of a set. `str` gives its name."""


class SetPart(Record, frozen=True):
    """What a file name says of its place in a recording."""

    name: str
    """The recording: the path with `*` for number and time."""
    time: str
    number: int
    runs_on: bool
    """Numbers go on although the times in the names change."""
    sure: bool
    """False: the file may as well stand alone, as x.pcap does if there is no x.pcap1."""


def part_of(path: str) -> SetPart | None:
    """What the name of a file, or of a member of an archive, says; None if it is not that of a ring buffer."""
    link, chain, archive = path.partition("::") if in_archive(path) else (path, "", "")
    part = (_part(link.partition("?")[0]) if link.startswith(WEB) else None) or _part(link)
    return replace(part, name=part.name + chain + archive) if part is not None else None


def _part(path: str) -> SetPart | None:
    file = os.path.basename(path)
    folder = path.removesuffix(file)
    if found := re.fullmatch(_DUMPCAP, file):
        number, time = found["number"] or found["number2"], found["time"] or found["time2"]
        return SetPart(f"{folder}{found['stem']}_*{found['tail'] or ''}", time, int(number), runs_on=True, sure=True)
    found = re.fullmatch(_NUMBERED, file)
    if found is None:
        return None
    number, stem = found["number"], found["stem"]
    if time_found := re.search(_TIME, stem):
        name = f"{stem[: time_found.start()]}*{stem[time_found.end() :]}"
        return SetPart(folder + name, re.sub(r"\D", "", time_found[0]), int(number or 0), runs_on=False, sure=True)
    return SetPart(f"{folder}{stem}*", "", int(number or 0), runs_on=True, sure=bool(number))


_DAY = (
    r"(?<!\d)(?:19|20)\d\d([-_.]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])(?:[-_.T]?[0-2]\d(?:[-_.:]?[0-5]\d){0,2})?(?!\d)"
    r"|(?<!\d)1\d{9}(?!\d)"
)
"""A day, with or without a time, or seconds since 1970."""


def series_of(path: str) -> tuple[str, str] | None:
    """For a name with a date, or with the number of a ring buffer's file: the name with `*` in its place, uncompressed; and the place, as
    a text that sorts by it. None for a name that stands alone.
    """
    file = re.sub(f"{_PACKED}$", "", os.path.basename(path))
    folder = path[: len(path) - len(os.path.basename(path))]
    part = _part(folder + file)
    if part is not None and part.sure:
        return part.name, f"{part.time} {part.number:018d}"
    found = re.search(_DAY, file)
    return (f"{folder}{file[: found.start()]}*{file[found.end() :]}", found[0]) if found else None


def missing(before: str, after: str) -> str:
    """Which files of a ring buffer are missing between two members, as a sentence; empty if none are, or if the names do not tell."""
    first, second = part_of(before), part_of(after)
    if first is None or second is None or first.name != second.name or not (first.runs_on or first.time == second.time):
        return ""
    gone = range(first.number + 1, second.number)
    if not gone:  # also where a ring buffer, or its numbers, began again
        return ""
    files = f"file {gone[0]} is" if len(gone) == 1 else f"files {gone[0]} to {gone[-1]} are"
    return f"{files} missing between {_file(before)} and {_file(after)}"


def _file(path: str) -> str:
    """The last part of a path, without secrets."""
    return os.path.basename(public_name(path).partition("::")[0] if in_archive(path) else public_name(path))


def next_of(path: str, known: Iterable[str]) -> str | None:
    """The next file of the same ring buffer after `path` that is not `known`; None if there is none yet."""
    part = part_of(path)
    if part is None:
        return None
    folder, known = os.path.dirname(path), set(known)
    try:
        there = [os.path.join(folder, file) for file in os.listdir(folder or os.curdir)]
    except OSError:
        return None
    later = {
        file: other for file in there
        if file not in known and (other := part_of(file)) is not None and other.name == part.name
        and (other.time, other.number) > (part.time, part.number)
    }  # fmt: skip
    return min(later, key=lambda file: (later[file].time, later[file].number)) if later else None
