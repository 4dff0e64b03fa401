"""Facts learnt late that also hold for earlier packets: those answered to a Get before any Set changed them.

Instead of reading a file twice (first its subnet management, then the checks), packets that cannot be checked yet are
remembered and decided at the end. The result is the same, as only facts that never changed in the capture are used.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ibdissect.bounded import Dropped
from ibdissect.decode import Bool, Int
from ibdissect.decode.equal_rows import mix, places_in
from ibdissect.wire.numbers import GET

from .attribute_smps import AttributeSmps
from .earlier_answers import MAX_KEPT, NO_KEY, PKeyTables, PortInfos
from .events import ChunkFollowed
from .model import Subnet
from .nodes import Port

KEPT_TIDS = 4096
"""Latest requests whose answers may be in the next chunk."""
NEVER = -1


class FirstAnswers:
    """How was an attribute of each port first seen? If in the answer to a Get, it held before that frame, too."""

    def __init__(self) -> None:
        self._keys: Int = np.empty(0, np.int64)
        """Ports, by the numbers of `AttributeHistory.keys`, sorted."""
        self._frames: Int = np.empty(0, np.int64)
        """Frame of the first Set or answer."""
        self._good: Bool = np.empty(0, np.bool_)
        """Whether it was the answer to a Get."""
        self._gets: Int = np.empty((2, 0), np.int64)
        """Transaction ids and frames of the latest Gets."""
        self._sets: Int = np.empty((2, 0), np.int64)
        """The same for the latest Sets. Ids are mixed with the port, as Sets to two ports may have the same id."""
        self.dropped = Dropped("ports whose first answers matter")
        self._blind = 0
        """Frame of the first Set to an unknown port, which may be any port; 0: none."""

    def take(self, smps: AttributeSmps) -> None:
        """Process the SMPs of a chunk."""
        if not len(smps):
            return
        ids = smps.transaction.view(np.int64)
        written = mix([ids, smps.key]).view(np.int64)
        gets = np.hstack((self._gets, np.stack((ids, smps.frames))[:, smps.method == GET]))
        sets = np.hstack((self._sets, np.stack((written, smps.frames))[:, smps.sets]))
        self._gets, self._sets = gets[:, -KEPT_TIDS:], sets[:, -KEPT_TIDS:]
        lost = np.flatnonzero(smps.sets & (smps.key == NO_KEY))
        if len(lost) and not self._blind:
            self._blind = int(smps.frames[lost[0]])
        fresh = np.flatnonzero((smps.sets | smps.answers) & (smps.key != NO_KEY))
        fresh = fresh[places_in(self._keys, smps.key[fresh]) < 0]
        keys, first = np.unique(smps.key[fresh], return_index=True)
        if not len(keys):
            return
        if len(self._keys) + len(keys) > MAX_KEPT:
            self.dropped.add(int(smps.frames[0]), int(smps.event.table.chunk.time_ns[smps.rows[0]]), len(keys))
            return
        at = fresh[first]
        frames = smps.frames[at]
        good: Bool = smps.answers[at] & _asked(ids[at], frames, *gets) & ~_asked(written[at], frames, *sets)
        if self._blind:
            good &= frames < self._blind
        order = np.argsort(all_keys := np.append(self._keys, keys), kind="stable")
        self._keys, self._frames, self._good = all_keys[order], np.append(self._frames, frames)[order], np.append(self._good, good)[order]

    def first_answer(self, key: int) -> int:
        """Frame of the answer to a Get that first showed a port's attribute; NEVER if it may have had another value before."""
        at = int(places_in(self._keys, np.array([key]))[0])
        return int(self._frames[at]) if at >= 0 and self._good[at] else NEVER

    def precede(self, keys: Int, frames: Int) -> Bool:
        """Which frames precede the first answer or Set of the attribute; bool[n]."""
        at = places_in(self._keys, keys)
        return (at < 0) | (frames < np.append(self._frames, 0)[at])


def _asked(ids: Int, frames: Int, asked: Int, at: Int) -> Bool:
    """Which transactions were asked for earlier: `first_answer` at the frames `at`."""
    known, first = np.unique(asked, return_index=True)
    place = places_in(known, ids)
    return (place >= 0) & (np.append(at[first], 0)[place] < frames)


class LateFacts:
    """At the end of a capture, what held for earlier packets? One per capture, shared by all rules."""

    after: ClassVar = (PortInfos, PKeyTables)
    learns_from: ClassVar = ChunkFollowed

    def __init__(self, port_infos: PortInfos, p_key_tables: PKeyTables) -> None:
        self.port_infos, self.p_key_tables = port_infos, p_key_tables
        self.infos, self.tables = FirstAnswers(), FirstAnswers()
        self.dropped = (self.infos.dropped, self.tables.dropped)

    def take(self, event: ChunkFollowed) -> None:
        """Process PortInfo and P_KeyTable of a chunk."""
        self.infos.take(self.port_infos.of(event))
        self.tables.take(self.p_key_tables.of(event))

    def owner(self, subnet: Subnet, lid: int) -> tuple[Port, int] | None:
        """The port that had a LID during the whole capture, and the frame that shows it; None if there is none."""
        track = subnet.lids.get(lid)
        port = track.now if track is not None else None
        if track is None or port is None or track.past or not port.node.alive:
            return None
        frame = self.infos.first_answer(port.key)
        return (port, frame) if 0 < track.since <= frame else None

    def p_keys(self, port: Port) -> bool:
        """Whether the known part of a port's P_Key table was the same during the whole capture."""
        if port.p_keys is None:
            return False
        base = port.key << 16
        return all(
            not block.past and block.now is not None and self.tables.first_answer(base | block.number) == block.since
            for block in port.p_keys.blocks
        )

    def m_key(self, port: Port) -> int:
        """Frame that shows the M_Key that the port had during the whole capture; NEVER if that is uncertain."""
        if port.guard is None or port.guard.held.past or port.guard.held.now is None:
            return NEVER
        frame = self.infos.first_answer(port.key)
        return frame if frame == port.guard.held.since else NEVER
