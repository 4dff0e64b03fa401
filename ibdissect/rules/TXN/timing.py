"""Requests that reuse a transaction id, are answered late, or flood an agent."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.bounded import Dropped, KeptDict
from ibdissect.capture.chunk import LINK_ERF
from ibdissect.capture.gather import flags
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.equal_rows import SLOTS, digest, digest_at, mix, order_of, run_starts, slot_of_hash
from ibdissect.decode.history import NEIGHBOURS_NS, SECOND_NS
from ibdissect.decode.identity import AddressNumber, Code, Frame
from ibdissect.decode.sending_order import in_time
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import INFO, WARNING, Context, Hit, Moment, Rule, fault, on_chunk
from ibdissect.mad.agents import Agents
from ibdissect.mad.datagrams import Queries
from ibdissect.mad.transactions import Transactions
from ibdissect.mad.visible_answers import VisibleAnswers
from ibdissect.rules.shared.answer_patience import announced
from ibdissect.rules.shared.answered_packets import KEPT_FRAMES, RepliesToFindings
from ibdissect.rules.shared.not_seen import QuotingRule
from ibdissect.subnet import FabricFollower
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.headers import DETH
from ibdissect.wire.mad import BASE_VERSION_IB, MAD, MAD_SIZE
from ibdissect.wire.numbers import DIRECTED, GSI_QP

SHORTEST_TIMEOUT_NS = 50_000_000
"""No requester gives up earlier, so two requests with one transaction id within this time are outstanding together."""
SLOW_NS = 10_000_000
"""Faster answers are not judged."""
COUNTED_CLASSES = flags((0x01, 0x03, 0x04, 0x05, 0x06, 0x08, 0x21))
"""Classes whose requests are answered by a single datagram; vendors may define otherwise."""
WAY = ("gids", "far", "near", "transaction", "mgmt_class")
"""Columns that a request and its answer share."""
FLOOD = 100
FEW_LOST = 20
"""Of as many requests, the capture or the network may lose one."""
MILLISECOND = 1_000_000
MAX_FLOODS = 1024
MAX_KEPT, MAX_ASKED = 65536, 1 << 18
Column = npt.NDArray[Any]


def _without_room(times: Column, before: int, most: int) -> Int:
    """Which requests from index `before` on, counted from there, come when `most` others of the last second are kept already."""
    if len(times) <= most:
        return np.empty(0, np.int64)
    latest = np.maximum.accumulate(times)
    kept = np.arange(before, len(times)) - np.searchsorted(latest, latest[before:] - SECOND_NS, "right")
    return np.flatnonzero(kept >= most)


def _last_second(times: Column, most: int) -> slice | Int:
    """The requests of the last second, at most so many. Usually all from the first one on: as a slice, which copies nothing."""
    late = np.flatnonzero(times > times[-1] - SECOND_NS)[-most:]
    return slice(late[0], None) if len(late) == len(times) - late[0] else late


class TransactionReused(QuotingRule):
    """A requester uses one transaction id for two outstanding requests.

    Answers are matched by this number: the requester may confuse the two answers. Linux refuses to send such a request.

    Correct the tool: it must increment the id with every request.

    Two different requests of one sender to one receiver within 50 ms, with no answer in between. In ERF captures, which may miss
    packets, two answers must follow; an `info` where it misses packets meanwhile, or shows no answer of that receiver to that sender:
    then it may show one direction only. Silent for a sender that has used one id for several requests of the last second, and got the
    answer to each before the next, but one of twenty. Directed routes are not judged.
    """

    code, name, severity = "TXN002", "duplicate-tid-different-payload", WARNING
    reference = "IBA 13.4.6.4; kernel core/user_mad.c is_duplicate"
    message = "{what} has the transaction id of {other} in frame {frame}, which is not answered yet"
    example = "PerformanceGet of PortCounters and of PortCountersExtended with one transaction id, 1 ms apart, without an answer"
    needs = (VisibleAnswers,)

    def __init__(self) -> None:
        self.kept: dict[str, Column] = {}
        """The requests and answers of the last second before the chunk."""
        self.dropped = Dropped("requests within a second")

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info where the capture may show one direction only."""
        heard = context.get(VisibleAnswers).shows(*hit.key[1:])
        return super().severity_at_end(hit, context) if heard else INFO

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        """Only LID-routed requests: a directed route does not identify the requester."""
        asked = table.once(Queries)
        index = np.flatnonzero(COUNTED_CLASSES[asked.mgmt_class] & (asked.transaction != 0))
        if not len(index):
            return
        now = self._columns(table, asked, index)
        kept = self.kept or {name: column[:0] for name, column in now.items()}
        times = np.concatenate((kept["time"], now["time"]))
        pushing = _without_room(times, len(kept["time"]), MAX_KEPT)
        if len(pushing):
            self.dropped.add(int(now["frame"][pushing[0]]), int(now["time"][pushing[0]]), len(pushing))
        some = _last_second(times, MAX_KEPT)
        self.kept = {name: np.concatenate((kept[name], column))[some] for name, column in now.items()}
        again = np.zeros(SLOTS, np.bool_)
        again[slot_of_hash(now["mark"])] = True
        old = np.flatnonzero(again[slot_of_hash(kept["mark"])])  # the others share no slot with these, so they have other ends
        asks, marks = (np.concatenate((kept[name][old], now[name])) for name in ("asks", "mark"))
        order = order_of(marks)
        asks, marks = asks[order], marks[order]
        if not (asks[1:] & asks[:-1] & (marks[1:] == marks[:-1])).any():
            return
        rows = {name: np.concatenate((kept[name][old], column)) for name, column in now.items()}
        by_time = in_time(rows["time"])
        by_time = np.arange(len(rows["time"])) if by_time is None else by_time
        order = by_time[np.lexsort([rows[name][by_time] for name in WAY])]
        rows, fresh = {name: column[order] for name, column in rows.items()}, order >= len(old)
        alike = np.ones(len(order) - 1, np.bool_)
        for name in WAY:
            alike &= rows[name][:-1] == rows[name][1:]
        other = np.zeros(len(alike), np.bool_)
        for name in ("method", "attribute", "modifier"):
            other |= rows[name][:-1] != rows[name][1:]
        wrong = alike & rows["asks"][:-1] & rows["asks"][1:] & other & (np.abs(rows["time"][1:] - rows["time"][:-1]) < SHORTEST_TIMEOUT_NS)
        for i in np.flatnonzero(wrong & self._proven(rows, alike, fresh)).tolist():
            if _awaits_answers(rows, alike, i):
                continue  # the capture lacks one
            one, two = ({name: int(column[k]) for name, column in rows.items()} for k in (i, i + 1))
            what, before = (table.catalog.request_text(each["mgmt_class"], each["method"], each["attribute"]) for each in (two, one))
            yield fault(
                Moment(two["frame"], two["time"]), {"what": what, "other": before, "frame": one["frame"]}, MAD.transaction_id,
                proof=[(one["frame"], "the other request")], key=(two["mgmt_class"], two["near"], two["far"]),
            )  # fmt: skip

    @staticmethod
    def _columns(table: ChunkTable, asked: Queries, index: Int) -> dict[str, Column]:
        asks, rows = asked.asks[index], asked.rows[index]
        columns = {name: getattr(asked, name)[index] for name in ("mgmt_class", "method", "attribute", "modifier", "transaction")}
        columns |= {
            "asks": asks, "near": np.where(asks, asked.source[index], asked.destination[index]),
            "far": np.where(asks, asked.destination[index], asked.source[index]), "frame": table.chunk.first + rows,
            "gids": asked.gids[index], "time": table.chunk.time_ns[rows], "unproven": table.chunk.link[rows] == LINK_ERF,
        }  # fmt: skip
        return columns | {"mark": mix([columns[name] for name in WAY])}

    @staticmethod
    def _proven(rows: dict[str, Column], alike: Bool, fresh: Bool) -> Bool:
        """For each pair whether the capture misses nothing, or two answers within a second show that both were outstanding; each once."""
        proven: Bool = ~rows["unproven"][1:] & fresh[1:]
        answers = ~rows["asks"]
        # An answer right after the second request may have come before it: captures of several queues swap neighbours.
        apart = (rows["frame"][2:-1] - rows["frame"][1:-2] > 1) | (rows["time"][2:-1] - rows["time"][1:-2] > NEIGHBOURS_NS)
        both = alike[1:-1] & alike[2:] & answers[2:-1] & answers[3:] & (rows["time"][3:] - rows["time"][:-3] < SECOND_NS)
        proven[:-2] |= rows["unproven"][1:-2] & both & fresh[3:] & apart
        return proven


