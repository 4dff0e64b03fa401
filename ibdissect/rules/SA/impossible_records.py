"""SA records that cannot work: multicast membership, paths, services, subscriptions."""

from __future__ import annotations

from typing import Any

from ibdissect.decode import Bool, ChunkTable
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, Seen
from ibdissect.rules.shared.mad_conditions import SA_ANSWER, SA_REQUEST, NamesRequest, chosen
from ibdissect.wire.classport import InformInfo
from ibdissect.wire.expr import Where
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import DELETE, FIRST_MULTICAST, LAST_MULTICAST, PERMISSIVE, RESPONSE_BIT, SET
from ibdissect.wire.sa import SAFormat, mask_for
from ibdissect.wire.sa_paths import MCMemberRecord, PathRecord
from ibdissect.wire.sa_service import ServiceRecord

LARGEST = 3
_JOIN = mask_for(MCMemberRecord, ("mgid", "port_gid", "join_state"))
_CREATE = mask_for(MCMemberRecord, ("port_gid", "q_key", "t_class", "p_key", "sl", "flow_label", "join_state"))
_SET = (MAD.method == SET) & SA_REQUEST


def _one_subnet(table: ChunkTable) -> Bool:
    """Both GIDs have the same prefix, which is not zero."""
    near, far = table.values(PathRecord.sgid)[:, :8], table.values(PathRecord.dgid)[:, :8]
    same: Bool = (near == far).all(axis=1) & near.any(axis=1)
    return same


def _other_scope(table: ChunkTable) -> Bool:
    """Records whose MGID has another scope than they say; scope 0 says nothing."""
    rows = table.matrix(MCMemberRecord)
    scope = rows[:, 48] >> 4
    other: Bool = (rows[:, 0] == 0xFF) & (scope != 0) & (rows[:, 1] & 15 != scope)
    return other


class JoinIncomplete(Rule):
    """A request to join a multicast group lacks a required component.

    A join names the group (MGID), the port (PortGID) and the kind of membership (JoinState). Otherwise the SA refuses it with "insufficient
    components", and the port gets no multicast traffic.

    Set bits 0, 1 and 16 of the component mask. To create a group, Q_Key, TClass, P_Key, SL and FlowLabel are needed too.

    One request is enough. Silent for one that creates a group and lets the SA compose its MGID.
    """

    code, name, severity = "SA009", "mcmember-join-without-required", ERROR
    reference = "IBA 15.2.5.17; opensm JOIN_MC_COMP_MASK"
    on = MCMemberRecord
    when = ((SAFormat.component_mask & _JOIN) != _JOIN) & ((SAFormat.component_mask & _CREATE) != _CREATE) & _SET
    at = SAFormat.component_mask
    message = "join with component mask 0x{SAFormat.component_mask:x}: MGID (bit 0), PortGID (1) and JoinState (16) are required"
    example = "SubnAdmSet(MCMemberRecord) with JoinState alone in the mask"


class JoinStateNone(NamesRequest):
    """A request to join or leave a multicast group names no kind of membership.

    With JoinState 0 the port would be neither a full, nor a non-member, nor a send-only member, or leave nothing. The SA refuses it.

    Set JoinState to 1 (full member), 2 (non member), 4 or 8 (send only).
    """

    code, name, severity = "SA010", "mcmember-joinstate-invalid", ERROR
    reference = "IBA 15.2.5.17; opensm join states"
    when = (MCMemberRecord.join_state == 0) & chosen(MCMemberRecord, "join_state") & MAD.method.isin({SET, DELETE}) & SA_REQUEST
    message = "{what} with JoinState 0: it names no kind of membership"
    example = "SubnAdmSet(MCMemberRecord) with JoinState 0"


class MLIDRange(Rule):
    """A multicast group has a LID outside the multicast range.

    Multicast LIDs run from 0xc000 to 0xfffe. Packets to any other LID go to one port or to none.

    Correct the SA that assigned it, or the client that asked for it.

    A good answer, or a request that selects MLID in its component mask; a query for MLID 0 finds nothing and does no harm.
    """

    code, name, severity = "SA011", "mcmember-mlid-range", WARNING
    reference = "IBA 4.1.3, 15.2.5.17; python-rdma"
    when = ~MCMemberRecord.mlid.between(FIRST_MULTICAST, LAST_MULTICAST) & (SA_ANSWER | (chosen(MCMemberRecord, "mlid") & SA_REQUEST))
    message = "MLID 0x{mlid:04x}, multicast LIDs are 0xc000 to 0xfffe"
    example = "SubnAdmGetResp(MCMemberRecord) with MLID 5"


