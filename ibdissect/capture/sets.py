"""Which captures are parts of one recording? Ring buffers of dumpcap and tcpdump by their names, or any list of files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from msgspec import Struct as Record

from ibdissect.capture.discover import PACKED, SUFFIXES
from ibdissect.capture.remote import shown
from ibdissect.errors import CaptureError

_PACKED = f"(?:{'|'.join(map(re.escape, filter(None, PACKED)))})?"
_DUMPCAP = re.compile(
    rf"(?P<stem>.+)_(?:(?P<number>\d{{5,}})_(?P<time>\d{{14}})|(?P<time2>\d{{14}})_(?P<number2>\d{{5,}}))(?P<tail>\..+?)?{_PACKED}"
)
"""dumpcap -b, editcap -c: cap_00001_20261121120000.pcapng; with `-b nametimenum:2` the time comes first."""
_NUMBERED = re.compile(rf"(?P<stem>.+(?:{'|'.join(map(re.escape, SUFFIXES))}))(?P<number>\d*){_PACKED}")
"""tcpdump -C: x.pcap, x.pcap1, x.pcap2; with -W x.pcap0, x.pcap1."""
_TIME = re.compile(r"(?<!\d)(?:19|20)\d\d([-_.]?)[01]\d\1[0-3]\d[-_.T]?[0-2]\d(?:[-_.:]?[0-5]\d){0,2}(?!\d)")
"""tcpdump -G: a day and at least an hour, as strftime writes them."""


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


class Part(Record, frozen=True):
    """What a file name says of its place in a recording."""

    name: str
    """The recording: the path with `*` for number and time."""
    time: str
    number: int
    runs_on: bool
    """Numbers go on although the times in the names change."""
    sure: bool
    """False: the file may as well stand alone, as x.pcap does if there is no x.pcap1."""


def part_of(path: str) -> Part | None:
    """What the name of a file says; None if it is not that of a ring buffer."""
    folder, file = os.path.split(path)
    if found := _DUMPCAP.fullmatch(file):
        number, time = found["number"] or found["number2"], found["time"] or found["time2"]
        return Part(os.path.join(folder, f"{found['stem']}_*{found['tail'] or ''}"), time, int(number), runs_on=True, sure=True)
    found = _NUMBERED.fullmatch(file)
    if found is None:
        return None
    number, stem = found["number"], found["stem"]
    if time_found := _TIME.search(stem):
        name = f"{stem[: time_found.start()]}*{stem[time_found.end() :]}"
        return Part(os.path.join(folder, name), re.sub(r"\D", "", time_found[0]), int(number or 0), runs_on=False, sure=True)
    return Part(os.path.join(folder, f"{stem}*"), "", int(number or 0), runs_on=True, sure=bool(number))


def rings(files: Iterable[str]) -> dict[str, dict[str, Part]]:
    """Files whose names say that they are parts of one recording, by its name; recordings of one file are left out."""
    found: dict[str, dict[str, Part]] = {}
    for file in files:
        if (part := part_of(file)) is not None:
            found.setdefault(part.name, {})[file] = part
    return {
        name: parts
        for name, parts in found.items()
        if len(parts) > 1 and any(part.sure for part in parts.values()) and len({(p.time, p.number) for p in parts.values()}) == len(parts)
    }


def sets_of(files: Iterable[str]) -> list[CaptureSet]:
    """All files as sets: one for each recording that the names tell, and one of the files whose names tell nothing, as they are given."""
    files = list(files)
    found = [CaptureSet(shown(name), _ordered(parts)) for name, parts in rings(files).items()]
    taken = {member for one in found for member in one.members}
    alone = [file for file in files if file not in taken and (part := part_of(file)) is not None and part.sure]
    rest = tuple(file for file in files if file not in taken and file not in alone)
    found += [CaptureSet(shown(file), (file,)) for file in alone]
    return [*found, CaptureSet(_name(rest), rest)] if rest else found


def one_set(files: Iterable[str]) -> CaptureSet:
    """All files as one set. Raises CaptureError if their names say that they are several."""
    found = sets_of(files)
    if len(found) != 1:
        names = ", ".join(one.name for one in found[:3]) + (", ..." if len(found) > 3 else "")
        raise CaptureError(names, f"are {len(found)} captures by their names, not one set", hint="name the files of one")
    return found[0]


def missing(before: str, after: str) -> str:
    """Which files of a ring buffer are missing between two members, as a sentence; empty if none are, or if the names do not tell."""
    first, second = part_of(before), part_of(after)
    if first is None or second is None or first.name != second.name or not (first.runs_on or first.time == second.time):
        return ""
    gone = range(first.number + 1, second.number)
    if not gone:  # also where a ring buffer, or its numbers, began again
        return ""
    told = f"file {gone[0]} is" if len(gone) == 1 else f"files {gone[0]} to {gone[-1]} are"
    return f"{told} missing between {os.path.basename(shown(before))} and {os.path.basename(shown(after))}"


def next_of(path: str, known: Iterable[str]) -> str | None:
    """The file of the same ring buffer that was begun after `path`, if there is one by now and it is not `known`."""
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


def _ordered(parts: dict[str, Part]) -> tuple[str, ...]:
    """The files of one recording in the order in which they were written."""
    numbers = [part.number for part in parts.values()]
    if len(set(numbers)) < len(numbers):  # they began again: with each time in a name, or with each recording
        return tuple(sorted(parts, key=lambda file: (parts[file].time, parts[file].number)))
    files = sorted(parts, key=lambda file: parts[file].number)
    # Numbers beat times in names, which jump when summer time ends; but numbers begin again at 0 in a full ring.
    times = [parts[file].time or _begun(file) for file in files]
    drops = [i for i in range(1, len(files)) if times[i - 1] and times[i] and times[i] < times[i - 1]]
    if len(drops) == 1 and times[-1] <= times[0]:
        files = files[drops[0] :] + files[: drops[0]]
    return tuple(files)


def _begun(path: str) -> str:
    """Time of the first record, as a text that can be compared; empty if there is none."""
    from ibdissect.capture.opening import open_capture

    try:
        with open_capture(path, window=1 << 12) as reader:
            first = next(reader.chunks(), None)
    except CaptureError:
        return ""
    return f"{int(first.time_ns[0]):020}" if first is not None and len(first) else ""


def _name(paths: tuple[str, ...]) -> str:
    """A common name of files: what is the same at the beginning and at the end, with `*` between."""
    files = [*map(shown, paths)]  # first, as the common beginning may end in a secret
    if len(files) == 1:
        return files[0]
    begin = os.path.commonprefix(files)  # noqa: RUF071 - of characters
    end = os.path.commonprefix([os.path.basename(file[len(begin) :])[::-1] for file in files])[::-1]  # noqa: RUF071
    return f"{begin}*{end}"
