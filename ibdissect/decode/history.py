"""Values that change over the capture, with the frames that set them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ibdissect.capture.records import ROWS
from ibdissect.engine import packet_kinds
from ibdissect.engine.facts import KEPT, Fact

V = TypeVar("V")

SECOND_NS = 1_000_000_000
NEIGHBOURS_NS = 500_000
"""Packets this close together may be in the wrong order: captures of several queues swap neighbours."""
AFTER_ALL = packet_kinds.AFTER_ALL
"""A frame after all others: what never happens, and where to ask for the latest value."""


class History(Fact, Generic[V]):
    """A fact over time. None means unknown: never learnt, or no longer certain."""

    __slots__ = ()
    if TYPE_CHECKING:
        now: V | None
        past: list[tuple[V | None, int]]

        def learn(self, value: V | None, frame: int) -> bool: ...  # type: ignore[override] # a value of its kind

        def change(self, value: V | None, frame: int) -> None: ...  # type: ignore[override]

        def at(self, frame: int) -> tuple[V | None, int]: ...

        def since_frame(self, frame: int) -> list[V]: ...

        def values(self) -> list[tuple[V | None, int]]: ...

    def forgets(self, frame: int) -> bool:
        """Whether values that were set at a frame or later may be forgotten: of old ones only the latest few are kept."""
        return len(self.past) >= KEPT and self.past[0][1] > frame


class Clock:
    """The times of the frames of the present chunk, and of at most ROWS before it."""

    def __init__(self) -> None:
        self.first = 1
        """The first frame whose time is kept."""
        self.times: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def take(self, first: int, times: npt.NDArray[np.int64]) -> None:
        """Add a chunk that begins with frame `first`."""
        kept = self.times[-ROWS:] if self.first + len(self.times) == first else self.times[:0]
        self.first, self.times = first - len(kept), np.concatenate((kept, times))

    def time_of(self, frame: int) -> int:
        """The time of a frame; of the first one kept if it is older."""
        return int(self.times[max(0, frame - self.first)])

    def first_after(self, time_ns: int) -> int:
        """The first frame kept that is not older than a time."""
        return self.first + int((self.times >= time_ns).argmax()) if len(self.times) else self.first
