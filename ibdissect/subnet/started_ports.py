"""Ports that were set up where the capture does not show it. Before a link is Armed, it carries subnet management alone (IBA 7.2.7)."""

from __future__ import annotations

from bisect import bisect_left
from typing import ClassVar

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode.identity import Frame, PortNumber
from ibdissect.wire.sm_port import PortInfo

from .earlier_answers import PortInfos
from .events import ChunkFollowed
from .nodes import ACTIVE, ARMED, DOWN, INIT, SWITCH, Port

MAX_PORTS = 32768
KEPT_SETS = 8
"""Sets remembered per port."""


class StartedPorts:
    """The ports that a manager made Armed or Active in the capture. One per capture; of a frame, ask in its chunk or later."""

    after: ClassVar = (PortInfos,)
    learns_from: ClassVar = ChunkFollowed

    def __init__(self, infos: PortInfos) -> None:
        self.infos = infos
        self.armed = KeptDict[PortNumber, tuple[Frame, ...]](MAX_PORTS, "ports that were set to a state")
        """Frames of the latest such Sets, ascending."""

    def take(self, event: ChunkFollowed) -> None:
        """Process the Sets of a chunk."""
        smps = self.infos.of(event)
        if not len(smps):
            return
        sets = np.flatnonzero(smps.sets & np.isin(smps.now(PortInfo.port_state), (ARMED, ACTIVE)))
        time_ns = int(event.table.chunk.time_ns[0])
        for port, frame in zip(smps.key[sets].tolist(), smps.frames[sets].tolist(), strict=True):
            known = self.armed.get(port, ())
            self.armed.keep(port, (*known[1 - KEPT_SETS :], frame), frame, time_ns)

    def unseen(self, port: Port, frame: int) -> bool:
        """Whether a port that carries data at `frame` last showed that it was not set up, and nobody is seen to do it."""
        info, since = port.info_at(frame)
        if info is None or not _waits(port, info):
            return False
        sets = self.armed.get(PortNumber(port.key), ())
        return not bisect_left(sets, since) < bisect_left(sets, frame)

    @staticmethod
    def restarted(port: Port, frame: int) -> bool:
        """Whether a port that carries data at `frame` shows next that it is not set up: what it shows then is of another time."""
        later = next((body for body, since in port.infos.values() if since > frame and body is not None), None)
        return later is not None and _waits(port, PortInfo(later))


def _waits(port: Port, info: PortInfo) -> bool:
    """Whether a port waits for a manager, or for a link. Port 0 of a switch has none."""
    return info.port_state in (DOWN, INIT) and (port.node.kind != SWITCH or port.number > 0)
