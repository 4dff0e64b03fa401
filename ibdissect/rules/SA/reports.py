"""Which reports go to a receiver that cancelled its subscription?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.dropped import Dropped
from ibdissect.flow.queries import Queries
from ibdissect.flow.transactions import Transactions
from ibdissect.lint.finding import value_of
from ibdissect.lint.rule import INFERRED, INFO, Context, Hit, Rule, Seen, on_chunk, on_end
from ibdissect.table.table import ChunkTable
from ibdissect.wire.classport import InformInfo
from ibdissect.wire.mad import MAD
from ibdissect.wire.notice import Notice
from ibdissect.wire.numbers import GET_RESP, INFORM, NOTICE, REPORT, SA_CLASS

GRACE_NS = 1_000_000_000
"""A report may be under way, or repeated, while its subscription ends."""
MAX_RECEIVERS, MAX_TRAPS = 65536, 256


class ReportUnwanted(Rule):
    """The SA reports an event to a receiver that cancelled its subscription.

    The receiver does not expect the report and answers with an error or not at all; the SA repeats it.

    Look at the SA; a restart of opensm with `--subnet-database` may restore old subscriptions.

    The capture shows the beginning and the end of all the receiver's subscriptions, and nobody at that address accepts the report:
    several programs of a host may subscribe.
    """

    code, name, severity = "SA020", "report-without-subscription", INFO
    reference = "IBA 13.4.8.3, 15.4.1; opensm o13-17"
    message = "Report of trap {trap} to {receiver}, which has cancelled all subscriptions that were seen"
    needs = (Transactions,)
    example = "InformInfo for trap 144, its cancellation, both accepted, and a Report of trap 144 two seconds later"

    def __init__(self) -> None:
        self.dropped = Dropped("subscriptions to events")
        self.wanted: dict[int, set[int]] = {}
        """Trap numbers of the subscriptions in force, by receiver."""
        self.ended: dict[int, tuple[int, int]] = {}
        """Frame and time of the cancellation that left a receiver without any."""
        self.reports = KeptDict[int, tuple[Hit, int]](MAX_RECEIVERS, self.dropped)
        """Possible findings about reports not accepted so far, with their receivers, by frame."""

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> None:
        """Follow accepted subscriptions and reports in frame order (both are rare), then the answers to the reports."""
        self._follow(table, context)
        answers = context.get(Transactions).answers_to(self.reports)
        wanting = {self.reports[one.request.frame][1] for one in answers if not one.status}  # somebody at that address wants them
        for receiver in wanting:
            self.ended.pop(receiver, None)
        for frame in [frame for frame, (_, receiver) in self.reports.items() if receiver in wanting]:
            del self.reports[frame]

    @on_end
    def end(self, _context: Context) -> Iterator[Hit]:
        for hit, _ in self.reports.values():
            yield hit

    def _follow(self, table: ChunkTable, context: Context) -> None:
        groups = table.attributes()
        if (SA_CLASS, INFORM) not in groups and (SA_CLASS, NOTICE) not in groups:
            return
        asked = table.once(Queries)
        status = table.of_rows(MAD.status)[0]
        accepted = (asked.attribute == INFORM) & (asked.method == GET_RESP) & (status[asked.rows] == 0)
        reports = (asked.attribute == NOTICE) & (asked.method == REPORT)
        for i in np.flatnonzero((asked.mgmt_class == SA_CLASS) & (accepted | reports)).tolist():
            row, receiver = int(asked.rows[i]), int(asked.destination[i])
            seen = Seen(table, row)
            if accepted[i]:
                info = seen.first(InformInfo)
                if info is not None:
                    self._subscription(info, receiver, seen)
                continue
            notice, ended = seen.first(Notice), self.ended.get(receiver)
            if notice is None or ended is None or seen.time_ns - ended[1] < GRACE_NS:
                continue
            where = f"LID {receiver}" if receiver < 1 << 16 else "this address"
            hit = seen.found(
                {"trap": value_of(Notice.trap_number, notice.trap_number), "receiver": where}, Notice.trap_number, of=notice,
                proof=[(ended[0], "cancelled")], evidence=INFERRED, key=receiver,
            )  # fmt: skip
            self.reports.keep(hit.frame, (hit, receiver), hit.frame, hit.time_ns)

    def _subscription(self, info: InformInfo, receiver: int, seen: Seen) -> None:
        wanted = self.wanted.get(receiver)
        if info.subscribe:
            if wanted is None and len(self.wanted) < MAX_RECEIVERS:
                wanted = self.wanted[receiver] = set()
            if wanted is not None and len(wanted) < MAX_TRAPS:
                wanted.add(info.trap_number)
            else:
                self.dropped.add(seen.frame, seen.time_ns)
            self.ended.pop(receiver, None)
        elif wanted is not None and info.trap_number in wanted:
            wanted.discard(info.trap_number)
            if not wanted:
                self.ended[receiver] = seen.frame, seen.time_ns
