"""Management requests matched with their answers, and requests that were never answered."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import zip_longest
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict, Dropped, KeptList
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.addresses import LID_SIZE, End
from ibdissect.decode.equal_rows import U64, is_in, mix
from ibdissect.decode.history import AFTER_ALL, SECOND_NS
from ibdissect.decode.identity import Frame, Mark
from ibdissect.wire.mad import RESPONSE_OF
from ibdissect.wire.numbers import DIRECTED, LID_ROUTED, RESPONSE_BIT, SET, TRAP, TRAP_REPRESS

from . import request_outcomes as requests
from .datagrams import ASKS, GIDS_AT, DatagramLists, Datagrams
from .loss_times import MissedPackets
from .request_outcomes import Request, request_of
from .rmpp import OpenTransfers, RmppMessage, Transfer, TransferEvent
from .single_answers import ANSWER, Pairs, pair, roles

RETRY_NS = 10_000_000_000
"""After this time, the same request is a new one, not a retry. An answer counts however late it is."""
MAX_OPEN = 32768
"""Requests that wait for an answer: those kept as columns, and as many that are processed one by one. The oldest is given up first."""
MAX_TRAPS, MAX_UNMATCHED, MAX_GIVEN_UP = 4096, 4096, 16384
"""Traps remembered, and answers without a request."""
MAX_TARGETS = 8
"""Open requests remembered of one requester with one transaction id, to different targets."""
SWAPPED, SWAPPED_NS = 64, 10_000_000
"""A request may be recorded at most this much after its answer, as captures from several queues change the order."""
MAX_ANSWERED = 4096
"""Number of latest answers remembered, to recognise second answers."""
_FRAME = attrgetter("frame")
_ASKER = np.uint64((1 << GIDS_AT) - 1 & ~0xFF0000)
"""Bits of the first column of `Datagrams.keys` that do not depend on the target, nor on a GRH, which one direction may lack."""
Key = tuple[Any, ...]
"""Class, transaction id, and either requester and target with their GIDs, or the directed route."""


class _AnsweredRequest(NamedTuple):
    request: Request
    frame: int
    """Frame of the answer."""
    ordinal: int
    """Ordinal number of the answer."""


class _LoneAnswer(NamedTuple):
    """An answer without a request so far."""

    frame: int
    time_ns: int
    mark: int
    """Hash that is equal for a request and its answer."""
    missed: bool
    """Whether it counts in `Transactions.missed`."""


class _Recent(Record, frozen=True, eq=False):
    """The latest answered requests of a chunk that were matched by columns, to recognise second answers."""

    requests: Datagrams
    marks: U64
    frames: Int
    """Frames of the answers."""
    ordinals: Int
    """Ordinal numbers of the answers."""


class Transactions:
    """Matches requests with answers. One per capture; feed chunks in order, then call `open_requests`.

    Clean transactions are matched by columns (`pairs`), and requests that wait for a later chunk are kept as columns. The
    rest is processed one by one: requests with another try, answers without request, traps.
    """

    def __init__(self) -> None:
        dropped = Dropped("requests without an answer")
        self.open = BoundedDict[Key, Request](MAX_OPEN, dropped)
        """Open requests that are processed one by one, oldest first."""
        self.waiting: Datagrams | None = None
        """All other open requests."""
        self.answered = BoundedDict[Key, _AnsweredRequest](MAX_ANSWERED)
        """Latest answered requests that were processed one by one."""
        self.recent: list[_Recent] = []
        """All other latest answered requests."""
        self.traps = BoundedDict[Key, Request](MAX_TRAPS, dropped)
        self.by_asker = BoundedDict[Mark, tuple[Key, ...]](MAX_OPEN, dropped)
        """By hash of class, transaction and requester: the requester's latest open LID-routed requests."""
        self.unmatched = BoundedDict[Key, _LoneAnswer](MAX_UNMATCHED)
        """Latest answers without a request, which may be recorded after its answer."""
        self.lone_answers = BoundedDict[Frame, Request](MAX_TRAPS)
        """The latest answers whose request is not in the capture, by frame."""
        self.superseded = KeptList[Request](MAX_GIVEN_UP, "Sets without an answer")
        """Sets that were given up, because their sender used the transaction id again or too many were open."""
        self.given_up = KeptList[Request](MAX_GIVEN_UP, "requests without an answer that were given up")
        """All other such requests."""
        self.missed = MissedPackets("answers without a request")
        """Times of answers whose request is not in the capture."""
        self.first_match = AFTER_ALL
        """Frame of the first matched answer; earlier answers may belong to requests from before the capture."""
        self.transfers = OpenTransfers(Transfer)
        self.dropped = (dropped, self.transfers.dropped, self.transfers.missed.dropped, self.missed.dropped)
        self.answers = 0
        """Number of answers seen."""
        self.paired = 0
        """Number of answers whose requests the capture shows, too."""
        self.swapped = 0
        """Number of answers that were recorded before their requests, and of copies of requests that were recorded after the answers."""
        self.matched: requests.AnsweredMany | None = None
        """The matched answers of the present chunk; None if there are none."""

    def feed(self, table: ChunkTable) -> Iterator[object]:
        """Process a chunk; yields its events in frame order, then all matched answers."""
        mads = table.once(Datagrams)
        self.matched = None
        if len(mads):
            yield from self._chunk(mads)

    def open_requests(self, mgmt_class: int | None = None) -> Iterator[Request]:
        """Unanswered requests so far, of one management class or all, oldest first."""
        every = (one for request in self.open.values() for one in request.unanswered() if mgmt_class in (None, one.mgmt_class))
        found = [*every]
        if self.waiting is not None:
            index = np.flatnonzero((self.waiting.mgmt_class == mgmt_class) | (mgmt_class is None))
            found += _requests(self.waiting.take(index)) if len(index) else ()
        yield from sorted(found, key=_FRAME)

    def all_given_up(self, mgmt_class: int | None = None) -> list[Request]:
        """Requests that were given up, of one management class or all, oldest first."""
        return sorted((one for one in (*self.superseded, *self.given_up) if mgmt_class in (None, one.mgmt_class)), key=_FRAME)

    def repeated(self) -> dict[Frame, Frame]:
        """First and last frames of unanswered requests that repeat an answered one: copies of another mirror, or retries."""
        return {request.frame: request.last_frame for request in self.open.values() if request.repeats}

    def missed_requests(self) -> Iterator[int]:
        """Times of answers without a request, between a request that is never answered and the first matched answer.

        Senders ask in turn, so the requests of these answers were sent after the capture began: it misses packets.
        """
        first = next(self.open_requests(), None)
        if first is not None:
            yield from (one.time_ns for one in self.unmatched.values() if first.frame < one.frame < self.first_match)

    def answered_early(self, asked: Iterable[Request]) -> set[Frame]:
        """Frames of LID-routed requests with an answer of their transaction that nobody asked for, recorded before them: clocks may differ.

        The interface of the answer may not have been known to show the same network yet.
        """
        early = {(*key[:2], key[2].address, key[3].address): known.frame for key, known in self.unmatched.items() if key[0] != DIRECTED}
        keys = ((one.mgmt_class, one.transaction, one.source.address, one.target.address, one.frame) for one in asked if one.route is None)
        return {frame for *key, frame in keys if early.get(tuple(key), frame) < frame}

    def answers_to(self, frames: Collection[int]) -> Iterator[requests.Answered]:
        """The answers in the present chunk to the requests that were first sent in some frames."""
        if self.matched is not None and frames:
            yield from self.matched.some(np.isin(self.matched.request_frames, list(frames)))

    def give_up(self) -> None:
        """Stop waiting for answers."""
        self.open.clear()
        self.waiting = None

    def _chunk(self, mads: Datagrams) -> Iterator[object]:
        before, late = 0, self._recorded_behind(int(mads.frames[0]), int(mads.times.min()))
        if self.waiting is not None:
            mads, before = mads.preceded_by(self.waiting), len(self.waiting)
        role, segments = roles(mads)
        segments[:before] = False  # requests of earlier chunks: already processed
        columns = mads.keys((mads.method >= RESPONSE_BIT) | (mads.method == TRAP_REPRESS))
        marks, askers = (
            mix(columns),
            mix([columns[0] & _ASKER, *columns[1:3], *columns[4:5]]),
        )  # class, transaction, requester
        waited = np.array([*late, *(request.mark for request in self.open.values())], np.uint64)
        pairs = self._sure(pair(marks, columns, role, waited), role == ANSWER, askers)
        pairs = self._not_swapped(mads, pairs, role == ANSWER, marks)
        if len(pairs.waits):  # those that may repeat an answered request
            singly = np.array([known.request.mark for known in self.answered.values()], np.uint64)
            pairs = pairs.without(is_in(marks[pairs.waits], np.concatenate([*(recent.marks for recent in self.recent), singly])))
        if len(pairs.answers):
            self.first_match = min(self.first_match, int(mads.frames[pairs.answers[0]]))
        ordinals = np.cumsum(role == ANSWER) + self.answers
        last = int(ordinals[-1]) if len(ordinals) else self.answers
        self._remember(mads, pairs, marks, ordinals, last)
        self._recall(marks[pairs.rest])
        one_by_one = np.zeros(len(mads), np.bool_)
        one_by_one[pairs.rest] = True
        index = np.flatnonzero(one_by_one | segments)
        found: list[tuple[int, Request]] = []
        if len(index):
            each = DatagramLists(mads, index, marks, askers)
            matters, numbers = one_by_one[index].tolist(), ordinals[index].tolist()
            for i in range(len(each)):
                self.answers = numbers[i]
                if each.rmpp_type[i] and index[i] >= before:
                    yield from self.transfers.take(_message(each, i))
                if matters[i]:
                    yield from self._take(each, i, found)
        self.answers = last
        yield from self._wait(mads, pairs.waits)
        if one_by_one[:before].any():
            for key, _ in sorted(self.open.items(), key=lambda entry: entry[1].frame):
                self.open.move_to_end(key)
        for asker in [asker for asker, keys in self.by_asker.items() if self.open.keys().isdisjoint(keys)]:
            del self.by_asker[asker]
        if len(pairs.answers) or found:
            self.matched = requests.combined_answers(mads, pairs, index, found)
            self.paired += len(self.matched.frames)
            yield self.matched

    def _sure(self, pairs: Pairs, answering: Bool, askers: U64) -> Pairs:
        """Leave a pair to the exact matching (`rest`) if another responder may have answered its request."""
        lone = pairs.rest[answering[pairs.rest]]
        known = np.fromiter(self.by_asker, np.uint64, len(self.by_asker))
        doubtful, waits = is_in(askers[pairs.requests], np.append(askers[lone], known)), is_in(askers[pairs.waits], askers[lone])
        if not doubtful.any() and not waits.any():
            return pairs
        rest = np.concatenate([pairs.rest, pairs.requests[doubtful], pairs.answers[doubtful], pairs.waits[waits]])
        return Pairs(pairs.requests[~doubtful], pairs.answers[~doubtful], pairs.waits[~waits], np.sort(rest))

    @staticmethod
    def _not_swapped(mads: Datagrams, pairs: Pairs, answering: Bool, marks: U64) -> Pairs:
        """Move open requests to `rest` if an answer without a request has the same addresses: it may be recorded before its request."""
        lone = pairs.rest[answering[pairs.rest]]
        lone = lone[mads.mgmt_class[lone] != DIRECTED]
        if not len(lone) or not len(pairs.waits):
            return pairs
        return pairs.without(is_in(marks[pairs.waits], mix(mads.take(lone).keys(np.zeros(len(lone), np.bool_)))))

    def _wait(self, mads: Datagrams, index: Int) -> Iterator[requests.MadEvent]:
        """Keep the latest requests that may be answered in a later chunk; yields evicted ones as unanswered."""
        over = max(0, len(index) - MAX_OPEN)
        for gone in _requests(mads.take(index[:over])):
            self.dropped[0].add(gone.frame, gone.time_ns)
            yield self._unanswered(gone)
        self.waiting = mads.take(index[over:]) if len(index) else None

    def _recall(self, marks: U64) -> None:
        """Find answered requests that answers without an open request may belong to, or that requests may repeat."""
        for recent in self.recent if len(marks) else ():
            hits = np.flatnonzero(is_in(recent.marks, marks))
            asked = DatagramLists(recent.requests, hits, recent.marks)
            for i, k in enumerate(hits.tolist()):
                key, ordinal = _key(asked, i, False), int(recent.ordinals[k])
                known = self.answered.get(key)
                if known is None or known.ordinal < ordinal:
                    self._keep(key, request_of(asked, i), int(recent.frames[k]), ordinal)

    def _keep(self, key: Key, request: Request, frame: int, ordinal: int) -> None:
        self.answered.pop(key, None)
        self.answered.put(key, _AnsweredRequest(request, frame, ordinal))

    def _remember(self, mads: Datagrams, pairs: Pairs, marks: U64, ordinals: Int, last: int) -> None:
        """Keep the latest requests that were matched by columns, and drop old ones; `last` is the number of answers up to now."""
        oldest = last - MAX_ANSWERED
        late = ordinals[pairs.answers] > oldest
        if late.any():
            asked, answers = pairs.requests[late], pairs.answers[late]
            self.recent.append(_Recent(mads.take(asked), marks[asked], mads.frames[answers], ordinals[answers]))
        self.recent = [recent for recent in self.recent if recent.ordinals[-1] > oldest]

    def _take(self, mads: DatagramLists, i: int, found: list[tuple[int, Request]]) -> Iterator[requests.MadEvent]:
        method = mads.method[i]
        if method & RESPONSE_BIT:
            yield from self._answer(mads, i, found)
        elif ASKS[method]:
            yield from self._ask(mads, i)
        elif method == TRAP:
            key = _key(mads, i, False)
            self.traps.pop(key, None)
            self.traps.put(key, request_of(mads, i), mads.frames[i], mads.times[i])
        elif _key(mads, i, True) not in self.traps:
            yield requests.RepressAlone(mads.frames[i], mads.times[i], request_of(mads, i))

    def _unanswered(self, request: Request) -> requests.Unanswered:
        """Stop waiting for an answer."""
        (self.superseded if request.method == SET else self.given_up).keep(request, request.frame, request.time_ns)
        return requests.Unanswered(request.frame, request.time_ns, request)

    def _ask(self, mads: DatagramLists, i: int) -> Iterator[requests.MadEvent]:
        key = _key(mads, i, False)
        before = self.open.get(key)
        if before is not None:
            if _same(before, mads, i) and mads.times[i] - before.last_ns < RETRY_NS:
                before.tries += 1
                before.last_frame, before.last_ns = mads.frames[i], mads.times[i]
                return
            del self.open[key]
        request = request_of(mads, i)
        request.only_one_open = before is None
        if before is not None and not before.settled:
            request.earlier = before
            *_, last, oldest_one = before, *before.chain()
            if len([*request.chain()]) > MAX_TARGETS:
                last.earlier = None
                yield self._unanswered(oldest_one)
        self._look_behind(key, request)
        done = self.answered.get(key)
        if done is not None and _same(done.request, mads, i) and mads.times[i] - done.request.last_ns < SECOND_NS:
            request.repeats = True
            self.swapped += mads.times[i] - done.request.last_ns <= SWAPPED_NS
        oldest = self.open.put(key, request, mads.frames[i], mads.times[i])
        for gone in oldest[1].unanswered() if oldest is not None else ():
            yield self._unanswered(gone)
        if mads.mgmt_class[i] != DIRECTED:
            others = (other for other in self.by_asker.get(mads.askers[i], ()) if other != key and other in self.open)
            self.by_asker.put(mads.askers[i], (*others, key)[-MAX_TARGETS:], mads.frames[i], mads.times[i])

    def _recorded_behind(self, frame: int, time_ns: int) -> list[int]:
        """Hashes of answers whose request may be recorded after them."""
        return [known.mark for known in self.unmatched.values() if _may_precede(known, frame, time_ns)]

    def _look_behind(self, key: Key, request: Request) -> None:
        """Set `answered_before` if the answer was recorded just before the request."""
        found = self.unmatched.get(key)
        if found is not None and _may_precede(found, request.frame, request.time_ns):
            del self.unmatched[key]
            if found.missed:
                self.missed.remove(found.time_ns)
                self.lone_answers.pop(found.frame, None)
                self.swapped += 1
                request.lone_answer = found.frame, found.time_ns
            request.answered_before = True

    def _answer(self, mads: DatagramLists, i: int, found: list[tuple[int, Request]]) -> Iterator[requests.MadEvent]:
        key = _key(mads, i, True)
        frame, time_ns = mads.frames[i], mads.times[i]
        key = key if key in self.open else self._with_grh(mads, i, key)
        request = self.open.get(key)
        if request is not None:
            request = self._answered_one(key, request, (mads.attribute[i], mads.modifier[i]))
            if request.lone_answer is not None and request.tries == 1:  # it was the answer to a request that the capture missed
                self.swapped -= 1
                self.missed.add(*request.lone_answer)
            self._keep(key, request, frame, self.answers)
            self.first_match = min(self.first_match, frame)
            found.append((i, request))
            return
        known = self.answered.get(key)
        again = known is not None and self.answers - known.ordinal <= MAX_ANSWERED
        self.unmatched.put(key, _LoneAnswer(frame, time_ns, mads.marks[i], missed=False))
        if known is not None and again:
            yield requests.AnsweredAgain(frame, time_ns, known.request, known.frame)
            return
        trap = self.traps.get(key)
        over = trap is not None and (trap.attribute != mads.attribute[i] or time_ns - trap.last_ns > RETRY_NS)
        if trap is not None and not over and (mads.transaction[i] or trap.mgmt_class == LID_ROUTED):
            yield requests.TrapAnswered(frame, time_ns, trap, mads.method[i])
            return
        asker = mads.mgmt_class[i], mads.transaction[i], mads.destination[i]
        mine = mads.destination[i]
        keys = (other for other in self.by_asker.get(mads.askers[i], ()) if other[:3] == asker and other in self.open)
        keys = (other for other in keys if not mine.gid or not other[4] or other[4] == mine.gid)
        request = max((self.open[other] for other in keys), key=_FRAME, default=None)
        if request is None and mads.mgmt_class[i] != DIRECTED:
            request = self.open.get(_key(mads, i, False))  # its addresses are not swapped
        if request is not None and request.attribute == mads.attribute[i] and mads.method[i] in RESPONSE_OF[request.method]:
            yield requests.AnsweredFromElsewhere(frame, time_ns, request, mads.source[i])
        elif frame > self.first_match:
            self.missed.add(frame, time_ns)
            self.lone_answers.put(frame, request_of(mads, i))
            self.unmatched.put(key, _LoneAnswer(frame, time_ns, mads.marks[i], missed=True))

    def _with_grh(self, mads: DatagramLists, i: int, key: Key) -> Key:
        """The key of the open request of an answer, if only one of them has a GRH; otherwise the answer's own."""
        if mads.mgmt_class[i] == DIRECTED:
            return key
        for other in reversed(self.by_asker.get(mads.askers[i], ())):
            if other[:4] == key[:4] and other in self.open and (not any(other[4:]) or not any(key[4:])):
                return other
        return key

    def _answered_one(self, key: Key, latest: Request, what: tuple[int, int]) -> Request:
        """Take the request that an answer belongs to: the oldest for the same attribute and modifier, otherwise the latest."""
        waiting = [*latest.chain()]
        found = next((one for one in reversed(waiting) if (one.attribute, one.modifier) == what), latest)
        waiting.remove(found)
        for one, earlier in zip_longest(waiting, waiting[1:]):
            one.earlier = earlier
        if not waiting:
            del self.open[key]
        elif found is latest:
            self.open[key] = waiting[0]
        found.earlier = None
        return found


