"""LIDs that are assigned twice, do not fit the LMC, or belong to another port than the source GID."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any

from ibdissect.bounded import KeptDict
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.equal_rows import common, groups, members
from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.identity import Frame, Guid, LidId, PortId
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, Seen, fault, on_event
from ibdissect.rules.shared.mad_conditions import METHODS_WITH_CONTENT
from ibdissect.rules.shared.not_seen import PATIENCE_NS, LearntFactRule
from ibdissect.rules.shared.stale_facts import RefutableRule
from ibdissect.rules.shared.stretches import stretches
from ibdissect.subnet import CA, ROUTER, SWITCH, ChunkFollowed, FabricFollower, Node, Port, Subnet
from ibdissect.subnet.events import LidAssigned
from ibdissect.subnet.lid_writes import LidWrites
from ibdissect.subnet.nodes import ACTIVE, ARMED
from ibdissect.subnet.topology import ConnectedComponents
from ibdissect.subnet.visible_managers import AGES_NS, Vantage
from ibdissect.wire.headers import GRH, LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import LAST_UNICAST, MAX_LMC, PERMISSIVE, PORT_INFO, SET
from ibdissect.wire.sm_port import PortInfo


class LidUnaligned(Rule):
    """The base LID of a port is impossible: it is no multiple of the number of the port's LIDs, or not unicast.

    The port owns LID to LID + 2^LMC - 1 and compares only the upper bits: with an unaligned base it rejects some of its packets, or accepts
    its neighbour's.

    Let the subnet manager reassign LIDs (opensm: `reassign_lids`), and report the fault to its vendor.

    One PortInfo is enough: a Set, an answer or a record. A port that is Down or in Initialize may answer the permissive LID: adapters
    (ConnectX-4 to 7) show it until a manager writes one, `ibstat` as "Base lid: 65535". Tools write it back, without a MasterSMLID.
    """

    code, name, severity = "LNK025", "lid-unaligned-lmc", ERROR
    explains = ("LNK024",)
    reference = "IBA 4.1.3, 14.2.5.6"
    message = "PortInfo with LID {lid} and LMC {lmc}: {why}"
    example = "PortInfo with LID 5 and LMC 1"
    unaligned = reduce(or_, [(PortInfo.lmc == lmc) & ((PortInfo.lid & ((1 << lmc) - 1)) != 0) for lmc in range(1, MAX_LMC + 1)])
    has_none = (PortInfo.lid == PERMISSIVE) & ((MAD.method != SET) | PortInfo.master_sm_lid.isin({0, PERMISSIVE}))
    when = (
        ((unaligned | (PortInfo.lid > LAST_UNICAST)) & ~has_none) | (has_none & PortInfo.port_state.between(ARMED, ACTIVE))
    ) & MAD.method.isin(METHODS_WITH_CONTENT)
    at = PortInfo.lid

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        info: PortInfo = seen.table.view(PortInfo, i)
        above = "LIDs of ports end with 49151 (0xbfff)"
        return {"why": above if info.lid > LAST_UNICAST else f"the LID is no multiple of 2^{info.lmc}"}


class LidConflict(LearntFactRule):
    """Two ports have the same LID.

    Packets to that LID reach one of them, depending on where they come from. Two subnets were joined, or two subnet managers assign LIDs.

    Find the second subnet manager, and let one of them reassign all LIDs (opensm: `-r`).

    PortInfo of two active, cabled ports; port 0 of a switch counts as cabled if any other port of it is. Ports that become active later, as
    in a first sweep, must both show the LID then. An `info` in eight cases. (1) No known cables and switches lead from one port to the
    other. (2) The first port has another LID later: a manager may be exchanging LIDs. (3) The second port gets another LID within ten
    seconds, as a port of a subnet that was joined. (4) The second port had another LID before, the first one does not show its LID again,
    and the capture does not show who wrote the new one, or it names another manager than the first port, which was its own: what a manager
    writes to its own port passes no link; the same where both are ports of one adapter and mastership moved in between. (5) The capture
    ends within a second after that: a manager that exchanges LIDs would write the other one then. (6) The capture misses packets between
    the two. (7) A SubnSet was not answered. (8) Both are ports of one adapter with one PortGUID: planes of one XDR port. Silent if the
    directed route to the first node now leads to another (the node may have been replaced), if no sender of directed routes found both
    nodes (they may be in two subnets), or if nothing joins two ports of one adapter.
    """

    code, name, severity = "LNK024", "lid-conflict", ERROR
    reference = "IBA 14.2.5.6"
    message = "{port} and {other} are active and share {lids}"
    example = "GetResp(PortInfo) of two active ports, both with LID 5"
    needs = (LidWrites,)
    at = PortInfo.lid
    written = (PORT_INFO,)

    def __init__(self) -> None:
        self.others = KeptDict[tuple[PortId, LidId], tuple[Port, int]](MAX_FLOWS, "ports that share a LID")
        """The port that had the LID before, and the time of the finding, by key of the finding; not of one that soon got another LID."""

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO if nothing joins the ports, if they are planes of one port, or if the other has another LID since, or may have: that of
        this one changed without a Set.

        If the other port shows the LID again, it had it all the time.
        """
        subnet = context.get(FabricFollower).subnet
        other, port = self._other(hit.key), subnet.by_key(hit.key[0].key)
        moved, writes = other is None or any(change > hit.frame for change in other.lids.changes()), context.get(LidWrites)
        if other is not None and port is not None and port.lids.at(hit.frame - 1)[0] is not None:
            ends = context.get(Scopes).goes_on(hit.frame, hit.time_ns) < PATIENCE_NS
            unseen = ends or writes.changed_unseen(port, hit.frame - 1) or _has_renamed_itself(subnet, other, port, hit.frame)
            if other.node is port.node:  # a capture at one port of an adapter does not show what another manager writes to the other port
                unseen |= context.get(Vantage).handed_over(writes.last_shown(other, hit.frame), hit.frame, ())
            moved |= unseen and writes.last_shown(other, AFTER_ALL) <= hit.frame
        if other is None or port is None or moved or not context.get(ConnectedComponents).join(subnet, other, port):
            return INFO
        planes = other.node is port.node and other.guid == port.guid
        return INFO if planes else super().severity_at_end(hit, context)

    def facts_used_of(self, hit: Hit, context: Context) -> list[Node]:
        """The nodes of both ports."""
        ports = context.get(FabricFollower).subnet.by_key(hit.key[0].key), self._other(hit.key)
        return [port.node for port in ports if port is not None]

    def stands(self, hit: Hit, context: Context) -> bool:
        """Not all of the time were both active: then they must be by now, and have shown since that they still have the LID.

        Two ports of one adapter may be in two subnets, unless cables and switches join them."""
        subnet = context.get(FabricFollower).subnet
        other, port = self._other(hit.key), subnet.by_key(hit.key[0].key)
        if not hit.arguments["active"]:
            together = other is not None and port is not None and self._together(other, port, context)
            if not together or not all(_has(one, hit.key[1].lid, hit.frame) for one in (port, other) if one is not None):
                return False
        return other is None or port is None or other.node is not port.node or context.get(ConnectedComponents).join(subnet, other, port)

    def _other(self, key: tuple[PortId, LidId]) -> Port | None:
        return self.others[key][0] if key in self.others else None

    @on_event(LidAssigned)
    def assigned(self, event: LidAssigned, context: Context) -> Iterator[Hit]:
        before = event.port.id, LidId((event.port.lids.at(event.frame - 1)[0] or (0, 0))[0])
        if before in self.others and event.time_ns - self.others[before][1] <= AGES_NS:
            del self.others[before]
        other = event.taken_from
        if other is None or not other.node.guid or not event.port.node.guid:
            return
        if not self._together(other, event.port, context):
            return
        key = event.port.id, LidId(event.lid)
        self.others.keep(key, (other, event.time_ns), event.frame, event.time_ns)
        lids = f"one of LIDs {event.lid} to {event.lid + (1 << event.lmc) - 1}" if event.lmc else f"LID {event.lid}"
        active = other.state == event.port.state == ACTIVE
        yield fault(
            event, {"port": str(event.port), "other": str(other), "lids": lids, "active": active}, PortInfo.lid, event.lid,
            proof=[(other.lids.since, "showed the LID at the other port")], key=key,
        )  # fmt: skip

    @staticmethod
    def _together(other: Port, port: Port, context: Context) -> bool:
        """Whether two ports may be in one subnet at a time."""
        displaced = context.get(FabricFollower).subnet.contradictions.displaced(other.node.guid)
        return _cabled(other) and not other.node.apart(port.node) and not displaced


