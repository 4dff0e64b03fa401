"""What do the agents of each management class say of themselves (ClassPortInfo)?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ibdissect.dropped import Dropped
from ibdissect.table.table import ChunkTable
from ibdissect.wire.classport import ClassPortInfo
from ibdissect.wire.mad import MAD

from .asked import Asked

GET_RESP, CLASS_PORT_INFO = 0x81, 0x0001
MAX_AGENTS = 65536
"""Agents remembered; the oldest goes first."""


class Agent(NamedTuple):
    """An agent as it described itself last."""

    frame: int
    """The answer that says so."""
    capability_mask: int
    resp_time_value: int
    """Code of the longest time that it takes for an answer: 4.096 us * 2^code."""


class Agents:
    """All agents of a capture. `of` every chunk in order, by whoever asks first."""

    def __init__(self) -> None:
        self._of: ChunkTable | None = None
        self.by_place: dict[tuple[int, int], Agent] = {}
        """By management class and address (a LID, or a hash of GID or IP address, as in `Asked`)."""
        self.dropped = Dropped("management agents")

    def of(self, table: ChunkTable, asked: Asked) -> Agents:
        """Take in a chunk; `asked` is of the same one."""
        if self._of is table:
            return self
        self._of = table
        told = np.flatnonzero((asked.attribute == CLASS_PORT_INFO) & (asked.method == GET_RESP))
        if not len(told):
            return self
        good = (table.of_rows(MAD.status)[0] == 0) & (table.first(ClassPortInfo) >= 0)
        for i in told[good[asked.rows[told]]].tolist():
            row = int(asked.rows[i])
            view: ClassPortInfo = table.view(ClassPortInfo, int(table.first(ClassPortInfo)[row]))
            place = int(asked.mgmt_class[i]), int(asked.source[i])
            if place not in self.by_place and len(self.by_place) >= MAX_AGENTS:
                self.by_place.pop(next(iter(self.by_place)))
                self.dropped.add(table.chunk.first + row, int(table.chunk.time_ns[row]))
            self.by_place[place] = Agent(table.chunk.first + row, view.capability_mask, view.resp_time_value)
        return self
