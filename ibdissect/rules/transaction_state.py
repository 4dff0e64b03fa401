"""What requests show when they are counted and timed: reused transaction ids, late answers, floods, two managers (TXN)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.capture.chunk import LINK_ERF
from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.model import FIRST_MULTICAST, Subnet
from ibdissect.flow.agents import Agents
from ibdissect.flow.asked import DIRECTED, Asked, mixed
from ibdissect.flow.transactions import Answered, AnsweredMany
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related
from ibdissect.lint.rule import INFO, WARNING, Hit, Rule, on_chunk, on_event
from ibdissect.table.locate import Bool, Int, u16
from ibdissect.table.table import ChunkTable, gather
from ibdissect.wire.mad import MAD, method_name

SHORTEST_TIMEOUT_NS = 50_000_000
"""No requester gives up earlier: what it asks meanwhile under the same transaction id is asked at the same time."""
SLOW_NS = 10_000_000
"""Answers that came sooner are not looked at."""
COUNTED_CLASSES = (0x01, 0x03, 0x04, 0x05, 0x06, 0x08, 0x21)
"""Classes whose requests are answered by the next datagram; vendors may define otherwise."""
FLOOD, SECOND_NS = 100, 1_000_000_000
SMP_CLASSES = (0x01, 0x81)
SET = 0x02
MIXED_NS = 10_000_000_000
MILLISECOND = 1_000_000
LONGEST_NS = 4096 << 18
"""A subnet's packet lifetime where none was told: 1.07 s, what managers set by default."""


def what_of(asked: Asked, i: int) -> str:
    """`PerfGet(attribute 0x0012)`."""
    return f"{method_name(int(asked.mgmt_class[i]), int(asked.method[i]))}(attribute 0x{int(asked.attribute[i]):04x})"


class TransactionReused(Rule):
    """A requester gives two requests under way the same transaction id.

    ## Why it matters
    Answers are matched by this number: the requester takes the answer to one question for the answer to the other. Linux
    refuses to send such a request. Two different requests of one sender to one receiver within 50 ms count, with no answer in between.

    ## What to do
    Correct the tool: it must count the id up with every request.
    """

    code, name, severity = "TXN002", "duplicate-tid-different-payload", WARNING
    reference = "IBA 13.4.6.4; kernel core/user_mad.c is_duplicate"
    message = "{what} has the transaction id of {other} in frame {frame}, which is not answered yet"
    example = "PerformanceGet of PortCounters and of PortCountersExtended with one transaction id, 1 ms apart, without an answer"

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        """Requests by LID: a directed route does not tell who asks."""
        asked = context.get(Asked).of(table)
        index = np.flatnonzero(np.isin(asked.mgmt_class, COUNTED_CLASSES) & (asked.transaction != 0))
        if len(index) < 2:
            return
        asks = asked.asks[index]
        near = np.where(asks, asked.source[index], asked.destination[index])
        far = np.where(asks, asked.destination[index], asked.source[index])
        order = np.lexsort((far, near, asked.transaction[index], asked.mgmt_class[index]))
        near, far, index = near[order], far[order], index[order]
        one, two = index[:-1], index[1:]
        same = (near[:-1] == near[1:]) & (far[:-1] == far[1:]) & (asked.transaction[one] == asked.transaction[two])
        same &= (asked.mgmt_class[one] == asked.mgmt_class[two]) & asked.asks[one] & asked.asks[two]
        other = asked.method[one] != asked.method[two]
        for column in (asked.attribute, asked.modifier):
            other |= column[one] != column[two]
        times = table.chunk.time_ns[asked.rows]
        wrong = same & other & (times[two] - times[one] < SHORTEST_TIMEOUT_NS)
        for k in np.flatnonzero(wrong & self._proven(table, asked, index)).tolist():
            i, j = int(one[k]), int(two[k])
            frame, row = table.chunk.first + int(asked.rows[i]), int(asked.rows[j])
            yield Hit(
                frame=table.chunk.first + row, time_ns=int(times[j]), related=(Related(frame, "the other request"),),
                arguments={"what": what_of(asked, j), "other": what_of(asked, i), "frame": frame}, field=MAD.transaction_id,
                key=(int(asked.mgmt_class[j]), int(near[k]), int(far[k])), evidence=Evidence.LEARNT,
            )  # fmt: skip

    @staticmethod
    def _proven(table: ChunkTable, asked: Asked, index: Int) -> Bool:
        """Of each pair: whether the capture misses nothing, or two answers behind it show that both were under way."""
        proven: Bool = table.chunk.link[asked.rows[index[:-1]]] != LINK_ERF
        answers = ~asked.asks[index]
        proven[:-2] |= answers[2:-1] & answers[3:]
        return proven


