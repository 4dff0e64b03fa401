"""SA answers that contradict the request or the subnet, and requests that cannot succeed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np

from ibdissect.bounded import BoundedDict
from ibdissect.decode import Bool, ChunkTable
from ibdissect.decode.conditions import occurrences_where
from ibdissect.decode.equal_rows import Entry
from ibdissect.decode.identity import Frame, TransactionId
from ibdissect.lint.rule import INFO, LEARNT, WARNING, Context, Hit, Rule, Seen, each, fault, on_chunk, on_event
from ibdissect.mad.datagrams import Queries, transaction_of
from ibdissect.rules.shared.mad_conditions import SA_ANSWER, SA_REQUEST, chosen
from ibdissect.rules.shared.not_seen import LearntFactRule, with_peer
from ibdissect.rules.shared.path_lids import PathEnd, PathLidsRule
from ibdissect.rules.shared.refused_join import RefusedJoin
from ibdissect.subnet import ChunkFollowed, FabricFollower, Port
from ibdissect.subnet.multicast_groups import FULL_MEMBER
from ibdissect.subnet.p_keys import Verdict
from ibdissect.subnet.visible_managers import CONFIGURED_NS
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import GET_TABLE, P_KEY_TABLE, PORT_INFO, SET
from ibdissect.wire.sa_paths import MCMemberRecord, PathRecord
from ibdissect.wire.sa_service import ServiceRecord
from ibdissect.wire.spec import Struct

MAX_KEPT = 4096


class SendOnlyNoGroup(RefusedJoin):
    """A send-only or non-member join was refused, because the group did not exist.

    Only a full member creates a group. The sender's packets go nowhere until somebody joins to receive them.

    Nothing, if there is no receiver yet: the sender must try again; otherwise compare the MGIDs of both.

    A Set of MCMemberRecord without FullMember, refused with an error of the SA, and no record of the group before it.
    """

    code, name, severity = "SA014", "mcmember-join-nonexisting-sendonly", INFO
    reference = "IBA 15.2.5.17; opensm osm_sa_mcmember_record (o15-0.1.9)"
    message = "join of {group} with JoinState {state} was refused with class status {status}; no record of the group was seen"
    example = "SubnAdmSet(MCMemberRecord) with JoinState 4, and an answer with status 0x0200"

    at = MCMemberRecord.join_state

    def faulty(self, table: ChunkTable) -> Bool:
        states = table.values(MCMemberRecord.join_state)
        alone: Bool = (states != 0) & (states & FULL_MEMBER == 0)
        return alone


class PathLids(PathLidsRule):
    """A path contains a LID that the port with its GID does not have.

    Packets on this path reach another port or none; connections time out.

    The SA works with outdated LIDs, or a client cached the record: restart the sweep and clear path caches.

    NodeInfo with the GUID of the port, and its LID: the capture shows the Sets that assign LIDs, or the port answered
    with the same LID before and after the path.
    """

    code, name, severity = "SA015", "path-record-lid-mismatch", WARNING
    reference = "IBA 15.2.5.16; python-rdma PathRecord"
    message = "{which} {lid} for port GUID 0x{guid:016x}, which had LID {held} and never that one"
    example = "PortInfo with LID 5 of a port, set and answered, and a PathRecord with DLID 9 for its GID"
    structs: ClassVar[Mapping[type[Struct], tuple[PathEnd, ...]]] = {
        PathRecord: (
            ("DLID", PathRecord.dgid, PathRecord.dlid, PathRecord.sgid), ("SLID", PathRecord.sgid, PathRecord.slid, PathRecord.sgid),
        )
    }  # fmt: skip

    def judged(self, table: ChunkTable, struct: type[Struct]) -> Bool:
        return occurrences_where(SA_ANSWER, table, struct)


class NoPathsAsked(Rule):
    """A query for paths asks for none: NumbPath is 0.

    NumbPath is the largest number of paths to return for each pair of ports. With 0 the answer is empty.

    Set NumbPath to the number wanted (127 for all), or leave it out of the component mask.
    """

    code, name, severity = "SA016", "path-record-numpath-zero", WARNING
    reference = "IBA 15.2.5.16; opensm osm_sa_path_record"
    when = (PathRecord.numb_path == 0) & chosen(PathRecord, "numb_path") & (MAD.method == GET_TABLE) & SA_REQUEST
    flow = (LRH.slid,)
    message = "SubnAdmGetTable(PathRecord) with NumbPath 0 in the component mask"
    example = "SubnAdmGetTable(PathRecord) with NumbPath 0 and bit 12 of the mask"


class NotReversible(Rule):
    """A request for a reversible path got one that is not reversible.

    Responders answer along the reverse of the path; on one that is not reversible the answer may not arrive.

    Look at the routing engine of the subnet manager, and check whether the answer belongs to an earlier query.

    A request that selects Reversible, and its answer.
    """

    code, name, severity = "SA017", "path-record-reversible-zero", INFO
    reference = "IBA 15.2.5.16, 15.4.1; opensm osm_sa_path_record"
    message = "path with Reversible 0, the request in frame {request} wants reversible ones"
    example = "SubnAdmGet(PathRecord) with Reversible 1 and bit 11 of the mask, and an answer with Reversible 0"

    def __init__(self) -> None:
        self.wanted = BoundedDict[TransactionId, Frame](MAX_KEPT, "requests for reversible paths")
        """Frame of the latest request of each transaction."""

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        """Find requests with the component, then answers without it: usually there are none."""
        found = table.occurrences(PathRecord)
        if not len(found):
            return
        reversible = table.values(PathRecord.reversible)
        asks = reversible & occurrences_where(chosen(PathRecord, "reversible") & SA_REQUEST, table, PathRecord)
        odd = ~reversible & occurrences_where(SA_ANSWER, table, PathRecord)
        asked = table.once(Queries)
        for i in np.flatnonzero((asks | odd) & (asked.place[found.rows] >= 0)).tolist():
            seen = Seen(table, int(found.rows[i]))
            one = Entry(asked, int(asked.place[seen.row]))
            if asks[i]:
                self.wanted.put(transaction_of(one), seen.frame, seen.frame, seen.time_ns)
                continue
            request = self.wanted.pop(transaction_of(one), None)
            if request is not None:
                proof, key, view = [(request, "request")], (one.source, one.destination), table.view(PathRecord, i)
                yield fault(seen, {"request": request}, PathRecord.reversible, of=view, proof=proof, key=key)


class ServicePartition(LearntFactRule):
    """A service is registered in a partition that its registrant is not a member of.

    The SA refuses the registration; clients of that partition could not reach the service anyway.

    Correct the ServiceP_Key of the client, or add the port to the partition.

    A native request without GRH that selects ServiceP_Key, and the port's whole P_Key table before it. An `info` if the capture misses
    packets between.
    """

    code, name, severity = "SA023", "service-outside-partition", WARNING
    reference = "IBA 15.2.5.14; opensm osm_sa_service_record; python-rdma"
    message = "ServiceP_Key 0x{p_key:04x} from {port}, whose P_Key table has no such partition"
    example = "GetResp(P_KeyTable) of a port with 0xffff only, and its SubnAdmSet(ServiceRecord) with ServiceP_Key 0x8123"
    written = (P_KEY_TABLE, PORT_INFO)
    holds_ns = CONFIGURED_NS

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        table = event.table
        found = table.occurrences(ServiceRecord)
        if not len(found):
            return
        selects = chosen(ServiceRecord, "service_p_key") & (MAD.method == SET) & SA_REQUEST
        slids, native = table.of_rows(LRH.slid)
        for _, seen, view in each(table, ServiceRecord, occurrences_where(selects, table, ServiceRecord) & native[found.rows]):
            slid, frame = int(slids[seen.row]), seen.frame
            port, _ = event.subnet.owner(slid, frame)
            if port is None or port.p_keys is None or table.located.at("grh")[seen.row] >= 0:  # a virtual port has a table of its own
                continue
            verdict, shown = port.p_keys.judge(view.service_p_key, frame, port.p_key_capacity(frame))
            if verdict is Verdict.ABSENT:
                yield fault(
                    seen, {"p_key": view.service_p_key, "port": port.name_at(frame)}, ServiceRecord.service_p_key, of=view, evidence=LEARNT,
                    proof=[(number, "P_Key table") for number in shown[:4]], key=(slid, view.service_id),
                    about=(port.node.slot,),
                )  # fmt: skip

    def ports_passed(self, hit: Hit, context: Context) -> Iterator[Port]:
        """The registrant's: it asks the SA."""
        return with_peer(context.get(FabricFollower).subnet.owner(hit.key[0], hit.frame)[0], hit.frame)
