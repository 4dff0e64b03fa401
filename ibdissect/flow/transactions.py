"""Which management request was answered by which datagram, when, and which never?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from ibdissect.table.table import ChunkTable
from ibdissect.wire.mad import RESPONSE_OF

from .datagrams import DIRECTED, Address, Datagrams, address_text
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
MAX_OPEN, MAX_ANSWERED, MAX_TRAPS = 65536, 4096, 4096
Key = tuple[Any, ...]
"""Class, transaction id, and the way there: requester and target, or the directed route."""


@dataclass(slots=True)
class Request:
    """A request that waits for its answer."""

    frame: int
    time_ns: int
    mgmt_class: int
    method: int
    attribute: int
    modifier: int
    source: Address
    target: Address
    route: bytes | None
    """Directed route behind the origin; None for LID-routed ones."""
    last_frame: int
    last_ns: int
    tries: int = 1

    @property
    def to(self) -> str:
        """Where it went, as text."""
        if self.route is None:
            return address_text(self.target)
        return "route " + ",".join(map(str, (0, *self.route[4:])))


@dataclass(frozen=True, slots=True)
class MadEvent:
    """Something that happened to a management transaction."""

    source: ClassVar[type[Any]]
    """The follower that raises it."""
    frame: int
    time_ns: int
    request: Request


@dataclass(frozen=True, slots=True)
class Answered(MadEvent):
    """A request and its answer found each other; `frame` is the answer's."""

    method: int
    status: int

    @property
    def latency_ns(self) -> int:
        """Time from the latest try to the answer."""
        return self.time_ns - self.request.last_ns


@dataclass(frozen=True, slots=True)
class Unanswered(MadEvent):
    """Nobody answered; `frame` is the first try."""


@dataclass(frozen=True, slots=True)
class AnsweredAgain(MadEvent):
    """A second answer to the same request; `before` is the frame of the first."""

    before: int


@dataclass(frozen=True, slots=True)
class AnsweredFromElsewhere(MadEvent):
    """An answer came from another address than the one asked."""

    sender: Address


@dataclass(frozen=True, slots=True)
class TrapAnswered(MadEvent):
    """A Trap was answered by something else than TrapRepress; `request` is the trap."""

    method: int


@dataclass(frozen=True, slots=True)
class RepressAlone(MadEvent):
    """A TrapRepress for no trap that was seen; `request` is the TrapRepress."""


class Transactions:
    """Matches requests and answers. One per capture; chunks in order, then `open_requests` for the end."""

    def __init__(self) -> None:
        self.open: dict[Key, Request] = {}
        self.answered: dict[Key, tuple[Request, int]] = {}
        """Answered lately: the request, and the frame of its answer."""
        self.traps: dict[Key, Request] = {}
        self.asked: dict[tuple[int, int, Address], Key] = {}
        """Open LID-routed requests by class, transaction and requester."""
        self.transfers = Transfers()
        self.answers = 0
        """Answers seen at all: without one, the capture shows one direction only."""
        self.first_ns = self.last_ns = 0

    def feed(self, table: ChunkTable) -> Iterator[object]:
        """Take in a chunk; yields what happened, in frame order."""
        if len(table):
            self.first_ns = self.first_ns or int(table.chunk.time_ns[0])
            self.last_ns = int(table.chunk.time_ns[-1])
        mads = Datagrams(table)
        for i in range(len(mads)):
            if mads.mgmt_class[i] == CM_CLASS:
                continue
            kind = mads.rmpp_type[i]
            if kind:
                yield from self.transfers.take(mads, i)
                if kind != DATA or mads.segment[i] > 1:
                    continue  # what follows the first segment belongs to the same request or answer
            method = mads.method[i]
            if method & RESPONSE_BIT:
                yield from self._answer(mads, i)
            elif method in ASKS:
                yield from self._ask(mads, i)
            elif method == TRAP:
                self._trap(mads, i)
            elif method == TRAP_REPRESS:
                yield from self._repress(mads, i)
        yield from self._expire()

    def open_requests(self) -> Iterator[Request]:
        """Requests without an answer so far, oldest first."""
        yield from self.open.values()

    def _key(self, mads: Datagrams, i: int, back: bool) -> tuple[Key, bytes | None]:
        mgmt_class, transaction = mads.mgmt_class[i], mads.transaction[i]
        if mgmt_class == DIRECTED:
            route = mads.route(i)
            return (mgmt_class, transaction, route), route
        ends = (mads.destination[i], mads.source[i]) if back else (mads.source[i], mads.destination[i])
        return (mgmt_class, transaction, *ends), None

    def _request(self, mads: Datagrams, i: int, route: bytes | None) -> Request:
        frame, time_ns = mads.frames[i], mads.times[i]
        return Request(
            frame, time_ns, mads.mgmt_class[i], mads.method[i], mads.attribute[i], mads.modifier[i], mads.source[i], mads.destination[i],
            route, frame, time_ns,
        )  # fmt: skip

    def _ask(self, mads: Datagrams, i: int) -> Iterator[MadEvent]:
        key, route = self._key(mads, i, False)
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
            yield Unanswered(gone.frame, gone.time_ns, gone)
        self.open[key] = self._request(mads, i, route)
        if route is None:
            if len(self.asked) >= MAX_OPEN:
                self.asked.pop(next(iter(self.asked)))
            self.asked[mads.mgmt_class[i], mads.transaction[i], mads.source[i]] = key

    def _answer(self, mads: Datagrams, i: int) -> Iterator[MadEvent]:
        self.answers += 1
        key, _ = self._key(mads, i, True)
        frame, time_ns = mads.frames[i], mads.times[i]
        request = self.open.pop(key, None)
        if request is not None:
            if len(self.answered) >= MAX_ANSWERED:
                self.answered.pop(next(iter(self.answered)))
            self.answered.pop(key, None)
            self.answered[key] = request, frame
            yield Answered(frame, time_ns, request, mads.method[i], mads.status[i])
            return
        known = self.answered.get(key)
        if known is not None:
            yield AnsweredAgain(frame, time_ns, *known)
            return
        trap = self.traps.get(key)
        if trap is not None and mads.transaction[i]:
            yield TrapAnswered(frame, time_ns, trap, mads.method[i])
            return
        other = self.asked.get((mads.mgmt_class[i], mads.transaction[i], mads.destination[i]))
        request = self.open.get(other) if other is not None else None
        if request is not None and request.attribute == mads.attribute[i] and mads.method[i] in RESPONSE_OF[request.method]:
            yield AnsweredFromElsewhere(frame, time_ns, request, mads.source[i])

    def _trap(self, mads: Datagrams, i: int) -> None:
        key, route = self._key(mads, i, False)
        if len(self.traps) >= MAX_TRAPS:
            self.traps.pop(next(iter(self.traps)))
        self.traps.pop(key, None)
        self.traps[key] = self._request(mads, i, route)

    def _repress(self, mads: Datagrams, i: int) -> Iterator[MadEvent]:
        key, route = self._key(mads, i, True)
        if key not in self.traps:
            yield RepressAlone(mads.frames[i], mads.times[i], self._request(mads, i, route))

    def _expire(self) -> Iterator[MadEvent]:
        """Give up what is over; the dictionary is in the order of first tries."""
        for key, request in list(self.open.items()):
            if self.last_ns - request.time_ns < PATIENCE_NS:
                break
            if self.last_ns - request.last_ns >= PATIENCE_NS:
                del self.open[key]
                yield Unanswered(request.frame, request.time_ns, request)


MadEvent.source = TransferEvent.source = Transactions
