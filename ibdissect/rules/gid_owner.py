"""Packets whose source GID belongs to another port than their source LID (LNK)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.model import CA, ROUTER, Port, Subnet
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related, Span
from ibdissect.lint.rule import WARNING, Hit, Rule, on_event
from ibdissect.table.locate import u16
from ibdissect.table.table import gather
from ibdissect.wire.link import LRH
from ibdissect.wire.network import GRH

GUID_AT = GRH.sgid.bit // 8 + 8
MAX_FLOWS = 4096
"""Different pairs of LID and GUID of a chunk that are looked at."""


class OtherPortsLid(Rule):
    """A packet's source LID is none of the LIDs of the port that its source GID names.

    ## Why it matters
    The GID is made of the port's GUID. Answers go to the LID, so another host gets them: somebody uses a LID that is not its
    own, or goes on with an old one after the subnet manager gave it to another port.

    ## What to do
    Compare both ports (smpquery PortInfo). Only GUIDs that NodeInfo showed count, and LIDs of other systems: alias GUIDs move
    between the ports of a host.
    """

    code, name, severity = "LNK019", "slid-lmc-range", WARNING
    reference = "IBA 4.1.1, 4.1.3; seed000 LMC"
    message = "LID {slid} of {owner} sends with the GID of {port}"
    example = "PortInfo of two hosts with LIDs 3 and 5, then a packet from LID 5 with the GID of the first"

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        at = event.table.located.start.get("grh")
        lrh = event.table.located.start.get("lrh")
        if at is None or lrh is None or not event.subnet.lids:
            return
        rows = np.flatnonzero((at >= 0) & (lrh >= 0))
        if not len(rows):
            return
        data, table = event.table.chunk.data, event.table
        slid = u16(data, lrh[rows] + LRH.slid.bit // 8)
        guid = gather(data, at[rows] + GUID_AT, 8).view(">u8").ravel().astype(np.uint64)
        known = _ports(event.subnet)
        near = np.flatnonzero(np.isin(guid, np.array(list(known), np.uint64)))
        pairs, first, counts = np.unique(
            np.column_stack((guid[near], slid[near].astype(np.uint64))), axis=0, return_index=True, return_counts=True
        )
        for (port_guid, lid), i, count in list(zip(pairs.tolist(), first.tolist(), counts.tolist(), strict=True))[:MAX_FLOWS]:
            row = int(rows[near[i]])
            frame = table.chunk.first + row
            found = _foreign(event.subnet, known[port_guid], lid, frame)
            if found is None:
                continue
            owner, since = found
            port = known[port_guid]
            low, high = LRH.slid.span
            start = int(lrh[row] - table.chunk.offset[row])
            yield Hit(
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


def _ports(subnet: Subnet) -> dict[int, Port]:
    """Adapter ports with a LID by the GUID that NodeInfo showed; none where the subnet has routers, which keep the GID."""
    if any(node.kind == ROUTER for node in subnet.slots.values()):
        return {}
    return {port.guid: port for port in subnet.ports() if port.guid and port.node.kind == CA and port.lid}


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
