"""What the OpCodes of RC, UC and XRC say of a packet, as tables, and the packets whose headers are cut off."""

from __future__ import annotations

import numpy as np

from ibdissect.capture.gather import looked_up
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.locate import EXTENDED_SIZE
from ibdissect.engine import opcode_parts
from ibdissect.wire.headers import BTH

IN_STREAM, IS_RESPONSE, STARTS_WRITE = (
    np.frombuffer(one, np.bool_) for one in (opcode_parts.IN_STREAM, opcode_parts.IS_RESPONSE, opcode_parts.STARTS_WRITE)
)
GOES_ON, LEAVES_OPEN = (np.frombuffer(one, np.uint8) for one in (opcode_parts.GOES_ON, opcode_parts.LEAVES_OPEN))
_HEADERS_SIZE = (BTH.size + EXTENDED_SIZE).astype(np.uint8)


def cut_off(table: ChunkTable) -> Int:
    """Rows of stream packets whose extended headers are cut off by the snap length: only their PSNs and OpCodes are known."""
    loc = table.located
    bth = loc.start.get("bth")
    if bth is None:
        return np.empty(0, np.int64)
    return np.flatnonzero((bth >= 0) & looked_up(loc.opcode, IN_STREAM) & (loc.limit - bth < looked_up(loc.opcode, _HEADERS_SIZE)))