def _same(request: Request, mads: DatagramLists, i: int) -> bool:
    """Whether a datagram asks for the same."""
    return (request.method, request.attribute, request.modifier) == (mads.method[i], mads.attribute[i], mads.modifier[i])


def _may_precede(answer: _LoneAnswer, frame: int, time_ns: int) -> bool:
    """Whether a request at this frame may have been sent before an answer that was recorded earlier."""
    return frame - answer.frame <= SWAPPED and time_ns - answer.time_ns <= SWAPPED_NS


def _requests(mads: Datagrams) -> list[Request]:
    each = DatagramLists(mads, np.arange(len(mads)), mix(mads.keys(np.zeros(len(mads), np.bool_))))
    return [request_of(each, i) for i in range(len(each))]


def _message(mads: DatagramLists, i: int) -> RmppMessage:
    return RmppMessage(
        mads.frames[i], mads.times[i], mads.source[i], mads.destination[i], mads.mgmt_class[i], mads.transaction[i], mads.method[i],
        mads.attribute[i], mads.rmpp_type[i], mads.rmpp_flags[i], 0, mads.segment[i], mads.data2[i],
    )  # fmt: skip


def _key(mads: DatagramLists, i: int, back: bool) -> Key:
    mgmt_class, transaction = mads.mgmt_class[i], mads.transaction[i]
    if mgmt_class == DIRECTED:
        return mgmt_class, transaction, mads.routes[i], mads.source[i][LID_SIZE:]  # a route means something within one network
    near, far = (mads.destination[i], mads.source[i]) if back else (mads.source[i], mads.destination[i])
    return mgmt_class, transaction, near, far, *_gids(near, far)


def _gids(near: End, far: End) -> tuple[bytes, bytes]:
    """The GIDs behind two LIDs, or none."""
    return (near.gid, far.gid) if near.lid is not None else (b"", b"")


requests.MadEvent.source = requests.AnsweredMany.source = TransferEvent.source = Transactions
