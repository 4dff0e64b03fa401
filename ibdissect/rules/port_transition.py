"""States of ports that a manager asks for out of turn (SEM)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.fabric.model import ACTIVE, ARMED, INIT
from ibdissect.fabric.told import PortInfos, Told
from ibdissect.lint.engine import Context
from ibdissect.lint.rule import ERROR
from ibdissect.wire.sm_port import PortInfo

from .learnt import Mask, TellingRule

MAX_PORTS = 131072


class ActiveWithoutArmed(TellingRule):
    """A manager sets a port Active that it never armed.

    ## Why it matters
    A link goes from Initialize to Armed to Active. A port in Initialize refuses to become Active, and the link carries no data.

    ## What to do
    Set the port, and the one it faces, to Armed first. Ports that were armed once are not judged, nor are other steps: a port goes
    down and comes up by itself, unseen.
    """

    code, name, severity = "SEM012", "portstate-transition", ERROR
    reference = "IBA 14.2.5.6 (PortState); kernel qib_set_linkstate (LINKACTIVE needs LINKARMED)"
    message = "Set(PortInfo) of {port} to Active; it is in Initialize and nobody set it to Armed"
    example = "GetResp(PortInfo) with PortState Initialize, then a Set to Active"
    source = PortInfos
    at = PortInfo.port_state
    why = "PortState Initialize"

    def __init__(self) -> None:
        self.armed: set[int] = set()
        """Ports that somebody set to Armed; an answer may still show the state before, so once is enough."""

    def suspicious(self, told: Told, context: Context) -> Mask:
        state = told.now(PortInfo.port_state)
        armed = np.flatnonzero(told.sets & (state == ARMED))
        if len(self.armed) < MAX_PORTS:
            self.armed.update(told.key[armed].tolist())
        return told.sets & (state == ACTIVE) & (told.since > 0) & (told.was(PortInfo.port_state) == INIT)

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        return None if int(told.key[i]) in self.armed or len(self.armed) >= MAX_PORTS else {}