class ScopeMismatch(Rule):
    """The scope of a multicast group contradicts its MGID.

    The scope is a field and part of the MGID. Clients that look at different places create two groups or none.

    Correct the client (for IPoIB, the scope of the broadcast address) or the SA's group file.

    One request that selects both components. An answer is an `info`: OpenSM repeats what a member wrote there without selecting it, and
    Linux writes the scope of the broadcast group. Scope 0 is not judged.
    """

    code, name, severity = "SA012", "mcmember-scope-mismatch", WARNING
    reference = "IBA 4.1.1, 15.2.5.17; opensm"
    on = MCMemberRecord
    when = Where(MCMemberRecord, _other_scope) & (SA_ANSWER | (chosen(MCMemberRecord, "mgid", "scope") & SA_REQUEST))
    at = MCMemberRecord.scope
    message = "Scope {scope} in a record whose MGID has scope {of_mgid}"
    example = "SubnAdmSet(MCMemberRecord) with Scope 5 and an MGID ff12::"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        asked = seen.value(MAD.method) < RESPONSE_BIT
        return {"of_mgid": int(seen.table.values(MCMemberRecord.mgid)[i, 1]) & 15, "asked": asked}

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info if the SA answers it."""
        return None if hit.arguments["asked"] else INFO


class LargestWithValue(Rule):
    """A join asks for the largest MTU or rate but also names a value.

    Selector 3 means the largest available, and the value beside it is ignored. The sender probably meant "exactly" (2).

    Use selector 2 with a value, or leave the value out of the component mask.
    """

    code, name, severity = "SA013", "mcmember-mtu-rate-selector", INFO
    reference = "IBA 15.2.5.17; opensm mgrp_request_is_realizable"
    when = (
        ((MCMemberRecord.mtu_selector == LARGEST) & (MCMemberRecord.mtu != 0) & chosen(MCMemberRecord, "mtu"))
        | ((MCMemberRecord.rate_selector == LARGEST) & (MCMemberRecord.rate != 0) & chosen(MCMemberRecord, "rate"))
    ) & _SET
    message = "selector 3 (largest) takes no value: MTU selector {mtu_selector} with {mtu!t}, rate selector {rate_selector} with {rate!t}"
    example = "SubnAdmSet(MCMemberRecord) with MTUSelector 3, MTU 4 and both bits in the mask"


class HopLimitInSubnet(Rule):
    """A path inside one subnet has a hop limit above 1.

    Nothing on the path decrements it. The SA assumes a router on the path, and clients will send a GRH that is not needed.

    Nothing, if a router is set up; otherwise check the SA's answers for paths between these ports.
    """

    code, name, severity = "SA018", "path-hoplimit-above-1", INFO
    reference = "IBA 15.2.5.16, 8.3.6; opensm"
    when = (PathRecord.hop_limit > 1) & Where(PathRecord, _one_subnet) & SA_ANSWER
    flow = (PathRecord.hop_limit, PathRecord.slid)
    message = "HopLimit {hop_limit} for a path whose ends have the same subnet prefix"
    example = "SubnAdmGetResp(PathRecord) with HopLimit 64 and both GIDs of one subnet"


class SubscriptionRange(Rule):
    """A subscription to events contradicts itself.

    A LID range that ends before it begins matches no port; IsGeneric and Subscribe are 0 or 1. The SA refuses the subscription, or never
    reports anything.

    Correct the client: 0xffff as the beginning means all LIDs, and an end of 0 means one LID.
    """

    code, name, severity = "SA021", "informinfo-range", ERROR
    reference = "IBA 13.4.8.3; opensm osm_sa_informinfo; python-rdma"
    when = (
        (InformInfo.lid_range_begin > InformInfo.lid_range_end) & (InformInfo.lid_range_begin != PERMISSIVE)
        & (InformInfo.lid_range_end != 0) & (InformInfo.gid == bytes(16)) | (InformInfo.subscribe > 1) | (InformInfo.is_generic > 1)
    ) & (((MAD.method == SET) & (MAD.status == 0)) | SA_ANSWER)  # fmt: skip
    message = "a subscription contradicts itself: LIDs {lid_range_begin} to {lid_range_end}, Subscribe {subscribe}, IsGeneric {is_generic}"
    example = "SubnAdmSet(InformInfo) for LIDs 9 to 3"


class LeaseZero(Rule):
    """A service is registered with a lease of 0 seconds.

    The lease expires at once, and nobody finds the service. All ones (or no lease in the component mask) keep it forever.

    Give a lease in seconds or 0xffffffff; to remove a service, use Delete.
    """

    code, name, severity = "SA022", "service-lease-zero", WARNING
    reference = "IBA 15.2.5.14; opensm osm_sa_service_record"
    when = (ServiceRecord.service_lease == 0) & chosen(ServiceRecord, "service_lease") & _SET
    flow = (LRH.slid, ServiceRecord.service_id)
    message = "service 0x{service_id:016x} is registered with lease 0: the registration ends at once"
    example = "SubnAdmSet(ServiceRecord) with ServiceLease 0 and bit 4 of the mask"


LOWEST_RATE, HIGHEST_MTU, HIGHEST_OMNIPATH_MTU = 2, 5, 7
"""Codes: 2.5 Gb/s, 4096 bytes, 10 KB."""
NO_OMNIPATH_RATES = frozenset({2, 3, 4, 5, 6})
"""Codes of 2.5, 10, 30, 5 and 20 Gb/s: lanes of Omni-Path have 12.5 or 25 Gb/s."""


class PathCodes(Rule):
    """A PathRecord has an MTU or a rate that does not exist.

    MTU codes are 1 to 5, rate codes begin with 2 (2.5 Gb/s). A host that sets up a connection with the path is refused by its own adapter,
    or sends at a rate that nobody chose.

    Update or correct the subnet administration.

    One record of an answer is enough. Silent if it has neither; rates above those that are known may come from a newer standard. Codes 6
    and 7 are MTUs of Omni-Path (8 and 10 KB), whose manager answers such queries in the same form: they count with a rate of 2.5, 5, 10,
    20 or 30 Gb/s, which no link of Omni-Path has.
    """

    code, name, severity = "SA026", "path-record-codes-impossible", WARNING
    reference = "IBA 15.2.5.16; opensm IB_PATH_RECORD_RATE"
    when = (
        ((PathRecord.mtu == 0) | (PathRecord.mtu > HIGHEST_OMNIPATH_MTU) | (PathRecord.rate < LOWEST_RATE)
         | ((PathRecord.mtu > HIGHEST_MTU) & PathRecord.rate.isin(NO_OMNIPATH_RATES)))
        & ((PathRecord.mtu != 0) | (PathRecord.rate != 0)) & SA_ANSWER
    )  # fmt: skip
    at = PathRecord.rate
    message = "a path with MTU code {mtu} and rate code {rate}: MTU codes are 1 to 5, rates begin with 2"
    example = "SubnAdmGetResp(PathRecord) with rate 1"


def _unicast_gid(table: ChunkTable) -> Bool:
    """The destination is a GID of a port."""
    gids = table.values(PathRecord.dgid)
    found: Bool = gids.any(axis=1) & (gids[:, 0] != 0xFF)
    return found


class PathToMulticastLid(Rule):
    """A PathRecord leads to a port's GID over a multicast LID.

    Packets of a connection go to a multicast group then, or nowhere: adapters refuse to connect to such a LID.

    Correct the subnet administration, or the record that an administrator wrote.

    One record of an answer is enough. Silent for records without a GID and for the permissive LID.
    """

    code, name, severity = "SA027", "path-record-to-mlid", ERROR
    reference = "IBA 15.2.5.16, 4.1.1"
    when = Where(PathRecord, _unicast_gid) & PathRecord.dlid.between(FIRST_MULTICAST, LAST_MULTICAST) & SA_ANSWER
    message = "a path to {dgid}, which is a port, over multicast LID 0x{dlid:04x}"
    example = "SubnAdmGetResp(PathRecord) with DGID fe80::7 and DLID 0xC005"
