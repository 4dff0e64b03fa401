"""Which facts, learnt late, hold for earlier packets as well? Those that a port was asked for before anybody changed them.

A file could be read twice, first for its subnet management, then to judge. It is read once instead: what cannot be judged yet is
remembered, and answered at the end. That is the same, as only facts count that never changed in the capture: what a second reading
would know of them in front of a packet is what is known of them at the end.
"""

from __future__ import annotations

import numpy as np

from ibdissect.dropped import Dropped
from ibdissect.table.distinct import held
from ibdissect.table.locate import Bool, Int
from ibdissect.table.table import extract, gather
from ibdissect.wire.mad import MAD

from .columns import GET
from .model import Port, Subnet
from .told import MAX_KEPT, Told

KEPT_TIDS = 4096
"""Requests of the chunk before that may still be answered."""
NEVER = -1


def transactions(told: Told, index: Int) -> Int:
    """Transaction ids of some of the SMPs, int64[n]."""
    at = told.event.table.chunk.offset[told.rows[index]] + told.mad[index] + MAD.transaction_id.bit // 8
    ids: Int = extract(gather(told.event.table.chunk.data, at, 8), 0, 64).astype(np.uint64).view(np.int64)
    return ids


class FirstTold:
    """How an attribute of each port came up first: in the answer to a Get - so it held before - or in another way."""

    def __init__(self) -> None:
        self._keys: Int = np.empty(0, np.int64)
        """Whom it is about, as `Tellings.keys` numbers them, sorted."""
        self._frames: Int = np.empty(0, np.int64)
        """Frame of the Set or answer that came first."""
        self._good: Bool = np.empty(0, np.bool_)
        """It was the answer to a Get."""
        self._gets: Int = np.empty(0, np.int64)
        self._sets: Int = np.empty(0, np.int64)
        self.dropped = Dropped("ports whose first answers matter")
        self._blind = 0
        """Frame of the first Set to a port that is not known: it may have been any."""

    def take(self, told: Told) -> None:
        """Take in the SMPs of a chunk."""
        if not len(told):
            return
        ids = transactions(told, np.arange(len(told)))
        gets, sets = np.append(self._gets, ids[told.method == GET]), np.append(self._sets, ids[told.sets])
        self._gets, self._sets = gets[-KEPT_TIDS:], sets[-KEPT_TIDS:]
        lost = np.flatnonzero(told.sets & (told.key == NEVER))
        if len(lost) and not self._blind:
            self._blind = int(told.frames[lost[0]])
        fresh = np.flatnonzero((told.sets | told.answers) & (told.key != NEVER))
        if len(self._keys):
            keys = told.key[fresh]
            fresh = fresh[self._keys[np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)] != keys]
        keys, first = np.unique(told.key[fresh], return_index=True)
        if not len(keys):
            return
        if len(self._keys) + len(keys) > MAX_KEPT:
            self.dropped.add(int(told.frames[0]), int(told.event.table.chunk.time_ns[told.rows[0]]), len(keys))
            return
        at = fresh[first]
        frames = told.frames[at]
        good: Bool = told.answers[at] & held(ids[at], gets) & ~held(ids[at], sets)
        if self._blind:
            good &= frames < self._blind
        order = np.argsort(all_keys := np.append(self._keys, keys), kind="stable")
        self._keys, self._frames, self._good = all_keys[order], np.append(self._frames, frames)[order], np.append(self._good, good)[order]

    def asked(self, key: int) -> int:
        """Frame in which the attribute was first told, in answer to a Get; NEVER where that is not sure."""
        at = int(np.searchsorted(self._keys, key))
        return int(self._frames[at]) if at < len(self._keys) and self._keys[at] == key and self._good[at] else NEVER

    def untold(self, keys: Int, frames: Int) -> Bool:
        """Which frames come before the attribute was told or written; bool[n]."""
        if not len(self._keys):
            return np.ones(len(keys), np.bool_)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        before: Bool = (self._keys[at] != keys) | (frames < self._frames[at])
        return before


class Later:
    """What is known of earlier packets at the end of a capture; one per capture for all rules that ask."""

    def __init__(self) -> None:
        self.enabled = True
        """False for a pipe, which is judged as knowledge comes."""
        self.infos, self.tables = FirstTold(), FirstTold()
        self.dropped = (self.infos.dropped, self.tables.dropped)
        self._of: object = None

    def take(self, infos: Told, tables: Told) -> None:
        """PortInfo and P_KeyTable of a chunk."""
        if self.enabled and self._of is not infos.event:
            self._of = infos.event
            self.infos.take(infos)
            self.tables.take(tables)

    def owner(self, subnet: Subnet, lid: int) -> tuple[Port, int] | None:
        """The port that had a LID from the start of the capture to its end, and the frame that taught it."""
        track = subnet.lids.get(lid)
        port = track.now if track is not None else None
        if track is None or port is None or track.past or not port.node.alive:
            return None
        told = self.infos.asked(port.node.slot << 8 | port.number)
        return (port, told) if 0 < track.since <= told else None

    def p_keys(self, port: Port) -> bool:
        """Whether the P_Key table of a port, as far as it is known, was the same from start to end."""
        if port.p_keys is None:
            return False
        base = (port.node.slot << 8 | port.number) << 16
        return all(
            not block.past and block.now is not None and self.tables.asked(base | block.number) == block.since
            for block in port.p_keys.blocks
        )

    def m_key(self, port: Port) -> int:
        """Frame that taught the M_Key which the port had from start to end; NEVER where that is not sure."""
        if port.guard is None or port.guard.held.past or port.guard.held.now is None:
            return NEVER
        told = self.infos.asked(port.node.slot << 8 | port.number)
        return told if told == port.guard.held.since else NEVER
