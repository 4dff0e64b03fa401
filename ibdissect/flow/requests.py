"""What happened to management requests: answered, unanswered, answered again or from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ibdissect.record import record
from ibdissect.table.locate import Bool, Int

from .datagrams import LID_SIZE, Address, Datagrams, Listed, address_text
from .pairs import Pairs


@record(eq=True, frozen=False)
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
    mark: int
    """Hash of what it has in common with its answer."""
    tries: int = 1
    alone: bool = True
    """Nothing of its transaction waited for an answer when it came."""

    @property
    def to(self) -> str:
        """Where it went, as text."""
        if self.route is None:
            return address_text(self.target)
        return "route " + ",".join(map(str, (0, *self.route[4:])))


@record
class MadEvent:
    """Something that happened to a management transaction."""

    source: ClassVar[type[Any]]
    """The follower that raises it."""
    frame: int
    time_ns: int
    request: Request


@record
class Answered:
    """A request and its answer found each other; `frame` is the answer's. One of `AnsweredMany`."""

    frame: int
    time_ns: int
    request: Request
    method: int
    status: int

    @property
    def latency_ns(self) -> int:
        """Time from the latest try to the answer."""
        return self.time_ns - self.request.last_ns


@record
class AnsweredMany:
    """All answers of a chunk that found their requests, as arrays of one length in frame order; comes behind the chunk's other events."""

    source: ClassVar[type[Any]]
    """The follower that raises it."""
    frames: Int
    """Of the answers."""
    times_ns: Int
    method: npt.NDArray[np.uint8]
    """Of the answers."""
    status: npt.NDArray[np.uint16]
    mgmt_class: npt.NDArray[np.uint8]
    request_method: npt.NDArray[np.uint8]
    attribute: npt.NDArray[np.uint16]
    """Of the requests."""
    request_frames: Int
    """First tries."""
    last_frames: Int
    """Latest tries, from which the answers' times count."""
    latency_ns: Int
    singles: dict[int, Request]
    """Requests that were followed one by one, by place."""
    mads: Datagrams
    asked: Int
    """Index into the datagrams of all other requests."""

    def __len__(self) -> int:
        return len(self.frames)

    def targets(self) -> Int:
        """LIDs that the requests went to, 0 for none, -1 for GIDs and IP addresses."""
        to = self.mads.destination.take(self.asked)
        found = np.where(to.size == LID_SIZE, to.low.astype(np.int64), -1)
        for k, request in self.singles.items():
            found[k] = request.target if isinstance(request.target, int) else -1
        return found

    def each(self) -> Iterator[Answered]:
        """All, one by one."""
        return self.some(np.ones(len(self), np.bool_))

    def some(self, wanted: Bool) -> Iterator[Answered]:
        """Those that are wanted, bool[n], one by one."""
        index = np.flatnonzero(wanted)
        requests = Listed(self.mads, self.asked[index])
        columns = (index, self.frames[index], self.times_ns[index], self.method[index], self.status[index])
        for i, (k, frame, time_ns, method, status) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            yield Answered(frame, time_ns, self.singles.get(k) or request_of(requests, i), method, status)


@record
class Unanswered(MadEvent):
    """Nobody answered; `frame` is the first try."""


@record
class AnsweredAgain(MadEvent):
    """A second answer to the same request; `before` is the frame of the first."""

    before: int


@record
class AnsweredFromElsewhere(MadEvent):
    """An answer came from another address than the one asked."""

    sender: Address


@record
class TrapAnswered(MadEvent):
    """A Trap was answered by something else than TrapRepress; `request` is the trap."""

    method: int


@record
class RepressAlone(MadEvent):
    """A TrapRepress for no trap that was seen; `request` is the TrapRepress."""


def request_of(mads: Listed, i: int) -> Request:
    """The request that datagram `i` is."""
    frame, time_ns = mads.frames[i], mads.times[i]
    return Request(
        frame, time_ns, mads.mgmt_class[i], mads.method[i], mads.attribute[i], mads.modifier[i], mads.source[i], mads.destination[i],
        mads.routes[i], frame, time_ns, mads.marks[i],
    )  # fmt: skip


def answered(mads: Datagrams, pairs: Pairs, index: Int, found: list[tuple[int, Request]]) -> AnsweredMany:
    """The pairs, and those found one by one: places in `index` and requests."""
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
