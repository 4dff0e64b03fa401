"""Several files read as one capture, member by member; frame numbers, positions and interfaces continue."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import numpy as np
from msgspec.structs import replace

from ibdissect.capture.chunk import Chunk, Comments, Damage, Reader, SetMember
from ibdissect.capture.file_names import CaptureSet, missing, next_of
from ibdissect.capture.interfaces import NANOSECONDS, OPT_TSRESOL, Interfaces
from ibdissect.capture.records import LONGEST, MAX_DAMAGE
from ibdissect.capture.remote import is_url
from ibdissect.errors import CaptureError
from ibdissect.shown_urls import public_name

LAST_INTERFACE = 65535


class ChainedReader(Reader):
    """The members of a set as one capture. Only one member is open at a time.

    A member that is missing or cannot be read is `damage`. With `follow`, the last member is read as it grows, and then its successors.
    """

    def __init__(self, whole: CaptureSet, opened: Callable[[str, threading.Event | None], Reader], *, follow: bool = False) -> None:
        """`opened` opens a member, to be followed until the event is set. Raises CaptureError if no member can be read."""
        super().__init__(whole.name, threading.Event() if follow else None, rereadable=True, far=any(map(is_url, whole.members)))
        self._paths, self._open = list(whole.members), opened
        self._refuse_unreadable()

    @property
    def packed(self) -> bool:
        return any(map(self._member_packed, self._paths))  # opens all of them

    def _member_packed(self, path: str) -> bool:
        with suppress(CaptureError), self._open(path, None) as reader:  # an error is reported when the member is read
            return reader.packed
        return False

    def chunks(self, frames: Sequence[int] = ()) -> Iterator[Chunk]:
        self.damage, self.comments, self.link_types = [], Comments(), []
        self.interfaces = Interfaces() if self.interfaces is not None else None
        return _Reading(self, self._paths, self._open, self._stop).chunks()

    def _refuse_unreadable(self) -> None:
        """Open the first member that can be opened; raise the error of the first if there is none."""
        failed: CaptureError | None = None
        for path in self._paths:
            try:
                with self._open(path, None) as reader:
                    self.link_types = list(reader.link_types)
                    self.interfaces = Interfaces() if reader.interfaces is not None else None
                    return
            except CaptureError as error:
                failed = failed or error
        raise failed or CaptureError(self.path, "is a set of no files")


class _Growing(threading.Event):
    """Ends the following of a member when its successor exists and its last bytes have been read."""

    def __init__(self, ended: Callable[[], bool], stop: threading.Event) -> None:
        super().__init__()
        self.ended, self.stop, self.over = ended, stop, False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for more bytes; True: there will be none."""
        if self.over or self.stop.wait(timeout):
            return True
        self.over = self.ended()
        return False  # read once more: bytes may have come before the successor did


