"""Pause frames by sender and priority: MAC control (IEEE 802.3 31B) and PFC (IEEE 802.1Q 36)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import KeptDict
from ibdissect.decode import ChunkTable
from ibdissect.decode.identity import Code, MacId
from ibdissect.wire.encapsulation import PAUSE_TIMES, PAUSED, Ethernet, Pause
from ibdissect.wire.spec import Field

MAX_SENDERS = 4096
WHOLE_LINK = -1
"""Priority of frames that pause all of a link."""


class Pausing(Record):
    """The pause frames of one sender for one priority."""

    source: bytes
    """MAC address."""
    priority: int
    """0 to 7, or WHOLE_LINK."""
    first_frame: int
    pauses: int = 0
    """Frames that begin a pause or prolong it."""
    resumes: int = 0
    """Frames with a time of 0, which end a pause."""
    longest: int = 0
    """Longest pause asked for, in quanta of 512 bits."""
    last_frame: int = 0


class Pauses:
    """Counts pause frames by sender and priority, bounded. Feed chunks in order."""

    def __init__(self) -> None:
        self.senders = KeptDict[tuple[MacId, Code], Pausing](MAX_SENDERS, "senders of pause frames and their priorities")

    def feed(self, table: ChunkTable) -> None:
        self._count(table, WHOLE_LINK, Pause.time, None)
        for priority, (paused, time) in enumerate(zip(PAUSED, PAUSE_TIMES, strict=True)):
            self._count(table, priority, time, paused)

    def _count(self, table: ChunkTable, priority: int, time: Field[int], paused: Field[bool] | None) -> None:
        """The frames with a time for a priority, where `paused` says that it is meant."""
        found = table.occurrences(time.owner)
        if not len(found):
            return
        some = np.flatnonzero(table.values(paused)) if paused is not None else np.arange(len(found))
        rows, quanta = found.rows[some], table.values(time)[some]
        for source, frame, when, asked in zip(
            map(bytes, table.values_at(Ethernet.source, rows)), (table.chunk.first + rows).tolist(),
            table.chunk.time_ns[rows].tolist(), quanta.tolist(), strict=True,
        ):  # fmt: skip
            entry = self.senders.get_or_make((MacId(source), priority), partial(Pausing, source, priority, frame), frame, when)
            if entry is not None:
                entry.pauses += asked > 0
                entry.resumes += not asked
                entry.longest, entry.last_frame = max(entry.longest, asked), frame

    def result(self, top: int | None = None) -> list[dict[str, Any]]:
        """Senders as plain data, most pauses first; `priority` is None for pauses of a whole link."""
        order = sorted(self.senders.values(), key=lambda entry: (-entry.pauses, entry.first_frame, entry.priority))
        return [
            {
                "source": entry.source.hex(":"), "priority": None if entry.priority == WHOLE_LINK else entry.priority,
                "pauses": entry.pauses, "resumes": entry.resumes, "longest_quanta": entry.longest,
                "first_frame": entry.first_frame, "last_frame": entry.last_frame,
            }
            for entry in order[:top]
        ]  # fmt: skip
