"""What was evicted because a limit was reached? All state that grows with a capture has a limit, and records evictions here."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct as Record


class Dropped(Record, eq=False):
    """How many entries of one kind were evicted or not stored; rule CAP016 reports it.

    A class with a limit has one, or a tuple of them, as its attribute `dropped`, or a container of `bounded`, which has its own.
    """

    ever: ClassVar[bool] = False
    """Whether anything was ever dropped in this process; if not, nobody has to search."""
    what: str
    """What there were too many of, in the plural."""
    count: int = 0
    frame: int = 0
    """Frame of the first eviction."""
    time_ns: int = 0

    def add(self, frame: int, time_ns: int, count: int = 1) -> None:
        if not self.count:
            self.frame, self.time_ns = frame, time_ns
        self.count += count
        Dropped.ever = True
