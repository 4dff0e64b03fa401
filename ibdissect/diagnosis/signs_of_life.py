"""Other traffic between hosts when a connection fails: signs of life of the silent one, and sizes of packets that arrived there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct as Record

from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.identity import HostNumber
from ibdissect.wire.opcodes import SERVICES, UD

from .connections_from_lanes import Raw, text_of
from .phrases import duration

if TYPE_CHECKING:
    from ibdissect.engine.waiting_packets import Path

AGAIN_NS = 1_000_000_000
"""A host that is first seen again later than that may have been down meanwhile."""


class SignOfLife(Record, frozen=True):
    """A packet that shows that a host is up."""

    time_ns: int
    frame: int
    connection: bool = False
    """Whether it is of a connection, not a datagram."""
    peer: str = ""
    """The other host, where that matters."""

    def said(self, since_ns: int) -> str:
        """`frame 12, 4 s later`: than a time."""
        return f"frame {self.frame}" + (f", {duration(self.time_ns - since_ns)} later" if self.time_ns > since_ns else "")

    def again(self, since_ns: int) -> str:
        """That it may have been down before; empty if it is seen soon."""
        return ", or up again" if self.time_ns - since_ns > AGAIN_NS else ""


class Arrived(Record, frozen=True):
    """A packet that its receiver refused: it arrived."""

    size: int
    frame: int
    refused: int
    """The frame of the NAK."""


class Nearby:
    """Made once for a capture; hosts are numbers of the engine. It knows the first and the last packet of each lane, the messages of
    connection management, and the last answer of each connection."""

    def __init__(self, raws: Iterable[Raw] = ()) -> None:
        self._sent: dict[HostNumber, list[tuple[int, int, bool, int]]] = {}
        """Of each host: time, frame, whether of a connection, and which one (`id`)."""
        self._served: dict[HostNumber, list[tuple[int, int, str]]] = {}
        """Of each host: time and frame of answers to it, and who sent them."""
        self._arrived: dict[Path, Arrived] = {}
        for raw in raws:
            for side in (0, 1):
                self._lane(raw, side)
                self._half(raw, side)
            self._management(raw)
        for sent in self._sent.values():
            sent.sort()
        for answers in self._served.values():
            answers.sort()

    def _lane(self, raw: Raw, side: int) -> None:
        lane = raw.lanes[side]
        if lane is not None and lane.packets:
            connected = SERVICES.get(int(lane.service), "") != SERVICES[UD]
            for time, frame in ((lane.first_time, lane.first_frame), (lane.last_time, lane.last_frame)):
                self._keep(raw, side, int(time), int(frame), connected=connected)

    def _half(self, raw: Raw, side: int) -> None:
        half: Any = raw.half(side)
        if half is None:
            return
        if half.answers:
            seen = int(half.last_answer_time), int(half.last_answer), text_of(raw.hosts[1 - side])
            self._served.setdefault(raw.hosts[side].number, []).append(seen)
        if half.fatal_frame and half.fatal_request and half.fatal_size > 0:
            one, known = Arrived(int(half.fatal_size), int(half.fatal_request), int(half.fatal_frame)), self._arrived.get(half.path)
            self._arrived[half.path] = one if known is None else max(known, one, key=lambda each: each.size)

    def _management(self, raw: Raw) -> None:
        setup = raw.setup
        if setup is None:
            return
        of_asker = [*setup.reqs, *([setup.rtu] if setup.rtu is not None else [])]
        sent = [(0, *one) for one in of_asker] + ([(1, *setup.rep)] if setup.rep is not None else [])
        sent += [(setup.rej[3], *setup.rej[:2])] if setup.rej is not None else []
        for side, frame, time in sent + [(by, frame, time) for frame, time, by in setup.dreqs]:
            self._keep(raw, side, time, frame)

    def _keep(self, raw: Raw, side: int, time: int, frame: int, *, connected: bool = False) -> None:
        self._sent.setdefault(raw.hosts[side].number, []).append((time, frame, connected, id(raw)))

    def sent_after(self, raw: Raw, side: int, since_ns: int) -> SignOfLife | None:
        """The first packet that an end's host is known to send after a time, beside this connection; None: none is known."""
        found = self._sent.get(raw.hosts[side].number, [])
        for place in range(bisect_right(found, (since_ns, AFTER_ALL)), len(found)):
            time, frame, connected, of = found[place]
            if of != id(raw):
                return SignOfLife(time, frame, connected)
        return None

    def served_after(self, host: HostNumber, since_ns: int) -> SignOfLife | None:
        """The first answer after a time, of those that ended a connection's answers, to a request of a host: then it lived."""
        found = self._served.get(host, [])
        place = bisect_right(found, (since_ns, AFTER_ALL))
        if place == len(found):
            return None
        time, frame, peer = found[place]
        return SignOfLife(time, frame, True, peer)

    def arrived(self, half: Any) -> Arrived | None:
        """The largest packet that was refused with a NAK on the path of a direction. Any: compiled or not."""
        return self._arrived.get(half.path)
