"""States of ports that a manager asks for out of turn (SEM)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ibdissect.capture.chunk import LINK_ERF
from ibdissect.dropped import Dropped
from ibdissect.fabric.columns import PORT_INFO, SET
from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.model import ACTIVE, ARMED, INIT
from ibdissect.fabric.told import PortInfos, Told
from ibdissect.flow.transactions import AnsweredMany
from ibdissect.lint.engine import Context
from ibdissect.lint.rule import ERROR, Hit, on_chunk, on_end, on_event
from ibdissect.table.table import ChunkTable
from ibdissect.wire.sm_port import PortInfo

from .learnt import Mask, TellingRule

SMP_CLASSES = (0x01, 0x81)
STATUS = 0x7FFF
"""Bit 15 of a directed route's status is its direction."""
MAX_PORTS = 131072


class ActiveWithoutArmed(TellingRule):
    """A manager sets a port Active that it never armed.

    ## Why it matters
    A link goes from Initialize to Armed to Active. A port in Initialize refuses to become Active, and the link carries no data.

    ## What to do
    Set the port, and the one it faces, to Armed first. Ports that were armed once are not judged, nor are other steps: a port goes
    down and comes up by itself, unseen. A port that accepts the Set was armed; in captures of ibdump, which may miss packets, it must
    refuse it.
    """

    code, name, severity = "SEM012", "portstate-transition", ERROR
    reference = "IBA 14.2.5.6 (PortState); kernel qib_set_linkstate (LINKACTIVE needs LINKARMED)"
    message = "Set(PortInfo) of {port} to Active; it is in Initialize and nobody set it to Armed"
    example = "GetResp(PortInfo) with PortState Initialize, then a Set to Active that is refused"
    source = PortInfos
    at = PortInfo.port_state
    why = "PortState Initialize"

    def __init__(self) -> None:
        self.armed: set[int] = set()
        """Ports that somebody set to Armed; an answer may still show the state before, so once is enough."""
        self.held: dict[int, tuple[Hit, bool]] = {}
        """Findings that wait for an answer, by frame, and whether silence proves them."""
        self.answers: list[tuple[int, int]] = []
        """Request and status of answers in this chunk."""
        self.dropped = Dropped("ports that are set to a state")

    @on_event(AnsweredMany)
    def answered(self, event: AnsweredMany, _context: Context) -> None:
        index = np.flatnonzero((event.request_method == SET) & (event.attribute == PORT_INFO) & np.isin(event.mgmt_class, SMP_CLASSES))
        self.answers += zip(event.request_frames[index].tolist(), (event.status[index] & STATUS).tolist(), strict=True)

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        """Keep what would be said for later."""
        for hit in super().chunk(event, context):
            if len(self.held) >= MAX_PORTS:
                self.dropped.add(hit.frame, hit.time_ns)
            else:
                self.held[hit.frame] = hit, bool(event.table.chunk.link[hit.frame - event.table.chunk.first] != LINK_ERF)
        yield from ()

    @on_chunk
    def settle(self, _table: ChunkTable, _context: Context) -> Iterator[Hit]:
        """What the port said to it."""
        for frame, status in self.answers:
            found = self.held.pop(frame, None)
            if found is not None and status:
                yield found[0]
        self.answers.clear()

    @on_end
    def end(self, _context: Context) -> Iterator[Hit]:
        for hit, proven in self.held.values():
            if proven:
                yield hit

    def suspicious(self, told: Told, context: Context) -> Mask:
        state = told.now(PortInfo.port_state)
        armed = np.flatnonzero(told.sets & (state == ARMED))
        if len(self.armed) < MAX_PORTS:
            self.armed.update(told.key[armed].tolist())
        elif len(armed):
            self.dropped.add(int(told.frames[armed[0]]), int(told.event.table.chunk.time_ns[told.rows[armed[0]]]), len(armed))
        return told.sets & (state == ACTIVE) & (told.since > 0) & (told.was(PortInfo.port_state) == INIT)

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        return None if int(told.key[i]) in self.armed or len(self.armed) >= MAX_PORTS else {}
