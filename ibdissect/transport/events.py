"""Events between queue pairs that rules receive, in frame order within a stream."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct as Record

from ibdissect.decode.addresses import End
from ibdissect.decode.identity import LaneId, Side


class StreamEnds(Record, frozen=True, eq=False):
    """Source and destination of a stream."""

    service: str
    """RC, UC or XRC."""
    source: End
    destination: End
    dest_qp: int
    """Destination queue pair."""
    response: bool

    @property
    def lane(self) -> LaneId:
        """Who sends, and where it goes."""
        return LaneId(Side.of(self.source), Side.of(self.destination), self.dest_qp, self.service)

    @property
    def text(self) -> str:
        """`RC LID 3 → LID 5 QP 0x000012`."""
        return f"{self.service} {self.source} → {self.destination} QP 0x{self.dest_qp:06x}"

    @property
    def lids(self) -> list[int]:
        """Those of source and destination; none where other addresses identify them."""
        return [lid for lid in (self.source.lid, self.destination.lid) if lid is not None]


class StreamEvent(Record, frozen=True, eq=False):
    """An event in one direction of one service between two queue pairs."""

    source: ClassVar[type[Any]]
    """The follower that emits it; the rule engine creates and feeds it."""
    frame: int
    time_ns: int
    ends: StreamEnds
    slot: int
    """Number of the stream, to group its findings."""
    psn: int


class Repeated(StreamEvent, frozen=True):
    """A request was sent again, with a PSN seen before."""

    middle: bool
    """The requester went back to the middle of a message."""
    read: bool
    """It is an RDMA READ request, for all data again or for the rest."""
    frames: list[int]
    """Frames of this packet and of following packets that were also sent before."""

    @property
    def count(self) -> int:
        """Number of packets that were sent before."""
        return len(self.frames)


class Exhausted(StreamEvent, frozen=True):
    """A packet was sent more often than the retry counter allows."""

    sent: int
    allowed: int
    first: int
    """Frame of its first repetition."""


class Wrapped(StreamEvent, frozen=True):
    """PSN 0xffffff was used; the next one is 0."""


class LengthWrong(StreamEvent, frozen=True):
    """The payloads of a complete RDMA WRITE of several packets do not add up to its DMALen."""

    claimed: int
    found: int
    count: int


class SizeChanged(StreamEvent, frozen=True):
    """A packet that is neither the first nor the last of its message has another path MTU than the first one."""

    opcode: int
    size: int
    mtu: int
    """Payload of the message's first packet."""
    first: int
    """Its frame."""


class OrderWrong(StreamEvent, frozen=True):
    """The OpCode of a packet cannot follow that of the packet with the previous PSN."""

    opcode: int
    before: int
    """OpCode of the previous packet."""


class MsnFell(StreamEvent, frozen=True):
    """An acknowledgement of a later PSN has a lower message sequence number (MSN)."""

    msn: int
    before: int
    before_frame: int
    """Frame of the acknowledgement with `before`."""


class MsnJumped(StreamEvent, frozen=True):
    """The MSN rose by more between two acknowledgements than there were packets."""

    msn: int
    before: int
    before_frame: int
    packets: int
