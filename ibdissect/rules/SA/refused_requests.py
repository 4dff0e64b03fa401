"""SA requests with a wrong SM_Key or to an SA that does not serve, and reports that nobody wants."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from operator import attrgetter, itemgetter

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import Dropped, KeptDict
from ibdissect.decode import ChunkTable
from ibdissect.decode.addresses import End, ends_at
from ibdissect.decode.equal_rows import Entry
from ibdissect.decode.history import SECOND_NS
from ibdissect.decode.identity import Frame, KeyValue, LidId, Side, SubscriptionId, TransactionId
from ibdissect.lint.finding import Span, value_of
from ibdissect.lint.rule import INFERRED, INFO, WARNING, Context, Hit, Rule, Seen, fault, on_chunk, on_end, on_event
from ibdissect.mad.datagrams import Queries, transaction_of
from ibdissect.mad.transactions import Transactions
from ibdissect.rules.shared.not_seen import LearntFactRule, UnansweredRule
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.events import SmSeen
from ibdissect.wire.classport import InformInfo
from ibdissect.wire.mad import MAD
from ibdissect.wire.notice import Notice
from ibdissect.wire.numbers import GET_RESP, INFORM, NOTICE, REPORT, SA_CLASS, STANDBY
from ibdissect.wire.sa import SAFormat

MAX_STATES, MAX_KEYED = 64, 16384
BUSY_NS = 30 * SECOND_NS
"""An SA that restarts answers nobody until its first sweep."""


class KeyedRequest(Record):
    """A request with an SM_Key."""

    frame: int
    time_ns: int
    key: KeyValue
    destination: Side
    at: int
    """Offset of the key in the frame."""


def _near(times: list[int], time_ns: int) -> int:
    """How many of some ascending times are less than BUSY_NS away from one."""
    return bisect_left(times, time_ns + BUSY_NS) - bisect_right(times, time_ns - BUSY_NS)


class SmKeyWrong(UnansweredRule, LearntFactRule):
    """A request to the SA carries another SM_Key than the SA accepts, and is not answered.

    The SA silently drops requests with a wrong SM_Key; the requester runs into its timeout.

    Give the requester the SA's key (opensm: `sa_key`), or none for requests that need no trust.

    The SA answers requests with another key, and none with this key. The capture goes on for a second and shows other answers to the
    sender. An `info` where the SA answers requests with several keys, as it does not look at them, leaves requests of anybody without this
    key unanswered within half a minute: it is busy, or starts, or answers nobody any more: it may be down.
    """

    code, name, severity = "SA006", "sa-smkey-wrong", WARNING
    explains = ("TXN001",)
    reference = "IBA 15.4.1; opensm osm_sa_mad_ctrl"
    mgmt_class = SA_CLASS
    ages = False
    message = "{what} to {to} with {key} was not answered, the SA answers requests with {taken}"
    example = "SubnAdmGetTables with SM_Key 1, answered, and with SM_Key 5, not answered, while others are"

    def __init__(self) -> None:
        self.keyed = KeptDict[TransactionId, KeyedRequest](MAX_KEYED, "requests with an SM_Key")
        """Requests with a key."""

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> None:
        """Remember requests with a key: few, as most requests are sent without."""
        found = table.occurrences(SAFormat)
        if not len(found):
            return
        asked = table.once(Queries)
        keys = table.values(SAFormat.sm_key)
        for i in np.flatnonzero((keys != 0) & (asked.place[found.rows] >= 0)).tolist():
            seen = Seen(table, int(found.rows[i]))
            one = Entry(asked, int(asked.place[seen.row]))
            if one.asks:
                when, agent = (seen.frame, seen.time_ns), Side.of(ends_at(table, one.rows)[1])
                at = int(found.at[i]) - int(table.chunk.offset[seen.row]) + SAFormat.sm_key.bit // 8
                self.keyed.get_or_make(transaction_of(one), partial(KeyedRequest, *when, int(keys[i]), agent, at), *when)

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        """Report unanswered requests to an SA that answered others; a request that is not unanswered was answered."""
        transactions = context.get(Transactions)
        if not self.keyed or transactions.given_up.dropped.count or transactions.superseded.dropped.count:
            return  # or it is not known which were answered
        silent = {request.frame: request for request in self.unanswered(context)}
        over = {request.frame for request in (*transactions.all_given_up(SA_CLASS), *transactions.open_requests(SA_CLASS))}
        taken: dict[Side, KeyedRequest] = {}
        accepted: set[tuple[Side, KeyValue]] = set()
        for keyed in self.keyed.values():
            if keyed.frame not in over:
                taken.setdefault(keyed.destination, keyed)
                accepted.add((keyed.destination, keyed.key))
        keys_of = Counter(agent for agent, _ in accepted)
        key_of = {one.frame: one.key for one in self.keyed.values()}
        waiting, alike = defaultdict[End, list[int]](list), defaultdict[tuple[End, KeyValue | None], list[int]](list)
        for other in sorted(silent.values(), key=attrgetter("time_ns")):
            waiting[other.target].append(other.time_ns)
            alike[other.target, key_of.get(other.frame)].append(other.time_ns)
        for keyed in self.keyed.values():
            right, request = taken.get(keyed.destination), silent.get(keyed.frame)
            if right is None or request is None or (keyed.destination, keyed.key) in accepted:
                continue
            value, key = (value_of(SAFormat.sm_key, one.key) for one in (keyed, right))
            up = self.is_up(context, request.target, keyed.frame)
            busy = not up or _near(waiting[request.target], keyed.time_ns) > _near(alike[request.target, keyed.key], keyed.time_ns)
            yield fault(
                keyed, {"what": request.what(context.catalog), "to": request.to, "key": value, "taken": key}, SAFormat.sm_key, value,
                proof=[(right.frame, "was answered")], spans=(Span(keyed.frame, keyed.at, 8),),
                key=(request.source, request.target, keyed.key), severity=INFO if busy or keys_of[keyed.destination] > 1 else None,
            )  # fmt: skip


class AskedStandby(UnansweredRule):
    """An SA request to a manager that is not master goes unanswered.

    Only the master's SA serves; a standby drops the request, and the requester waits in vain.

    The requester uses an old master: it must read MasterSMLID of its port again. Nothing during a handover.

    SMInfo with state Standby before the request, and no other state in the next one. The capture goes on for a second and shows other
    answers to the sender. Silent if the LID is another port's by then.
    """

    code, name, severity = "SA024", "sa-request-nonmaster", INFO
    reference = "IBA 15.4.1; opensm C15-0.1.3"
    mgmt_class = SA_CLASS
    message = "{what} to {to}, where a standby manager runs, was not answered"
    example = "SMInfo of a standby manager, and a SubnAdmGet to its LID without an answer"

    def __init__(self) -> None:
        self.dropped = Dropped("states of managers")
        self.standby: dict[LidId, list[tuple[int, int]]] = {}
        """Frames and states that managers showed, by LID."""

    @on_event(SmSeen)
    def state(self, event: SmSeen, _context: Context) -> None:
        if not event.sm.now.lid:
            return
        shown = self.standby.setdefault(LidId(event.sm.now.lid), [])
        if len(shown) > 1 and shown[-1][1] == shown[-2][1] == event.sm.now.state:
            shown.pop()  # the same state again: the first and last frames suffice
        elif len(shown) >= MAX_STATES:
            self.dropped.add(shown.pop(0)[0], event.time_ns)
        shown.append((event.frame, event.sm.now.state))

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        """Judge by the manager's last state before the request and its first one after it."""
        subnet = context.get(FabricFollower).subnet
        for request in self.unanswered(context):
            lid = request.target.lid or 0
            states = self.standby.get(LidId(lid), ())
            at = bisect_left(states, request.frame, key=itemgetter(0))
            before, after = states[max(0, at - 1) : at], states[at : at + 1]
            if not before or any(state != STANDBY for _, state in [before[-1], *after]):
                continue
            if not subnet.kept(lid, before[-1][0], request.frame):
                continue
            yield fault(
                request, {"what": request.what(context.catalog), "to": str(request.target)}, MAD.transaction_id,
                proof=[(before[-1][0], "SMInfo")], key=(request.source, request.target),
            )  # fmt: skip


