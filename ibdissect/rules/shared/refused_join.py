"""Requests to join a multicast group that the SA refused, although no record of the group was seen."""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.decode import Bool, ChunkTable
from ibdissect.decode.conditions import occurrences_where
from ibdissect.lint.finding import Related
from ibdissect.lint.rule import INFERRED, Context, Hit, Rule, each, fault, on_event
from ibdissect.rules.shared.answered_packets import RepliesToFindings
from ibdissect.rules.shared.mad_conditions import SA_REQUEST
from ibdissect.subnet import ChunkFollowed
from ibdissect.wire.mad import MAD, SA_STATUS
from ibdissect.wire.numbers import CLASS_STATUS, SET
from ibdissect.wire.sa_paths import MCMemberRecord
from ibdissect.wire.text import gid_text


class RefusedJoin(Rule):
    """Base of rules about faulty joins of unknown groups, reported when they are refused."""

    needs = (RepliesToFindings,)
    statuses = frozenset(SA_STATUS)
    """Class statuses that count as refusals."""

    def faulty(self, table: ChunkTable) -> Bool:
        """Which MCMemberRecords have the fault, if they are requests to join."""
        raise NotImplementedError

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, _context: Context) -> Iterator[Hit]:
        table = event.table
        if not len(table.occurrences(MCMemberRecord)):
            return
        sent = occurrences_where((MAD.method == SET) & SA_REQUEST, table, MCMemberRecord)
        for _, seen, view in each(table, MCMemberRecord, sent & self.faulty(table)):
            known = event.subnet.groups.by_mgid.get(bytes(view.mgid))
            if known is None or known.since > seen.frame:
                arguments = {"group": gid_text(bytes(view.mgid)), "state": view.join_state}
                yield fault(seen, arguments, self.at, of=view, key=(bytes(view.mgid), bytes(view.port_gid)))

    def watch(self, hit: Hit, context: Context) -> None:
        context.get(RepliesToFindings).watch(hit, context.table)

    def stands(self, hit: Hit, context: Context) -> bool:
        """If it was refused; the answer completes the finding."""
        reply = context.get(RepliesToFindings).reply(hit)
        status = reply.status >> CLASS_STATUS if reply is not None else 0
        if reply is None or status not in self.statuses:
            return False
        hit.arguments["status"], hit.evidence = status, INFERRED
        hit.related = (Related(reply.frame, "refused"),)
        return True
