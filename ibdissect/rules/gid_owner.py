"""Packets whose source GID belongs to another port than their source LID (LNK)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.dropped import Dropped
from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.model import CA, ROUTER, Port, Subnet
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related, Span
from ibdissect.lint.rule import WARNING, Hit, Rule, on_end, on_event
from ibdissect.table.distinct import common, groups
from ibdissect.table.table import extract
from ibdissect.wire.link import LRH
from ibdissect.wire.network import GRH

from .lid_witness import LidWitness

MAX_FLOWS = 4096
"""Different pairs of LID and GUID of a chunk that are looked at."""


class OtherPortsLid(Rule):
    """A packet's source LID is none of the LIDs of the port that its source GID names.

    ## Why it matters
    The GID is made of the port's GUID. Answers go to the LID, so another host gets them: somebody uses a LID that is not its
    own, or goes on with an old one after the subnet manager gave it to another port.

    ## What to do
    Compare both ports (smpquery PortInfo). Only GUIDs that NodeInfo showed count, and LIDs of other systems: alias GUIDs move
    between the ports of a host. Ports are judged that the capture shows being written to, or that told their LIDs before and after.
    """

    code, name, severity = "LNK019", "slid-lmc-range", WARNING
    reference = "IBA 4.1.1, 4.1.3; seed000 LMC"
    message = "LID {slid} of {owner} sends with the GID of {port}"
    example = "PortInfo of two hosts with LIDs 3 and 5, set and told, then a packet from LID 5 with the GID of the first"

    def __init__(self) -> None:
        self.held: list[tuple[Port, Port, Hit]] = []
        """What would be said, if the LIDs of both ports did not change unseen."""
        self.dropped = Dropped("GIDs with another port's LID")

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        table, witness = event.table, context.get(LidWitness)
        witness.take(event, context)
        if not event.subnet.lids:
            return
        rows, index, place = common(table.occurrences(GRH).rows, table.occurrences(LRH).rows)
        if not len(rows):
            return
        slid, guid = table.values(LRH.slid)[place], extract(table.matrix(GRH)[index], GRH.sgid.bit + 64, 64)
        first, which = groups((guid, slid))
        known = _ports(event.subnet)
        pairs = zip(guid[first].tolist(), slid[first].tolist(), first.tolist(), np.bincount(which).tolist(), strict=True)
        lrh = table.located.at("lrh")
        for port_guid, lid, i, count in sorted(pair for pair in pairs if pair[0] in known)[:MAX_FLOWS]:
            row = int(rows[i])
            frame = table.chunk.first + row
            found = _foreign(event.subnet, known[port_guid], lid, frame)
            if found is None:
                continue
            owner, since = found
            port = known[port_guid]
            low, high = LRH.slid.span
            start = int(lrh[row] - table.chunk.offset[row])
            hit = Hit(
                frame=frame,
                time_ns=int(table.chunk.time_ns[row]),
                arguments={"slid": lid, "owner": str(owner), "port": str(port)},
                spans=(Span(frame, start + low, high - low),),
                field=LRH.slid,
                value=lid,
                related=(Related(since, "told whose LID that is"), Related(port.lids.since, "told the LIDs of the port with that GUID")),
                evidence=Evidence.LEARNT,
                count=count,
                key=(port_guid, lid),
            )
            if witness.sure(port, frame, context) and witness.sure(owner, frame, context):
                yield hit
            elif len(self.held) < MAX_FLOWS:
                self.held.append((port, owner, hit))
            else:
                self.dropped.add(hit.frame, hit.time_ns)

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        """Ports that told the same LIDs again."""
        witness: LidWitness = context.get(LidWitness)
        for port, owner, hit in self.held:
            if not port.lids.past and witness.sure(port, hit.frame, context) and witness.sure(owner, hit.frame, context):
                yield hit


def _ports(subnet: Subnet) -> dict[int, Port]:
    """Adapter ports with a LID by the GUID that NodeInfo showed; none where the subnet has routers, which keep the GID."""
    if any(node.kind == ROUTER for node in subnet.slots.values()):
        return {}
    adapters = (node for node in subnet.slots.values() if node.kind == CA)
    return {port.guid: port for node in adapters for port in node.ports.values() if port.guid and port.lid}


def _foreign(subnet: Subnet, port: Port, lid: int, frame: int) -> tuple[Port, int] | None:
    """Who owns a LID that the port does not have, and the frame that told; None where it may be in order."""
    base, lmc = port.lids.now or (0, 0)
    if base <= lid < base + (1 << lmc) or port.lids.since >= frame or port.lids.past:
        return None
    owner, since = subnet.owner(lid, frame)
    if owner is None or owner.node.kind != CA or not owner.node.guid or owner is port:
        return None
    mine, other = port.node.system_guid or port.node.guid, owner.node.system_guid or owner.node.guid
    return (owner, since) if mine != other else None
