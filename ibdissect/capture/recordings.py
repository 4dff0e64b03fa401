"""Which files are one recording (`--set`): by their names, in the order in which they were written."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ibdissect.capture.file_names import CaptureSet, SetPart, part_of
from ibdissect.capture.opening import open_capture
from ibdissect.errors import CaptureError
from ibdissect.shown_urls import public_name


def rings(files: Iterable[str]) -> dict[str, dict[str, SetPart]]:
    """Recordings in several files, according to the file names: the files by name of the recording."""
    files, found = list(files), dict[str, dict[str, SetPart]]()
    for file in files if len(files) > 1 else ():
        if (part := part_of(file)) is not None:
            found.setdefault(part.name, {})[file] = part
    return {
        name: parts
        for name, parts in found.items()
        if len(parts) > 1 and any(part.sure for part in parts.values()) and len({(p.time, p.number) for p in parts.values()}) == len(parts)
    }


def sets_of(files: Iterable[str]) -> list[CaptureSet]:
    """All files as sets: one for each recording, by file name, and one with the files whose names tell nothing, in the given order."""
    files = list(files)
    found = [CaptureSet(public_name(name), _ordered(parts)) for name, parts in rings(files).items()]
    taken = {member for one in found for member in one.members}
    alone = [file for file in files if file not in taken and (part := part_of(file)) is not None and part.sure]
    rest = tuple(file for file in files if file not in taken and file not in alone)
    found += [CaptureSet(public_name(file), (file,)) for file in alone]
    return [*found, CaptureSet(_name(rest), rest)] if rest else found


def one_set(files: Iterable[str]) -> CaptureSet:
    """All files as one set. Raises CaptureError if their names say that they are several."""
    found = sets_of(files)
    if len(found) != 1:
        names = ", ".join(one.name for one in found[:3]) + (", ..." if len(found) > 3 else "")
        raise CaptureError(names, f"are {len(found)} captures by their names, not one set", hint="name the files of one")
    return found[0]


def _ordered(parts: dict[str, SetPart]) -> tuple[str, ...]:
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
    try:
        with open_capture(path, window=1 << 12) as reader:
            first = next(reader.chunks(), None)
    except CaptureError:
        return ""
    return f"{int(first.time_ns[0]):020}" if first is not None and len(first) else ""


def _name(paths: tuple[str, ...]) -> str:
    """A common name of files: their common beginning and end, with `*` between."""
    files = [*map(public_name, paths)]  # first, as the common beginning may end in a secret
    if len(files) == 1:
        return files[0]
    begin = os.path.commonprefix(files)  # noqa: RUF071 - of characters
    end = os.path.commonprefix([os.path.basename(file[len(begin) :])[::-1] for file in files])[::-1]  # noqa: RUF071
    return f"{begin}*{end}"
