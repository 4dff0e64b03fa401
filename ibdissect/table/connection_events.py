"""What is known about a connection or a requested datagram service, and which events concern it?"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct as Record

from .addresses import NOWHERE, End
from .history import AFTER_ALL

QueuePair = tuple[int, int]
"""LID and queue pair number."""
NO_PATH = (0, 0)


class Connection(Record):
    """One connection, starting with its REQ; -1 and frame 0 mean not seen."""

    active: End
    """The side that sent the REQ."""
    passive: End
    req_frame: int
    req_ns: int
    active_qpn: int
    active_psn: int
    """The PSN that the active side expects in the passive side's first request."""
    active_lid: int
    """LIDs of the two ports, from the REQ."""
    passive_lid: int
    service: str
    """The transport service: RC, UC, RD, XRC or `other`."""
    service_id: int
    p_key: int
    mtu: int
    """Path packet payload MTU in bytes; 0 if the code is reserved."""
    retry_count: int
    max_cm_retries: int
    response_timeout: int
    """Remote CM response timeout code."""
    ack_timeout: int
    """Local ACK Timeout code: 4.096 us * 2^code, twice the packet lifetime and the delay of the answer."""
    in_subnet: bool
    """Whether it is a native connection in one subnet, both ports with a unicast LID."""
    served: int
    """The service id as `CmPayload` has it: also says which kind of queue of NVMe it is."""
    alternates: tuple[tuple[int, int], ...] = ()
    """LIDs of the active and the passive side on alternate paths: that of the REQ, and the last one that an APR granted."""
    granted: int = 0
    """The APR that granted the last one of them; 0 if none did."""
    reqs: int = 1
    last_req_ns: int = 0
    """The time of the latest REQ."""
    rep_frame: int = 0
    rep_ns: int = 0
    reps: int = 0
    passive_qpn: int = -1
    passive_psn: int = -1
    rtu_frame: int = 0
    rtu_ns: int = 0
    mra_frame: int = 0
    """The latest MRA."""
    mra_ns: int = 0
    mra_of: int = -1
    """The message whose answer the MRA delays: 0 REQ, 1 REP, 2 LAP."""
    mra_timeout: int = 0
    """The MRA's ServiceTimeout code."""
    rej_frame: int = 0
    rej_reason: int = -1
    rejected_by: End = NOWHERE
    lap_frame: int = 0
    """The latest request for an alternate path."""
    lap_path: tuple[int, int] = NO_PATH
    """The LIDs that it names."""
    apr_frame: int = 0
    ap_status: int = -1
    dreq_frame: int = 0
    dreq_ns: int = 0
    dreqs: int = 0
    """How often the sender of the first DREQ sent one; `dreq_frame` is the first DREQ, `dreq_ns` the time of the last."""
    dreq_by: End = NOWHERE
    drep_frame: int = 0
    ended: int = AFTER_ALL
    """Frame of its REJ, DREQ or DREP, or of the REQ of the next connection on one of its queue pairs."""

    def lasts(self, frame: int) -> bool:
        """Whether it was set up and not over when a frame was sent: only then are its queue pairs bound to what it agreed."""
        return 0 < self.rep_frame < frame < self.ended

    @property
    def queue_pairs(self) -> tuple[QueuePair, QueuePair]:
        """The queue pairs of the active and the passive side."""
        return (self.active_lid, self.active_qpn), (self.passive_lid, self.passive_qpn)

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
    connection: Connection


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


class Resolved(Record, frozen=True, eq=False):
    """The answer to a request for a datagram service."""

    source: ClassVar[type[Any]]
    frame: int
    time_ns: int
    resolution: Resolution
    sender: End
