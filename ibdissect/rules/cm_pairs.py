"""Which native queue pairs belong together, in which partition and service, as connection management agreed?"""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.dropped import Dropped
from ibdissect.fabric.model import FIRST_MULTICAST
from ibdissect.record import record
from ibdissect.table.locate import Bool, Int, u16
from ibdissect.table.table import ChunkTable
from ibdissect.wire.cm import DREP, DREQ, REP, REQ
from ibdissect.wire.link import LRH
from ibdissect.wire.mad import MAD

from .pkey_columns import SLOTS, Native, slot

MAX_PAIRS = 65536
"""Connections remembered; the oldest is forgotten first."""
SEND = 0x03
NEVER = 1 << 62
End = tuple[int, int]
"""LID and queue pair number."""


@record(eq=True, frozen=False)
class Pair:
    """A connection whose REQ and REP were seen, between ports of this subnet."""

    active: End
    passive: End
    service: int
    """TransportServiceType: 0 RC, 1 UC, 2 RD, 3 other."""
    p_key: int
    req_frame: int
    rep_frame: int
    ended: int = NEVER
    """Frame of its end, or of the next connection of one of its queue pairs."""

    def far(self, end: End) -> End:
        """The other end."""
        return self.passive if end == self.active else self.active


class CmPairs:
    """All connections of a capture by their ends; one per capture for all rules that ask."""

    def __init__(self) -> None:
        self.by_end: dict[End, list[Pair]] = {}
        """The latest connection of a queue pair last, and the one before it."""
        self._asked: dict[tuple[int, int], tuple[REQ, int]] = {}
        """REQ and its frame, by LID and communication id of who asked."""
        self._by_id: dict[tuple[int, int], Pair] = {}
        """By LID and communication id, of either side."""
        self._occupied: Bool = np.zeros(SLOTS, np.bool_)
        """Slots of the ends, for a first look at many packets."""
        self._of: ChunkTable | None = None
        self.dropped = Dropped("connections between queue pairs")

    def take(self, table: ChunkTable) -> None:
        """Follow the messages of a chunk."""
        if self._of is table:
            return
        self._of = table
        found: list[tuple[int, Any, int]] = []
        for struct in (REQ, REP, DREQ, DREP):
            found += [(row, struct, i) for i, row in enumerate(table.occurrences(struct).rows.tolist())]
        if not found:
            return
        method, lrh = table.of_rows(MAD.method)[0], table.located.at("lrh")
        for row, struct, i in sorted(found, key=lambda item: item[0]):
            if int(method[row]) != SEND or lrh[row] < 0:
                continue
            at = np.array([lrh[row] + LRH.slid.bit // 8, lrh[row] + LRH.dlid.bit // 8])
            slid, dlid = u16(table.chunk.data, at).tolist()
            self._message(table.view(struct, i), slid, dlid, table.chunk.first + row)

    def _message(self, view: Any, slid: int, dlid: int, frame: int) -> None:
        if isinstance(view, REQ):
            if len(self._asked) >= MAX_PAIRS:
                _, gone = self._asked.pop(next(iter(self._asked)))
                self.dropped.add(gone, 0)
            self._asked[slid, view.local_communication_id] = (view, frame)
        elif isinstance(view, REP):
            asked = self._asked.get((dlid, view.remote_communication_id))
            if asked is not None:
                self._agreed(asked[0], asked[1], view, slid, dlid, frame)
        else:
            pair = self._by_id.get((slid, view.local_communication_id))
            if pair is not None:
                pair.ended = min(pair.ended, frame)

    def _agreed(self, request: REQ, req_frame: int, reply: REP, slid: int, dlid: int, frame: int) -> None:
        near, far = request.primary_local_port_lid, request.primary_remote_port_lid
        if not (0 < near < FIRST_MULTICAST and 0 < far < FIRST_MULTICAST) or not request.primary_subnet_local:
            return
        pair = Pair(
            (near, request.local_qpn), (far, reply.local_qpn), request.transport_service_type, request.partition_key, req_frame, frame
        )
        ids = ((dlid, request.local_communication_id), (slid, reply.local_communication_id))
        known = self._by_id.get(ids[0])
        if known is not None and (known.active, known.passive) == (pair.active, pair.passive):
            return  # a REP that was sent again
        for key in ids:
            if len(self._by_id) >= 2 * MAX_PAIRS:
                self.dropped.add(self._by_id.pop(next(iter(self._by_id))).req_frame, 0)
            self._by_id[key] = pair
        for end in (pair.active, pair.passive):
            if end not in self.by_end and len(self.by_end) >= 2 * MAX_PAIRS:
                self.dropped.add(self.by_end.pop(next(iter(self.by_end)))[-1].req_frame, 0)
            before = self.by_end.get(end, [])[-1:]
            for one in before:
                one.ended = min(one.ended, req_frame)
            self.by_end[end] = [*before, pair]
        self._occupied[slot(np.array([lid << 24 | qp for lid, qp in (pair.active, pair.passive)], np.int64))] = True

    def at(self, end: End, frame: int) -> Pair | None:
        """The connection of a queue pair when `frame` was sent; None where it had none, or it is not known."""
        for pair in reversed(self.by_end.get(end, ())):
            if pair.rep_frame < frame < pair.ended:
                return pair
        return None

    def candidates(self, native: Native) -> Int:
        """Indices of packets that may go to one of the ends: a few too many, never one too few."""
        if not self.by_end:
            return np.empty(0, np.int64)
        index: Int = np.flatnonzero(self._occupied[slot(native.dlid << 24 | native.dest_qp)])
        return index
