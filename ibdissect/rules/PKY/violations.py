"""Which packets did a port report, or count, for their P_Key?"""

from __future__ import annotations

from typing import Any

from ibdissect.fabric.events import TrapSeen
from ibdissect.lint.rule import WARNING
from ibdissect.rules.shared.trap_rule import DETAILS_AT
from ibdissect.rules.shared.violations import ReportedPackets, ViolationCounted
from ibdissect.table.locate import Int
from ibdissect.table.native_packets import Native
from ibdissect.table.table import ChunkTable
from ibdissect.wire.notice import TrapPKey
from ibdissect.wire.sm_port import PortInfo


class BadPKeyReported(ReportedPackets):
    """A port complains about a packet's P_Key, and the capture holds the packet.

    The port dropped it: it is not a member of that partition, or both are limited members.

    Compare the partitions of both ports (smpquery pkeys).
    """

    code, name, severity = "PKY013", "trap257-crossref", WARNING
    reference = "IBA 14.2.5.1; opensm ntc_257_258"
    message = "trap 257 from {port}: P_Key {key} from LID {slid} to LID {dlid} QP 0x{qp:x}, last in frame {packet}"
    example = "a packet with P_Key 0x1234, then SubnTrap 257 that names both its ends and that P_Key"
    numbers = (257,)

    def ends(self, event: TrapSeen) -> tuple[int, int, int, int]:
        bad = TrapPKey(event.notice, DETAILS_AT)
        return bad.lidaddr1, bad.lidaddr2, bad.qp2, bad.key_value & 0xFFFF

    def keys(self, table: ChunkTable, native: Native, some: slice) -> Int:
        return native.p_key[some]

    def key_text(self, key: int) -> Any:
        return f"0x{key:04x}"


class PKeyViolations(ViolationCounted):
    """A port counted packets with a wrong P_Key between two readings.

    Somebody sends to this port in a partition that it is not a member of; those packets are dropped silently.

    Compare the partitions of the port with those of its peers; trap 257 of the port names both ends of such a packet.
    """

    code, name, severity = "PKY015", "pkey-violations-increment", WARNING
    reference = "IBA 14.2.5.6"
    message = "{port} counts {now} P_Key violations, {before} before"
    example = "two GetResp(PortInfo) of a port, P_KeyViolations 0 and 3"
    at = PortInfo.p_key_violations
