"""Payloads of a length that no packet of its kind can have (BTH)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ibdissect.lint.rule import ERROR, Rule
from ibdissect.table.table import ChunkTable
from ibdissect.wire.expr import Where
from ibdissect.wire.transport import BTH

from .transport import CONTINUED, PACKET_FLOW, room_behind_headers

MTUS = (256, 512, 1024, 2048, 4096)
"""Path MTUs (seed000: NeighborMTU)."""
_CONTINUED = np.array([code in CONTINUED for code in range(256)])


def _no_mtu(table: ChunkTable) -> npt.NDArray[np.bool_]:
    """First and middle packets whose payload is no path MTU."""
    opcode = table.values(BTH.opcode)
    index = np.flatnonzero(_CONTINUED[opcode])
    bad = np.zeros(len(opcode), np.bool_)
    if index.size:
        room = room_behind_headers(table, index)
        bad[index] = (room >= 0) & ~np.isin(room, MTUS) & (table.values(BTH.padcnt)[index] == 0)
    return bad


class NotPathMtu(Rule):
    """A packet that is followed by more of its message is not filled up to a path MTU.

    ## Why it matters
    First and middle packets carry exactly the path MTU, which is 256, 512, 1024, 2048 or 4096. The responder answers anything
    else with a NAK for an invalid request.

    ## What to do
    Check the ICRC: wrong, and the packet was damaged; right, and the sender's transport is at fault.
    """

    code, name, severity = "BTH007", "first-middle-not-pmtu", ERROR
    reference = "IBA 9.4, 9.7.4.1.6; seed000 NeighborMTU"
    on = BTH
    when = Where(BTH, _no_mtu)
    at = BTH.opcode
    flow = PACKET_FLOW
    message = "OpCode 0x{opcode:02x} announces more of the message, and its payload is no path MTU"
    example = "an RC SEND Middle with 100 bytes"