GRACE_NS = SECOND_NS
"""A report may be under way, or repeated, while its subscription ends."""
MORE = SubscriptionId(-1, False, 0, 0, b"", 0, 0)
"""In place of subscriptions for which there is no room: their end is not seen."""
MAX_RECEIVERS, MAX_TRAPS = 16384, 256


class ReportUnwanted(Rule):
    """The SA reports an event to a receiver that cancelled its subscription.

    The receiver does not expect the report and answers with an error or not at all; the SA repeats it.

    Look at the SA; a restart of opensm with `--subnet-database` may restore old subscriptions.

    The capture shows the beginning and the end of all the receiver's subscriptions, and nobody at that address accepts the report.
    """

    code, name, severity = "SA020", "report-without-subscription", INFO
    reference = "IBA 13.4.8.3, 15.4.1; opensm o13-17"
    message = "Report of trap {trap} to {receiver}, which has cancelled all subscriptions that were seen"
    needs = (Transactions,)
    example = "InformInfo for trap 144, its cancellation, both accepted, and a Report of trap 144 two seconds later"

    def __init__(self) -> None:
        self.dropped = Dropped("subscriptions to events")
        self.wanted = KeptDict[Side, set[SubscriptionId]](MAX_RECEIVERS, self.dropped)
        """The subscriptions in force, by receiver."""
        self.ended: dict[Side, tuple[int, int]] = {}
        """Frame and time of the cancellation that left a receiver without any."""
        self.reports = KeptDict[Frame, Side](MAX_RECEIVERS, self.dropped)
        """The receivers of unwanted reports, by frame."""
        self.wanting: set[Side] = set()
        """Receivers of such reports of which somebody at that address accepted one."""

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        """Follow accepted subscriptions and reports in frame order (both are rare), then the answers to the reports."""
        yield from self._follow(table)
        for one in context.get(Transactions).answers_to(self.reports):
            if not one.status:
                self.wanting.add(self.reports[one.request.frame])

    def stands(self, hit: Hit, context: Context) -> bool:
        return Frame(hit.frame) in self.reports and hit.key not in self.wanting

    def _follow(self, table: ChunkTable) -> Iterator[Hit]:
        groups = table.attributes()
        if (SA_CLASS, INFORM) not in groups and (SA_CLASS, NOTICE) not in groups:
            return
        asked = table.once(Queries)
        status = table.of_rows(MAD.status)[0]
        accepted = (asked.attribute == INFORM) & (asked.method == GET_RESP) & (status[asked.rows] == 0)
        reports = (asked.attribute == NOTICE) & (asked.method == REPORT)
        for one in asked.each((asked.mgmt_class == SA_CLASS) & (accepted | reports)):
            seen, receiver = Seen(table, one.rows), Side.of(ends_at(table, one.rows)[1])
            if one.attribute == INFORM:
                info = seen.first(InformInfo)
                if info is not None:
                    self._subscription(info, receiver, seen)
                continue
            notice, ended = seen.first(Notice), self.ended.get(receiver)
            if notice is None or ended is None or seen.time_ns - ended[1] < GRACE_NS:
                continue
            about = {"trap": value_of(Notice.trap_number, notice.trap_number), "receiver": str(receiver)}
            proof = [(ended[0], "cancelled")]
            self.reports.keep(Frame(seen.frame), receiver, seen.frame, seen.time_ns)
            yield fault(seen, about, Notice.trap_number, of=notice, proof=proof, evidence=INFERRED, key=receiver)

    def _subscription(self, info: InformInfo, receiver: Side, seen: Seen) -> None:
        wanted, lids = self.wanted.get(receiver), (info.lid_range_begin, info.lid_range_end)
        subscription = SubscriptionId(info.trap_number, bool(info.is_generic), info.type, info.producer_type, bytes(info.gid), *lids)
        if info.subscribe:
            wanted = self.wanted.get_or_make(receiver, set, seen.frame, seen.time_ns)
            if wanted is not None and len(wanted) < MAX_TRAPS:
                wanted.add(subscription)
            elif wanted is not None:
                self.dropped.add(seen.frame, seen.time_ns)
                wanted.add(MORE)
            self.ended.pop(receiver, None)
        elif wanted is not None and subscription in wanted:
            wanted.discard(subscription)
            if not wanted:
                self.ended[receiver] = seen.frame, seen.time_ns
