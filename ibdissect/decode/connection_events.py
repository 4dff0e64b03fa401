"""Connections and requested datagram services (SIDR) as CM has shown them, and the events of connection management."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from msgspec import Struct as Record

from ibdissect.engine.connection_setups import OF_LAP, OF_REQ, Repetitions, SetUp, terms
from ibdissect.wire.cm_names import service_name

from .addresses import NOWHERE, End
from .history import AFTER_ALL

QueuePair = tuple[int, int]
"""LID and queue pair number."""
NO_PATH = (0, 0)


class ConnectionSetUp(SetUp):
    """A set-up as followers and rules ask about it; -1 and frame 0 mean not seen. They are told of those whose REQ is captured whole."""

    __slots__ = ("alternates", "ap_status", "apr_frame", "ended", "granted", "in_subnet", "lap_frame", "lap_path", "lids", "served")

    def __init__(self, asker: End, other: End, network: int) -> None:
        super().__init__(asker, other, network)
        self.lids: tuple[int, int] | None = None
        """LIDs of the two ports, from the REQ; None: it is not captured whole."""
        self.in_subnet = False
        """Whether it is a native connection in one subnet, both ports with a unicast LID."""
        self.served = 0
        """The service id as `CmPayload` has it: also says which kind of queue of NVMe it is."""
        self.alternates: tuple[tuple[int, int], ...] = ()
        """LIDs of the active and the passive side on alternate paths: that of the REQ, and the last one that an APR granted."""
        self.granted = 0
        """The APR that granted the last one of them; 0 if none did."""
        self.lap_frame = self.apr_frame = 0
        """The latest request for an alternate path, and its answer."""
        self.lap_path = NO_PATH
        """The LIDs that it names."""
        self.ap_status = -1
        self.ended = AFTER_ALL
        """Frame of its REJ, DREQ or DREP, or of the REQ of the next connection on one of its queue pairs."""

    def side_of(self, end: End) -> int:
        """0: the active side, 1: the passive one, -1: neither. Once it has moved to an alternate path, its messages take that one, too."""
        side = super().side_of(end)
        if side < 0 and end.lid is not None and end.network == self.active.network:
            return next((lids.index(end.lid) for lids in self.alternates if end.lid in lids), -1)
        return side

    @property
    def active(self) -> End:
        """The side that sent the REQ."""
        return cast(End, self.ends[0])

    @property
    def passive(self) -> End:
        return cast(End, self.ends[1])

    @property
    def req_frame(self) -> int:
        return self.reqs[0][0] if self.reqs else 0

    @property
    def active_qpn(self) -> int:
        return _number(self.qpns[0])

    @property
    def active_psn(self) -> int:
        """The PSN that the active side expects in the passive side's first request."""
        return _number(self.psns[0])

    @property
    def passive_qpn(self) -> int:
        return _number(self.qpns[1])

    @property
    def passive_psn(self) -> int:
        return _number(self.psns[1])

    @property
    def active_lid(self) -> int:
        return self.lids[0] if self.lids is not None else 0

    @property
    def passive_lid(self) -> int:
        return self.lids[1] if self.lids is not None else 0

    @property
    def service(self) -> str:
        """The transport service: RC, UC, RD, XRC or `other`; empty if it is cut off."""
        kind, extended = self.agreed["transport"], self.agreed["extended"]
        return service_name(kind, extended) if kind is not None and extended is not None else ""

    @property
    def service_id(self) -> int:
        return self.agreed["service_id"] or 0

    @property
    def p_key(self) -> int:
        return self.agreed["p_key"] or 0

    @property
    def mtu(self) -> int:
        """Path packet payload MTU in bytes; 0 if the code is reserved."""
        return terms(self)[0]

    @property
    def retry_count(self) -> int:
        return self.agreed["retry_count"] or 0

    @property
    def max_cm_retries(self) -> int:
        return self.agreed["max_cm_retries"] or 0

    @property
    def response_timeout(self) -> int:
        """Remote CM response timeout code."""
        return self.agreed["cm_timeout"] or 0

    @property
    def ack_timeout(self) -> int:
        """Local ACK Timeout code: 4.096 us * 2^code, twice the packet lifetime and the delay of the answer."""
        return self.agreed["ack_timeout"] or 0

    @property
    def rep_frame(self) -> int:
        return self.rep[0] if self.rep is not None and self.psns[1] is not None else 0

    @property
    def rtu_frame(self) -> int:
        return self.rtu[0] if self.rtu is not None else 0

    @property
    def mra_frame(self) -> int:
        """The latest MRA."""
        return self.mra[0] if self.mra is not None else 0

    @property
    def mra_ns(self) -> int:
        return self.mra[1] if self.mra is not None else 0

    @property
    def mra_of(self) -> int:
        """The message whose answer the MRA delays: 0 REQ, 1 REP, 2 LAP."""
        return _number(self.mra[3]) if self.mra is not None else -1

    @property
    def mra_timeout(self) -> int:
        """The MRA's ServiceTimeout code."""
        return self.mra[2] if self.mra is not None else 0

    @property
    def rej_frame(self) -> int:
        return self.rej[0] if self.rej is not None else 0

    @property
    def rejected_by(self) -> End:
        return cast(End, self.ends[self.rej[3]]) if self.rej is not None else NOWHERE

    @property
    def dreq_frame(self) -> int:
        return self.dreqs[0][0] if self.dreqs else 0

    @property
    def dreq_ns(self) -> int:
        """The time of the latest DREQ."""
        return self.dreqs[-1][1] if self.dreqs else 0

    @property
    def asked_to_end(self) -> int:
        """How often the sender of the first DREQ sent one."""
        tries = Repetitions()
        for frame, time_ns, side in self.dreqs:
            if side == self.dreqs[0][2]:
                tries.take(frame, time_ns)
        return tries.count

    @property
    def drep_frame(self) -> int:
        return self.drep[0] if self.drep is not None else 0

    @property
    def both_speak(self) -> bool:
        """Whether a message of the other end is captured, too. If not, the capture may show one direction only, as on one link of a bond,
        and a missing answer proves nothing."""
        answered = self.reps or self.mra_of in (OF_REQ, OF_LAP) or self.rejected_by == self.passive
        return bool(answered or any(side for _, _, side in self.dreqs))

    def lasts(self, frame: int) -> bool:
        """Whether it was set up and not over when a frame was sent: only then are its queue pairs bound to what it agreed."""
        return 0 < self.rep_frame < frame < self.ended

    @property
    def every_queue_pair(self) -> list[QueuePair]:
        """Those of the primary path, and on alternate paths."""
        ways = [(lids[0], self.active_qpn) for lids in self.paths] + [(lids[1], self.passive_qpn) for lids in self.paths]
        return list(dict.fromkeys(ways))

    @property
    def paths(self) -> tuple[tuple[int, int], ...]:
        """LIDs of the active and the passive side: the primary path first."""
        return ((self.active_lid, self.passive_lid), *self.alternates)

    def since(self, near: QueuePair) -> int:
        """The frame that bound a queue pair to the connection: its REP, or the APR that granted the only path on which it is."""
        first = self.paths[:-1] if self.granted else self.paths
        bound = any(near in ((lids[0], self.active_qpn), (lids[1], self.passive_qpn)) for lids in first)
        return self.rep_frame if bound else max(self.rep_frame, self.granted)

    def is_active(self, near: QueuePair) -> bool:
        """Whether a queue pair is that of the active side, on any path."""
        return any(near == (active, self.active_qpn) for active, _ in self.paths)

    def far(self, near: QueuePair) -> QueuePair:
        """The queue pair on the other side, on the first path on which `near` is."""
        lids = self.far_lids(near)
        if self.is_active(near):
            return lids[0], self.passive_qpn
        return (lids[0] if lids else self.active_lid), self.active_qpn

    def far_lids(self, near: QueuePair) -> list[int]:
        """The LIDs of the other side on all paths on which `near` is."""
        if self.is_active(near):
            return [passive for active, passive in self.paths if active == near[0]]
        return [active for active, passive in self.paths if near == (passive, self.passive_qpn)]

    @property
    def sides(self) -> tuple[tuple[End, int], tuple[End, int]]:
        """The ends of the active and the passive side, each with its queue pair number."""
        return (self.active, self.active_qpn), (self.passive, self.passive_qpn)

    @property
    def text(self) -> str:
        """`192.168.0.1 QP 0x000012 → 192.168.0.2`."""
        return f"{self.active} QP 0x{self.active_qpn:06x} → {self.passive}"