def _awaits_answers(rows: dict[str, Column], alike: Bool, i: int) -> bool:
    """Whether a requester with one id for all its requests waits for each answer: nearly all of the last second before row `i` came."""
    first = i - int(alike[:i][::-1].argmin()) if not alike[:i].all() else 0
    first += int(np.searchsorted(rows["time"][first:i], rows["time"][i] - SECOND_NS, "right"))
    asked = int(np.count_nonzero(rows["asks"][first:i]))
    answers = i - first - asked
    return answers > 1 and FEW_LOST * (asked - answers) <= answers


class AnswerLate(Rule):
    """An answer took longer than its sender announced.

    Requesters derive their timeout from the RespTimeValue of ports (PortInfo) and agents (ClassPortInfo), plus twice the packet lifetime of
    the subnet. They discard later answers and repeat the request.

    Look at the load of the answering node, or at the firmware that announces too little.

    The request and its answer, and the RespTimeValue in an earlier PortInfo or ClassPortInfo. Directed routes are not judged.
    """

    code, name, severity = "TXN004", "late-response", INFO
    reference = "IBA 13.4.6.2, 13.4.8.1, 14.2.5.6"
    needs = (Agents, FabricFollower, Transactions)
    message = "{what} was answered after {took} ms; {limit} ms were announced, including twice the packet lifetime"
    example = "a PerformanceGet answered after 9 s by an agent with RespTimeValue 8 (1 ms)"

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        agents, subnet, event = context.get(Agents), context.get(FabricFollower).subnet, context.get(Transactions).matched
        if event is None:
            return
        for one in event.some((event.latency_ns > SLOW_NS) & (event.mgmt_class != DIRECTED)):
            request = one.request
            limit, since = announced(agents, subnet, request.mgmt_class, request.target, request.frame)
            if since < request.frame and one.latency_ns > limit:
                took, allowed = one.latency_ns // MILLISECOND, limit // MILLISECOND
                yield fault(
                    one, {"what": request.what(context.catalog), "took": took, "limit": allowed}, MAD.transaction_id,
                    proof=[(since, "announced"), (request.last_frame, "request")], key=(request.mgmt_class, request.target),
                )  # fmt: skip


