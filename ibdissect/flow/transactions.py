"""Which management request was answered by which datagram, when, and which never?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.dropped import Dropped
from ibdissect.record import record
from ibdissect.table.distinct import U64
from ibdissect.table.locate import Bool, Int
from ibdissect.table.table import ChunkTable
from ibdissect.wire.mad import RESPONSE_OF

from .datagrams import DIRECTED, Address, Datagrams, Listed
from .pairs import ANSWERS, NOTHING, OTHER, Pairs, among, mark, pair
from .pairs import ASKS as ASKING
from .requests import (
    Answered,
    AnsweredAgain,
    AnsweredFromElsewhere,
    AnsweredMany,
    MadEvent,
    RepressAlone,
    Request,
    TrapAnswered,
    Unanswered,
    answered,
    request_of,
)
from .rmpp import TransferEvent, Transfers

TRAP, TRAP_REPRESS, GET_RESP = 0x05, 0x07, 0x81
CM_CLASS = 0x07
"""Connection management has its own protocol: `connections`."""
DATA = 1
RESPONSE_BIT = 0x80
ASKS = frozenset(RESPONSE_OF) - {TRAP}
"""Methods that must be answered."""
PATIENCE_NS = 10_000_000_000
"""After this time without an answer, and without another try, a request is over."""
MAX_OPEN, MAX_TRAPS = 65536, 4096
MAX_ANSWERED = 4096
"""So many latest answers are remembered to know a second one."""
Key = tuple[Any, ...]
"""Class, transaction id, and the way there: requester and target, or the directed route."""


@record
class _Recent:
    """Answered requests of a chunk that were matched by columns, the latest ones, for answers that come again."""

    requests: Datagrams
    marks: U64
    frames: Int
    """Of the answers."""
    ordinals: Int
    """Numbers of the answers."""


class Transactions:
    """Matches requests and answers. One per capture; chunks in order, then `open_requests` for the end.

    What is clean is matched by columns (`pairs`), requests that wait for a later chunk are kept as columns; the rest goes one
    by one: requests with another try, answers without request, traps.
    """

    def __init__(self) -> None:
        self.open: dict[Key, Request] = {}
        """Requests without answer that go one by one, oldest first."""
        self.waiting: Datagrams | None = None
        """All others."""
        self.answered: dict[Key, tuple[Request, int, int]] = {}
        """Answered lately, of those that go one by one: the request, the frame and the number of its answer."""
        self.recent: list[_Recent] = []
        """All others that were answered lately."""
        self.traps: dict[Key, Request] = {}
        self.asked: dict[tuple[int, int, Address], tuple[Key, int]] = {}
        """Open LID-routed requests by class, transaction and requester; with the hash of these three."""
        self.transfers = Transfers()
        self.dropped = (Dropped("requests without an answer"), self.transfers.dropped)
        self.answers = 0
        """Answers seen at all: without one, the capture shows one direction only."""
        self.first_ns = self.last_ns = 0

    def feed(self, table: ChunkTable) -> Iterator[object]:
        """Take in a chunk; yields what happened in frame order, then all answers that found their requests."""
        if len(table):
            self.first_ns = self.first_ns or int(table.chunk.time_ns[0])
            self.last_ns = int(table.chunk.time_ns[-1])
        mads = table.once(Datagrams)
        if len(mads):
            yield from self._chunk(mads)
        yield from self._expire()

    def open_requests(self) -> Iterator[Request]:
        """Requests without an answer so far, oldest first."""
        waiting = self.waiting
        if waiting is None:
            yield from self.open.values()
        else:
            yield from sorted((*self.open.values(), *_requests(waiting)), key=_age)

    def give_up(self) -> None:
        """Wait for no answer any more."""
        self.open.clear()
        self.waiting = None

    def _chunk(self, mads: Datagrams) -> Iterator[object]:
        early = 0
        if self.waiting is not None:
            mads, early = mads.behind(self.waiting), len(self.waiting)
        role, segments = _roles(mads)
        segments[:early] = False  # taken already
        columns = mads.keys((mads.method >= RESPONSE_BIT) | (mads.method == TRAP_REPRESS))
        marks, askers = mark(columns), mark(_asker(columns))
        waited = np.array([request.mark for request in self.open.values()], np.uint64)
        pairs = self._sure(pair(marks, columns, role, waited), role == ANSWERS, askers)
        before, ordinals = self.answers, np.cumsum(role == ANSWERS) + self.answers
        self._recall(marks[pairs.rest[role[pairs.rest] == ANSWERS]])
        alone = np.zeros(len(mads), np.bool_)
        alone[pairs.rest] = True
        index = np.flatnonzero(alone | segments)
        found: list[tuple[int, Request]] = []
        if len(index):
            each = Listed(mads, index, marks, askers)
            matters, numbers = alone[index].tolist(), ordinals[index].tolist()
            for i in range(len(each)):
                self.answers = numbers[i]
                if each.rmpp_type[i] and index[i] >= early:
                    yield from self.transfers.take(each, i)
                if matters[i]:
                    yield from self._take(each, i, found)
        self.answers = before if not len(ordinals) else int(ordinals[-1])
        self._remember(mads, pairs, marks, ordinals)
        yield from self._wait(mads, pairs.waits)
        if alone[:early].any():
            self.open = dict(sorted(self.open.items(), key=lambda entry: _age(entry[1])))
        self.asked = {asker: known for asker, known in self.asked.items() if known[0] in self.open}
        if len(pairs.answers) or found:
            yield answered(mads, pairs, index, found)

    def _sure(self, pairs: Pairs, answering: Bool, askers: U64) -> Pairs:
        """Pairs without those whose request an answer from elsewhere may be for; these go one by one."""
        lone = pairs.rest[answering[pairs.rest]]
        known = np.array([hashed for _, hashed in self.asked.values()], np.uint64)
        doubtful, waits = among(askers[pairs.requests], np.append(askers[lone], known)), among(askers[pairs.waits], askers[lone])
        if not doubtful.any() and not waits.any():
            return pairs
        rest = np.concatenate([pairs.rest, pairs.requests[doubtful], pairs.answers[doubtful], pairs.waits[waits]])
        return Pairs(pairs.requests[~doubtful], pairs.answers[~doubtful], pairs.waits[~waits], np.sort(rest))

    def _wait(self, mads: Datagrams, index: Int) -> Iterator[MadEvent]:
        """Keep the latest requests that may be answered later."""
        over = max(0, len(index) - MAX_OPEN)
        for gone in _requests(mads.take(index[:over])):
            self.dropped[0].add(gone.frame, gone.time_ns)
            yield Unanswered(gone.frame, gone.time_ns, gone)
        self.waiting = mads.take(index[over:]) if len(index) else None

    def _recall(self, marks: U64) -> None:
        """Look up what answers without request may repeat."""
        for recent in self.recent if len(marks) else ():
            hits = np.flatnonzero(among(recent.marks, marks))
            requests = Listed(recent.requests, hits)
            for i, k in enumerate(hits.tolist()):
                key, ordinal = _key(requests, i, False), int(recent.ordinals[k])
                known = self.answered.get(key)
                if known is None or known[2] < ordinal:
                    self._keep(key, request_of(requests, i), int(recent.frames[k]), ordinal)

    def _keep(self, key: Key, request: Request, frame: int, ordinal: int) -> None:
        self.answered.pop(key, None)
        if len(self.answered) >= MAX_ANSWERED:
            self.answered.pop(next(iter(self.answered)))
        self.answered[key] = request, frame, ordinal

    def _remember(self, mads: Datagrams, pairs: Pairs, marks: U64, ordinals: Int) -> None:
        """Keep the latest requests that were matched by columns, and forget what is too old."""
        oldest = self.answers - MAX_ANSWERED
        late = ordinals[pairs.answers] > oldest
        if late.any():
            requests, answers = pairs.requests[late], pairs.answers[late]
            self.recent.append(_Recent(mads.take(requests), marks[requests], mads.frames[answers], ordinals[answers]))
        self.recent = [recent for recent in self.recent if recent.ordinals[-1] > oldest]

    def _take(self, mads: Listed, i: int, found: list[tuple[int, Request]]) -> Iterator[MadEvent]:
        method = mads.method[i]
        if method & RESPONSE_BIT:
            yield from self._answer(mads, i, found)
        elif method in ASKS:
            yield from self._ask(mads, i)
        elif method == TRAP:
            self._trap(mads, i)
        else:
            yield from self._repress(mads, i)

    def _ask(self, mads: Listed, i: int) -> Iterator[MadEvent]:
        key = _key(mads, i, False)
        before = self.open.get(key)
        if before is not None:
            same = (before.method, before.attribute, before.modifier) == (mads.method[i], mads.attribute[i], mads.modifier[i])
            if same and mads.times[i] - before.last_ns < PATIENCE_NS:
                before.tries += 1
                before.last_frame, before.last_ns = mads.frames[i], mads.times[i]
                return
            del self.open[key]
            yield Unanswered(before.frame, before.time_ns, before)
        elif len(self.open) >= MAX_OPEN:
            gone = self.open.pop(next(iter(self.open)))
            self.dropped[0].add(mads.frames[i], mads.times[i])
            yield Unanswered(gone.frame, gone.time_ns, gone)
        self.open[key] = request_of(mads, i)
        self.open[key].alone = before is None
        if mads.mgmt_class[i] != DIRECTED:
            if len(self.asked) >= MAX_OPEN:
                self.asked.pop(next(iter(self.asked)))
                self.dropped[0].add(mads.frames[i], mads.times[i])
            self.asked[mads.mgmt_class[i], mads.transaction[i], mads.source[i]] = key, mads.askers[i]

    def _answer(self, mads: Listed, i: int, found: list[tuple[int, Request]]) -> Iterator[MadEvent]:
        key = _key(mads, i, True)
        frame, time_ns = mads.frames[i], mads.times[i]
        request = self.open.pop(key, None)
        if request is not None:
            self._keep(key, request, frame, self.answers)
            found.append((i, request))
            return
        known = self.answered.get(key)
        if known is not None and self.answers - known[2] <= MAX_ANSWERED:
            yield AnsweredAgain(frame, time_ns, known[0], known[1])
            return
        trap = self.traps.get(key)
        if trap is not None and mads.transaction[i]:
            yield TrapAnswered(frame, time_ns, trap, mads.method[i])
            return
        other = self.asked.get((mads.mgmt_class[i], mads.transaction[i], mads.destination[i]))
        request = self.open.get(other[0]) if other is not None else None
        if request is not None and request.attribute == mads.attribute[i] and mads.method[i] in RESPONSE_OF[request.method]:
            yield AnsweredFromElsewhere(frame, time_ns, request, mads.source[i])

    def _trap(self, mads: Listed, i: int) -> None:
        key = _key(mads, i, False)
        if len(self.traps) >= MAX_TRAPS:
            self.traps.pop(next(iter(self.traps)))
            self.dropped[0].add(mads.frames[i], mads.times[i])
        self.traps.pop(key, None)
        self.traps[key] = request_of(mads, i)

    def _repress(self, mads: Listed, i: int) -> Iterator[MadEvent]:
        if _key(mads, i, True) not in self.traps:
            yield RepressAlone(mads.frames[i], mads.times[i], request_of(mads, i))

    def _expire(self) -> Iterator[MadEvent]:
        """Give up what is over; the dictionary is in the order of first tries."""
        over: list[Request] = []
        for key, request in list(self.open.items()):
            if self.last_ns - request.time_ns < PATIENCE_NS:
                break
            if self.last_ns - request.last_ns >= PATIENCE_NS:
                del self.open[key]
                over.append(request)
        if self.waiting is not None:
            late = self.last_ns - self.waiting.times >= PATIENCE_NS
            if late.any():
                over += _requests(self.waiting.take(np.flatnonzero(late)))
                self.waiting = self.waiting.take(np.flatnonzero(~late))
        for request in sorted(over, key=_age):
            yield Unanswered(request.frame, request.time_ns, request)


def _age(request: Request) -> int:
    return request.frame


def _requests(mads: Datagrams) -> list[Request]:
    each = Listed(mads, np.arange(len(mads)), mark(mads.keys(np.zeros(len(mads), np.bool_))))
    return [request_of(each, i) for i in range(len(each))]


def _role_of_method() -> npt.NDArray[np.uint8]:
    role = np.full(256, NOTHING, np.uint8)
    role[list(ASKS)] = ASKING
    role[[TRAP, TRAP_REPRESS]] = OTHER
    role[RESPONSE_BIT:] = ANSWERS
    return role


_ROLES = _role_of_method()


def _roles(mads: Datagrams) -> tuple[npt.NDArray[np.uint8], Bool]:
    """What each datagram is to the matching, and whether it belongs to a multi-packet transfer."""
    role, kind = _ROLES[mads.method], mads.rmpp_type
    segments = kind != 0
    if segments.any():
        # What follows the first segment belongs to the same request or answer.
        role[segments & ((kind != DATA) | (mads.segment > 1))] = NOTHING
    other = mads.mgmt_class == CM_CLASS
    role[other] = NOTHING
    return role, segments & ~other


def _asker(columns: list[U64]) -> list[U64]:
    """Of the key columns: class, transaction and requester."""
    return [columns[0] & np.uint64(0xFFFF), *columns[1:3], *columns[4:5]]


def _key(mads: Listed, i: int, back: bool) -> Key:
    mgmt_class, transaction = mads.mgmt_class[i], mads.transaction[i]
    if mgmt_class == DIRECTED:
        return mgmt_class, transaction, mads.routes[i]
    ends = (mads.destination[i], mads.source[i]) if back else (mads.source[i], mads.destination[i])
    return mgmt_class, transaction, *ends


MadEvent.source = AnsweredMany.source = TransferEvent.source = Transactions

__all__ = [
    "Answered", "AnsweredAgain", "AnsweredFromElsewhere", "AnsweredMany", "MadEvent", "RepressAlone", "Request", "Transactions",
    "TrapAnswered", "Unanswered",
]  # fmt: skip
