"""Packets between two limited members of a partition, by the destination's P_Key table. By the packets alone: `limited_queue_pairs`."""

from __future__ import annotations

from ibdissect.lint.rule import ERROR
from ibdissect.rules.PKY.destination import RefusingTable
from ibdissect.subnet.p_keys import Verdict


class LimitedToLimited(RefusingTable):
    """A limited member of a partition sends to another limited member.

    Limited members may talk to full members only, so the destination drops the packet silently, counts a P_Key violation and may send trap
    257. Applications see timeouts. A port that sends to itself is not judged.

    Make one of the two ports a full member (opensm: `full` in partitions.conf), or stop them from talking to each other.
    """

    code, name, severity = "PKY001", "limited-to-limited", ERROR
    explains = ("TXN001",)
    reference = "IBA 10.9.3"
    message = "P_Key 0x{p_key:04x} (limited) from LID {slid} to QP 0x{qp:x} of {port}, which is a limited member of that partition too"
    example = "GetResp(P_KeyTable) of a port with entry 0x1234 only, then a packet with P_Key 0x1234 to it"
    verdict = Verdict.LIMITED
