# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""A fact over time with the frames that set it; `decode.history.History` adds what others ask of it."""

from __future__ import annotations

from typing import Any

from .packet_kinds import ROWS

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import i64
else:
    from .common import i64
KEPT = 4
"""Earlier values kept per fact, in addition to those valid within the last ROWS frames, the maximum of a chunk.

The value at every frame of the current chunk is known; at older frames it may be unknown.
"""
MANY = 64
"""With more values, half of them are dropped at a time."""
NONE: list[Any] = []
"""The earlier values of all facts that never changed; nothing is added to it."""
_KEPT = cython.declare(cython.Py_ssize_t, KEPT)
_ROWS = cython.declare(cython.longlong, ROWS)
_MANY = cython.declare(cython.Py_ssize_t, MANY)


@cython.cclass
class Fact:
    """A fact over time. None means unknown: never learnt, or no longer certain."""

    __slots__ = ("now", "past", "since")

    def __init__(self) -> None:
        self.now: Any = None
        self.since: Any = 0
        """Frame that set `now`; 0 if nothing was learnt yet. An object, which many facts share."""
        self.past: list[tuple[Any, int]] = NONE
        """Earlier values with the frames that set them, oldest first."""

    def learn(self, value: object, frame: Any) -> bool:
        """Learn a value from a frame; returns True if it differs from the current one."""
        if value == self.now:
            return False
        put(self, value, frame)
        return True

    def change(self, value: object, frame: Any) -> None:
        """Learn a value from a frame that differs from the current one."""
        put(self, value, frame)

    def at(self, frame: i64) -> tuple[Any, int]:
        """The value at `frame`, and the frame that set it; (None, 0) before the oldest value kept."""
        since: i64 = self.since
        past: list[Any] = self.past
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = len(past)
        middle: cython.Py_ssize_t
        if frame >= since:
            return self.now, self.since
        while low < high:
            middle = (low + high) // 2
            since = past[middle][1]
            if frame < since:
                high = middle
            else:
                low = middle + 1
        return past[low - 1] if low else (None, 0)

    def values(self) -> list[tuple[Any, int]]:
        """The values kept with the frames that set them, oldest first."""
        return [*self.past, (self.now, self.since)] if self.since else []

    def changes(self) -> list[int]:
        """Frames at which the value changed, oldest first."""
        return [since for _, since in self.values()]

    def since_frame(self, frame: i64) -> list[Any]:
        """The known values that were valid at a frame or later, latest first."""
        until: i64 = self.since
        found: list[Any] = []
        past: list[Any] = self.past
        place: cython.Py_ssize_t = len(past)
        if self.now is not None:
            found.append(self.now)
        while until > frame and place:
            place -= 1
            if past[place][0] is not None:
                found.append(past[place][0])
            until = past[place][1]
        return found

    def changes_after(self, frame: i64) -> list[int]:
        """Frames after another at which the value changed, latest first."""
        found: list[Any] = []
        changed(self, frame, found)
        return found


def end(fact: Fact, frame: Any) -> cython.int:
    """The value is unknown from a frame on."""
    if fact.now is not None:
        put(fact, None, frame)
    return 0


def changed(fact: Fact, after: i64, found: list[Any]) -> cython.int:
    """Add the frames after another at which a value changed, latest first."""
    since: i64 = fact.since
    past: list[Any] = fact.past
    place: cython.Py_ssize_t = len(past)
    if since <= after:
        return 0
    found.append(fact.since)
    while place:
        place -= 1
        since = past[place][1]
        if since <= after:
            break
        found.append(past[place][1])
    return 0


def put(fact: Fact, value: object, frame: Any) -> cython.int:
    """What `change` does. No method, so that a fact has no table of methods, which takes 8 bytes."""
    size: cython.Py_ssize_t
    old: cython.Py_ssize_t
    since: i64
    if fact.since:
        past: list[Any] = fact.past
        if past:
            past.append((fact.now, fact.since))
            size = len(past)
            if size > _KEPT:
                old = 1 if size <= _MANY else size // 2
                since = past[old][1]
                if since <= cython.cast(i64, frame) - _ROWS:
                    fact.past = past[old:]  # another thread may still go through the longer list
        else:
            fact.past = [(fact.now, fact.since)]
    fact.now, fact.since = value, frame
    return 0
