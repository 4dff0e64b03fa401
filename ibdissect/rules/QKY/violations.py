"""Which packets did a port report, or count, for their Q_Key?"""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.capture.scattered import u16
from ibdissect.fabric.events import TrapSeen
from ibdissect.lint.finding import value_of
from ibdissect.lint.rule import INFO, WARNING
from ibdissect.rules.shared.trap_rule import DETAILS_AT
from ibdissect.rules.shared.violations import ReportedPackets, ViolationCounted
from ibdissect.table.locate import Int
from ibdissect.table.native_packets import Native
from ibdissect.table.table import ChunkTable
from ibdissect.wire.notice import TrapQKey
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.transport import BTH


class BadQKeyReported(ReportedPackets):
    """A port complains about a datagram's Q_Key, and the capture holds the datagram.

    The port dropped it: the queue pair has another Q_Key than the sender believes.

    Check where the sender learnt the Q_Key: a recreated multicast group, or a restarted service.
    """

    code, name, severity = "QKY008", "bad-qkey-trap-flow", INFO
    reference = "IBA 14.2.5.1; opensm ntc_257_258"
    message = "trap 258 from {port}: {key} from LID {slid} to LID {dlid} QP 0x{qp:x}, last in frame {packet}"
    example = "a datagram, then SubnTrap 258 that names both its ends and its Q_Key"
    numbers = (258,)

    def ends(self, event: TrapSeen) -> tuple[int, int, int, int]:
        bad = TrapQKey(event.notice, DETAILS_AT)
        return bad.lidaddr1, bad.lidaddr2, bad.qp2, bad.key_value

    def keys(self, table: ChunkTable, native: Native, some: slice) -> Int:
        rows, opcode = native.rows[some], native.opcode[some]
        found = np.full(len(rows), -1, np.int64)
        datagrams = np.flatnonzero((opcode == 0x64) | (opcode == 0x65))
        rows = rows[datagrams]
        at = table.located.at("bth")[rows] + BTH.size  # the DETH follows the BTH
        whole = at + 4 <= table.located.limit[rows]
        found[datagrams[whole]] = u16(table.chunk.data, at[whole]) << 16 | u16(table.chunk.data, at[whole] + 2)
        return found

    def key_text(self, key: int) -> Any:
        return value_of(TrapQKey.key_value, key)


class QKeyViolations(ViolationCounted):
    """A port counted datagrams with a wrong Q_Key between two readings.

    Somebody sends to a queue pair of this port with a wrong Q_Key; those datagrams are dropped silently.

    Look for a sender with an outdated Q_Key: recreated multicast groups, restarted services. Trap 258 names both ends.
    """

    code, name, severity = "QKY005", "qkey-violations-increment", WARNING
    reference = "IBA 14.2.5.6"
    message = "{port} counts {now} Q_Key violations, {before} before"
    example = "two GetResp(PortInfo) of a port, Q_KeyViolations 0 and 3"
    at = PortInfo.q_key_violations
