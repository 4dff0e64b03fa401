"""Which port states does a manager request in the wrong order?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ibdissect.dropped import Dropped
from ibdissect.fabric.earlier_answers import AttributeSmps, PortInfos
from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.model import ACTIVE, ARMED, INIT
from ibdissect.flow.capture_loss import CaptureLoss
from ibdissect.flow.transactions import Transactions
from ibdissect.lint.rule import ERROR, Again, Context, Hit, on_chunk, on_end, on_event
from ibdissect.rules.shared.attribute_rule import AttributeRule, Mask
from ibdissect.table.table import ChunkTable
from ibdissect.wire.sm_port import PortInfo

STATUS = 0x7FFF
"""Bit 15 of a directed route's status is its direction."""
MAX_PORTS = 131072


class ActiveWithoutArmed(AttributeRule):
    """A manager sets a port Active that was never armed.

    A link goes from Initialize to Armed to Active. A port in Initialize refuses to become Active, and the link carries no data.

    Set the port, and the one it faces, to Armed first.

    The port showed Initialize, and the answer to the Set is an error: a port that accepts it was armed. A port that does not answer
    counts as refusing where the capture shows that it misses nothing: in ERF by its traffic, elsewhere no packet is missing within
    ten seconds. Ports that were armed once are not judged, nor are other steps, since a port goes down and comes up by itself,
    unseen.
    """

    code, name, severity = "SEM012", "portstate-transition", ERROR
    reference = "IBA 14.2.5.6 (PortState); kernel qib_set_linkstate (LINKACTIVE needs LINKARMED)"
    message = "Set(PortInfo) of {port} to Active; it is in Initialize and nobody set it to Armed"
    example = "GetResp(PortInfo) with PortState Initialize, then a Set to Active that is refused"
    source = PortInfos
    needs = (CaptureLoss, Transactions)
    at = PortInfo.port_state
    why = "PortState Initialize"

    def __init__(self) -> None:
        self.armed: dict[int, int] = {}
        """Ports that somebody set to Armed, and the first frame. An answer may still show the previous state, so one Set is enough."""
        self.held: dict[int, Hit] = {}
        """Findings that wait for an answer, by frame."""
        self.dropped = Dropped("ports that are set to a state")

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        for found in super().chunk(event, context):
            hit = found.made() if isinstance(found, Again) else found
            if len(self.held) >= MAX_PORTS:
                self.dropped.add(hit.frame, hit.time_ns)
            else:
                self.held[hit.frame] = hit
        yield from ()

    @on_chunk
    def settle(self, _table: ChunkTable, context: Context) -> Iterator[Hit]:
        for one in context.get(Transactions).answers_to(self.held):
            found = self.held.pop(one.request.frame)
            if one.status & STATUS:
                yield found

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        for hit in self.held.values():
            if context.get(CaptureLoss).proves_silence(hit.time_ns):
                yield hit

    def suspicious(self, smps: AttributeSmps, context: Context) -> Mask:
        state = smps.now(PortInfo.port_state)
        armed = np.flatnonzero(smps.sets & (state == ARMED))
        if len(self.armed) < MAX_PORTS:
            for key, frame in zip(smps.key[armed].tolist(), smps.frames[armed].tolist(), strict=True):
                self.armed.setdefault(key, frame)
        elif len(armed):
            self.dropped.add(int(smps.frames[armed[0]]), int(smps.event.table.chunk.time_ns[smps.rows[armed[0]]]), len(armed))
        return smps.sets & (state == ACTIVE) & (smps.since > 0) & (smps.was(PortInfo.port_state) == INIT)

    def arguments(self, smps: AttributeSmps, i: int, context: Context) -> dict[str, Any] | None:
        armed = self.armed.get(int(smps.key[i]))
        return None if (armed is not None and armed < smps.frames[i]) or len(self.armed) >= MAX_PORTS else {}
