"""Requests and acknowledgements with contents that do not belong there, or for memory that cannot exist."""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.lint.rule import ERROR, Seen
from ibdissect.rules.shared.packet_flows import KNOWN_HEADERS, PacketRule, carries_payload, room_behind_headers
from ibdissect.wire.expr import Where
from ibdissect.wire.headers import BTH, FETH, RETH, AtomicETH
from ibdissect.wire.opcodes import OPCODES

MAX_MESSAGE = 1 << 31
"""Most bytes of a message (IBA 9.7.4)."""
WORD = 8
"""Bytes of an atomic operand."""
WHOLE_REGION = 1
"""Selectivity level of a FLUSH to which address and length mean nothing (IBA A19.4.1)."""
_EMPTY = np.array([
    code in OPCODES and (OPCODES[code].operation == "RDMA READ Request" or OPCODES[code].operation == "Acknowledge") for code in range(256)
])  # fmt: skip
"""OpCodes of packets without payload, bool[256]."""


class EmptyWithPayload(PacketRule):
    """A READ request or an acknowledgement carries payload.

    The headers say everything; receivers drop the packet as malformed, or ignore the bytes.

    Check the sender's driver or firmware; the bytes may be left over from another packet.
    """

    code, name, severity = "RC022", "payload-not-expected", ERROR
    reference = "IBA 9.4.4, 9.3.5"
    when = Where(BTH.opcode, carries_payload(_EMPTY))
    message = "{opcode!t} carries {carried:byte} behind its headers, where it has nothing"
    example = "an RDMA READ Request with four bytes of payload"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        return {"carried": int(seen.table.once(room_behind_headers)[i])}


class AtomicUnaligned(PacketRule):
    """An atomic operation goes to an address that is not a multiple of eight.

    Atomic operands are eight bytes at an aligned address. The responder refuses the request (invalid request), and the connection ends; one
    that executes it may not be atomic.

    Align the variable in the application.
    """

    code, name, severity = "RC023", "atomic-unaligned", ERROR
    reference = "IBA 9.4.5"
    when = ((AtomicETH.va & WORD - 1) != 0) & KNOWN_HEADERS
    message = "{BTH.opcode!t} to an address whose last digit is {digit:x}: atomic operands are at multiples of 8"
    example = "a FetchAdd to address 0x1004"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        return {"digit": seen.value(AtomicETH.va) & 15}


class MessageTooLong(PacketRule):
    """An RDMA request is longer than a message may be.

    A message has at most 2^31 bytes; the responder refuses a longer one, and the connection ends.

    Correct the application or driver; a length that was negative looks like this.

    One packet is enough. Silent for a FLUSH of a whole memory region, whose length means nothing.
    """

    code, name, severity = "RC024", "dma-len-too-long", ERROR
    reference = "IBA 9.7.4"
    when = (RETH.dmalen > MAX_MESSAGE) & ~(FETH.sel == WHOLE_REGION) & KNOWN_HEADERS
    message = "{BTH.opcode!t} of {dmalen:byte}; a message has at most 2^31"
    example = "an RDMA READ Request with DMALen 0x80000001"
