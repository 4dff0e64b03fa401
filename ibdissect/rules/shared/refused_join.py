"""Requests to join a multicast group that the SA refused, although no record of the group was seen."""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.bounded import KeptDict
from ibdissect.decode import Bool, ChunkTable
from ibdissect.decode.conditions import occurrences_where
from ibdissect.decode.identity import Frame
from ibdissect.lint.finding import Related
from ibdissect.lint.rule import INFERRED, Context, Hit, Rule, each, fault, on_chunk, on_event
from ibdissect.mad.transactions import Transactions
from ibdissect.rules.shared.mad_conditions import SA_REQUEST
from ibdissect.subnet import ChunkFollowed
from ibdissect.wire.mad import MAD, SA_STATUS
from ibdissect.wire.numbers import SET
from ibdissect.wire.sa_paths import MCMemberRecord
from ibdissect.wire.text import gid_text

MAX_KEPT = 4096


class RefusedJoin(Rule):
    """Base of rules about faulty joins of unknown groups, reported when they are refused."""

    needs = (Transactions,)
    statuses = frozenset(SA_STATUS)
    """Class statuses that count as refusals."""

    def __init__(self) -> None:
        self.joins = KeptDict[Frame, Hit](MAX_KEPT, "joins of unknown groups")
        """Possible findings, by frame."""

    def faulty(self, table: ChunkTable) -> Bool:
        """Which MCMemberRecords have the fault, if they are requests to join."""
        raise NotImplementedError

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, _context: Context) -> None:
        table = event.table
        if not len(table.occurrences(MCMemberRecord)):
            return
        sent = occurrences_where((MAD.method == SET) & SA_REQUEST, table, MCMemberRecord)
        for _, seen, view in each(table, MCMemberRecord, sent & self.faulty(table)):
            known = event.subnet.groups.by_mgid.get(bytes(view.mgid))
            if known is None or known.since > seen.frame:
                arguments = {"group": gid_text(bytes(view.mgid)), "state": view.join_state}
                hit = fault(seen, arguments, self.at, of=view, key=(bytes(view.mgid), bytes(view.port_gid)))
                self.joins.keep(seen.frame, hit, seen.frame, seen.time_ns)

    @on_chunk
    def refusals(self, _table: ChunkTable, context: Context) -> Iterator[Hit]:
        for one in context.get(Transactions).answers_to(self.joins):
            hit, status = self.joins.pop(one.request.frame), one.status >> 8
            if status in self.statuses:
                hit.arguments["status"], hit.evidence = status, INFERRED
                hit.related = (Related(one.frame, "refused"),)
                yield hit
