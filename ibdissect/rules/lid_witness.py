"""Would the capture have shown it, had a port's LID changed? For rules that hold packets against LIDs learnt earlier."""

from __future__ import annotations

import numpy as np

from ibdissect.dropped import Dropped
from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.model import Port
from ibdissect.fabric.told import PortInfos, port_key
from ibdissect.lint.engine import Context

MAX_PORTS = 131072
LATEST = 1 << 40


class LidWitness:
    """Which ports the capture shows being written to: what assigns LIDs to them passes it. One per capture for all rules that ask."""

    def __init__(self) -> None:
        self.written: set[int] = set()
        self.dropped = Dropped("ports that LIDs were written to")
        self._of: ChunkFollowed | None = None

    def take(self, event: ChunkFollowed, context: Context) -> None:
        """Follow the Sets of a chunk."""
        if self._of is event:
            return
        self._of = event
        told = context.get(PortInfos).of(event)
        if len(told):
            fresh = set(told.key[told.sets].tolist()) - self.written
            if len(self.written) < MAX_PORTS:
                self.written |= fresh
            elif fresh:
                self.dropped.add(int(told.frames[0]), int(event.table.chunk.time_ns[told.rows[0]]), len(fresh))

    def sure(self, port: Port, frame: int, context: Context) -> bool:
        """Whether the LID that a port had before a frame is still its LID there: its Sets are seen, or it said so again later."""
        if not port.lids.now or port.lids.since >= frame:
            return False
        key = _key(port)
        return int(key[0]) in self.written or int(context.get(PortInfos).at(key, np.array([LATEST]))[1][0]) > frame

    @staticmethod
    def told(port: Port, frame: int, context: Context) -> bool:
        """Whether the port itself told its LID and LMC before a frame; a NodeRecord has no LMC."""
        return bool(context.get(PortInfos).at(_key(port), np.array([frame]))[1][0])


def _key(port: Port) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return port_key(np.array([port.node.slot]), np.array([port.number]))