class _Reading:
    """One pass over the members."""

    def __init__(
        self, of: ChainedReader, paths: list[str], opened: Callable[[str, threading.Event | None], Reader], stop: threading.Event | None
    ) -> None:
        self.of, self.paths, self.open, self.stop = of, paths, opened, stop
        self.damage, self.comments, self.links = of.damage, of.comments, of.link_types
        self.frames = self.base = 0
        """Frames and bytes of the members before the present one."""
        self.interfaces = of.interfaces if of.interfaces is not None else Interfaces()
        self.known: dict[object, list[int]] = {}
        """Indices of interfaces in the set, by what describes them."""
        self.noted = 0
        """How much of the present member's damage was taken over."""
        self.indices: list[int] = []
        """The set's interface by index in the present member."""
        self.used: dict[object, int] = {}
        """How many interfaces of the present member have the same description."""

    def chunks(self) -> Iterator[Chunk]:
        """The records of all members."""
        at = 0
        while at < len(self.paths) and len(self.damage) < MAX_DAMAGE:
            path = self.paths[at]
            if at and (gap := missing(self.paths[at - 1], path)):
                self._damaged(Damage(kind="missing", offset=0, frame=self.frames, reason=gap, file=public_name(path)))
            begun = SetMember(path, self.frames + 1, self.base)
            self.of.members[at : at + 1] = [begun]
            last = at == len(self.paths) - 1
            try:
                yield from self._member(at, last)
            except CaptureError as error:
                if not (last and _empty(path)):  # a file just begun, to which nothing was written yet
                    self._damaged(Damage(kind="unreadable", offset=0, frame=self.frames, reason=error.reason, file=public_name(path)))
            at += 1
            if last and self.stop is not None and not self.stop.is_set() and (later := next_of(path, self.paths)) is not None:
                self.paths.append(later)

    def _member(self, at: int, last: bool) -> Iterator[Chunk]:
        path = self.paths[at]
        follow = None
        if last and self.stop is not None:
            follow = _Growing(lambda: next_of(path, self.paths) is not None, self.stop)
            while _empty(path) and not follow.wait(0.2):
                pass
        frames = end = 0
        with self.open(path, follow) as reader:
            if reader.packed:
                self.of.members[at] = replace(self.of.members[at], packed=True)
            if not reader.rereadable:
                raise CaptureError(path, "can be read only once, so it cannot be a member of a set")
            self.noted, self.indices, self.used = 0, [], {}
            try:
                for chunk in reader.chunks():
                    frames, end = chunk.first + len(chunk) - 1, chunk.base + chunk.data.size
                    self._take_notes(reader, path)
                    yield self._moved(chunk, reader)
                self._take_notes(reader, path)
            finally:  # also if the disk fails
                self.frames, self.base = self.frames + frames, self.base + end

    def _moved(self, chunk: Chunk, reader: Reader) -> Chunk:
        """A member's chunk as one of the set."""
        chunk = replace(chunk, first=chunk.first + self.frames, base=chunk.base + self.base, comments=self.comments)
        if self.of.interfaces is None:  # the first member is not a pcapng
            return replace(chunk, interfaces=None)
        given = reader.interfaces if reader.interfaces is not None else _only(reader.link_types[0])
        for index in range(len(self.indices), len(given)):
            self.indices.append(self._interface(given, index))
        own = chunk.interface if reader.interfaces is not None else np.zeros_like(chunk.interface)
        return replace(chunk, interface=np.array(self.indices, np.uint16)[own], interfaces=self.interfaces)

    def _interface(self, given: Interfaces, index: int) -> int:
        """The set's index of a member's interface: that of an equal one of an earlier member, or a new one."""
        key = (*given.columns[index].item(), given.options[index])
        alike, before = self.known.setdefault(key, []), self.used.get(key, 0)
        self.used[key] = before + 1
        if before == len(alike):
            if len(self.interfaces) > LAST_INTERFACE:
                return LAST_INTERFACE
            alike.append(self.interfaces.add(given, index))
        return alike[before]

    def _take_notes(self, reader: Reader, path: str) -> None:
        """Take over what the member's reader has noted so far: damage, comments, link types."""
        for damage in reader.damage[self.noted :]:
            self._damaged(replace(damage, frame=damage.frame + self.frames, file=public_name(path)))
        self.noted = len(reader.damage)
        for frame, texts in reader.comments.items():
            for text in texts:
                self.comments.note(frame + self.frames if frame else 0, text)
        self.comments.lost += reader.comments.lost
        reader.comments.lost = 0
        reader.comments.clear()
        self.links += [link for link in reader.link_types if link not in self.links]

    def _damaged(self, damage: Damage) -> None:
        if len(self.damage) < MAX_DAMAGE:
            self.damage.append(damage)


def _only(link: int) -> Interfaces:
    """The interface of a file that describes none: its link type, times in nanoseconds."""
    described = Interfaces()
    described.describe(struct.pack("<HHIHHI", link, 0, LONGEST, OPT_TSRESOL, 1, NANOSECONDS), "little")
    return described


def _empty(path: str) -> bool:
    return os.path.isfile(path) and os.path.getsize(path) == 0
