"""Which packets have a source GID that belongs to another port than their source LID?"""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.bounded import KeptList
from ibdissect.dropped import Dropped
from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.lid_writes import LATEST, LidWitness
from ibdissect.fabric.model import CA, ROUTER, Port, Subnet
from ibdissect.lint.rule import WARNING, Context, Hit, Rule, Seen, on_end, on_event
from ibdissect.rules.shared.link_rule import pieces
from ibdissect.table.bits import extract
from ibdissect.table.rows import common, groups
from ibdissect.wire.link import LRH
from ibdissect.wire.network import GRH

MAX_FLOWS = 4096
"""Most pairs of LID and GUID that are judged per chunk."""


class OtherPortsLid(Rule):
    """A packet's source LID does not belong to the port that its source GID names.

    The GID contains the port's GUID. Answers go to the LID, so another host gets them: somebody uses a LID that is not its own, or
    still uses an old one after the subnet manager gave it to another port.

    Compare both ports (smpquery PortInfo).

    The GUID in a NodeInfo, and the LIDs of both ports: the capture shows them being written to, or they answered the same LIDs
    before and after the packet. Only LIDs of other systems count, since alias GUIDs move between the ports of a host.
    """

    code, name, severity = "LNK019", "slid-lmc-range", WARNING
    reference = "IBA 4.1.1, 4.1.3"
    message = "LID {slid} of {owner} sends with the GID of {port}"
    example = "PortInfo of two hosts with LIDs 3 and 5, set and answered, then a packet from LID 5 with the GID of the first"

    def __init__(self) -> None:
        self.dropped = Dropped("GIDs with another port's LID")
        self.held = KeptList[tuple[Port, Port, Hit]](MAX_FLOWS, self.dropped)
        """Findings that hold if the LIDs of both ports did not change unseen."""

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        table, witness = event.table, context.get(LidWitness)
        witness.take(event)
        if not event.subnet.lids:
            return
        rows, index, place = common(table.occurrences(GRH).rows, table.occurrences(LRH).rows)
        if not len(rows):
            return
        slid, guid = table.values(LRH.slid)[place], extract(table.matrix(GRH)[index], GRH.sgid.bit + 64, 64)
        first, which = groups((guid, slid))
        known = _ports(event.subnet)
        pairs = zip(guid[first].tolist(), slid[first].tolist(), range(len(first)), strict=True)
        start = table.chunk.first
        for port_guid, lid, i in sorted(pair for pair in pairs if pair[0] in known)[:MAX_FLOWS]:
            port = known[port_guid]
            changes = event.subnet.changes(lid) | port.changes() | witness.cuts(port, *event.subnet.owners(lid))
            for mine in pieces(rows[which == i], [change - start for change in changes]):
                frame = start + int(mine[0])
                found = _foreign(event.subnet, port, lid, frame)
                if found is None:
                    continue
                owner, since = found
                hit = Seen(table, int(mine[0])).found(
                    {"slid": lid, "owner": owner.name_at(frame), "port": port.name_at(frame)},
                    LRH.slid,
                    lid,
                    proof=[(since, "told whose LID that is"), (port.lids.at(frame)[1], "told the LIDs of the port with that GUID")],
                    rows=mine,
                    key=(port_guid, lid),
                )
                if witness.sure(port, frame) and witness.sure(owner, frame):
                    yield hit
                else:
                    self.held.keep((port, owner, hit), hit.frame, hit.time_ns)

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        """Report the ports that showed the same LIDs again, and never others."""
        witness = context.get(LidWitness)
        for port, owner, hit in self.held:
            sure = all(witness.sure(one, hit.frame, until=LATEST) for one in (port, owner))
            if not port.lids.past and sure:
                yield hit


def _ports(subnet: Subnet) -> dict[int, Port]:
    """Adapter ports with a LID by the GUID that NodeInfo showed; none where the subnet has routers, which keep the GID."""
    if any(node.kind == ROUTER for node in subnet.slots.values()):
        return {}
    adapters = (node for node in subnet.slots.values() if node.kind == CA)
    return {port.guid: port for node in adapters for port in node.ports.values() if port.guid and port.lids.since}


def _foreign(subnet: Subnet, port: Port, lid: int, frame: int) -> tuple[Port, int] | None:
    """The owner of a LID that the port does not have, and the frame that showed it; None if the packet may be in order."""
    lids, taught = port.lids.at(frame)
    if lids is None or lids[0] <= lid < lids[0] + (1 << lids[1]) or taught >= frame or port.lids.changes()[0] < taught:
        return None
    owner, since = subnet.owner(lid, frame)
    if owner is None or owner.node.kind != CA or not owner.node.guid or owner is port:
        return None
    mine, other = port.node.system_guid or port.node.guid, owner.node.system_guid or owner.node.guid
    return (owner, since) if mine != other else None