class AnswerLate(Rule):
    """An answer took longer than its sender said it would.

    ## Why it matters
    Requesters derive their timer from the RespTimeValue that ports (PortInfo) and agents (ClassPortInfo) announce, and twice the
    packet lifetime of the subnet. Answers behind that are thrown away, and the request is repeated.

    ## What to do
    Look at the load of the node that answers, or at the firmware that announces too little.
    """

    code, name, severity = "TXN004", "late-response", INFO
    reference = "IBA 13.4.6.2, 13.4.8.1, 14.2.5.6; seed000 RespTimeValue"
    message = "{what} was answered after {took} ms; {limit} ms were announced, the way there and back included"
    example = "a PerformanceGet answered after 9 s by an agent with RespTimeValue 8 (1 ms)"

    def __init__(self) -> None:
        self.slow: list[Answered] = []
        """Answers of this chunk that did not come at once."""
        self.subnet: Subnet | None = None

    @on_event(AnsweredMany)
    def answered(self, event: AnsweredMany, _context: Context) -> None:
        self.slow += event.some((event.latency_ns > SLOW_NS) & (event.mgmt_class != DIRECTED))

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, _context: Context) -> None:
        self.subnet = event.subnet

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        """Judge the answers of this chunk by what was announced before."""
        agents = context.get(Agents).of(table, context.get(Asked).of(table))
        for event in self.slow:
            request, sender = event.request, event.request.target
            if not isinstance(sender, int):
                continue
            port = self.subnet.by_lid(sender) if self.subnet is not None else None
            info = port.info if port is not None else None
            if request.mgmt_class in SMP_CLASSES:
                if port is None or info is None or not port.info_frame < request.frame:
                    continue
                code, frame = info.resp_time_value, port.info_frame
            else:
                agent = agents.by_place.get((request.mgmt_class, sender))
                if agent is None or not agent.frame < request.frame:
                    continue
                code, frame = agent.resp_time_value, agent.frame
            lifetime = 4096 << info.subnet_time_out if info is not None else LONGEST_NS
            limit = (4096 << code) + 2 * lifetime
            if event.latency_ns > limit:
                what = f"{method_name(request.mgmt_class, request.method)}(attribute 0x{request.attribute:04x})"
                yield Hit(
                    frame=event.frame, time_ns=event.time_ns, field=MAD.transaction_id, key=(request.mgmt_class, request.target),
                    arguments={"what": what, "took": event.latency_ns // 1_000_000, "limit": limit // 1_000_000},
                    related=(Related(frame, "announced"), Related(request.last_frame, "request")), evidence=Evidence.LEARNT,
                )  # fmt: skip
        self.slow.clear()


class Flood(Rule):
    """The same question is asked more than 100 times within a second.

    ## Why it matters
    Agents answer some thousand requests a second at best; a flood keeps others from being answered, and VL15 drops what is
    too much.

    ## What to do
    Find the sender: a tool without a pause between its requests, a retry timer that is far too short, or `ibping -f`.
    """

    code, name, severity = "TXN018", "mad-flood", WARNING
    reference = "opensm smp_max_on_wire 4; IBA 13.4.6"
    message = "{what}: the same request {count} times within a second"
    example = "101 PerformanceGets of one port within half a second"

    def __init__(self) -> None:
        self.kind = np.empty(0, np.uint64)
        self.time = np.empty(0, np.int64)
        """Requests of the last second in front of the chunk."""

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        """Requests that agree in everything but the low half of the transaction id."""
        asked = context.get(Asked).of(table)
        index = np.flatnonzero(asked.asks)
        if not len(index):
            return
        kind, time = self._kinds(table, asked, index), table.chunk.time_ns[asked.rows[index]]
        kinds, times = np.concatenate((self.kind, kind)), np.concatenate((self.time, time))
        before = len(self.kind)
        keep = times > times[-1] - SECOND_NS
        self.kind, self.time = kinds[keep], times[keep]
        if len(kinds) <= FLOOD:
            return
        order = np.argsort(kinds, kind="stable")
        crowded = (kinds[order][FLOOD:] == kinds[order][:-FLOOD]) & (times[order][FLOOD:] - times[order][:-FLOOD] < SECOND_NS)
        for value in np.unique(kinds[order][FLOOD:][crowded]).tolist():
            mine = np.flatnonzero(kinds == value)
            late = mine[FLOOD:][times[mine[FLOOD:]] - times[mine[:-FLOOD]] < SECOND_NS]
            late = late[late >= before]
            if not len(late):
                continue
            i = int(index[late[0] - before])
            row = int(asked.rows[i])
            yield Hit(
                frame=table.chunk.first + row, time_ns=int(table.chunk.time_ns[row]), field=MAD.method, value=int(asked.method[i]),
                arguments={"what": what_of(asked, i), "count": FLOOD + 1}, count=len(late), key=int(value),
            )  # fmt: skip

    @staticmethod
    def _kinds(table: ChunkTable, asked: Asked, index: Int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """A hash of each request: who asks whom what; of the few that are many, with all that they hold."""
        parts = np.stack([
            asked.source[index], asked.destination[index], asked.transaction[index] >> np.uint64(32),
            asked.mgmt_class[index].astype(np.uint64) << np.uint64(48) | asked.method[index].astype(np.uint64) << np.uint64(40)
            | asked.attribute[index], asked.modifier[index].astype(np.uint64),
        ], axis=1)  # fmt: skip
        kind = mixed(parts.view(np.uint8))
        at = asked.at[index]
        room = table.located.payload_end[asked.rows[index]] - at
        whole = np.flatnonzero(room >= 256)
        kind[whole] ^= mixed(gather(table.chunk.data, at[whole] + 24, 232))
        return kind


class TwoManagers(Rule):
    """Two subnet managers set attributes of one port at the same time.

    ## Why it matters
    Each overwrites what the other has set: LIDs, partitions and routes flap. A handover is not judged.

    ## What to do
    See SEM044: both believe to be master. Check their priorities, their SM_Keys and whether they see each other.
    """

    code, name, severity = "TXN019", "mixed-sm-senders", WARNING
    reference = "IBA 14.4; seed000 SMs"
    message = "SubnSet to LID {dlid} from the managers at LID {one} and LID {two}, {milliseconds} ms apart"
    example = "SMInfos that show two managers, and SubnSets of both to one LID within a second"

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        managers = {sm.lid: sm.since for sm in event.subnet.sms.values() if 0 < sm.lid < FIRST_MULTICAST}
        asks = event.requests
        sets = np.flatnonzero(asks.method == SET)
        if len(managers) < 2 or not len(sets):
            return
        table = event.table
        rows = asks.rows[sets]
        lrh = table.located.at("lrh")[rows]
        sets, rows, lrh = sets[lrh >= 0], rows[lrh >= 0], lrh[lrh >= 0]
        data = table.chunk.data
        directed = data[table.chunk.offset[rows] + asks.mad[sets] + MAD.mgmt_class.bit // 8] == DIRECTED
        rows, lrh = rows[~directed], lrh[~directed]
        slid, dlid = u16(data, lrh + 6), u16(data, lrh + 2)
        known = np.isin(slid, list(managers))
        rows, slid, dlid = rows[known], slid[known], dlid[known]
        times = table.chunk.time_ns[rows]
        order = np.argsort(dlid, kind="stable")
        one, two = order[:-1], order[1:]
        mixed_up = (dlid[one] == dlid[two]) & (slid[one] != slid[two]) & (times[two] - times[one] < MIXED_NS)
        for k in np.flatnonzero(mixed_up).tolist():
            i, j = int(one[k]), int(two[k])
            first, frame = table.chunk.first + int(rows[i]), table.chunk.first + int(rows[j])
            if max(managers[int(slid[i])], managers[int(slid[j])]) > first:
                continue  # a state changed since: a handover
            yield Hit(
                frame=frame, time_ns=int(times[j]), related=(Related(first, "the other manager's"),), evidence=Evidence.LEARNT,
                arguments={
                    "dlid": int(dlid[j]), "one": int(slid[i]), "two": int(slid[j]), "milliseconds": int(times[j] - times[i]) // MILLISECOND,
                },
                field=MAD.method, value=SET, key=int(dlid[j]),
            )  # fmt: skip
