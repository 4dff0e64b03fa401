"""Which LIDs are assigned twice, or do not fit the LMC?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_

from ibdissect.fabric.events import LidAssigned
from ibdissect.fabric.follow import Follower
from ibdissect.fabric.model import ACTIVE
from ibdissect.lint.rule import ERROR, Context, Hit, Rule, fault, on_event
from ibdissect.rules.shared.mad_conditions import METHODS_WITH_CONTENT
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import MAX_LMC
from ibdissect.wire.sm_port import PortInfo


class LidUnaligned(Rule):
    """The base LID of a port with several LIDs is not a multiple of their number.

    The port owns LID to LID + 2^LMC - 1 and compares only the upper bits: with an unaligned base it rejects some of the packets
    meant for it, or accepts those of its neighbour.

    Let the subnet manager reassign LIDs (opensm: `reassign_lids`), and report the fault to its vendor.
    """

    code, name, severity = "LNK025", "lid-unaligned-lmc", ERROR
    reference = "IBA 4.1.3, 14.2.5.6"
    message = "PortInfo with LID {lid} and LMC {lmc}: the LID is no multiple of 2^{lmc}"
    example = "PortInfo with LID 5 and LMC 1"
    when = MAD.method.isin(METHODS_WITH_CONTENT) & reduce(
        or_, [(PortInfo.lmc == lmc) & ((PortInfo.lid & ((1 << lmc) - 1)) != 0) for lmc in range(1, MAX_LMC + 1)]
    )
    at = PortInfo.lid


class LidConflict(Rule):
    """Two ports have the same LID.

    Packets to that LID reach one of them, depending on where they come from. It happens when two subnets are joined, or when
    two subnet managers assign LIDs.

    Find the second subnet manager, and let one of them reassign all LIDs (opensm: `-r`).

    PortInfo of two active, cabled ports. Silent where the directed route that led to the first node now leads to another: the node
    may have been replaced; and where no sender of directed routes found both nodes: they may be of two subnets.
    """

    code, name, severity = "LNK024", "lid-conflict", ERROR
    reference = "IBA 14.2.5.6"
    message = "{port} has LIDs {lid} to {last}; {other} has one of them and is active"
    example = "GetResp(PortInfo) of two active ports, both with LID 5"
    at = PortInfo.lid

    @on_event(LidAssigned)
    def assigned(self, event: LidAssigned, context: Context) -> Iterator[Hit]:
        other = event.taken_from
        if other is None or not other.node.guid or not event.port.node.guid or other.node is event.port.node:
            return
        if other.state != ACTIVE or event.port.state != ACTIVE or other.peer is None:
            return
        if other.node.apart(event.port.node) or context.get(Follower).subnet.contradictions.displaced(other.node.guid):
            return
        yield fault(
            event.frame, event.time_ns,
            {"port": str(event.port), "other": str(other), "lid": event.lid, "last": event.lid + (1 << event.lmc) - 1}, PortInfo.lid,
            event.lid, proof=[(other.lids.since, "showed the LID at the other port")],
            key=(event.port.node.slot, event.port.number, event.lid),
        )  # fmt: skip