def _number(value: int | None) -> int:
    return -1 if value is None else value


class Resolution(Record):
    """A requested datagram service (SIDR); -1 and frame 0 mean no answer."""

    source: End
    destination: End
    service_id: int
    p_key: int
    frame: int
    time_ns: int
    asked: int = 1
    """Number of requests."""
    reply_frame: int = 0
    status: int = -1
    """0: found."""
    qpn: int = -1
    q_key: int = 0


class ConnectionEvent(Record, frozen=True, eq=False):
    """A connection management message about a known connection."""

    source: ClassVar[type[Any]]
    """The follower that emits it."""
    frame: int
    time_ns: int
    connection: ConnectionSetUp


class Requested(ConnectionEvent, frozen=True):
    """A REQ, first or repeated."""


class Replied(ConnectionEvent, frozen=True):
    """A REP, first or repeated."""

    sender: End


class Confirmed(ConnectionEvent, frozen=True):
    """An RTU, first or repeated."""

    sender: End


class PathAnswered(ConnectionEvent, frozen=True):
    """An APR answered the request for an alternate path."""


class Rejected(ConnectionEvent, frozen=True):
    """A REJ for a connection whose REQ was seen."""

    reason: int


class Disconnecting(ConnectionEvent, frozen=True):
    """A DREQ, first or repeated."""

    receiver: End
    qpn: int
    """The receiver's queue pair."""


class RejectedAlone(Record, frozen=True, eq=False):
    """A REJ whose REQ was not seen."""

    source: ClassVar[type[Any]]
    frame: int
    time_ns: int
    sender: End
    receiver: End
    reason: int


class RepliedAlone(Record, frozen=True, eq=False):
    """A REP whose REQ was not seen."""

    source: ClassVar[type[Any]]
    frame: int
    time_ns: int
    qpn: int


class Resolved(Record, frozen=True, eq=False):
    """The answer to a request for a datagram service."""

    source: ClassVar[type[Any]]
    frame: int
    time_ns: int
    resolution: Resolution
    sender: End
