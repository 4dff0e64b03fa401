"""Outcomes of management requests, as events: answered, never answered, answered twice, or from another address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.decode import Bool, Int
from ibdissect.decode.addresses import End
from ibdissect.decode.identity import Index
from ibdissect.wire.catalog import Catalog

from .datagrams import DatagramLists, Datagrams
from .single_answers import Pairs


class Request(Record):
    """A management request that waits for its answer."""

    frame: int
    time_ns: int
    mgmt_class: int
    method: int
    attribute: int
    modifier: int
    source: End
    target: End
    route: bytes | None
    """LIDs of both ends and the directed route after the origin; None if LID-routed."""
    last_frame: int
    last_ns: int
    mark: int
    """Hash that is equal for a request and its answer."""
    transaction: int
    tries: int = 1
    only_one_open: bool = True
    """When it was sent, no other request of its transaction was open."""
    answered_before: bool = False
    """Its answer was recorded just before it, as the capture changed the order."""
    repeats: bool = False
    """The same request was answered less than a second before: this is the copy of another mirror, or a retry."""
    lone_answer: tuple[int, int] | None = None
    """Frame and time of that answer, if no other request is known for it."""
    earlier: Request | None = None
    """An earlier request of the same transaction that may still be answered."""

    @property
    def settled(self) -> bool:
        """Whether nothing is missing if no answer follows."""
        return self.answered_before or self.repeats

    def unanswered(self) -> Iterator[Request]:
        """This request and the earlier ones, oldest first, if unanswered."""
        yield from (one for one in reversed([*self.chain()]) if not one.settled)

    def chain(self) -> Iterator[Request]:
        """This request and the earlier ones with its key, latest first."""
        one: Request | None = self
        while one is not None:
            yield one
            one = one.earlier

    def what(self, catalog: Catalog) -> str:
        """`PerfGet(PortCounters)`."""
        return catalog.request_text(self.mgmt_class, self.method, self.attribute)

    @property
    def to(self) -> str:
        """Its destination as text."""
        if self.route is None:
            return str(self.target)
        return "route " + ",".join(map(str, (0, *self.route[4:])))


class MadEvent(Record, frozen=True, eq=False):
    """An event of a management transaction."""

    source: ClassVar[type[Any]]
    """The follower that emits it."""
    frame: int
    time_ns: int
    request: Request


class Answered(Record, frozen=True, eq=False):
    """A request was answered; `frame` is the answer's. One of `AnsweredMany`."""

    frame: int
    time_ns: int
    request: Request
    method: int
    status: int

    @property
    def latency_ns(self) -> int:
        """Time from the latest try to the answer."""
        return self.time_ns - self.request.last_ns


class AnsweredMany(Record, frozen=True, eq=False):
    """All matched answers of a chunk, as arrays of equal length in frame order; emitted after the chunk's other events."""

    source: ClassVar[type[Any]]
    """The follower that emits it."""
    frames: Int
    """Frames of the answers."""
    times_ns: Int
    method: npt.NDArray[np.uint8]
    """Methods of the answers."""
    status: npt.NDArray[np.uint16]
    mgmt_class: npt.NDArray[np.uint8]
    request_method: npt.NDArray[np.uint8]
    attribute: npt.NDArray[np.uint16]
    """Attributes of the requests."""
    request_frames: Int
    """Frames of the first tries."""
    last_frames: Int
    """Frames of the latest tries; latencies count from these."""
    latency_ns: Int
    singles: dict[Index, Request]
    """Requests that were processed one by one, by array index."""
    mads: Datagrams
    asked: Int
    """Index into `mads` of the requests that were matched by columns."""

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def by_columns(self) -> Int:
        """Indices of the answers that were matched by columns, whose requests are in `asked`; ascending."""
        return np.delete(np.arange(len(self)), list(self.singles))

    def each(self) -> Iterator[Answered]:
        """All of them, one by one."""
        return self.some(np.ones(len(self), np.bool_))

    def some(self, wanted: Bool) -> Iterator[Answered]:
        """Those selected by `wanted`, bool[n], one by one."""
        index = np.flatnonzero(wanted)
        requests = DatagramLists(self.mads, self.asked[index])
        columns = (index, self.frames[index], self.times_ns[index], self.method[index], self.status[index])
        for i, (k, frame, time_ns, method, status) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            yield Answered(frame, time_ns, self.singles.get(k) or request_of(requests, i), method, status)


class Unanswered(MadEvent, frozen=True):
    """A request was never answered; `frame` is the first try."""


class AnsweredAgain(MadEvent, frozen=True):
    """A request was answered a second time; `before` is the frame of the first answer."""

    before: int


class AnsweredFromElsewhere(MadEvent, frozen=True):
    """An answer came from an address other than the request's target."""

    sender: End


class TrapAnswered(MadEvent, frozen=True):
    """A Trap was answered by a method other than TrapRepress; `request` is the trap."""

    method: int


class RepressAlone(MadEvent, frozen=True):
    """A TrapRepress without a trap in the capture; `request` is the TrapRepress."""


def request_of(mads: DatagramLists, i: int) -> Request:
    """Datagram `i` as a request."""
    frame, time_ns = mads.frames[i], mads.times[i]
    return Request(
        frame, time_ns, mads.mgmt_class[i], mads.method[i], mads.attribute[i], mads.modifier[i], mads.source[i], mads.destination[i],
        mads.routes[i], frame, time_ns, mads.marks[i], mads.transaction[i],
    )  # fmt: skip


def combined_answers(mads: Datagrams, pairs: Pairs, index: Int, found: list[tuple[int, Request]]) -> AnsweredMany:
    """Combine matched pairs with answers found one by one: `found` has positions in `index`, and requests."""
    answers = np.concatenate([pairs.answers, index[[i for i, _ in found]]]) if found else pairs.answers
    order = np.argsort(answers, kind="stable")
    singles = [request for _, request in found]

    def both(column: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
        values = column[pairs.requests]
        if singles:
            values = np.append(values, np.array([getattr(request, name) for request in singles], values.dtype))
        return values[order]

    times = mads.times[answers][order]
    first = len(pairs.answers)
    where = {int(k): singles[int(order[k]) - first] for k in np.flatnonzero(order >= first)}
    return AnsweredMany(
        frames=mads.frames[answers][order], times_ns=times, method=mads.method[answers][order], status=mads.status[answers][order],
        mgmt_class=both(mads.mgmt_class, "mgmt_class"), request_method=both(mads.method, "method"),
        attribute=both(mads.attribute, "attribute"), request_frames=both(mads.frames, "frame"), last_frames=both(mads.frames, "last_frame"),
        latency_ns=times - both(mads.times, "last_ns"), singles=where, mads=mads,
        asked=np.append(pairs.requests, np.zeros(len(found), np.int64))[order],
    )  # fmt: skip
