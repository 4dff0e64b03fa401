"""Multicast packets that do not fit their group, and GIDs with another subnet prefix than the port that sends them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.bounded import Dropped
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.conditions import occurrences_where
from ibdissect.decode.equal_rows import common
from ibdissect.decode.native_packets import Native
from ibdissect.lint.rule import ERROR, INFO, FaultDetails, Rule
from ibdissect.rules.shared.group_rule import GroupRule
from ibdissect.rules.shared.link_rule import LinkRule, PortLimits
from ibdissect.rules.shared.mad_conditions import chosen
from ibdissect.rules.shared.packet_flows import gid_bytes
from ibdissect.rules.shared.refused_join import RefusedJoin
from ibdissect.subnet import ROUTER, ChunkFollowed, Subnet
from ibdissect.subnet.multicast_groups import GroupFacts
from ibdissect.wire.headers import GRH, LRH
from ibdissect.wire.numbers import FIRST_MULTICAST, LAST_MULTICAST, LINK_LOCAL, MGID_COMPOSED, PERMISSIVE
from ibdissect.wire.sa_paths import MCMemberRecord
from ibdissect.wire.spec import Field


class WrongMlid(GroupRule):
    """A multicast packet goes to another LID than its group's.

    Switches forward by the LID: the packet reaches the members of another group, or nobody.

    The sender has an outdated record of the group; let it join again.
    """

    code, name, severity = "GRH009", "mgid-mlid-mismatch", ERROR
    reference = "IBA 10.5, 15.2.5.17; python-rdma MCMemberRecord"
    message = "packet to group {group} with LID 0x{dlid:04x}, the group has LID 0x{mlid:04x}"
    example = "GetResp(MCMemberRecord) with MLID 0xc001, then a packet to that MGID with DLID 0xc002"

    def wrong(self, group: GroupFacts, gid: bytes, dlid: int, p_key: int, q_key: int) -> tuple[Field[Any], Any, dict[str, Any]] | None:
        other = dlid != group.mlid and FIRST_MULTICAST <= group.mlid < PERMISSIVE  # any other MLID does not say where packets belong
        return (LRH.dlid, dlid, {"dlid": dlid}) if other else None


REQUEST_INVALID = 2
CREATES = chosen(MCMemberRecord, "mgid", "port_gid", "q_key", "t_class", "p_key", "sl", "flow_label", "join_state")
"""A request with the components that create a group (opensm REQUIRED_MC_CREATE_COMP_MASK)."""


class SubnetManagersSignature(RefusedJoin):
    """A client was refused a multicast group that only the subnet manager may create.

    The subnet manager itself creates link-local groups with signature 0xA01B, when a client leaves the MGID out. It refuses to create one
    for a client; joining an existing one is right, and Linux does so.

    Check whether the group disappeared since the client learnt its MGID, for instance when the manager restarted. A client that composes
    MGIDs must choose another signature or leave the MGID out.

    A Set of MCMemberRecord with all components that create a group, refused with class status 2, and no earlier record of the group. Only
    an `info`, since the SA does not say which component it refuses.
    """

    code, name, severity = "GRH012", "mgid-create-refused", INFO
    reference = "opensm osm_sa_mcmember_record (o15-0.1.5, checked when a group is made); Linux rdma_cm joins such groups"
    at = MCMemberRecord.mgid
    message = "the SA refused to make {group}, whose signature 0xa01b is for groups that it composes itself"
    example = "SubnAdmSet(MCMemberRecord) for ff12:a01b::1 with all components, and an answer with status 0x0200"
    statuses = frozenset({REQUEST_INVALID})

    def faulty(self, table: ChunkTable) -> Bool:
        gid = table.values(MCMemberRecord.mgid)
        composed: Bool = (gid[:, 0] == 0xFF) & (gid[:, 1] & 0x0F == 2) & (extract(gid, 16, 16) == MGID_COMPOSED)
        return composed & occurrences_where(CREATES, table, MCMemberRecord)


MAX_PREFIXES = 1024


class OtherPrefix(LinkRule):
    """A packet's source GID has another subnet prefix than its sender's port.

    Answers to that GID are routed to the other subnet, or nowhere.

    Compare `subnet_prefix` of the subnet manager with the prefix that the sender still uses: it was changed while the host was up.
    """

    code, name, severity = "GRH013", "sgid-prefix-wrong", INFO
    reference = "IBA 4.1.1"
    message = "LID {slid} sends with subnet prefix 0x{prefix:016x}, its port has 0x{own:016x}"
    example = "GetResp(PortInfo) with GidPrefix fe80::, then a packet of that port with SGID prefix fe81::"

    def __init__(self) -> None:
        self.prefixes: list[int] = []
        """Prefixes that senders used: a value is an index into them."""
        self.dropped = Dropped("subnet prefixes")

    def suspicious(self, event: ChunkFollowed, native: Native, ends: PortLimits) -> tuple[Int, Int]:
        _, routed, index = common(event.table.occurrences(GRH).rows, native.rows)
        known = ends.prefix[native.slid[index]] != 0
        routed, index = routed[known], index[known]
        if not len(index):
            return index, index
        sgid = extract(event.table.matrix(GRH)[routed], GRH.sgid.bit, 64)
        own = ends.prefix[native.slid[index]]
        other = np.flatnonzero((sgid != own) & (sgid != LINK_LOCAL))
        prefixes, which = np.unique(sgid[other], return_inverse=True)
        fresh = [prefix for prefix in prefixes.tolist() if prefix not in self.prefixes]
        if len(self.prefixes) + len(fresh) > MAX_PREFIXES:
            row = int(native.rows[index[other[0]]])
            self.dropped.add(event.table.chunk.first + row, int(event.table.chunk.time_ns[row]), len(self.prefixes))
            self.prefixes, fresh = [], prefixes.tolist()
        self.prefixes += fresh
        number = np.array([self.prefixes.index(prefix) for prefix in prefixes.tolist()], np.int64)
        return index[other], number[which.ravel()]

    def judge(self, subnet: Subnet, slid: int, dlid: int, value: int, frame: int) -> FaultDetails | None:
        port = subnet.owner(slid, frame)[0]
        info, since = port.info_at(frame) if port is not None and port.node.kind != ROUTER else (None, 0)
        if info is None or info.gid_prefix == self.prefixes[value]:
            return None
        return {"prefix": self.prefixes[value], "own": info.gid_prefix}, ((since, "GidPrefix"),)


class UnicastGidToGroup(Rule):
    """A packet to a multicast LID has a unicast GID as its destination.

    Receivers tell groups apart by the destination GID; with that of a port, no member takes the packet.

    Check the sender's address handle: LID and GID come from different paths.
    """

    code, name, severity = "GRH015", "unicast-gid-to-mlid", ERROR
    reference = "IBA 10.5, 4.1.1"
    when = gid_bytes(GRH.dgid, lambda gid: gid[:, 0] != 0xFF) & LRH.dlid.between(FIRST_MULTICAST, LAST_MULTICAST)
    flow = (LRH.slid, LRH.dlid, GRH.dgid)
    message = "to multicast LID 0x{LRH.dlid:04x} with the unicast GID {dgid}"
    example = "a UD packet to LID 0xC001 with destination GID fe80::2"
