"""Which payloads have an impossible length?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ibdissect.flow.recovery import MTUS
from ibdissect.lint.rule import ERROR, WARNING
from ibdissect.rules.BTH.packet import continued
from ibdissect.rules.shared.packet_flows import PacketRule, room_behind_headers
from ibdissect.table.table import ChunkTable
from ibdissect.wire.expr import Where
from ibdissect.wire.opcodes import OPCODES
from ibdissect.wire.transport import BTH, RETH

_WHOLE_WRITE = np.array([code in OPCODES and OPCODES[code].operation.startswith("RDMA WRITE Only") for code in range(256)])


def _no_mtu(table: ChunkTable) -> npt.NDArray[np.bool_]:
    """First and middle packets whose payload is not a path MTU."""
    index = np.flatnonzero(table.once(continued))
    bad = np.zeros(len(table.occurrences(BTH)), np.bool_)
    if index.size:
        room = table.once(room_behind_headers)[index]
        bad[index] = (room >= 0) & ~np.isin(room, MTUS) & (table.values(BTH.padcnt)[index] == 0)
    return bad


class NotPathMtu(PacketRule):
    """A packet that is not the last of its message is not filled to a path MTU.

    First and Middle packets carry exactly the path MTU: 256, 512, 1024, 2048 or 4096 bytes. The responder answers anything else with a NAK.

    Check the ICRC: if it is wrong, the packet was damaged; otherwise the sender's transport is at fault.
    """

    code, name, severity = "BTH007", "first-middle-not-pmtu", ERROR
    reference = "IBA 9.4, 9.7.4.1.6"
    when = Where(BTH, _no_mtu)
    at = BTH.opcode
    message = "OpCode 0x{opcode:02x} announces more of the message, and its payload is no path MTU"
    example = "an RC SEND Middle with 100 bytes"


def _other_length(table: ChunkTable) -> npt.NDArray[np.bool_]:
    """Whole RDMA WRITEs whose payload is not DMALen bytes long."""
    bad = np.zeros(len(table.occurrences(BTH)), np.bool_)
    bth = table.first(BTH)[table.occurrences(RETH).rows]
    whole = np.flatnonzero(_WHOLE_WRITE[table.values(BTH.opcode)[bth]])
    if whole.size:
        bth = bth[whole]
        room = table.once(room_behind_headers)[bth]
        payload = room - table.values(BTH.padcnt)[bth]
        claimed = table.values(RETH.dmalen)[whole]
        bad[bth] = (room >= 0) & (payload >= 0) & (payload != claimed) & (claimed != 0)  # 0 is RC020
    return bad


class WriteNotDmaLen(PacketRule):
    """An RDMA WRITE of one packet carries more or less than the length it announces.

    The responder answers with a NAK for an invalid request and ends the connection.

    Check the ICRC: if it is wrong, the packet was damaged; otherwise the sender's transport is at fault.
    """

    code, name, severity = "BTH006", "bth-padcnt-vs-ulplen", WARNING
    reference = "IBA 9.4.3; python-rdma RETH"
    when = Where(BTH, _other_length)
    at = BTH.padcnt
    message = "an RDMA WRITE of one packet announces {RETH.dmalen} bytes and carries another number"
    example = "an RDMA WRITE Only with DMALen 100 and 8 bytes of payload"
