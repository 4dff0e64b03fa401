"""Ports whose change of LID the capture would show. Rules ask before they compare a packet with a LID learnt earlier."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ibdissect.bounded import Dropped
from ibdissect.decode.history import AFTER_ALL
from ibdissect.subnet.earlier_answers import PortInfos
from ibdissect.subnet.events import ChunkFollowed
from ibdissect.subnet.nodes import SWITCH, Port
from ibdissect.wire.sm_port import PortInfo

MAX_PORTS = 131072
KEPT_SETS = 8
"""Sets remembered per port."""


class LidWrites:
    """Ports whose PortInfo Sets the capture shows: it would show a new LID of theirs, too. One per capture."""

    after: ClassVar = (PortInfos,)
    learns_from: ClassVar = ChunkFollowed

    def __init__(self, infos: PortInfos) -> None:
        self.infos = infos
        self.written: dict[int, int] = {}
        """Port -> frame of its first Set."""
        self.latest: dict[int, tuple[tuple[int, int], ...]] = {}
        """Port -> LIDs and frames of its latest Sets."""
        self.dropped = Dropped("ports that LIDs were written to")

    def take(self, event: ChunkFollowed) -> None:
        """Process the Sets of a chunk."""
        smps = self.infos.of(event)
        if len(smps):
            sets = smps.sets & ((smps.kind != SWITCH) | (smps.number == 0))  # external ports of switches have no LIDs
            keys, first = np.unique(smps.key[sets], return_index=True)
            frames = smps.frames[sets][first]
            fresh = {key: frame for key, frame in zip(keys.tolist(), frames.tolist(), strict=True) if key not in self.written}
            for key, lid, frame in zip(*(column[sets].tolist() for column in (smps.key, smps.now(PortInfo.lid), smps.frames)), strict=True):
                if key in self.latest or len(self.latest) < MAX_PORTS:
                    self.latest[key] = (*self.latest.get(key, ()), (lid, frame))[-KEPT_SETS:]
            if len(self.written) < MAX_PORTS:
                self.written |= fresh
            elif fresh:
                self.dropped.add(int(smps.frames[0]), int(event.table.chunk.time_ns[smps.rows[0]]), len(fresh))

    def is_certain(self, port: Port, frame: int, until: int | None = None) -> bool:
        """Whether a port still has its earlier LID at `frame`: its Sets are captured, or a later answer shows the LID again.

        `until`: the last frame that may show it (default: `frame` itself).
        """
        lids, since = port.lids.at(frame)
        if lids is None or since >= frame:
            return False
        if since < 0:  # only a file says so
            return True
        if until is None:
            return self.written.get(port.key, AFTER_ALL) < frame
        return port.key in self.written or self.last_shown(port, until) > frame

    def changed_unseen(self, port: Port, frame: int) -> bool:
        """Whether the port's LID changed after `frame` without a Set in the capture: then it may have changed before `frame`."""
        since = port.lids.at(frame)[1]
        change = next((changed for changed in port.lids.changes() if changed > frame), frame)
        lids = port.lids.at(change)[0]
        if change == frame or lids is None:
            return False
        return not any(lid == lids[0] and since <= set_at <= change for lid, set_at in self.latest.get(port.key, ()))

    def gained(self, port: Port, after: int) -> bool:
        """Whether a port may have had other LIDs after a frame than it showed: the first that the capture shows were just written to it."""
        first = port.lids.past[0][1] if port.lids.past else port.lids.since
        unsure = self.dropped.count > 0 or not port.node.guid
        return after < first and (unsure or self.written.get(port.key, AFTER_ALL) <= first)

    def change_frames(self, *ports: Port) -> set[int]:
        """Frames at which the answer of `is_certain` may change."""
        found: set[int] = set()
        for key in (port.key for port in ports):
            found.update(self.infos.answers(key), [self.written[key] + 1] if key in self.written else [])
        return found

    def last_shown(self, port: Port, frame: int) -> int:
        """The last frame before another in which the port itself showed its LID and LMC; 0: none. A NodeRecord has no LMC."""
        return int(self.infos.at(np.array([port.key]), np.array([frame]))[1][0])
