"""What held when: a value that changes over the capture, with the frames that taught it."""

from __future__ import annotations

from typing import Generic, TypeVar

V = TypeVar("V")

KEPT = 4
"""Earlier values remembered per fact; older questions are answered with 'unknown'."""


class Track(Generic[V]):
    """A fact over time. None means unknown: never taught, or no longer certain."""

    __slots__ = ("now", "past", "since")

    def __init__(self) -> None:
        self.now: V | None = None
        self.since = 0
        """Frame that taught `now`; 0 when nothing was taught yet."""
        self.past: tuple[tuple[V | None, int], ...] = ()
        """Earlier values with the frames that taught them, oldest first, at most KEPT."""

    def learn(self, value: V | None, frame: int) -> bool:
        """Take a value from a frame; True when it differs from what held before."""
        if value == self.now:
            return False
        if self.since:
            self.past = (*self.past, (self.now, self.since))[-KEPT:]
        self.now, self.since = value, frame
        return True

    def at(self, frame: int) -> tuple[V | None, int]:
        """What a packet sent in `frame` met, and the frame that taught it: (None, 0) before the first lesson remembered."""
        if frame >= self.since:
            return self.now, self.since
        for value, since in reversed(self.past):
            if frame >= since:
                return value, since
        return None, 0

    def changes(self) -> list[int]:
        """Frames from which on another value held, oldest first."""
        return [since for _, since in self.past] + ([self.since] if self.since else [])
