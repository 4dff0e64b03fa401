"""What happened between queue pairs, as rules hear it: events in frame order within a stream."""

from __future__ import annotations

from typing import Any, ClassVar

from ibdissect.record import record


@record
class Ends:
    """Where a stream comes from and goes to."""

    service: str
    """RC, UC, RD or XRC."""
    source: str
    """LID, GID or IP address, as text."""
    destination: str
    dest_qp: int
    """Destination queue pair; of RD the end-to-end context, which counts PSNs there."""
    response: bool

    @property
    def text(self) -> str:
        """`RC LID 3 → LID 5 QP 0x000012`."""
        what = "EE context" if self.service == "RD" else "QP"
        return f"{self.service} {self.source} → {self.destination} {what} 0x{self.dest_qp:06x}"


@record
class StreamEvent:
    """Something that happened in one direction of one service between two queue pairs."""

    source: ClassVar[type[Any]]
    """The follower that raises it; the rules' engine makes and feeds it."""
    frame: int
    time_ns: int
    ends: Ends
    slot: int
    """Number of the stream, for findings that belong to it."""
    psn: int


@record
class Gap(StreamEvent):
    """Requests are missing in front of this one."""

    missing: int
    before: int
    """Frame of the packet in front of the gap."""
    unproven: bool
    """The capture may have missed them."""


@record
class Repeated(StreamEvent):
    """A request was sent again: its PSN was seen before."""

    restart: bool
    """The requester went back: the packet does not follow the one in front of it."""
    middle: bool
    """It went back into the middle of a message."""
    read: bool
    """An RDMA READ asks again, for all or for the rest."""
    count: int = 1
    """Packets, this one and those behind it."""


@record
class Exhausted(StreamEvent):
    """A packet was sent more often than its retry counter allows."""

    sent: int
    allowed: int
    first: int
    """Frame of its first repetition."""


@record
class Wrapped(StreamEvent):
    """PSN 0xffffff was used; 0 follows."""


@record
class LengthWrong(StreamEvent):
    """The payloads of a whole RDMA WRITE of several packets do not add up to its DMALen."""

    claimed: int
    found: int
    count: int


@record
class OrderWrong(StreamEvent):
    """A packet cannot follow the one in front of it, whose PSN is one less."""

    opcode: int
    before: int
    """OpCode in front."""


@record
class MsnFell(StreamEvent):
    """An acknowledgement of a later PSN has an earlier message number."""

    msn: int
    before: int
    known: int
    """Frame of the acknowledgement with `before`."""


@record
class MsnJumped(StreamEvent):
    """More messages were completed between two acknowledgements than there were packets."""

    msn: int
    before: int
    known: int
    packets: int