def _cabled(port: Port) -> bool:
    """Whether a port, or for port 0 of a switch any other port of it, has a known cable."""
    return any(one.peer is not None for one in (port.node.ports.values() if port.node.kind == SWITCH and not port.number else (port,)))


def _has_renamed_itself(subnet: Subnet, one: Port, port: Port, frame: int) -> bool:
    """Whether a port was its own manager's, and another port that showed its PortInfo in `frame` names a LID that nobody is known to have:
    perhaps the same manager has that by now; nobody sees what it writes to its own port.
    """
    own, info = one.info_at(frame)[0], port.info_at(frame)[0]
    if own is None or info is None:
        return False
    return one.owns(own.master_sm_lid, frame) is True and subnet.owner(info.master_sm_lid, frame)[0] is None


def _has(port: Port, lid: int, frame: int) -> bool:
    """Whether a port is active, and showed after a frame that it has a LID."""
    base, lmc = port.lids.now or (0, 0)
    return port.state == ACTIVE and port.info_frame > frame and base <= lid < base + (1 << lmc)


MAX_FLOWS = 4096
"""Most pairs of LID and GUID that are judged per chunk."""


class OtherPortsLid(LearntFactRule, RefutableRule):
    """A packet's source LID does not belong to the port that its source GID names.

    The GID contains the port's GUID, but answers go to the LID, so another host gets them. Somebody uses a LID that is not its own, or an
    old one that the subnet manager gave to another port.

    Compare both ports (smpquery PortInfo).

    The GUID in a NodeInfo, and the LIDs of both ports: the capture shows them being written to, or they answered the same LIDs before
    and after the packet. Only LIDs of other systems count, since alias GUIDs move between the ports of a host. An `info` if other
    connections work although the facts forbid them, or a Set of PortInfo was under way or not answered.
    """

    code, name, severity = "LNK019", "slid-lmc-range", WARNING
    reference = "IBA 4.1.1, 4.1.3"
    message = "LID {slid} of {owner} sends with the GID of {port}"
    example = "PortInfo of two hosts with LIDs 3 and 5, set and answered, then a packet from LID 5 with the GID of the first"
    needs = (LidWrites,)
    written = (PORT_INFO,)

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        table, writes = event.table, context.get(LidWrites)
        if not event.subnet.lids:
            return
        rows, index, place = common(table.occurrences(GRH).rows, table.occurrences(LRH).rows)
        if not len(rows):
            return
        slid, guid = table.values(LRH.slid)[place], extract(table.matrix(GRH)[index], GRH.sgid.bit + 64, 64)
        first, which = groups((guid, slid))
        parts = members(which, len(first))
        known = _ports(event.subnet)
        pairs = zip(guid[first].tolist(), slid[first].tolist(), range(len(first)), strict=True)
        for port_guid, lid, i in sorted(pair for pair in pairs if pair[0] in known)[:MAX_FLOWS]:
            port = known[Guid(port_guid)]
            mine, changes = rows[parts[i]], set[Frame]()
            if len(mine) > 1:
                after = table.chunk.first + int(mine[0])
                changes = event.subnet.changes(lid, after=after) | port.changes(after)
                changes |= writes.change_frames(port, *event.subnet.owners(lid, after))
            for seen, some in stretches(table, mine, changes):
                frame = seen.frame
                found = _foreign(event.subnet, port, lid, frame)
                if found is None:
                    continue
                owner, since = found
                yield fault(
                    seen, {"slid": lid, "owner": owner.name_at(frame), "port": port.name_at(frame)}, LRH.slid, lid, rows=some,
                    key=(port.key, lid), about=(owner.node.slot, port.node.slot),
                    proof=[(since, "showed whose LID that is"), (port.lids.at(frame)[1], "showed the LIDs of the port with that GUID")],
                )  # fmt: skip

    def stands(self, hit: Hit, context: Context) -> bool:
        """Not if the LIDs of a port may have changed unseen, or where the subnet has routers, which keep the GID."""
        subnet, writes, (key, lid) = context.get(FabricFollower).subnet, context.get(LidWrites), hit.key
        port, owner = subnet.by_key(key), subnet.owner(lid, hit.frame)[0]
        if port is None or owner is None or any(node.kind == ROUTER for node in subnet.slots.values()):
            return False
        until = None if port.lids.past else AFTER_ALL
        return all(writes.is_certain(one, hit.frame, until) for one in (port, owner))


def _ports(subnet: Subnet) -> dict[Guid, Port]:
    """Adapter ports with a LID by the GUID that NodeInfo showed."""
    adapters = (node for node in subnet.slots.values() if node.kind == CA)
    return {Guid(port.guid): port for node in adapters for port in node.ports.values() if port.guid and port.lids.since}


def _foreign(subnet: Subnet, port: Port, lid: int, frame: int) -> tuple[Port, int] | None:
    """The owner of a LID that the port does not have, and the frame that showed it; None if the packet may be in order."""
    lids, shown = port.lids.at(frame)
    if lids is None or lids[0] <= lid < lids[0] + (1 << lids[1]) or shown >= frame or port.lids.changes()[0] < shown:
        return None
    owner, since = subnet.owner(lid, frame)
    if owner is None or owner.node.kind != CA or not owner.node.guid or owner is port:
        return None
    mine, other = port.node.system_guid or port.node.guid, owner.node.system_guid or owner.node.guid
    return (owner, since) if mine != other else None
