"""Which multicast packets and requests do not fit their group: another MLID, an MGID that only the subnet manager may use?"""

from __future__ import annotations

from typing import Any

from ibdissect.fabric.groups import GroupFacts
from ibdissect.lint.rule import ERROR, INFO
from ibdissect.rules.shared.group_rule import GroupRule
from ibdissect.rules.shared.mad_conditions import chosen
from ibdissect.rules.shared.refused_join import RefusedJoin
from ibdissect.table.locate import Bool
from ibdissect.table.mask import occurrences_where
from ibdissect.table.table import ChunkTable
from ibdissect.wire.link import LRH
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
        return (LRH.dlid, dlid, {"dlid": dlid}) if dlid != group.mlid else None


REQUEST_INVALID = 2
CREATES = chosen(MCMemberRecord, "mgid", "port_gid", "q_key", "t_class", "p_key", "sl", "flow_label", "join_state")
"""A request with the components that create a group (opensm REQUIRED_MC_CREATE_COMP_MASK)."""


class SubnetManagersSignature(RefusedJoin):
    """A client was refused a multicast group that only the subnet manager may create.

    Link-local groups with signature 0xA01B are those that the subnet manager creates itself when a client leaves the MGID out. It
    refuses to create one for a client; joining an existing one is right, and Linux does so.

    Check whether the group disappeared since the client learnt its MGID, for instance when the manager restarted. A client that
    composes such an MGID itself must choose another signature or leave the MGID out.

    A Set of MCMemberRecord with all components that create a group, refused with class status 2, and no record of the group before
    it. Only an `info`, since the SA does not say which component it refuses.
    """

    code, name, severity = "GRH012", "mgid-signature-linklocal", INFO
    reference = "opensm osm_sa_mcmember_record (o15-0.1.5, checked when a group is made); Linux rdma_cm joins such groups"
    at = MCMemberRecord.mgid
    message = "the SA refused to make {group}, whose signature 0xa01b is for groups that it composes itself"
    example = "SubnAdmSet(MCMemberRecord) for ff12:a01b::1 with all components, and an answer with status 0x0200"
    statuses = frozenset({REQUEST_INVALID})

    def faulty(self, table: ChunkTable) -> Bool:
        gid = table.values(MCMemberRecord.mgid)
        composed: Bool = (gid[:, 0] == 0xFF) & (gid[:, 1] & 0x0F == 2) & (gid[:, 2] == 0xA0) & (gid[:, 3] == 0x1B)
        return composed & occurrences_where(CREATES, table, MCMemberRecord)
