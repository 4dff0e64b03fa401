"""Which multicast groups does a client try to create although only the subnet manager may?"""

from __future__ import annotations

from ibdissect.lint.rule import INFO
from ibdissect.rules.shared.refused_join import RefusedJoin
from ibdissect.table.locate import Bool
from ibdissect.table.mask import occurrences_where
from ibdissect.table.table import ChunkTable
from ibdissect.wire.component_mask import mask_for
from ibdissect.wire.sa import SAFormat
from ibdissect.wire.sa_paths import MCMemberRecord

REQUEST_INVALID = 2
CREATES = mask_for(MCMemberRecord, ("mgid", "port_gid", "q_key", "t_class", "p_key", "sl", "flow_label", "join_state"))
"""The components that a request needs to create a group (opensm REQUIRED_MC_CREATE_COMP_MASK)."""


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
        return composed & occurrences_where((SAFormat.component_mask & CREATES) == CREATES, table, MCMemberRecord)