class Flood(Rule):
    """The same request is sent more than 100 times within a second.

    Agents answer some thousand requests a second at best; a flood keeps others from being answered, and VL15 drops the excess.

    Find the sender: a tool without a pause between its requests, a retry timer that is far too short, or `ibping -f`.

    Requests that agree in sender, receiver and all their contents except the low half of the transaction id. An `info` where all of them
    but one of twenty were answered: then the agent keeps up; where each waits for the answer to the one before, or 50 ms for one that does
    not come; where the agent answers one after the other, and the capture ends within a second of its latest answer; where they come from
    another queue pair than 0 and 1, whose answers are not recognized; where the capture shows no answer of that agent to that requester,
    as answers may take another link; or where it misses packets within ten seconds.
    """

    code, name, severity = "TXN018", "mad-flood", WARNING
    reference = "opensm smp_max_on_wire 4; IBA 13.4.6"
    alike = True
    message = "{what}: the same request {count} times within a second"
    example = "101 PerformanceGets of one port within half a second"

    needs = (CaptureLoss, RepliesToFindings, Scopes, Transactions, VisibleAnswers)

    def __init__(self) -> None:
        self.kind = np.empty(0, np.uint64)
        self.time = np.empty(0, np.int64)
        """Requests of the last second before the chunk."""
        self.dropped = Dropped("requests within a second")
        self.watched = KeptDict[Code, list[Moment]](MAX_FLOODS, "floods of requests")
        """The first requests of each flood, whose answers matter."""
        self.began: dict[Code, tuple[AddressNumber, AddressNumber, int, int]] = {}
        """Requester, target, frame and time of its first request that is watched."""
        self.heard: dict[Code, tuple[int, int]] = {}
        """Frame and time of the latest answer of a flood's target to the requester, be it to another request."""
        self.elsewhere: set[Code] = set()
        """Floods whose answers go to other queue pairs, where nobody recognizes them."""
        self.addressed: set[Code] = set()
        """Floods whose packets have addresses; who sends along a directed route, nobody knows."""

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        asked = table.once(Queries)
        whole = table.located.payload_end[asked.rows] - asked.at >= MAD_SIZE[BASE_VERSION_IB]  # not truncated
        index = np.flatnonzero(asked.asks & whole)
        if not len(index):
            return
        kind, time = self._kinds(table, asked, index), table.chunk.time_ns[asked.rows[index]]
        kinds, times = np.concatenate((self.kind, kind)), np.concatenate((self.time, time))
        before = len(self.kind)
        pushing = _without_room(times, before, MAX_ASKED)
        if len(pushing):
            first = pushing[0]
            self.dropped.add(table.chunk.first + int(asked.rows[index[first]]), int(time[first]), len(pushing))
        keep = _last_second(times, MAX_ASKED)
        self.kind, self.time = kinds[keep], times[keep]
        place = slot_of_hash(kinds)
        crowd = np.flatnonzero((np.bincount(place) > FLOOD)[place])  # no other kind can be a flood
        if not len(crowd):
            return
        order = crowd[order_of(kinds[crowd])]
        kinds, when = kinds[order], times[order]
        crowded = (kinds[FLOOD:] == kinds[:-FLOOD]) & (when[FLOOD:] - when[:-FLOOD] < SECOND_NS)
        late = order[FLOOD:][crowded] - before
        late = late[late >= 0]
        if not len(late):
            return
        text, watched = cache(table.catalog.request_text), list[Frame]()
        some = index[late]
        rows, times, frames = asked.rows[some], time[late], asked.rows[some] + table.chunk.first
        elsewhere = table.values_at(DETH.srcqp, rows) > GSI_QP
        runs = run_starts(kind[late])
        first = some[runs]
        what = zip(*(column[first].tolist() for column in (asked.mgmt_class, asked.method, asked.attribute)), strict=True)
        floods = [*zip(runs.tolist(), [*runs[1:].tolist(), len(late)], kind[late[runs]].tolist(), what, strict=True)]
        for start, stop, flood, request in sorted(floods, key=lambda one: int(late[one[0]])):
            begin = Moment(int(frames[start]), int(times[start]))
            kept = self.watched.get_or_make(flood, list, begin.frame, begin.time_ns)
            if kept is not None and len(kept) < KEPT_FRAMES:
                i = int(some[start])
                ends = AddressNumber(int(asked.source[i])), AddressNumber(int(asked.destination[i]))
                self.began.setdefault(flood, (*ends, begin.frame, begin.time_ns))
                if request[0] != DIRECTED:
                    self.addressed.add(flood)
                more = slice(start, min(stop, start + KEPT_FRAMES - len(kept)))
                kept += map(Moment, frames[more].tolist(), times[more].tolist())
                watched += frames[more].tolist()
            if kept is not None and flood not in self.elsewhere and elsewhere[start:stop].any():
                self.elsewhere.add(flood)
            yield fault(
                begin, {"what": text(*request), "count": FLOOD + 1}, MAD.method, request[1], frames=frames[start:stop], key=flood,
            )  # fmt: skip
        context.get(RepliesToFindings).watch_frames(watched, table)

    @on_chunk
    def note_answers(self, table: ChunkTable, context: Context) -> None:
        if not self.began:
            return
        asked = table.once(Queries)
        came = np.flatnonzero(~asked.asks)
        ways = zip(asked.destination[came].tolist(), asked.source[came].tolist(), strict=True)
        latest = dict(zip(ways, asked.rows[came].tolist(), strict=True))
        for flood, began in self.began.items():
            row = latest.get(began[:2])
            if row is not None and table.chunk.first + row > began[2]:
                self.heard[flood] = table.chunk.first + row, int(table.chunk.time_ns[row])

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info if its requests, as far as they are watched, were answered or wait for answers: the same for all parts of a flood."""
        flood, replies = Code(hit.key), context.get(RepliesToFindings)
        watched = self.watched.get(flood, [])
        done = [replies.answered([one.frame]) for one in watched]
        heard = self.heard.get(flood)
        ends = heard is not None and context.get(Scopes).goes_on(*heard if any(done) else self.began[flood][-2:]) < SECOND_NS
        in_turn = ends and done == sorted(done, reverse=True)
        came = sorted(replies.replies[Frame(one.frame)].frame for one in watched if Frame(one.frame) in replies.replies)
        waits = len(came) > 0 and all(_waited(one, following, came) for one, following in pairwise(watched))
        elsewhere = flood in self.addressed and not context.get(VisibleAnswers).shows(*self.began[flood][:2])
        unseen = elsewhere or flood in self.elsewhere or context.get(CaptureLoss).near(hit.time_ns)
        keeps_up = FEW_LOST * done.count(False) < max(1, len(done))
        return INFO if keeps_up or in_turn or waits or unseen else None

    @staticmethod
    def _kinds(table: ChunkTable, asked: Queries, index: Int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """A hash of each request: requester, target and contents."""
        parts = np.stack([
            asked.source[index], asked.destination[index] ^ asked.gids[index], asked.transaction[index] >> np.uint64(32),
            asked.mgmt_class[index].astype(np.uint64) << np.uint64(48) | asked.method[index].astype(np.uint64) << np.uint64(40)
            | asked.attribute[index], asked.modifier[index].astype(np.uint64),
        ], axis=1)  # fmt: skip
        return digest(parts.view(np.uint8)) ^ digest_at(table.chunk.data, asked.at[index] + MAD.size, MAD_SIZE[BASE_VERSION_IB] - MAD.size)


def _waited(one: Moment, following: Moment, answers: list[int]) -> bool:
    """Whether a request was sent after an answer to the one before, or, if none came, as late as by somebody who gave that one up."""
    answered = bisect_left(answers, one.frame) < bisect_left(answers, following.frame)
    return answered or following.time_ns - one.time_ns >= SHORTEST_TIMEOUT_NS
